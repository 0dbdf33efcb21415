"""Shares with 95% intervals from a bootstrap over documents, which all context measures report.

    share(counts, lambda c: c[..., 0] / c[..., 1])       # counts: (documents, statistics)

A measure is a formula of counts summed over documents, so that it can be computed on resampled documents.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tram.evaluation.significance import SAMPLES, SEED, Resampling, Values, interval

Formula = Callable[[Values], Values]
"""(..., statistics) → (...); nan where the denominator is 0."""


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1, and the bounds of its 95% interval if documents can be resampled."""

    value: float | None
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Return the share and its interval as values that `json` can write."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def __format__(self, spec: str) -> str:
        """Format as a percentage with its interval, 57.3 [51.0, 63.2], or as a dash if nothing was measured."""
        if self.value is None:
            return format("-", spec)
        value = f"{100 * self.value:.1f}"
        return format(value if self.low is None else f"{value} [{100 * self.low:.1f}, {100 * self.high:.1f}]", spec)  # type: ignore[operator]


def share(counts: Any, formula: Formula, samples: int = SAMPLES, seed: int = SEED) -> Share:
    """Compute a share and its interval. counts: (documents, statistics); documents without counts are ignored."""
    rows = np.asarray(counts, dtype=np.float64)
    rows = rows[rows.any(axis=1)] if rows.size else rows
    if not len(rows):
        return Share(None, None, None)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(formula(rows.sum(axis=0)))
        if np.isnan(value):
            return Share(None, None, None)
        if len(rows) < 2 or samples < 1:
            return Share(value, None, None)
        drawn = formula(Resampling(len(rows), samples, seed).sums(rows))
    drawn = drawn[~np.isnan(drawn)]
    low, high = interval(drawn) if len(drawn) else (None, None)
    return Share(value, low, high)


def ratio(right: int = 0, of: int = 1) -> Formula:
    """Return the formula of one count divided by another, by their indices."""
    return lambda counts: counts[..., right] / counts[..., of]


def mean_of_known(shares: Values) -> Values:
    """Average over the last axis, ignoring nan: (..., shares) → (...)."""
    known = ~np.isnan(shares)
    return np.asarray(np.where(known, shares, 0.0).sum(-1) / known.sum(-1))


def by_document(rows: Sequence[tuple[str | None, Sequence[float]]]) -> Values:
    """Sum the counts of items of the same document; an item without a document counts as one."""
    sums: dict[object, Values] = {}
    for number, (document, counts) in enumerate(rows):
        key = number if document is None else document
        sums[key] = sums.get(key, np.zeros(len(counts))) + np.asarray(counts, dtype=np.float64)
    return np.array(list(sums.values()))


def shares_table(title: str, rows: Mapping[str, tuple[int, Mapping[Any, Share]]], width: int) -> str:
    """Return a table with a line for each row and a column for each share; rows: name → number of items, shares.

    width: minimum width of the first column
    """
    width = max(width, *(len(name) + 2 for name in rows))
    _, columns = next(iter(rows.values()))
    lines = [title, "", f"{'':<{width}}{'items':>6}  " + "".join(f"{kind:<20}" for kind in columns)]
    for name, (items, shares) in rows.items():
        lines.append(f"{name:<{width}}{items:>6,}  " + "".join(f"{each:<20}" for each in shares.values()))
    return "\n".join(line.rstrip() for line in lines)


def as_json(value: Any) -> Any:
    """Return a summary with its shares as plain dictionaries."""
    if isinstance(value, Share):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    return value
