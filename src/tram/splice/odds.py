"""Log odds of a source sentence belonging to one of two classes, by its words alone.

Sentences that reveal their class without context teach nothing about context; `weigh` prefers the others.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from tram.splice.words import Pair, words

SMOOTHING = 2.0
MARGIN = 1.5  # log odds of the correct class at which a sentence has half the weight


class WeightedPairs:
    """Sentences of one class, sampled more often the less their words reveal the class."""

    def __init__(self, pairs: Sequence[Pair], own: "WordCounts", other: "WordCounts"):
        self.pairs = list(pairs)
        margins = (own.log_odds(pair, other) for pair in pairs)
        self._cumulative = list(accumulate(1 / (1 + math.exp(min(margin - MARGIN, 50))) for margin in margins))

    def sample(self, random: Random, size: int) -> list[Pair]:
        """Sample sentences without replacement; fewer if there are not enough."""
        chosen: dict[str, Pair] = {}
        for _ in range(4 * size):
            if len(chosen) < size:
                pair = random.choices(self.pairs, cum_weights=self._cumulative)[0]
                chosen.setdefault(pair.source, pair)
        return list(chosen.values())


class WordCounts:
    """For each source word, the number of sentences of a class that contain it."""

    def __init__(self, pairs: Sequence[Pair]):
        self._size = len(pairs)
        self._counts = Counter(word for pair in pairs for word in set(words(pair.source.lower())))

    def log_odds(self, pair: Pair, other: "WordCounts") -> float:
        """Return how much more a pair's words suggest this class than the other, by naive Bayes."""
        source_words = set(words(pair.source.lower()))
        return sum(self._log_share(word) - other._log_share(word) for word in source_words)

    def _log_share(self, word: str) -> float:
        return math.log((self._counts[word] + SMOOTHING) / (self._size + 2 * SMOOTHING))


def weigh(one: Sequence[Pair], two: Sequence[Pair]) -> tuple[WeightedPairs, WeightedPairs]:
    """Return both classes with weights against each other."""
    counts, others = WordCounts(one), WordCounts(two)
    return WeightedPairs(one, counts, others), WeightedPairs(two, others, counts)
