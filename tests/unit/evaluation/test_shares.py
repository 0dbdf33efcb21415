"""Shares and their intervals over documents."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.evaluation.shares import Share, as_json, by_document, mean_of_known, ratio, share

counts = st.lists(st.integers(0, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=20)


@given(counts)
def test_the_share_is_the_ratio_of_sums_and_lies_in_its_interval(rows: list[tuple[int, int]]) -> None:
    found = share(rows, ratio())
    right, of = sum(row[0] for row in rows), sum(row[1] for row in rows)
    if of == 0:
        assert found == Share(None, None, None)
        return
    assert found.value == right / of
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.high <= 1


def test_documents_that_all_agree_have_an_interval_of_no_width() -> None:
    assert share([[1, 2]] * 10, ratio()) == Share(0.5, 0.5, 0.5)


def test_many_documents_give_a_narrow_interval_and_few_a_wide_one() -> None:
    few, many = share([[1, 1], [0, 1]] * 5, ratio()), share([[1, 1], [0, 1]] * 500, ratio())
    assert (few.value, many.value) == (0.5, 0.5)
    assert few.low is not None
    assert many.low is not None
    assert few.low < 0.3
    assert many.low > 0.45


def test_one_document_has_no_interval() -> None:
    assert share([[3, 4]], ratio()) == Share(0.75, None, None)


def test_items_of_one_document_are_one_unit() -> None:
    rows = [("a", [1, 1]), ("a", [0, 1]), (None, [1, 1]), (None, [1, 1])]
    assert by_document(rows).tolist() == [[1, 2], [1, 1], [1, 1]]


def test_an_average_leaves_out_what_is_not_known() -> None:
    assert mean_of_known(np.array([0.5, np.nan, 1.0])) == 0.75
    with np.errstate(invalid="ignore"):
        assert np.isnan(mean_of_known(np.array([np.nan])))


@pytest.mark.parametrize(
    ("found", "text"),
    [(Share(0.5, 0.25, 0.75), "50.0 [25.0, 75.0]"), (Share(0.5, None, None), "50.0"), (Share(None, None, None), "-")],
)
def test_a_share_is_printed_in_per_cent(found: Share, text: str) -> None:
    assert f"{found}" == text
    assert f"{found:<20}|" == f"{text:<20}|"


def test_a_summary_becomes_json() -> None:
    assert json.loads(json.dumps(as_json({"a": {1: Share(0.5, 0.25, 0.75)}, "n": 3}))) == {
        "a": {"1": {"value": 0.5, "low": 0.25, "high": 0.75}},
        "n": 3,
    }
