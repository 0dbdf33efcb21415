"""Sentence pairs made of common words of a dictionary that the corpora hardly have, for the shipped model.

python runs/shipped/dictionary.py DICTIONARY OUT_SOURCE OUT_TARGET CORPUS [CORPUS ...]

DICTIONARY: the file `de-en` of Ding's dictionary (see everyday.py). Words that the source files CORPUS often have
are left out. The package `wordfreq` (pip install wordfreq) says which words are common.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import yaml
from everyday import (
    ACCUSATIVE,
    ENGLISH,
    NOMINATIVE,
    Pair,
    capitalised,
    entries,
    is_formal,
    with_article,
    without_notes,
)

from tram.data.corpus import ParallelDocument, read_documents, write_parallel

SENTENCES = 40_000
KNOWN = 100  # occurrences of a word in the corpora that teach it well enough
COMMON = {"en": 3.3, "de": 2.7}  # occurrences per billion words of a common word, as a power of ten
NOUN = re.compile(r"([A-ZÄÖÜ][a-zäöüß]+) \{([mfn])\}")
VERB = re.compile(r"(?:etw\. )?([a-zäöüß]+)")
WEAK = re.compile(r"e$|[aeio]nt$|ist$|[ao]t$|oge$|err$|ensch$|är$")  # masculine nouns that end in -n as objects


@dataclass(frozen=True)
class Noun:
    """An English noun and the German one with its gender: m, f or n."""

    english: str
    german: str
    gender: str


@dataclass(frozen=True)
class Verb:
    """A transitive verb: infinitive and past participle in both languages."""

    english: str
    english_participle: str
    german: str
    german_participle: str


def common_words(dictionary: Path) -> tuple[list[Noun], list[Verb]]:
    """Return common nouns and transitive verbs, each with its most likely translation.

    That is the one which stands beside the word in most parts of the dictionary and is about as common. A pair is kept
    if each word is the most likely translation of the other.
    """
    from wordfreq import zipf_frequency  # of this script only, so it is no dependency of tram

    def common(english: str, german: str) -> bool:
        words = (("en", english), ("de", german))
        return all(zipf_frequency(word, language) >= COMMON[language] for language, word in words)

    together: Counter[tuple[str, str]] = Counter()  # parts of the dictionary that have both words
    nouns: set[Noun] = set()
    verbs: set[Verb] = set()
    for english, german in entries(dictionary):
        for left, right in zip(english, german, strict=True):
            together.update(product(set(re.findall(r"[a-z]+", left)), set(re.findall(r"[A-ZÄÖÜa-zäöüß]+", right))))
        word = without_notes(english[0].split(";")[0])
        noun = NOUN.match(german[0])
        if noun and re.fullmatch(r"[a-z]+(?<!ing)", word) and common(word, noun[1]):
            nouns.add(Noun(word, noun[1], noun[2]))
        verb = VERB.fullmatch(without_notes(german[0].split(";")[0])) if "{vt}" in german[0] else None
        english_verb = re.fullmatch(r"to ([a-z]+)(?: sth\.)?", word)
        if verb and english_verb and len(german) > 2 and common(english_verb[1], verb[1]):
            participles = [part[2].split(";")[0].strip() for part in (english, german)]
            if all(map(str.isalpha, participles)):
                verbs.add(Verb(english_verb[1], participles[0], verb[1], participles[1]))

    def likelihood(word: Noun | Verb) -> float:
        gap = zipf_frequency(word.english, "en") - zipf_frequency(word.german, "de")
        return math.log2(together[word.english, word.german]) - 2 * abs(gap)

    def mutual(words: set[Any]) -> list[Any]:
        ranked = sorted(words, key=lambda word: (likelihood(word), word.english, word.german))
        best = {word.english: word for word in ranked}
        reverse = {word.german: word for word in ranked}
        return [word for word in best.values() if reverse[word.german].english == word.english]

    return mutual(nouns), mutual(verbs)


def made_of_dictionary(nouns: list[Noun], verbs: list[Verb], states: dict[str, str], random: Random) -> Pair:
    """Return a sentence with a noun of the dictionary, and perhaps a verb."""
    noun, verb = random.choice(nouns), random.choice(verbs)
    article = random.randrange(len(ENGLISH))
    source, subject = with_article(article, noun.english), f"{NOMINATIVE[noun.gender][article]} {noun.german}"
    state, german_state = random.choice(list(states.items()))
    pairs = [
        (f"{source} is {state}.", f"{subject} ist {german_state}."),
        (f"Where is {source}?", f"Wo ist {subject}?"),
        (f"Is this {source}?", f"Ist das {subject}?"),
    ]
    if noun.gender != "m" or not WEAK.search(noun.german):
        target = f"{ACCUSATIVE[noun.gender][article]} {noun.german}"
        formal = is_formal(source, target, random)
        pairs += 2 * [
            (f"She has {verb.english_participle} {source}.", f"Sie hat {target} {verb.german_participle}."),
            (f"We want to {verb.english} {source}.", f"Wir wollen {target} {verb.german}."),
            (f"He will {verb.english} {source}.", f"Er wird {target} {verb.german}."),
            (f"{source} was {verb.english_participle}.", f"{subject} wurde {verb.german_participle}."),
            (f"Did you see {source}?", f"{'Haben Sie' if formal else 'Hast du'} {target} gesehen?"),
        ]
    return capitalised(random.choice(pairs))


def well_known(corpora: Iterable[Path]) -> set[str]:
    """Return the words that occur often in some source files."""
    counts = Counter(
        word
        for corpus in corpora
        for document in read_documents(corpus)
        for sentence in document.sentences
        for word in re.findall(r"[a-z]+", sentence.lower())
    )
    return {word for word, count in counts.items() if count >= KNOWN}


def main(dictionary: str, out_source: str, out_target: str, *corpora: str) -> None:
    """Write the pairs, each a document of its own."""
    random = Random(6)
    states = yaml.safe_load(Path(__file__).with_name("everyday.yaml").read_text(encoding="utf-8"))["states"]
    known = well_known(map(Path, corpora))
    nouns, verbs = ([word for word in each if word.english not in known] for each in common_words(Path(dictionary)))
    pairs = dict.fromkeys(made_of_dictionary(nouns, verbs, states, random) for _ in range(SENTENCES))
    write_parallel(out_source, out_target, (ParallelDocument([source], [target]) for source, target in pairs))


if __name__ == "__main__":
    main(*sys.argv[1:])
