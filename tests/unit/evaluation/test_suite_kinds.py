"""Suites of every kind: recognised by their items, refused with a sentence, and one that ships with tram."""

import json
from pathlib import Path

import pytest

from tram.errors import InputError
from tram.evaluation.agreement import AgreementItem
from tram.evaluation.expected import ExpectedItem
from tram.evaluation.suite import ContrastiveItem, find_suite, read_items

AGREEMENT = {"source_context": ["The lamp is new."], "source": "It is here.", "antecedent": "lamp"}
EXPECTED = {"source_context": [], "source": "I see you.", "expected": "dich", "rule": "ACC"}
CONTRASTIVE = {
    "source_context": ["A."], "target_context": ["B."], "source": "It fell.", "reference": "Er fiel.",
    "contrastive": ["Sie fiel."],
}  # fmt: skip


@pytest.mark.parametrize(
    ("item", "kind"), [(AGREEMENT, AgreementItem), (EXPECTED, ExpectedItem), (CONTRASTIVE, ContrastiveItem)]
)
def test_the_kind_of_a_suite_shows_in_its_items(tmp_path: Path, item: dict[str, object], kind: type) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(f"\n{json.dumps(item)}\n")
    (found,) = read_items(path)
    assert type(found) is kind


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (AGREEMENT, AGREEMENT | {"source_context": []}, "wrong 'source_context'"),
        (AGREEMENT, {"antecedent": "lamp"}, "no 'source_context'; an item needs source_context, source and antecedent"),
        (AGREEMENT, EXPECTED, "wrong 'source_context'"),
        (EXPECTED, EXPECTED | {"expected": ""}, "wrong 'expected'"),
        (EXPECTED, EXPECTED | {"expected": " "}, "an empty 'expected'"),
        (EXPECTED, EXPECTED | {"source": "\t"}, "an empty 'source'"),
        (EXPECTED, EXPECTED | {"source": 3}, "wrong 'source'"),
    ],
)
def test_a_bad_item_is_refused_with_its_line(
    tmp_path: Path, first: dict[str, object], second: dict[str, object], words: str
) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    with pytest.raises(InputError) as caught:
        read_items(path)
    assert str(caught.value).startswith(f"{path}:2")
    assert words in str(caught.value)


def test_a_suite_ships_with_tram() -> None:
    items = read_items("agreement")
    assert len(items) == 60
    assert all(isinstance(item, AgreementItem) for item in items)
    assert len({item.antecedent for item in items if isinstance(item, AgreementItem)}) == 60
    assert all(item.source.startswith("It ") for item in items)


def test_a_file_comes_before_a_suite_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_suite("agreement").name == "agreement.jsonl"
    (tmp_path / "agreement").write_text(json.dumps(EXPECTED))
    assert find_suite("agreement") == Path("agreement")
    with pytest.raises(InputError, match="no such file"):
        read_items("missing")
