"""A document's state as a file: exact, whole or not there, and refused where it does not belong."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from helpers import tiny_config, tiny_model
from tram.errors import InputError
from tram.translation.document_state import VERSION, DocumentState
from tram.translation.translator import Translator


@functools.cache
def translator() -> Translator:
    return Translator(tiny_model(tiny_config(memory={"slots": 3}), seed=5))


@pytest.fixture
def state() -> DocumentState:
    """Somewhere in a document: no memory is the first one any more."""
    state = translator().start()
    draw = torch.Generator().manual_seed(1)
    for unit in state.state.units.values():
        unit["M"] = torch.randn(unit["M"].shape, generator=draw, dtype=torch.float64)
    state.sentences = 4
    return state


def test_a_state_knows_both_sides_and_its_model() -> None:
    start = translator().start()
    assert sorted(start.state.units) == ["decoder.1.self", "encoder.1.self"]
    assert start.model == translator().fingerprint
    assert start.sentences == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_saved_and_loaded_a_state_is_the_same(state: DocumentState, tmp_path: Path, dtype: torch.dtype) -> None:
    for unit in state.state.units.values():
        unit["M"] = unit["M"].to(dtype)
    state.save(tmp_path / "new" / "state.safetensors")
    loaded = DocumentState.load(str(tmp_path / "new" / "state.safetensors"))
    assert (loaded.model, loaded.sentences) == (state.model, 4)
    assert loaded.state.units.keys() == state.state.units.keys()
    for name, unit in state.state.units.items():
        assert loaded.state[name].keys() == unit.keys()
        assert loaded.state[name]["M"].dtype == dtype
        assert torch.equal(loaded.state[name]["M"], unit["M"])


def test_a_file_is_as_large_after_many_sentences_as_before_the_first(state: DocumentState, tmp_path: Path) -> None:
    translator().start().save(tmp_path / "first")
    state.save(tmp_path / "later")
    assert (tmp_path / "first").stat().st_size == (tmp_path / "later").stat().st_size


def test_damage_that_leaves_valid_numbers_is_noticed(state: DocumentState, tmp_path: Path) -> None:
    """Otherwise the rest of the document would be translated after another memory, or numbered otherwise."""
    data = state.to_bytes()
    changed = [data.replace(b'"sentences":"4"', b'"sentences":"5"'), data[:-1] + bytes([data[-1] ^ 1])]
    for number, damaged in enumerate(changed):
        assert damaged != data
        (tmp_path / f"{number}").write_bytes(damaged)
        refused(tmp_path / f"{number}", "damaged")


def test_a_fork_shares_nothing(state: DocumentState) -> None:
    fork = state.fork()
    before = {name: unit["M"].clone() for name, unit in state.state.units.items()}
    for unit in fork.state.units.values():
        unit["M"].zero_()
        unit["more"] = torch.ones(1)
    fork.sentences += 1
    assert state.sentences == 4
    assert all(list(unit) == ["M"] for unit in state.state.units.values())
    assert all(torch.equal(state.state[name]["M"], value) for name, value in before.items())


def refused(path: Path, *words: str) -> None:
    """`load` refuses in one sentence that names the file."""
    with pytest.raises(InputError) as caught:
        DocumentState.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "state.safetensors", "there is no such file")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder")


@given(st.data())
@settings(max_examples=30)
def test_a_truncated_file_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("cut") / "state.safetensors"
    translator().start().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    refused(path, "damaged")


DAMAGES: dict[str, Callable[[dict[str, torch.Tensor], str], object]] = {
    "another shape": lambda tensors, name: tensors.update({name: tensors[name][:, :2].contiguous()}),
    "more documents": lambda tensors, name: tensors.update({name: tensors[name].repeat(2, 1, 1)}),
    "a missing unit": lambda tensors, name: tensors.pop(name),
    "an unknown unit": lambda tensors, name: tensors.update({"encoder.9.self/M": tensors[name].clone()}),
    "an unknown key": lambda tensors, name: tensors.update({f"{name}M": tensors[name].clone()}),
    "rows of many lengths": lambda tensors, name: tensors.update({f"{name}/lengths": torch.tensor([3])}),
    "no number": lambda tensors, name: tensors[name][0, 0].fill_(torch.nan),
    "infinity": lambda tensors, name: tensors[name][0, 0].fill_(-torch.inf),
    "an absurd number": lambda tensors, name: tensors[name][0, 0].fill_(3e38),
    "integers": lambda tensors, name: tensors.update({name: tensors[name].long()}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_before_it_is_used(damage: str, state: DocumentState, tmp_path: Path) -> None:
    tensors = state.fork().state.tensors()
    DAMAGES[damage](tensors, "decoder.1.self/M")
    about = {"version": str(VERSION), "model": state.model, "sentences": "4"}
    save_file(tensors, tmp_path / "damaged.safetensors", metadata=about)
    with pytest.raises(InputError):
        translator().checked(DocumentState.load(tmp_path / "damaged.safetensors"))


@given(st.binary(max_size=200))
@settings(max_examples=30)
def test_a_foreign_file_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("foreign") / "state.safetensors"
    path.write_bytes(content)
    refused(path, "no document state", "start the document again")


@pytest.mark.parametrize(
    "about",
    [
        None,
        {},
        {"version": "1"},
        {"version": "1", "model": "0123456789ab"},
        {"version": "one", "model": "x", "sentences": "2"},
        {"version": "1", "model": "x", "sentences": "two"},
    ],
)
def test_tensors_of_something_else_are_refused(tmp_path: Path, about: dict[str, str] | None) -> None:
    save_file({"decoder.1.self/M": torch.ones(1, 3, 16)}, tmp_path / "other.safetensors", metadata=about)
    refused(tmp_path / "other.safetensors", "no document state")


@pytest.mark.parametrize("about", [{"model": "x", "sentences": "2"}, {}])
def test_a_state_of_a_newer_tram_is_refused_by_its_version(tmp_path: Path, about: dict[str, str]) -> None:
    """Whatever else will be in it by then."""
    path = tmp_path / "new.safetensors"
    save_file({"M": torch.ones(1)}, path, metadata=about | {"version": str(VERSION + 1)})
    refused(path, f"version {VERSION + 1}", f"reads {VERSION}", "update tram")


def test_a_full_disk_leaves_the_last_state(
    state: DocumentState, tmp_path: Path, file_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "state.safetensors"
    translator().start().save(path)
    before = path.read_bytes()
    with file_limit(200), pytest.raises(InputError, match="cannot be written"):
        state.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]
    state.save(path)
    assert DocumentState.load(path).sentences == 4


def test_a_kill_while_saving_leaves_the_last_state(
    state: DocumentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.safetensors"
    translator().start().save(path)
    before = path.read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        state.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
