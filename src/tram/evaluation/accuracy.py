"""Accuracy on contrastive suites, by phenomenon and distance or by German pronoun, with intervals.

summary = summarise(score_suite(translator, items))
print(contrast_table(summary))
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tram.evaluation.contexts import ContextOf
from tram.evaluation.contrast import ItemResult
from tram.evaluation.shares import by_document, ratio, share, shares_table
from tram.evaluation.suite import OTHER, PRONOUNS, ContrastiveItem

BIN_ENDS = (0, 1, 2, 3, 5, 10, 20, 50, 100)  # the largest distance of every bin
MAX_COLUMNS = 10  # more distances than this are binned
Z = 1.959963984540054  # 95% of a normal distribution are within this many standard deviations


@dataclass(frozen=True)
class Accuracy:
    """The number of items that a model gets right, and the share expected by chance."""

    right: int
    items: int
    chance: float

    @property
    def value(self) -> float:
        """The share of correct items."""
        return self.right / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% Wilson interval of the share."""
        spread = Z * Z / self.items
        middle = self.value + spread / 2
        half = math.sqrt(spread * (self.value * (1 - self.value) + spread / 4))
        low, high = ((middle + sign * half) / (1 + spread) for sign in (-1, 1))
        return min(max(low, 0.0), self.value), max(min(high, 1.0), self.value)  # despite rounding

    def as_dict(self) -> dict[str, float]:
        """Return counts, share, interval and chance as values that `json` can write."""
        low, high = self.interval
        counts = {"right": self.right, "items": self.items}
        return counts | {"accuracy": self.value, "low": low, "high": high, "chance": self.chance}


@dataclass(frozen=True)
class Summary:
    """The accuracies on a suite; groups that its items do not define are empty.

    `by_pronoun` has the items without a phenomenon, if at least one of them is about er, sie or es.
    """

    overall: Accuracy
    by_phenomenon: dict[str, Accuracy]
    by_pronoun: dict[str, Accuracy]
    by_distance: dict[str, Accuracy]
    by_phenomenon_and_distance: dict[str, dict[str, Accuracy]]

    def as_dict(self) -> dict[str, Any]:
        """Return all accuracies as values that `json` can write."""

        def plain(group: Mapping[str, Accuracy]) -> dict[str, Any]:
            return {name: accuracy.as_dict() for name, accuracy in group.items()}

        both = {name: plain(group) for name, group in self.by_phenomenon_and_distance.items()}
        return {
            "overall": self.overall.as_dict(),
            "by_phenomenon": plain(self.by_phenomenon),
            "by_pronoun": plain(self.by_pronoun),
            "by_distance": plain(self.by_distance),
            "by_phenomenon_and_distance": both,
        }


def summarise(results: Sequence[ItemResult]) -> Summary:
    """Return the accuracy of all items (at least one), and of each group of them."""
    pronouns = _grouped(results, lambda item: None if item.phenomenon else item.pronoun)
    if pronouns.keys() == {OTHER}:
        pronouns = {}  # another language, or items that are not about pronouns
    distances = _by_distance(results)
    return Summary(
        overall=_accuracy(results),
        by_phenomenon=_accuracies(_grouped(results, lambda item: item.phenomenon)),
        by_pronoun=_accuracies({name: pronouns[name] for name in (*PRONOUNS, OTHER) if name in pronouns}),
        by_distance=_accuracies(distances),
        by_phenomenon_and_distance={
            phenomenon: _accuracies({name: own for name, group in distances.items() if (own := _of(group, phenomenon))})
            for phenomenon in _grouped(results, lambda item: item.phenomenon)
        },
    )


def _accuracy(results: Sequence[ItemResult]) -> Accuracy:
    chance = sum(1 / (1 + len(result.variants)) for result in results) / len(results)
    return Accuracy(sum(result.right for result in results), len(results), chance)


def _accuracies(groups: Mapping[str, Sequence[ItemResult]]) -> dict[str, Accuracy]:
    return {name: _accuracy(group) for name, group in groups.items()}


def _grouped(
    results: Sequence[ItemResult], name: Callable[[ContrastiveItem], str | None]
) -> dict[str, list[ItemResult]]:
    """Group results by the names of their items, in the order of the suite; items without a name are left out."""
    groups: dict[str, list[ItemResult]] = {}
    for result in results:
        group = name(result.item)
        if group:
            groups.setdefault(group, []).append(result)
    return groups


