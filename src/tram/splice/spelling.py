"""Evidence of mistakes in target sentences: words that are rare, and pairs of words that no other sentence has."""

import re
from collections import Counter
from itertools import pairwise
from zlib import crc32

from tram.splice.words import words

LEAST_OCCURRENCES = 3  # minimum occurrences of a lower-case word that is taken to be spelt correctly
LEAST_VOCABULARY = 50_000  # in a smaller vocabulary, what is rare is not evidence of mistakes
SLOTS = 1 << 26  # for hashes of word pairs; a collision only makes a pair look more frequent
_LOWER_CASE = re.compile(r"\b[a-zäöüß]{2,}\b")


class Spelling:
    """Counts of the words and word pairs of a large corpus, the latter in constant memory."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()
        self._sentences = bytearray(SLOTS)  # 1: a sentence with this hash was counted
        self._pairs = bytearray(SLOTS)  # sentences with a pair of this hash: 0, 1, or 2 and more

    def add(self, sentence: str) -> None:
        """Count the words of a target sentence, and its word pairs if it was not counted before."""
        self._words.update(_LOWER_CASE.findall(sentence))
        place = _hash(sentence)
        if self._sentences[place]:
            return
        self._sentences[place] = 1
        for pair in _pairs(sentence):
            self._pairs[pair] = min(2, self._pairs[pair] + 1)

    def has_rare_word(self, sentence: str) -> bool:
        """Return whether a sentence has a word in lower case that is very rare; False in a small corpus."""
        return self._is_large and any(self._words[word] < LEAST_OCCURRENCES for word in _LOWER_CASE.findall(sentence))

    def has_lone_pair(self, sentence: str) -> bool:
        """Return whether two neighbouring words occur together in no other sentence; False in a small corpus.

        "Wir konntet" is such a pair, and so is most of what is wrong; so are many rare pairs that are right.
        """
        return self._is_large and any(self._pairs[pair] < 2 for pair in _pairs(sentence))

    @property
    def _is_large(self) -> bool:
        return len(self._words) >= LEAST_VOCABULARY


def _pairs(sentence: str) -> set[int]:
    """Return hashes of the word pairs; the first word, whose capital says nothing, in lower case."""
    return {_hash(f"{one} {other}") for one, other in pairwise(words(sentence[:1].lower() + sentence[1:]))}


def _hash(text: str) -> int:
    return crc32(text.encode()) % SLOTS
