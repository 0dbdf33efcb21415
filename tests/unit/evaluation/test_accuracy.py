"""Accuracies on contrastive suites: counts by group, intervals, and the table."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.evaluation.accuracy import Accuracy, contrast_table, summarise
from tram.evaluation.contrast import ItemResult
from tram.evaluation.suite import ContrastiveItem


def item(reference: str = "Er fiel.", contrastive: list[str] | None = None, **more: Any) -> ContrastiveItem:
    """Return an item without context."""
    variants = ["Sie fiel.", "Es fiel."] if contrastive is None else contrastive
    texts = {"source": "It fell.", "reference": reference, "contrastive": variants}
    return ContrastiveItem(source_context=(), target_context=(), **texts, **more)


@pytest.mark.parametrize(
    ("right", "items", "low", "high"),
    [
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (1, 2, 0.09453, 0.90547),
        (81, 263, 0.25527, 0.36621),
        (0, 1, 0.0, 0.79345),
    ],
)
def test_wilson_intervals_of_known_cases(right: int, items: int, low: float, high: float) -> None:
    assert Accuracy(right, items, 0.5).interval == pytest.approx((low, high), abs=2e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_intervals_contain_the_share_and_are_symmetric(counts: tuple[int, int]) -> None:
    right, items = counts
    accuracy, mirror = Accuracy(right, items, 0.5), Accuracy(items - right, items, 0.5)
    low, high = accuracy.interval
    assert 0 <= low <= accuracy.value <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx(mirror.interval)
    assert Accuracy(10 * right, 10 * items, 0.5).interval[0] >= low - 1e-12, "more items have a narrower interval"


def outcome(right: bool, variants: int = 1, **more: Any) -> ItemResult:
    wrong = ["Sie fiel.", "Es fiel.", "Das fiel."][:variants]
    return ItemResult(item(contrastive=wrong, **more), -1.0, (-2.0 if right else -0.5,) * variants)


def test_accuracies_by_phenomenon_and_distance() -> None:
    results = [
        outcome(True, phenomenon="tense", distance=3),
        outcome(False, phenomenon="tense", distance=1),
        outcome(True, phenomenon="tense", distance=1),
        outcome(True, variants=3, phenomenon="name", distance=1),
    ]
    summary = summarise(results)
    assert summary.overall == Accuracy(3, 4, 0.4375)
    assert summary.by_phenomenon == {"tense": Accuracy(2, 3, 0.5), "name": Accuracy(1, 1, 0.25)}
    assert list(summary.by_distance.items()) == [
        ("1", Accuracy(2, 3, pytest.approx(1.25 / 3))),
        ("3", Accuracy(1, 1, 0.5)),
    ]
    assert summary.by_phenomenon_and_distance == {
        "tense": {"1": Accuracy(1, 2, 0.5), "3": Accuracy(1, 1, 0.5)},
        "name": {"1": Accuracy(1, 1, 0.25)},
    }
    assert summary.by_pronoun == {}


def test_many_distances_share_bins() -> None:
    distances = [0, 1, 2, 3, 4, 5, 6, 10, 11, 50, 51, 100, 101, 4000]
    summary = summarise([outcome(True, phenomenon="tense", distance=distance) for distance in distances])
    sizes = {name: accuracy.items for name, accuracy in summary.by_distance.items()}
    assert sizes == {
        "0": 1,
        "1": 1,
        "2": 1,
        "3": 1,
        "4-5": 2,
        "6-10": 2,
        "11-20": 1,
        "21-50": 1,
        "51-100": 2,
        ">100": 2,
    }
    assert list(sizes) == ["0", "1", "2", "3", "4-5", "6-10", "11-20", "21-50", "51-100", ">100"]


def test_items_without_a_phenomenon_are_counted_by_pronoun() -> None:
    sie = ItemResult(item(reference="Sie fiel.", contrastive=["Er fiel."]), -2.0, (-1.0,))
    summary = summarise([outcome(True), sie, outcome(False), outcome(True, phenomenon="tense")])
    assert list(summary.by_pronoun.items()) == [("er", Accuracy(1, 2, 0.5)), ("sie", Accuracy(0, 1, 0.5))]
    assert summary.by_phenomenon == {"tense": Accuracy(1, 1, 0.5)}


def test_another_language_has_no_german_pronouns() -> None:
    french = ItemResult(item(reference="Elle tombe.", contrastive=["Il tombe."]), -2.0, (-1.0,))
    assert summarise([french]).by_pronoun == {}


def test_the_table_has_a_line_for_each_phenomenon_and_a_column_for_each_distance() -> None:
    results = [outcome(right, phenomenon="tense", distance=1) for right in (True, True, True, False)]
    results.append(outcome(True, variants=3, phenomenon="name", distance=20))
    head, _, names, *lines = contrast_table(summarise(results)).splitlines()
    assert "Wilson" in head
    assert names.split() == ["items", "chance", "1", "20", "all"]
    assert [line.split() for line in lines] == [
        ["tense", "4", "50.0", "75.0", "75.0"], ["30-95", "30-95"],
        ["name", "1", "25.0", "100.0", "100.0"], ["21-100", "21-100"],
        ["all", "5", "45.0", "75.0", "100.0", "80.0"], ["30-95", "21-100", "38-96"],
    ]  # fmt: skip
    column = names.index("20") + 2
    assert lines[2].index("100.0") + 5 == column, "an accuracy ends where the name of its column does"


def test_the_table_of_pronouns_has_no_distances() -> None:
    table = contrast_table(summarise([outcome(True, variants=2), outcome(False, variants=2)]))
    assert [line.split()[0] for line in table.splitlines()[3::2]] == ["er", "all"]
    assert "distance" not in table
