"""Splitting of a sequence of items into parts that fit a token budget.

list(slices_within(costs_of_sums([5, 5, 3]), 3, budget=10))      # → [slice(0, 2), slice(2, 3)]
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

Cost = Callable[[int, int], int]  # cost of the items start ≤ i < stop


def slices_within(cost: Cost, count: int, budget: int) -> Iterator[slice]:
    """Split `count` items greedily into parts within the budget; a part has at least one item."""
    start = 0
    for stop in range(1, count + 1):
        if stop - 1 > start and cost(start, stop) > budget:
            yield slice(start, stop - 1)
            start = stop - 1
    if start < count:
        yield slice(start, count)


def costs_of_sums(*sizes: Sequence[int]) -> Cost:
    """Return the sum of the sizes as cost; of several lists of sizes, the largest sum."""
    totals = [[0, *accumulate(each)] for each in sizes]
    if len(totals) == 1:
        (only,) = totals
        return lambda start, stop: only[stop] - only[start]
    return lambda start, stop: max(total[stop] - total[start] for total in totals)


def costs_when_padded(ascending: Sequence[int]) -> Cost:
    """Return longest × items as cost, for sizes that are sorted."""
    return lambda start, stop: ascending[stop - 1] * (stop - start)
