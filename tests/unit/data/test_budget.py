"""Splitting a sequence into parts within a token budget."""

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from helpers import few
from tram.data.budget import costs_of_sums, costs_when_padded, slices_within

sizes = st.lists(st.integers(1, 20), max_size=30)


@few
@given(sizes, st.integers(1, 60))
def test_parts_cover_the_run_and_fit_unless_they_have_one_item(given_sizes: list[int], budget: int) -> None:
    parts = list(slices_within(costs_of_sums(given_sizes), len(given_sizes), budget))
    assert [size for part in parts for size in given_sizes[part]] == given_sizes
    for part, following in zip_longest(parts, parts[1:]):
        assert sum(given_sizes[part]) <= budget or part.stop - part.start == 1
        if following is not None:
            assert sum(given_sizes[part]) + given_sizes[following.start] > budget, "no part ends too early"


def test_of_two_sides_the_longer_one_counts() -> None:
    cost = costs_of_sums([1, 1, 1], [5, 1, 5])
    assert list(slices_within(cost, 3, 6)) == [slice(0, 2), slice(2, 3)]


def test_padded_items_cost_as_much_as_the_longest() -> None:
    ascending = [2, 3, 3, 9]
    assert list(slices_within(costs_when_padded(ascending), 4, 9)) == [slice(0, 3), slice(3, 4)]
