"""Models and checkpoints on disk: whole or not there, refused where they do not fit, averaged as a mean."""

import errno
import json
import os
import resource
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import tram.model.tensors
from conftest import TINY, contents
from helpers import VOCABULARY, tiny_config
from tram.errors import InputError
from tram.files import replacing_folder
from tram.model.folder import (
    WEIGHTS,
    check_memory,
    find_model,
    load_model,
    load_tensors,
    load_weights,
    save_int8,
    save_model,
    weights,
)
from tram.model.transformer import Transformer
from tram.training.checkpoints import Checkpoints, average


def linear(value: float) -> nn.Linear:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(value)
    return layer


def save(checkpoints: Checkpoints, update: int, value: float = 1.0) -> None:
    checkpoints.save(update, linear(value), {"0.step": torch.tensor(float(update))}, {}, {"update": update})


def updates(checkpoints: Checkpoints) -> list[int]:
    return [checkpoint.update for checkpoint in checkpoints.all()]


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    save_model(Transformer(TINY, 23), tmp_path / "model")
    return tmp_path / "model"


def test_a_model_comes_back_bit_for_bit_from_a_moved_folder(tmp_path: Path) -> None:
    model = Transformer(TINY, 23)
    save_model(model, tmp_path / "here" / "model", card="# Mine\n")
    folder = Path(shutil.move(tmp_path / "here" / "model", tmp_path / "there"))
    again = load_model(folder)
    assert again.config == TINY
    assert not again.training
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(model).items())
    assert (folder / "README.md").read_text() == "# Mine\n"


@pytest.mark.parametrize("other", ["letter.txt", "train", "checkpoints", ".git"])
def test_a_model_does_not_replace_a_folder_with_other_files(other: str, model_folder: Path) -> None:
    """A run has a config.yaml, too, and beside it all its checkpoints."""
    (model_folder / other).mkdir()
    before = contents(model_folder)
    with pytest.raises(InputError, match=f"contains `{other}`, which a model folder would replace"):
        save_model(Transformer(TINY, 23), model_folder)
    assert contents(model_folder) == before
    assert (model_folder / other).exists()


