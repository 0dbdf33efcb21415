"""Bootstrap over documents: how far a score, or a difference, would move on other documents of the same kind.

    resampling = Resampling(documents=155, samples=1000, seed=12345)
    sums = resampling.sums(statistics)          # then one score from each row
    low, high = interval(scores)

Documents are drawn and not sentences, because the sentences of a document share its subject, its names and
its translator: drawn one by one they would pass for more evidence than they are.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Statistics = TypeVar("Statistics", Counts, Values)


@dataclass(frozen=True)
class Resampling:
    """How the documents of a test set are drawn, with replacement, as many as there are."""

    documents: int
    samples: int
    seed: int

    def sums(self, statistics: Statistics) -> Statistics:
        """Sum the statistics of each draw: (documents, statistics) to (samples, statistics).

        Every call makes the same draws, so systems and metrics that share a `Resampling` are paired.
        """
        generator = np.random.default_rng(self.seed)
        sums = np.empty((self.samples, statistics.shape[1]), dtype=statistics.dtype)
        for sample in sums:
            drawn = generator.integers(self.documents, size=self.documents)
            sample[:] = np.bincount(drawn, minlength=self.documents) @ statistics
        return sums


def interval(values: Values) -> tuple[float, float]:
    """Give the 95% percentile interval of resampled values: a fortieth of them is cut off at each end."""
    tail = max((len(values) + 1) // 40, 1)
    ordered = np.sort(values)
    return float(ordered[tail - 1]), float(ordered[-tail])


def p_value(differences: Values) -> float:
    """Give the two-sided p-value of "the two systems do not differ" from their n resampled differences d.

    It is twice the share of draws on the rarer side of zero,

        p = min(1, 2 (1 + min(#{d <= 0}, #{d >= 0})) / (1 + n)):

    draws without a difference count on both sides, and the 1 keeps p above what n draws can show.
    With n >= 39, p <= 0.05 exactly when `interval` leaves zero out. On few documents it is too sure:
    of pairs of equally good systems 25% had p <= 0.05 with 3 documents, 11% with 10, 8% with 30, 5% with 100.
    """
    rarer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2 * (1 + int(rarer)) / (1 + len(differences)))
