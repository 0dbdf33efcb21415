"""Differences of two models on one suite."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.evaluation.address import measure_address
from tram.evaluation.comparison import (
    compare_address,
    compare_suites,
    difference,
    differences_table,
    judgements,
    read_address,
    read_results,
)
from tram.evaluation.language import load_language
from tram.evaluation.shares import as_json

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
    assert judgements(forms)["form"] == [True, False]
    forms["items"].append({"right": True})
    assert judgements(forms)["form"] == [True, False, None]
    forms["items"].pop()
    assert judgements(forms)["form if shown"] == [True, None]


def test_results_of_another_suite_are_refused() -> None:
    with pytest.raises(InputError, match="not of one suite"):
        compare_suites(results([True]), results([True, False]))


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="no item is judged for both"):
        compare_suites(results([None]), results([True]))


def test_the_table_shows_points_and_interval() -> None:
    table = differences_table(compare_suites(results([True] * 10), results([True, False] * 5)))
    assert "100.0 - 50.0 = +50.0 [+" in table


T, V = "Kommst du?", "Kommen Sie?"


def address(*documents: list[str]) -> dict[str, Any]:
    """Return the form of address of documents whose reference is always familiar, as a file would have it."""
    references = [[T] * len(document) for document in documents]
    sources = [["Do you come?"] * len(document) for document in documents]
    english, german = load_language("en"), load_language("de")
    return as_json(measure_address(sources, references, {"own": list(documents)}, english, german))


def test_forms_of_address_are_compared_on_the_same_documents() -> None:
    found = compare_address(address([T, T], [T, V], [T, T]), address([V, T], [V, V], [T, V]))
    assert found["agreement"].difference == pytest.approx(5 / 6 - 2 / 6)
    assert found["first"].difference == pytest.approx(3 / 3 - 1 / 3)
    assert found["later"].difference == pytest.approx(2 / 3 - 1 / 3)
    assert found["consistency"].difference == pytest.approx(5 / 6 - 4 / 6)
    assert found["agreement"].low is not None
    assert "+50.0 [" in differences_table(found, "documents")
    with pytest.raises(InputError, match="not of the same documents"):
        compare_address(address([T]), address([T], [T]))


def test_a_share_that_one_model_lacks_is_not_compared() -> None:
    assert "consistency" not in compare_address(address([T], [T]), address([V], [V]))


@pytest.mark.parametrize("text", ["[1]", "{", '{"measures": {}}', '{"measures": {"address": {"own": {}}}}'])
def test_a_file_without_form_of_address_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"scores\.json: (has no form of address|cannot be read).*tram evaluate"):
        read_address(path)
    path.write_text(json.dumps({"measures": {"address": address([T])}}))
    assert read_address(path) == address([T])


@pytest.mark.parametrize("rows", [[[1.0], [1.0, 2.0]], [[None]], [["1"]], [[float("nan")]], [[1e308]], [1], {}])
def test_form_of_address_with_damaged_counts_is_refused(tmp_path: Path, rows: Any) -> None:
    """Before anything is translated, not when the two results are compared."""
    damaged = address([T])
    damaged["own"]["counts"]["kept"] = rows
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"measures": {"address": damaged}}))
    with pytest.raises(InputError, match=r"scores\.json: has no form of address.*tram evaluate"):
        read_address(path)


DAMAGED_ITEMS = ["[1]", "[[]]", "[{}]", '[{"right": "yes"}]', '[{"right": [1]}]', '[{"right": true, "forms": [1]}]']


@pytest.mark.parametrize("text", ["[1]", "{", '{"items": 3}', *(f'{{"items": {items}}}' for items in DAMAGED_ITEMS)])
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"results\.json: (is not a result|cannot be read).*tram contrast"):
        read_results(path)
    with pytest.raises(InputError, match="no such file"):
        read_results(tmp_path / "missing.json")
    path.write_text(json.dumps(results([True])))
    assert read_results(path) == results([True])


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"suite_fingerprint": "another", "context": "own"}, "on another suite"),
        ({"suite_fingerprint": "this", "context": "none"}, "with the context `none`, not `own`"),
    ],
)
def test_a_result_on_something_else_of_equal_size_is_refused(tmp_path: Path, about: dict[str, str], words: str) -> None:
    """Before the work: nobody would see it in the differences."""
    path, this = tmp_path / "results.json", {"suite_fingerprint": "this", "context": "all"}
    path.write_text(json.dumps(results([True]) | about))
    with pytest.raises(InputError, match=rf"results\.json: is a result {words}"):
        read_results(path, this)
    for same in ({}, this, this | {"context": "own"}):  # results of earlier versions do not say what they are on
        path.write_text(json.dumps(results([True]) | same))
        assert read_results(path, this)["items"] == results([True])["items"]


def test_a_form_of_address_on_other_documents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"measures": {"address": address([T])}, "documents": "others"}))
    with pytest.raises(InputError, match=r"scores\.json: is a result on other documents"):
        read_address(path, "these")
