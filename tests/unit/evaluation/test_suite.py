"""Contrastive suites: reading files, the tested pronoun, and exchanged contexts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.evaluation.suite import ContrastiveItem, exchange_contexts, read_suite

GOOD = {
    "source_context": ["A."],
    "target_context": ["B."],
    "source": "It fell.",
    "reference": "Er fiel.",
    "contrastive": ["Sie fiel."],
}


def item(context: list[int], **changes: Any) -> ContrastiveItem:
    """Return the item above with numbered sentences as context, and with other fields changed."""
    contexts = {f"{side}_context": [f"{side} {number}" for number in context] for side in ("source", "target")}
    return ContrastiveItem(**GOOD | contexts | changes)


LABELS = st.fixed_dictionaries({}, optional={"distance": st.integers(0, 99), "phenomenon": st.text()})
CONTEXTS = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.builds(lambda context, labels: item(context, **labels), CONTEXTS, LABELS), min_size=1, max_size=4))
def test_a_suite_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, items: list[ContrastiveItem]
) -> None:
    path = tmp_path_factory.mktemp("suite") / "suite.jsonl"
    path.write_text("\n\n".join(each.model_dump_json() for each in items) + "\n", encoding="utf-8")
    assert read_suite(path) == items


def test_additional_fields_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(json.dumps(GOOD | {"note": 1, "phenomenon": None}))
    assert read_suite(path) == [ContrastiveItem(**GOOD)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON", "whole object"]),
        ("[1]", ["no object"]),
        (json.dumps(GOOD)[:-1] + ', "source": "another one"}', ["not JSON", "'source' appears twice"]),
        (json.dumps({key: value for key, value in GOOD.items() if key != "reference"}), ["no 'reference'"]),
        (json.dumps(GOOD | {"target_context": []}), ["1 sentences in 'source_context' and 0", "its translation"]),
        (json.dumps(GOOD | {"contrastive": []}), ["'contrastive'", "at least one wrong translation"]),
        (json.dumps(GOOD | {"contrastive": ["Sie fiel.", " "]}), ["empty 'contrastive.1'"]),
        (json.dumps(GOOD | {"contrastive": ["Er fiel."]}), ["its reference among 'contrastive'"]),
        (json.dumps(GOOD | {"contrastive": "Sie fiel."}), ["wrong 'contrastive'"]),
        (json.dumps(GOOD | {"source_context": [3]}), ["wrong 'source_context.0'"]),
        (json.dumps(GOOD | {"reference": ""}), ["empty 'reference'", "fill it in"]),
        (json.dumps(GOOD | {"source": "\t"}), ["empty 'source'"]),
        (json.dumps(GOOD | {"distance": -1}), ["wrong 'distance'"]),
        (json.dumps(GOOD | {"distance": "1"}), ["wrong 'distance'"]),
        (json.dumps(GOOD | {"reference": "\ud800"}), ["not JSON"]),
    ],
)
def test_the_error_names_the_bad_line(tmp_path: Path, line: str, words: list[str]) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_suite(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3 has" if "JSON" not in message else f"{path}:3 is")
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_text("\n \n"), "no items"),
        (lambda path: path.write_bytes(b"\xff"), "UTF-8"),
    ],
)
def test_a_file_that_is_not_a_suite_is_refused(tmp_path: Path, write: Callable[[Path], object], word: str) -> None:
    path = tmp_path / "suite.jsonl"
    write(path)
    with pytest.raises(InputError, match=word) as caught:
        read_suite(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("reference", "contrastive", "pronoun"),
    [
        ("Er fiel.", ["Sie fiel.", "Es fiel."], "er"),
        ("Dann fiel SIE um.", ["Dann fiel er um."], "sie"),
        ("Ich nehme es und putze es.", ["Ich nehme es und putze ihn.", "Ich nehme sie und putze sie."], "es"),
        ("„Es“, sagte sie.", ["„Er“, sagte sie."], "es"),
        ("Nimm ihn.", ["Nimm sie."], "other"),
        ("Da ist er", ["Da ist er ja"], "other"),
        ("Da ist er!", ["Da ist er."], "other"),
        ("Da ist es ja", ["Da ist"], "es"),
    ],
)
def test_the_tested_pronoun_is_the_first_word_that_differs(
    reference: str, contrastive: list[str], pronoun: str
) -> None:
    assert item([], reference=reference, contrastive=contrastive).pronoun == pronoun


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), max_size=30))
def test_exchanged_contexts_are_those_of_the_same_phenomenon_and_distance(cells: list[tuple[str, int]]) -> None:
    items = [
        item([0], phenomenon=name, distance=distance).model_copy(update={"source_context": (str(number),)})
        for number, (name, distance) in enumerate(cells)
    ]
    exchanged = exchange_contexts(items)
    for number, other in enumerate(exchanged):
        donor = int(other.source_context[0])
        assert (donor == number) == (len(items) == 1)
        assert cells[donor] == cells[number] or cells.count(cells[number]) == 1  # alone in its cell: any other
    assert [other.reference for other in exchanged] == [one.reference for one in items]


def test_with_exchanged_contexts_a_context_reader_is_right_by_chance() -> None:
    """Check that an answer that depends on the context alone is correct by chance if the contexts are exchanged."""
    answers = range(3)
    items = [item([answer, 9 + group], phenomenon="x", distance=2) for group in range(60) for answer in answers]
    pairs = zip(items, exchange_contexts(items), strict=True)
    right = sum(one.source_context[0] == other.source_context[0] for one, other in pairs)
    assert 0.2 < right / len(items) < 0.47
