"""Construction of contrastive items from aligned documents, in which context decides the gender of a pronoun.

    genders = NounGenders(german).learn(sentences)
    items = make_pronouns(read_parallel("dev.en", "dev.de"), english, german, genders)

An item is a sentence with "it" or "its" and no other third person, whose translation has exactly one third-person
pronoun. Its antecedent must be in an earlier sentence: no noun before it in its own sentence may have its gender, and
one of the sentences just before must have such a noun. A neuter pronoun may be expletive or refer to an event, so it
needs a neuter noun in the sentence before, and either that noun as its subject or a verb that takes things. Sentences
are left out if another gender would be correct as well ("it is a file") or if the verb gives the answer away.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tram.data.corpus import ParallelDocument
from tram.evaluation.language import GENDERS, Gender, Language, PronounItemRules, tokens
from tram.evaluation.noun_genders import NounGenders
from tram.evaluation.suite import ContrastiveItem

BACK = 3  # maximum distance of the noun in sentences; for a neuter, 1
LONGEST = 300  # maximum characters of a source sentence


@dataclass(frozen=True)
class Pronoun:
    """A pronoun of the target: its token index, its case or "possessive", and its forms by gender."""

    place: int
    phenomenon: str
    genders: frozenset[Gender]
    forms: dict[Gender, str]


class PronounMaker:
    """The rules of a language pair, applied to sentence pairs."""

    def __init__(self, source: Language, target: Language, genders: NounGenders) -> None:
        self.source, self.target, self.genders = source, target, genders
        self.source_rules: PronounItemRules = source.need("pronoun_items")
        self.target_rules: PronounItemRules = target.need("pronoun_items")

    def items(self, document: ParallelDocument, name: str) -> Iterator[ContrastiveItem]:
        """Yield the items of one document, each with all earlier sentences as context."""
        for number in range(1, len(document.source)):
            english, german = document.source[number], document.target[number]
            pronoun = self.pronoun(english, german, document.target[number - 1])
            distance = None if pronoun is None else self.distance(document.target[:number], pronoun)
            if pronoun is None or distance is None or self._may_be_plural(document.source[number - 1], pronoun):
                continue
            yield ContrastiveItem(
                source_context=tuple(document.source[:number]),
                target_context=tuple(document.target[:number]),
                source=english,
                reference=german,
                contrastive=self.variants(german, pronoun),
                phenomenon=pronoun.phenomenon,
                distance=distance,
                document=name,
            )

    def distance(self, context: Sequence[str], pronoun: Pronoun) -> int | None:
        """Return the distance in sentences to a noun of the pronoun's gender; None if there is none near enough."""
        back = 1 if "n" in pronoun.genders and len(pronoun.genders) == 1 else BACK
        for distance, sentence in enumerate(reversed(context[-back:]), 1):
            if any(self.genders[word] in pronoun.genders for word in self.nouns(sentence)):
                return distance
        return None

    def nouns(self, sentence: str) -> list[str]:
        """Return the words of a target sentence that look like nouns."""
        return [word for word in tokens(sentence) if self._is_noun(word)]

    def pronoun(self, english: str, german: str, before: str) -> Pronoun | None:
        """Return the pronoun of a sentence pair that can be an item. before: the target sentence before it."""
        words, translated = tokens(english.lower()), tokens(german)
        if len(english) > LONGEST or len(words) < 4 or len(translated) < 4:
            return None
        if self.source_rules.third_person.intersection(words):
            return None
        places = [place for place, word in enumerate(translated) if self._is_third(place, word, words)]
        its = [place for place, word in enumerate(words) if word in self.source.group("neuter")]
        own = [place for place, word in enumerate(words) if word in self.source.group("neuter_possessive")]
        if len(places) != 1:
            return None
        if not its:
            candidate = self._possessive(own[0], places[0], translated) if len(own) == 1 else None
        elif self.source_rules.predicate is not None and self.source_rules.predicate.search(english):
            candidate = None
        else:
            candidate = self._subject(translated, places[0])
            if candidate is None and not all(self._opens_clause(words, it) for it in its):
                candidate = self._object(translated, places[0])
            if (
                candidate is not None
                and candidate.genders == {"n"}
                and not self._is_thing(words, its, german, before, candidate)
            ):
                return None
        return candidate if candidate is None or self._refers_back(translated, candidate) else None

    def _opens_clause(self, english: list[str], it: int) -> bool:
        """Return whether a verb directly follows "it", which is therefore not an object."""
        after = english[it + 1 : it + 2]
        return bool(self.source.group("singular_verbs").intersection(after)) or after in (["'"], ["’"])

    def _is_third(self, place: int, word: str, english: list[str]) -> bool:
        """Return whether a target word is a third person; at the start, also a polite form if no one is addressed."""
        if word.lower() not in self.target_rules.third_person:
            return False
        if word in self.target_rules.polite:
            return place == 0 and not self.source.group("second_person").intersection(english)
        return True

    def _may_be_plural(self, before: str, pronoun: Pronoun) -> bool:
        """Return whether an object may be plural: the source sentence before has a plural, and the form fits."""
        several = self.source.group("plural").intersection(tokens(before.lower()))
        return pronoun.phenomenon == "object" and bool(several) and "f" in pronoun.genders

    def _refers_back(self, words: list[str], pronoun: Pronoun) -> bool:
        """Return whether all nouns before a pronoun (and after it, if it may be cataphoric) have another gender."""
        start, end = _clause(words, pronoun.place)
        named = [word for place, word in enumerate(words[: pronoun.place]) if self._may_name(word, opens=place == 0)]
        if words[start].lower() in self.target_rules.subordinators:
            named += [word for word in words[end:] if self._may_name(word, opens=False)]
        return all(self.genders[noun] is not None and self.genders[noun] not in pronoun.genders for noun in named)

    def _may_name(self, word: str, opens: bool) -> bool:
        """Return whether a word may be a noun: it is capitalised, and not only because it starts the sentence."""
        if opens:
            return self.genders[word] is not None or word[1:] != word[1:].lower()
        return word[0].isupper() and word not in self.target_rules.polite

    def _is_noun(self, word: str) -> bool:
        return self.target.need("noun").fullmatch(word) is not None and word not in self.target_rules.polite

    def _subject(self, translated: list[str], place: int) -> Pronoun | None:
        forms = self.target.pronouns["nominative"]
        gender = _gender(translated[place], forms)
        if gender is None or self._has_subject(translated, place) or not self._is_singular(translated, place):
            return None
        return Pronoun(place, "subject", frozenset({gender}), forms)

    def _is_singular(self, words: list[str], place: int) -> bool:
        """Return whether a subject's verb is singular: after it if it comes first, else beside it or at the end."""
        beside = words[1:2] if place == 0 else [words[place - 1], *words[place + 1 : place + 2]]
        verbs = [verb.lower() for verb in (*beside, *([] if place == 0 else [words[_clause(words, place)[1] - 1]]))]
        if any(verb in self.target.singular_verbs for verb in verbs):
            return True
        ended = [verb for verb in verbs if verb.endswith(("t", "te")) and verb not in self.target.function_words]
        return bool(ended) and not self.target.plural_verbs.intersection(verbs)

    def _is_thing(self, english: list[str], its: list[int], german: str, before: str, pronoun: Pronoun) -> bool:
        """Return whether a neuter is a thing: it continues the subject before, or its verb takes things."""
        expletives = ((self.source.expletive, " ".join(english)), (self.target.expletive, german))
        if len(its) != 1 or any(pattern is not None and pattern.search(text) for pattern, text in expletives):
            return False
        it = its[0]
        if pronoun.phenomenon == "object":
            return bool(self.source_rules.object_verbs.intersection(english[max(it - 2, 0) : it]))
        subject = self.target.subject(before)
        if it == 0 and pronoun.place == 0 and subject is not None and self.genders[subject.noun] == "n":
            return True
        return it < 3 and bool(self.source_rules.subject_verbs.intersection(english[it + 1 : it + 4]))

    def _object(self, translated: list[str], place: int) -> Pronoun | None:
        forms = self.target.pronouns["accusative"]
        gender = _gender(translated[place], forms)
        if gender is None or place == 0:
            return None
        if translated[place] in self.target.pronouns["nominative"].values() and not self._has_subject(
            translated, place
        ):
            return None
        return Pronoun(place, "object", frozenset({gender}), forms)

    def _has_subject(self, translated: list[str], place: int) -> bool:
        """Return whether the clause of a pronoun has another pronoun that can only be its subject."""
        start, end = _clause(translated, place)
        others = [*translated[start:place], *translated[place + 1 : end]]
        first = [translated[start].lower()] if start < place else []
        return bool(
            self.target_rules.subjects.intersection(first + others) or self.target_rules.polite.intersection(others)
        )

    def _possessive(self, it: int, place: int, translated: list[str]) -> Pronoun | None:
        rules = self.target.need("possessives")
        word = translated[place].lower()
        if (it > 0 and place > 0) or it > 3 or place + 1 >= len(translated):
            return None
        for gender, stem in rules.stems.items():
            ending = word.removeprefix(stem)
            if word.startswith(stem) and ending in rules.endings:
                if ending == "" and not self.target.need("noun").fullmatch(translated[place + 1]):
                    return None  # sein is a verb, too
                owners = frozenset(each for each in GENDERS if rules.stems[each] == stem)
                forms = {each: rules.stems[each] + ending for each in GENDERS}
                return Pronoun(place, "possessive", owners or frozenset({gender}), forms)
        return None

    def variants(self, german: str, pronoun: Pronoun) -> tuple[str, ...]:
        """Return the sentence with the forms of the other genders, each once."""
        start, end = _span(german, pronoun.place)
        right = german[start:end]
        others = [form for gender, form in pronoun.forms.items() if gender not in pronoun.genders]
        different = [form for form in dict.fromkeys(others) if form != right.lower()]
        return tuple(
            german[:start] + (form.capitalize() if right[0].isupper() else form) + german[end:] for form in different
        )


def _gender(word: str, forms: dict[Gender, str]) -> Gender | None:
    return next((gender for gender, form in forms.items() if form == word.lower()), None)


def _clause(words: list[str], place: int) -> tuple[int, int]:
    """Return start and end of the words around an index, up to the next punctuation on each side."""
    start = next((i + 1 for i in range(place, -1, -1) if not words[i][0].isalnum()), 0)
    end = next((i for i in range(place, len(words)) if not words[i][0].isalnum()), len(words))
    return start, end


def _span(sentence: str, place: int) -> tuple[int, int]:
    """Return start and end of a token in its sentence."""
    match = list(re.finditer(r"\w+|[^\w\s]", sentence))[place]
    return match.start(), match.end()


def make_pronouns(
    documents: Iterable[ParallelDocument], source: Language, target: Language, genders: NounGenders, name: str = ""
) -> list[ContrastiveItem]:
    """Make the items of all documents."""
    maker = PronounMaker(source, target, genders)
    return [
        item
        for number, document in enumerate(documents, 1)
        for item in maker.items(document, document.id or f"{name}{number}")
    ]
