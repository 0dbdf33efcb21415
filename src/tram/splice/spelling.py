"""Evidence of mistakes in target sentences: words that are rare, and pairs of words that no other sentence has.

A noun is rare in most cases because it is a compound; it is taken for a mistake if a frequent one differs in a letter.
"""

import re
from collections import Counter
from functools import cached_property
from itertools import pairwise
from zlib import crc32

from tram.splice.words import words

LEAST_OCCURRENCES = 3  # minimum occurrences of a lower-case word that is taken to be spelt correctly
LEAST_VOCABULARY = 50_000  # in a smaller vocabulary, what is rare is not evidence of mistakes
RARE, FREQUENT = 2, 10  # maximum occurrences of a noun that may be misspelt, and minimum of what it should be
SHORTEST_NOUN = 9  # letters; among shorter ones, too many differ in a letter
UNCHANGED = 3  # letters at the end of a noun, where its ending is, that are not taken to be misspelt
SLOTS = 1 << 26  # for hashes of word pairs; a collision only makes a pair look more frequent
_LOWER_CASE = re.compile(r"\b[a-zäöüß]{2,}\b")
_LONG_NOUN = re.compile(rf"\b[A-ZÄÖÜ][a-zäöüß]{{{SHORTEST_NOUN - 1},}}\b")


class Spelling:
    """Counts of the words and word pairs of a large corpus, the latter in constant memory."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()
        self._nouns: Counter[str] = Counter()
        self._sentences = bytearray(SLOTS)  # 1: a sentence with this hash was counted
        self._pairs = bytearray(SLOTS)  # sentences with a pair of this hash: 0, 1, or 2 and more

    def add(self, sentence: str) -> None:
        """Count the words of a target sentence, and its word pairs if it was not counted before."""
        self._words.update(_LOWER_CASE.findall(sentence))
        self._nouns.update(_LONG_NOUN.findall(sentence))
        place = _hash(sentence)
        if self._sentences[place]:
            return
        self._sentences[place] = 1
        for pair in _pairs(sentence):
            self._pairs[pair] = min(2, self._pairs[pair] + 1)

    def has_rare_word(self, sentence: str) -> bool:
        """Return whether a sentence has a word in lower case that is very rare; False in a small corpus."""
        return self._is_large and any(self._words[word] < LEAST_OCCURRENCES for word in _LOWER_CASE.findall(sentence))

    def has_misspelt_noun(self, sentence: str) -> bool:
        """Return whether a rare noun differs in one letter from a frequent one; False in a small corpus."""
        return self._is_large and any(
            self._nouns[noun] <= RARE and self._has_frequent_neighbor(noun) for noun in _LONG_NOUN.findall(sentence)
        )

    def _has_frequent_neighbor(self, noun: str) -> bool:
        """Return whether a frequent noun becomes this one if a letter inside is left out, added or replaced."""
        shorter = _without_a_letter(noun)
        return noun in self._shortened or any(
            self._nouns[form] >= FREQUENT or form in self._shortened for form in shorter
        )

    @cached_property
    def _shortened(self) -> frozenset[str]:
        """The frequent nouns without one of their letters; to be used when all sentences are counted."""
        return frozenset(
            form for noun, count in self._nouns.items() if count >= FREQUENT for form in _without_a_letter(noun)
        )

    def has_lone_pair(self, sentence: str, of_nouns: bool = True) -> bool:
        """Return whether two neighbouring words occur together in no other sentence; False in a small corpus.

        of_nouns: whether pairs with a word in capitals count; most nouns are rare.

        "Wir konntet" is such a pair, and so is most of what is wrong; so are many rare pairs that are right.
        """
        return self._is_large and any(self._pairs[pair] < 2 for pair in _pairs(sentence, of_nouns))

    @property
    def _is_large(self) -> bool:
        return len(self._words) >= LEAST_VOCABULARY


def _pairs(sentence: str, of_nouns: bool = True) -> set[int]:
    """Return hashes of the word pairs; the first word, whose capital says nothing, in lower case."""
    pairs = pairwise(words(sentence[:1].lower() + sentence[1:]))
    return {_hash(f"{one} {other}") for one, other in pairs if of_nouns or (one + other).islower()}


def _without_a_letter(noun: str) -> set[str]:
    """Return a noun without each of its letters but the first and those at its end."""
    return {noun[:place] + noun[place + 1 :] for place in range(1, len(noun) - UNCHANGED)}


def _hash(text: str) -> int:
    return crc32(text.encode()) % SLOTS
