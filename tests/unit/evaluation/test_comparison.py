"""Differences of two models on one suite."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.evaluation.comparison import compare_suites, difference, differences_table, judgements, read_results

rights = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)


def results(right: list[Any], **more: list[Any]) -> dict[str, Any]:
    items = [
        {"right": each} | {name: values[place] for name, values in more.items()} for place, each in enumerate(right)
    ]
    return {"items": items}


@given(rights)
def test_the_difference_is_that_of_the_shares(drawn: list[tuple[bool, bool]]) -> None:
    own, control = [a for a, _ in drawn], [b for _, b in drawn]
    found = difference(own, control)
    assert found.difference == pytest.approx((sum(own) - sum(control)) / len(drawn))
    back = difference(control, own)
    assert back.difference == pytest.approx(-found.difference)


def test_a_model_compared_with_itself_differs_by_nothing() -> None:
    found = difference([True, False, True], [True, False, True])
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_what_one_model_leaves_unjudged_is_left_out_for_both() -> None:
    found = difference([True, None, True, False], [False, True, None, False])
    assert (found.items, found.value, found.baseline) == (2, 0.5, 0.0)


def test_results_of_all_kinds_of_suites_are_read() -> None:
    assert judgements(results([True, False])) == {"right": [True, False]}
    assert judgements(results([{"own": True, "none": False}, {"own": None}])) == {"right": [True, None]}
    forms = results([{"own": True}] * 2, expected_form=["T", "T"], forms=[{"own": "T"}, {"own": None}])
    assert judgements(forms)["form"] == [True, None]


def test_results_of_another_suite_are_refused() -> None:
    with pytest.raises(InputError, match="not of one suite"):
        compare_suites(results([True]), results([True, False]))


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="no item is judged for both"):
        compare_suites(results([None]), results([True]))


def test_the_table_shows_points_and_interval() -> None:
    table = differences_table(compare_suites(results([True] * 10), results([True, False] * 5)))
    assert "100.0 - 50.0 = +50.0 [+" in table


@pytest.mark.parametrize("text", ["[1]", "{", '{"items": 3}'])
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"results\.json: is no result of `tram contrast`"):
        read_results(path)
    with pytest.raises(InputError, match="no such file"):
        read_results(tmp_path / "missing.json")
    path.write_text(json.dumps(results([True])))
    assert read_results(path) == results([True])