def _of(results: Sequence[ItemResult], phenomenon: str) -> list[ItemResult]:
    return [result for result in results if result.item.phenomenon == phenomenon]


def _by_distance(results: Sequence[ItemResult]) -> dict[str, list[ItemResult]]:
    """Group results by distance, nearest first; bin them if there are many distances."""
    distances = sorted(result.item.distance for result in results if result.item.distance is not None)
    binned = len(set(distances)) > MAX_COLUMNS
    names = {distance: _bin_name(distance) if binned else str(distance) for distance in distances}
    groups = _grouped(results, lambda item: None if item.distance is None else names[item.distance])
    return {name: groups[name] for name in dict.fromkeys(names.values())}


def _bin_name(distance: int) -> str:
    index = bisect_left(BIN_ENDS, distance)
    if index == len(BIN_ENDS):
        return f">{BIN_ENDS[-1]}"
    first, last = (BIN_ENDS[index - 1] + 1 if index else 0), BIN_ENDS[index]
    return str(last) if first == last else f"{first}-{last}"


def contrast_table(summary: Summary) -> str:
    """Return a table with a line for each phenomenon or pronoun and a column for each distance."""
    columns = [*summary.by_distance, "all"]
    rows = {
        name: summary.by_phenomenon_and_distance[name] | {"all": accuracy}
        for name, accuracy in summary.by_phenomenon.items()
    }
    rows |= {name: {"all": accuracy} for name, accuracy in summary.by_pronoun.items()}
    rows["all"] = summary.by_distance | {"all": summary.overall}
    width = max(12, *(len(name) + 2 for name in rows))
    title = "% correct, with the 95% interval (Wilson) below"
    if summary.by_distance:
        title += "; columns: distance in sentences to the one that decides"
    lines = [title, "", f"{'':<{width}}{'items':>7}{'chance':>8}" + "".join(f"{name:>8}" for name in columns)]
    for name, cells in rows.items():
        lines += _table_lines(name, width, [cells.get(column) for column in columns])
    return "\n".join(line.rstrip() for line in lines)


def _table_lines(name: str, width: int, cells: list[Accuracy | None]) -> list[str]:
    whole = cells[-1]
    assert whole is not None, "the last column holds all items of a line"
    values = "".join(f"{'' if cell is None else format(100 * cell.value, '.1f'):>8}" for cell in cells)
    intervals = "".join(f"{'' if cell is None else _percentages(cell.interval):>8}" for cell in cells)
    return [f"{name:<{width}}{whole.items:>7,}{100 * whole.chance:>8.1f}{values}", f"{'':<{width + 15}}{intervals}"]


def _percentages(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.0f}-{100 * high:.0f}"


def contrast_json(results: Sequence[ItemResult], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report for JSON: the settings in `about`, the summary, and the scores of every item in suite order."""
    items = [
        {"right": result.right, "reference": result.reference, "variants": list(result.variants)} for result in results
    ]
    return {**about, **summarise(results).as_dict(), "items": items}


def context_shares(results: Mapping[ContextOf, Sequence[ItemResult]]) -> dict[str, dict[str, Any]]:
    """Return the share of correct items of each group with each kind of context, with bootstrap intervals.

    Keys: "all", the phenomena and the pronouns; each has "items" and a share for every kind of context.
    """
    first = next(iter(results.values()))
    groups: dict[str, Callable[[ContrastiveItem], bool]] = {"all": lambda _: True}
    for field, names in (("phenomenon", _grouped(first, lambda item: item.phenomenon)), ("pronoun", PRONOUNS)):
        tests = {name: partial(_has, field, name) for name in names}
        groups |= {name: test for name, test in tests.items() if any(test(result.item) for result in first)}
    shares: dict[str, dict[str, Any]] = {}
    for name, belongs in groups.items():
        shares[name] = {"items": sum(belongs(result.item) for result in first)}
        for kind, scored in results.items():
            rows = [(result.item.document, [float(result.right), 1.0]) for result in scored if belongs(result.item)]
            shares[name][kind] = share(by_document(rows), ratio())
    return shares


def _has(field: str, value: str, item: ContrastiveItem) -> bool:
    return getattr(item, field) == value


def context_table(shares: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a line for each group of items and a column for each kind of context."""
    kinds = [kind for kind in shares["all"] if kind != "items"]
    rows = {name: (cells["items"], {kind: cells[kind] for kind in kinds}) for name, cells in shares.items()}
    title = "% correct [95% interval over documents]; context: the item's own, another item's, none"
    return shares_table(title, rows, width=14)
