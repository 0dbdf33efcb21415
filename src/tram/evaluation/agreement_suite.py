"""Construction of agreement probes: documents composed of real sentences, with nouns that training does not use.

    items = make_agreement(read_parallel("train.en.xz", "train.de.xz"), load_language("en"), load_language("de"))

Three kinds of short sentences are collected. *Nouns*: the source starts with a determiner, a noun and a singular verb,
the target with an article that shows a gender, the noun and a singular verb. *Its*: the source starts with "it" and has
no other third person; the target has one pronoun, which is not neuter, because a neuter may be expletive. *Fillers*:
the source starts with the first person. Nouns and its are those that `tram.text.held_out` keeps from training.
*Passages* are the unchanged first sentences of documents, so that the noun appears in the middle of a text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeVar

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.agreement import AgreementItem
from tram.evaluation.language import GENDERS, Gender, Language, tokens
from tram.text.held_out import held_out_noun, held_out_sentence

T = TypeVar("T")
Words = Literal["held-out", "first-half", "second-half", "all"]
"""The nouns and sentences to use: those that training leaves out, one half of them, or all."""

LONGEST = 75  # characters of a source sentence
WHOLE = re.compile(
    r"[A-Z][^<>{}|_=%&\[\]\\/@#*~:;\"“”„()]*[.!]"
)  # a plain sentence: no code, no quotation, no question


@dataclass
class Sentences:
    """The sentences that items are composed of, without duplicates."""

    nouns: dict[Gender, list[tuple[str, str, str]]] = field(default_factory=lambda: {gender: [] for gender in GENDERS})
    """Source sentence, its noun, the target noun."""
    its: list[str] = field(default_factory=list)
    fillers: list[str] = field(default_factory=list)
    passages: list[tuple[str, ...]] = field(default_factory=list)


def collect(
    documents: Iterable[ParallelDocument],
    source: Language,
    target: Language,
    words: Words = "held-out",
    before: int = 0,
) -> Sentences:
    """Read documents and collect suitable sentences.

    words: which nouns and sentences with "it" to use; before: the number of sentences of a passage.
    """
    sentences, known = Sentences(), set[str]()
    for document in documents:
        passage = tuple(document.source[:before])
        if len(passage) == before and all(0 < len(sentence) <= 2 * LONGEST for sentence in passage):
            sentences.passages.append(passage)
        for english, german in zip(document.source, document.target, strict=True):
            if len(english) > LONGEST or english in known or not WHOLE.fullmatch(english.strip()):
                continue
            known.add(english)
            _sort(sentences, english.strip(), german.strip(), source, target, words)
    return sentences


def _sort(sentences: Sentences, english: str, german: str, source: Language, target: Language, which: Words) -> None:
    words = tokens(english.lower(), words_only=True)
    third = source.group("third_person").intersection(words)
    every, half = which == "all", {"first-half": 1, "second-half": 2}.get(which)
    if third:
        usable = third == source.group("neuter") and is_referential(english, german, source, target)
        if usable and (every or held_out_sentence(english, half)):
            sentences.its.append(english)
        return
    noun, subject = subject_noun(english, source), target.subject(german)
    if noun is not None and subject is not None and subject.gender is not None:
        if _singular(german, subject.noun, target) and (every or held_out_noun(subject.noun, half)):
            sentences.nouns[subject.gender].append((english, noun, subject.noun))
    elif words[0] in source.group("first_person") and len(words) > 3 and not source.group("second_person") & set(words):
        sentences.fillers.append(english)


def subject_noun(sentence: str, source: Language) -> str | None:
    """Return the noun of a sentence that starts with a determiner, one or two words and a singular verb."""
    words = tokens(sentence)
    if not words or words[0].lower() not in source.group("determiners"):
        return None
    for place, word in enumerate(words[1:4], 1):
        if word in source.group("singular_verbs"):
            return words[place - 1] if place > 1 and len(words) > place + 2 else None
        if not word.isalpha() or not word.islower() or word in source.group("joints"):
            return None
    return None


def _singular(german: str, noun: str, target: Language) -> bool:
    words = tokens(german)
    place = words.index(noun)
    return place + 1 < len(words) and words[place + 1] in target.singular_verbs


def is_referential(english: str, german: str, source: Language, target: Language) -> bool:
    """Return whether "it" is a thing that its sentence does not name, and the pronoun is a non-neuter subject."""
    words, translated = tokens(english.lower(), words_only=True), tokens(german, words_only=True)
    neuter = source.group("neuter")
    if sum(word in neuter for word in words) != 1 or words[0] not in neuter or len(words) < 4:
        return False
    rules = source.pronoun_items
    unsure = (source.expletive, None if rules is None else rules.predicate)
    if any(pattern is not None and pattern.search(english) for pattern in unsure):
        return False
    forms = target.pronouns["nominative"]
    lower = [translated[0].lower(), *translated[1:]] if translated else []
    matches = [gender for gender, form in forms.items() for word in lower if word == form]
    return len(matches) == 1 and matches[0] != "n" and lower.index(forms[matches[0]]) < 3


def make_agreement(
    documents: Iterable[ParallelDocument],
    source: Language,
    target: Language,
    distances: Sequence[int] = (1, 3),
    items: int = 300,
    seed: int = 1,
    words: Words = "held-out",
    before: int = 0,
) -> list[AgreementItem]:
    """Make items for each distance, balanced over the genders of the target's nouns.

    before: number of sentences of a real document before the noun's sentence
    """
    sentences = collect(documents, source, target, words, before)
    if not sentences.passages:
        raise InputError(
            f"no document begins with {before} sentences of at most {2 * LONGEST} characters; ask for fewer"
        )
    lacking = [gender for gender in GENDERS if not sentences.nouns[gender]]
    if lacking or not sentences.its or (max(distances) > 1 and len(sentences.fillers) < max(distances)):
        nouns = sum(map(len, sentences.nouns.values()))
        raise InputError(
            f"the documents have {nouns} sentences with a noun (none of gender {', '.join(lacking) or '-'}), "
            f"{len(sentences.its)} with a pronoun and {len(sentences.fillers)} suitable others; give more documents"
        )
    random = Random(seed)
    draw_it = _in_turn(sentences.its, random)
    draw_noun = {gender: _in_turn(_evenly(sentences.nouns[gender], random), random) for gender in GENDERS}
    result = []
    for distance in distances:
        for number in range(items):
            opening, noun, _ = draw_noun[GENDERS[number % len(GENDERS)]]()
            fillers = random.sample(sentences.fillers, distance - 1)
            passage = random.choice(sentences.passages) if before else ()
            context = (*passage, opening, *fillers)
            result.append(AgreementItem(source_context=context, source=draw_it(), antecedent=noun, before=before))
    return result


def _evenly(nouns: list[tuple[str, str, str]], random: Random, most: int = 3) -> list[tuple[str, str, str]]:
    """Keep at most `most` sentences for each noun, so that frequent nouns do not dominate."""
    count = Counter[str]()
    selected = []
    for entry in random.sample(nouns, len(nouns)):
        count[entry[2]] += 1
        if count[entry[2]] <= most:
            selected.append(entry)
    return selected


def _in_turn(entries: Sequence[T], random: Random) -> Callable[[], T]:
    """Return a function that returns all entries in random order before it repeats any."""
    waiting: list[T] = []

    def draw() -> T:
        if not waiting:
            waiting.extend(random.sample(entries, len(entries)))
        return waiting.pop()

    return draw