@pytest.mark.parametrize("save_folder", [save_model, save_int8])
def test_a_loaded_model_does_not_change_with_its_file(save_folder: Callable[..., None], tmp_path: Path) -> None:
    """As when `cp` writes a new model into the folder of a running service."""
    save_folder(Transformer(TINY, 23), tmp_path)
    model = load_model(tmp_path)
    before = {name: value.clone() for name, value in weights(model).items()}
    with (tmp_path / WEIGHTS).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(bytes(size - size // 2))
    assert all(torch.equal(value, before[name]) for name, value in weights(model).items())


def test_whoever_may_read_the_folder_may_read_its_weights(model_folder: Path) -> None:
    assert {path.stat().st_mode for path in model_folder.iterdir()} == {(model_folder / "config.yaml").stat().st_mode}


def test_saving_again_replaces_the_whole_folder(model_folder: Path) -> None:
    (model_folder / "text.json").touch()  # of the model before
    save_model(Transformer(TINY, 29), model_folder)
    assert load_model(model_folder).vocabulary == 29
    assert sorted(path.name for path in model_folder.iterdir()) == ["README.md", "config.yaml", WEIGHTS]
    assert list(model_folder.parent.iterdir()) == [model_folder], "nothing temporary stays"


@pytest.mark.parametrize(
    ("place", "expected"), [("", ""), ("train/model", "train/model"), ("finetune/model", "finetune/model")]
)
def test_a_run_folder_means_its_last_model(model_folder: Path, tmp_path: Path, place: str, expected: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(model_folder, run / "train" / "model")
    shutil.copytree(model_folder, run / place, dirs_exist_ok=True)
    assert find_model(run) == run / expected


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        find_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a model folder"):
        find_model(tmp_path)


@settings(max_examples=25)
@given(st.data())
def test_a_truncated_weights_file_is_refused_wherever_it_ends(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / WEIGHTS
        save_file(weights(linear(1.0)), path)
        whole = path.read_bytes()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(InputError, match="is truncated or not a safetensors file"):
            load_tensors(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"plain text\n" * 50, b"\x80\x02}q\x00."])
def test_a_foreign_weights_file_is_refused(model_folder: Path, content: bytes) -> None:
    (model_folder / WEIGHTS).write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors: is truncated or not a safetensors file"):
        load_model(model_folder)


def test_weights_of_another_model_are_refused_by_the_tensor_at_fault(tmp_path: Path) -> None:
    layer, path = linear(0.0), tmp_path / WEIGHTS
    for tensors, problem in [
        ({"weight": torch.ones(2, 3)}, "lacks the tensor `bias`"),
        ({**weights(layer), "extra": torch.ones(1)}, "unknown tensor `extra`"),
        ({**weights(layer), "bias": torch.ones(5)}, r"`bias` has shape \[5\].*asks for \[2\]"),
    ]:
        save_file(tensors, path)
        with pytest.raises(InputError, match=problem):
            load_weights(layer, path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("vocabulary: 23", "vocabulary: 0"), "`vocabulary`"),
        (("version: 2", "version: 2\nvocabulry: 23"), "unknown key `vocabulry`; did you mean `vocabulary`"),
        (("heads: 2", "heads: many"), r"`model\.heads`"),
        (("version: 2", "version: 99"), "newer tram"),
        (("version: 2", "version: 0x" + "f" * 5000), "too large"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(model_folder: Path, change: tuple[str, str], problem: str) -> None:
    path = model_folder / "config.yaml"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(InputError, match=problem):
        load_model(model_folder)


def test_checkpoints_are_found_oldest_first(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.all() == []
    for update in (900, 5, 10_000):
        save(checkpoints, update)
    assert updates(checkpoints) == [5, 900, 10_000]
    assert checkpoints.at(900).progress() == {"update": 900}
    assert load_tensors(checkpoints.at(900).folder / "optimizer.safetensors")["0.step"] == 900


@given(st.sets(st.integers(1, 9), min_size=1), st.integers(1, 5), st.none() | st.integers(1, 9))
@settings(max_examples=25)
def test_pruning_keeps_the_last_and_the_best(saved: set[int], keep: int, best: int | None) -> None:
    with TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        for update in saved:
            checkpoints.at(update).folder.mkdir()
        (Path(folder) / ".00000003.0123456789abcdef.tmp").mkdir()
        checkpoints.prune(keep, best)
        assert updates(checkpoints) == sorted(set(sorted(saved)[-keep:]) | (saved & {best}))
        assert not list(Path(folder).glob(".*"))


@settings(max_examples=25)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=5))
def test_averaging_computes_the_arithmetic_mean(values: list[float]) -> None:
    with TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        for update, value in enumerate(values):
            save(checkpoints, update, value)
        layer = linear(7.0).double()
        average(checkpoints.all(), layer)
    mean = sum(values) / len(values)
    for parameter in layer.parameters():
        torch.testing.assert_close(parameter, torch.full_like(parameter, mean), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "3"])
def test_damaged_progress_is_refused_with_the_way_out(tmp_path: Path, text: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)
    (checkpoints.at(5).folder / "progress.json").write_text(text)
    with pytest.raises(InputError, match=r"progress\.json: is missing or damaged; remove the folder"):
        checkpoints.at(5).progress()


@pytest.mark.parametrize("failing", [1, 2])
def test_a_disk_that_fills_up_leaves_the_previous_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    save(checkpoints, 5, value=1.0)
    save(checkpoints, 6, value=2.0)
    before = contents(tmp_path)
    calls = 0

    def full(tensors: dict[str, Any], path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr(tram.model.tensors, "save_file", full)
    for update in (6, 7):
        calls = 0
        with pytest.raises(InputError, match=f"{update:08}: cannot be written .*No space.*free some space"):
            save(checkpoints, update, value=3.0)
    assert contents(tmp_path) == before


def test_a_file_limit_of_the_system_is_met_with_a_sentence(
    tmp_path: Path, file_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)
    before = contents(tmp_path)
    with file_limit(100), pytest.raises(InputError, match="00000006: cannot be written"):
        save(checkpoints, 6)
    assert contents(tmp_path) == before


def test_a_kill_while_saving_leaves_the_previous_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill runs no clean-up: what was half-written stays under its temporary name, and the next save removes it."""
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)

    def killed(tensors: dict[str, Any], path: Path) -> None:
        path.write_bytes(b"half")
        patch.setattr("tram.files.remove", lambda path: None)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tram.model.tensors, "save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            save(checkpoints, 6)
    assert len(list(tmp_path.iterdir())) == 2
    assert updates(checkpoints) == [5]
    save(checkpoints, 6)
    checkpoints.prune(2, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000005", "00000006"]


def test_a_folder_is_there_at_every_moment_of_its_replacement_but_one_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the old folder is being removed, the new one stands in its place already."""
    folder = tmp_path / "folder"
    seen = []

    def look(path: Path) -> None:
        if path.exists():
            seen.append(json.loads((folder / "x").read_text()))
            shutil.rmtree(path)

    for value in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr("tram.files.remove", look)
            with replacing_folder(folder) as temporary:
                (temporary / "x").write_text(json.dumps(value))
    assert seen == [2]
    assert list(tmp_path.iterdir()) == [folder]


# Damaged folders.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(Transformer(tiny_config(), VOCABULARY), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e7, -1e30, 1e300])
def test_weights_that_are_not_finite_or_far_too_large_are_refused(value: float, folder: Path) -> None:
    """With 1e30, layer norms make zeros of all states; 1e300 is infinite in float32."""
    tensors = {name: tensor.double() for name, tensor in load_tensors(folder / WEIGHTS).items()}
    next(iter(tensors.values())).view(-1)[-1] = value
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(InputError, match="not finite numbers"):
        load_model(folder)


def test_weights_that_are_integers_are_refused(folder: Path) -> None:
    tensors = load_tensors(folder / WEIGHTS)
    save_file({name: value.int() for name, value in tensors.items()}, folder / WEIGHTS)
    with pytest.raises(InputError, match="does not contain floating-point values"):
        load_model(folder)


@pytest.mark.parametrize(
    "change", [{"vocabulary": 10**9}, {"encoder_layers": 500}, {"d_model": 2**17}, {"max_positions": 10**6}]
)
def test_sizes_of_a_damaged_config_are_compared_before_memory_is_allocated(
    change: dict[str, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = yaml.safe_load((folder / "config.yaml").read_text())
    for key, value in change.items():
        (values if key in values else values["model"])[key] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(values))
    made: list[str] = []
    build = Transformer.__init__

    def watch(model: Transformer, *arguments: Any) -> None:
        build(model, *arguments)
        made.append(model.tokens.weight.device.type)

    monkeypatch.setattr(Transformer, "__init__", watch)
    with pytest.raises(InputError, match=r"shape|lacks"):
        load_model(folder)
    assert made == ["meta"]


def test_a_model_beyond_the_memory_of_the_machine_is_refused() -> None:
    check_memory(tiny_config(), VOCABULARY)
    with pytest.raises(InputError, match="this process may use"):
        check_memory(tiny_config(d_model=2**16, feed_forward=2**20, encoder_layers=400), 10**9)


def test_a_folder_of_a_newer_tram_says_so_whatever_else_it_has(folder: Path) -> None:
    with (folder / "config.yaml").open("a") as file:
        file.write("something_new: 1\n")
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("version: 2", "version: 3"))
    with pytest.raises(InputError, match="newer tram"):
        load_model(folder)


def test_the_limit_on_a_process_counts_and_so_do_tables_that_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(positions="sinusoidal", max_positions=10**6)
    check_memory(config, VOCABULARY)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (in_use + 10**6 * config.d_model, -1))
    check_memory(tiny_config(), VOCABULARY)
    with pytest.raises(InputError, match="choose smaller sizes"):
        check_memory(config, VOCABULARY)


def test_a_file_of_zeros_beyond_the_memory_is_not_read(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    path = tmp_path / "sparse.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + 2**42)  # takes no room on the disk
    with pytest.raises(InputError, match="is larger than"):
        load_tensors(path)
