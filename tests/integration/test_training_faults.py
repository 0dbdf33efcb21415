"""What can go wrong in a run, and what it does then: other data, damaged checkpoints, divergence, other settings."""

import copy
import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tram.training.trainer
from conftest import TINY, Done, contents, made_up, refused, write_pair
from tram.config import Config, write_yaml
from tram.data.arrays import PreparedData
from tram.data.prepare import PrepareSettings, prepare
from tram.errors import InputError, RunError, UnreadableError
from tram.files import locked
from tram.model.folder import WEIGHTS, load_tensors, save_tensors
from tram.training.checkpoints import Checkpoints
from tram.training.run import train
from tram.training.signals import Interrupted
from tram.training.trainer import Trainer

Configure = Callable[..., Config]
Command = Callable[..., Done]
DOCUMENTS = {"start": "train", "window": (1, 3), "documents": 3, "tokens": 60, "warmup": 2, "lr_new": 0.01}
PARTS = [WEIGHTS, "optimizer.safetensors", "position.safetensors", "progress.json"]


def trainer_of(config: Config) -> Trainer:
    assert config.train is not None
    return Trainer(config, config.train, PreparedData.open(config.data), config.output / "train")


def trained_until(config: Config, *updates: int) -> None:
    """Train as if the run had been stopped after each of these updates, with a checkpoint."""
    for update in updates:
        trainer = trainer_of(config)
        trainer.resume()
        while trainer.standing.update < update:
            trainer.next_update()
            if trainer.standing.update % trainer.stage_config.checkpoint_every == 0:
                trainer.save()
        trainer.save()


def checkpoints(output: Path) -> Checkpoints:
    return Checkpoints(output / "train" / "checkpoints")


def remove_checksums(output: Path) -> None:
    """Make the checkpoints those of an earlier version, whose values must be checked."""
    for checkpoint in checkpoints(output).all():
        (checkpoint.folder / "checksums.json").unlink()


def model_of(output: Path, stage: str = "train") -> dict[str, Tensor]:
    """Return copies of the weights of a stage's model: what is loaded may change with its file."""
    return {name: value.clone() for name, value in load_tensors(output / stage / "model" / WEIGHTS).items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# Precision.


@pytest.mark.parametrize(("first", "second"), [("float32", "bfloat16"), ("float64", "float16"), ("float16", "auto")])
def test_stages_of_different_precision_run_one_after_the_other(
    configure: Configure, tmp_path: Path, first: str, second: str
) -> None:
    finetune = DOCUMENTS | {"updates": 3, "precision": second, "optimizer": "muon"}
    train(configure(tmp_path, updates=3, precision=first, finetune=finetune))
    for stage, precision in (("train", first), ("finetune", second)):
        dtype = torch.float64 if precision == "float64" else torch.float32
        assert {value.dtype for value in model_of(tmp_path, stage).values()} == {dtype}
        assert all(bool(value.isfinite().all()) for value in model_of(tmp_path, stage).values())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_in_float16_survives_overflows_and_continues_with_its_scale(
    configure: Configure, tmp_path: Path, optimizer: str
) -> None:
    """A scale far too large overflows in the first updates; these are skipped, and the scale is halved each time."""
    config = configure(tmp_path, precision="float16", optimizer=optimizer, updates=40)
    trainer = trainer_of(config)
    scaler = trainer.precision.scaler
    assert scaler is not None
    trainer.precision.restore(scaler.state_dict() | {"scale": 2.0**40})
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    norm = trainer.next_update().norm
    assert not math.isfinite(norm)
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    while trainer.standing.update < 30:
        trainer.next_update()
    assert all(bool(value.isfinite().all()) for value in trainer.model.parameters())
    assert not any(torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    trainer.save()
    again = trainer_of(config)
    again.resume()
    assert again.precision.state() == trainer.precision.state()
    assert trainer.precision.state()["scaler"]["scale"] < 2.0**40


# Divergence.


@pytest.mark.parametrize("evaluate_every", [1, 1000])
def test_a_diverged_training_stops_in_one_sentence_and_leaves_only_finite_weights(
    configure: Configure, tmp_path: Path, tram: Command, evaluate_every: int
) -> None:
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", evaluate_every=evaluate_every, checkpoint_every=1))
    done = tram("train", tmp_path / "config.yaml", "train.lr=1e30")
    assert done.code == 1
    (sentence,) = [line for line in done.err.splitlines() if line.startswith("tram: ")]
    assert "training diverged" in sentence
    assert "lower train.lr" in sentence
    assert "Traceback" not in done.err
    assert not (tmp_path / "run" / "train" / "model").exists()
    for checkpoint in checkpoints(tmp_path / "run").all():
        assert all(bool(value.isfinite().all()) for value in load_tensors(checkpoint.folder / WEIGHTS).values())


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_gradient_that_is_not_finite_changes_nothing(configure: Configure, tmp_path: Path, precision: str) -> None:
    trainer, other = (trainer_of(configure(tmp_path / name, precision=precision)) for name in ("one", "other"))
    for each in (trainer, other):
        if each.precision.scaler is not None:  # below 1, so that no overflow is tolerated
            each.precision.restore(each.precision.scaler.state_dict() | {"scale": 0.5})
        each.next_update()
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    hook = trainer.model.tokens.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(RunError, match=r"the norm of the gradient is (nan|inf) at update 2"):
        trainer.next_update()
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    hook.remove()
    for each in (trainer, other):
        each.next_update()
    assert same(dict(trainer.model.named_parameters()), dict(other.model.named_parameters()))


@pytest.mark.parametrize(("value", "shown"), [(torch.nan, "nan"), (-torch.inf, "inf"), (-1e7, "10000000.0")])
def test_weights_that_no_model_has_are_not_saved(
    value: float, shown: str, configure: Configure, tmp_path: Path
) -> None:
    trainer = trainer_of(configure(tmp_path))
    with torch.no_grad():
        trainer.model.tokens.weight[3, 1] = value
    with pytest.raises(RunError, match=rf"a value of `tokens\.weight` is {shown} at update"):
        trainer.save()
    assert not checkpoints(tmp_path).all()


# Other data.


@pytest.fixture(scope="module")
def other_data(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    """Other documents with the same subwords."""
    folder = tmp_path_factory.mktemp("other")
    pair = write_pair(folder, "train", made_up([4, 5, 6, 5], seed=9))
    prepare(folder / "data", [pair], [], PrepareSettings(held_out=0.2), text=prepared, workers=1)
    return folder / "data"


def test_a_run_is_not_continued_on_other_data(
    configure: Configure, prepared: Path, other_data: Path, tmp_path: Path, tram: Command
) -> None:
    config = configure(tmp_path / "run", updates=3)
    train(config)
    before = contents(tmp_path / "run")
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=6, data=other_data))
    keys = [json.loads((folder / "prepared.json").read_text())["key"] for folder in (prepared, other_data)]
    assert keys[0] != keys[1]
    refused(tram("train", tmp_path / "config.yaml"), str(other_data), *keys, "choose another output folder")
    assert contents(tmp_path / "run") == before


def test_a_run_is_continued_on_a_copy_of_its_data(configure: Configure, prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path / "copy")
    train(configure(tmp_path / "run", updates=3))
    train(configure(tmp_path / "run", updates=5, data=tmp_path / "copy"))
    assert checkpoints(tmp_path / "run").all()[-1].update == 5


def test_a_run_of_an_earlier_version_does_not_know_its_data_and_is_continued(
    configure: Configure, tmp_path: Path
) -> None:
    train(configure(tmp_path, updates=3))
    (tmp_path / "data.json").unlink()
    train(configure(tmp_path, updates=5))
    assert (tmp_path / "data.json").exists()


@pytest.mark.parametrize("text", ['{"key"', '{"key": null}', '{"key": ["x"]}', "[]"])
def test_a_damaged_data_file_is_refused(text: str, configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path, updates=2))
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(InputError, match=r"data\.json: is damaged; remove it if"):
        train(configure(tmp_path, updates=3))


# Damaged checkpoints.


@pytest.mark.parametrize(
    ("part", "damage"),
    [*((part, "truncated") for part in PARTS), (WEIGHTS, "empty"), ("progress.json", "empty"), (PARTS[1], "missing")],
)
def test_a_run_continues_before_a_damaged_checkpoint(
    configure: Configure, tmp_path: Path, tram: Command, part: str, damage: str
) -> None:
    stage = {"checkpoint_every": 2, "evaluate_every": 3, "dropout": 0.2}
    trained_until(configure(tmp_path / "run", updates=9, **stage), 5)
    train(configure(tmp_path / "whole", updates=9, **stage))
    newest = checkpoints(tmp_path / "run").all()[-1].folder
    data = (newest / part).read_bytes()
    if damage == "missing":
        (newest / part).unlink()
    else:
        (newest / part).write_bytes(data[: len(data) // 2] if damage == "truncated" else b"")
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=9, **stage))
    done = tram("train", tmp_path / "config.yaml")
    assert done.code == 0, done.err
    assert f"warning: a damaged checkpoint was renamed to 00000005.damaged: {newest / part}: " in done.err
    assert "continuing after update 4" in done.err
    last = [load_tensors(checkpoints(tmp_path / name).at(9).folder / WEIGHTS) for name in ("run", "whole")]
    assert same(*last)
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


def test_a_flipped_bit_in_the_last_checkpoint_does_not_change_the_run(configure: Configure, tmp_path: Path) -> None:
    """The last digit of a number in JSON, or the last byte of a tensor: the file remains readable."""
    stage = {"updates": 6, "checkpoint_every": 2, "evaluate_every": 6}
    trainer = finetuned(configure, tmp_path / "whole", **stage)
    while trainer.standing.update < 4:
        trainer.next_update()
        if trainer.standing.update % 2 == 0:
            trainer.save()
    parts = [*PARTS, "checksums.json"]
    for part in parts:
        shutil.copytree(tmp_path / "whole", tmp_path / part)
    finetuned(configure, tmp_path / "whole", **stage).run()
    for part in parts:
        path = tmp_path / part / "finetune" / "checkpoints" / "00000004" / part
        data = bytearray(path.read_bytes())
        place = next(n for n in reversed(range(len(data))) if path.suffix != ".json" or chr(data[n]).isdigit())
        data[place] ^= 1
        path.write_bytes(data)
        trainer = finetuned(configure, tmp_path / part, **stage)
        trainer.run()
        assert any("renamed to 00000004.damaged" in each for each in trainer.warnings)
        assert same(model_of(tmp_path / part, "finetune"), model_of(tmp_path / "whole", "finetune"))


def test_a_checkpoint_of_an_earlier_version_without_checksums_is_continued(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure(tmp_path / "run", updates=6, checkpoint_every=2)
    trained_until(config, 4)
    remove_checksums(tmp_path / "run")
    train(config)
    train(configure(tmp_path / "whole", updates=6, checkpoint_every=2))
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))
    assert not list(checkpoints(tmp_path / "run").folder.glob("*.damaged"))


def test_a_damaged_best_checkpoint_is_named_and_another_is_chosen(
    configure: Configure, tmp_path: Path, tram: Command
) -> None:
    config = configure(tmp_path / "run", updates=6, checkpoint_every=1, evaluate_every=3)
    trainer = trainer_of(config)
    for update in (1, 2, 3, 4):
        trainer.next_update()
        if update == 2:
            trainer.standing.best, trainer.standing.best_update = -1.0, update
        trainer.save()
    path = checkpoints(config.output).at(2).folder / WEIGHTS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    write_yaml(tmp_path / "config.yaml", config)
    done = tram("train", tmp_path / "config.yaml")
    assert done.code == 0
    assert f"warning: 00000002, the best checkpoint so far, is lost: {path}: is missing or damaged" in done.err
    assert "best: update 2" not in done.err


def damage_all_but_weights(folder: Path) -> None:
    for part in PARTS[1:]:
        (folder / part).write_bytes((folder / part).read_bytes()[:-3])


def test_of_the_best_checkpoint_only_the_weights_are_needed(configure: Configure, tmp_path: Path) -> None:
    whole, run = (configure(tmp_path / name, updates=4, checkpoint_every=1, evaluate_every=4) for name in "ab")
    for config in (whole, run):
        trainer = trainer_of(config)
        for update in (1, 2, 3):
            trainer.next_update()
            if update == 2:
                trainer.standing.best, trainer.standing.best_update = -1.0, update
            trainer.save()
    damage_all_but_weights(checkpoints(run.output).at(2).folder)
    for config in (whole, run):
        train(config)
    best = load_tensors(checkpoints(whole.output).at(2).folder / WEIGHTS)
    assert same(model_of(run.output), best)
    assert same(model_of(whole.output), best)


def test_of_the_checkpoints_to_average_only_the_weights_are_needed(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = {"updates": 8, "checkpoint_every": 2, "average": 3, "keep_checkpoints": 1, "evaluate_every": 8}
    for name in ("whole", "run"):
        config = configure(tmp_path / name, **stage)
        trained_until(config, 7)
        if name == "run":
            damage_all_but_weights(checkpoints(config.output).at(4).folder)
        losses = iter([3.0, 3.0, 2.0])  # of the last update, the best checkpoint and the mean
        monkeypatch.setattr(Trainer, "held_loss", lambda _, losses=losses: next(losses))
        train(config)
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_is_no_folder_in_the_place_of_a_checkpoint_is_set_aside(
    kind: str, configure: Configure, tmp_path: Path, tram: Command
) -> None:
    config = configure(tmp_path / "run", updates=6, checkpoint_every=2, average=3, evaluate_every=6)
    trained_until(config, 4)
    place = checkpoints(config.output).at(5).folder
    place.write_text("") if kind == "file" else place.symlink_to(tmp_path / "nothing")
    write_yaml(tmp_path / "config.yaml", config)
    done = tram("train", tmp_path / "config.yaml")
    assert done.code == 0, done.err
    assert f"warning: a damaged checkpoint was renamed to 00000005.damaged: {place}: is not a folder" in done.err


@pytest.mark.parametrize("step", ["rename", "rmtree"])
def test_a_damaged_checkpoint_that_cannot_be_renamed_is_one_sentence(
    step: str, configure: Configure, tmp_path: Path, tram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(tmp_path / "run", updates=6, checkpoint_every=2)
    trained_until(config, 4)
    newest = checkpoints(config.output).at(4).folder
    (newest / WEIGHTS).write_bytes(b"")
    write_yaml(tmp_path / "config.yaml", config)

    def refuse(*_: object, **__: object) -> None:  # a mount, for example
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    with monkeypatch.context() as patch:
        if step == "rmtree":
            (newest.with_name("00000004.damaged") / "below").mkdir(parents=True)
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        else:
            patch.setattr(os, "rename", refuse)
        refused(tram("train", tmp_path / "config.yaml"), f"{newest}: cannot be written")
    assert tram("train", tmp_path / "config.yaml").code == 0


def test_a_checkpoint_that_cannot_be_removed_is_one_sentence(
    configure: Configure, tmp_path: Path, tram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(tmp_path / "run", updates=6, checkpoint_every=2, keep_checkpoints=1)
    trained_until(config, 4)
    old = checkpoints(config.output).at(1).folder
    old.write_text("not a checkpoint")
    write_yaml(tmp_path / "config.yaml", config)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        refused(tram("train", tmp_path / "config.yaml"), f"{old}: cannot be written")
    assert tram("train", tmp_path / "config.yaml").code == 0


def test_of_the_temporary_folders_only_those_of_checkpoints_are_removed(configure: Configure, tmp_path: Path) -> None:
    trainer = trainer_of(configure(tmp_path))
    folder = trainer.checkpoints.folder
    folder.mkdir(parents=True)
    notes, leftover = folder / ".notes.tmp", folder / ".00000007.0123456789abcdef.tmp"
    notes.write_text("precious")
    leftover.mkdir()
    trainer.next_update()
    trainer.save()
    assert notes.read_text() == "precious"
    assert not leftover.exists()


def test_a_model_that_the_run_did_not_write_is_refused_and_written_again(
    configure: Configure, tmp_path: Path, tram: Command
) -> None:
    config = configure(tmp_path / "run", updates=3, finetune=DOCUMENTS | {"updates": 2})
    train(config)
    before = [copy.deepcopy(model_of(config.output, stage)) for stage in ("train", "finetune")]  # not mapped
    write_yaml(tmp_path / "config.yaml", config)
    for stage in ("train", "finetune"):
        path = config.output / stage / "model" / WEIGHTS
        data = bytearray(path.read_bytes())
        data[-2] ^= 1
        path.write_bytes(data)
        refused(tram("train", tmp_path / "config.yaml"), str(path), "not the file that this run wrote", "remove")
        shutil.rmtree(path.parent)
        assert tram("train", tmp_path / "config.yaml").code == 0
    assert all(map(same, before, [model_of(config.output, stage) for stage in ("train", "finetune")]))


def test_damaged_checkpoints_do_not_make_a_run_of_more_updates_finished(configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path, updates=3))
    for checkpoint in checkpoints(tmp_path).all():
        (checkpoint.folder / "optimizer.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"optimizer\.safetensors: is missing or damaged; remove the folder"):
        train(configure(tmp_path, updates=5))


@pytest.mark.parametrize("value", [b'{"update": 4, "tokens": -1}', b"[]", b"[" * 50_000, b'{"update": 1e400}', b"\xff"])
def test_nonsense_in_progress_is_damage(configure: Configure, tmp_path: Path, value: bytes) -> None:
    config = configure(tmp_path, updates=9, checkpoint_every=2)
    trained_until(config, 4)
    remove_checksums(tmp_path)
    (checkpoints(tmp_path).at(4).folder / "progress.json").write_bytes(value)
    trainer = trainer_of(config)
    trainer.resume()
    assert trainer.standing.update == 2


@pytest.mark.parametrize("value", [b"{}", b'{"ended": 1e400}', b""])
def test_a_finished_run_with_damaged_progress_is_continued_before_it(
    configure: Configure, tmp_path: Path, value: bytes
) -> None:
    """Whether it has ended is read from the progress, too."""
    stage = {"checkpoint_every": 2, "evaluate_every": 2}
    train(configure(tmp_path / "run", updates=4, **stage))
    (checkpoints(tmp_path / "run").at(4).folder / "progress.json").write_bytes(value)
    train(configure(tmp_path / "run", updates=6, **stage))
    train(configure(tmp_path / "whole", updates=6, **stage))
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


def test_a_checkpoint_with_weights_that_are_not_finite_is_damaged(configure: Configure, tmp_path: Path) -> None:
    from tram.model.folder import save_tensors

    config = configure(tmp_path, updates=9, checkpoint_every=2)
    trained_until(config, 4)
    remove_checksums(tmp_path)
    path = checkpoints(tmp_path).at(4).folder / WEIGHTS
    tensors = load_tensors(path)
    tensors["tokens.weight"][0, 0] = torch.nan
    save_tensors(path, tensors)
    trainer = trainer_of(config)
    trainer.resume()
    assert trainer.standing.update == 2


def test_if_the_best_checkpoint_is_lost_with_a_damaged_one_the_run_ends_with_another(
    configure: Configure, tmp_path: Path
) -> None:
    """Update 4 was better than 2, so 2 was removed; then 4 is damaged, and 3 still names 2 as the best."""
    config = configure(tmp_path, updates=9, checkpoint_every=1, evaluate_every=4)
    trainer = trainer_of(config)
    for update in (1, 2, 3, 4):
        trainer.next_update()
        if update in (2, 4):
            trainer.standing.best, trainer.standing.best_update = 1 / update, update
        trainer.save()
    shutil.rmtree(checkpoints(tmp_path).at(2).folder)
    (checkpoints(tmp_path).at(4).folder / "progress.json").unlink()
    assert train(config) == tmp_path / "train" / "model"


@pytest.mark.parametrize("fate", ["missing", "a file"])
def test_a_run_without_its_checkpoints_is_finished_but_does_not_get_more_updates(
    fate: str, configure: Configure, tmp_path: Path, tram: Command
) -> None:
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=3))
    assert tram("train", tmp_path / "config.yaml").code == 0
    folder, before = checkpoints(tmp_path / "run").folder, model_of(tmp_path / "run")
    shutil.rmtree(folder)
    if fate == "a file":
        folder.touch()
    assert tram("train", tmp_path / "config.yaml").code == 0
    refused(tram("train", tmp_path / "config.yaml", "train.updates=4"), f"{folder}: has no checkpoint", "3 of 4")
    assert same(model_of(tmp_path / "run"), before)


# Other settings.


def test_updates_are_not_raised_during_a_cooldown(configure: Configure, tmp_path: Path, tram: Command) -> None:
    stage = {"cooldown": 4, "evaluate_every": 100}
    config = configure(tmp_path / "run", updates=10, **stage)
    write_yaml(config.output / "config.yaml", config)
    trained_until(config, 7)
    before = contents(config.output)
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=20, **stage))
    refused(tram("train", tmp_path / "config.yaml"), "7 updates", "train.updates changed from 10 to 20", "set it to 10")
    assert contents(config.output) == before


def test_updates_may_be_raised_before_the_cooldown(configure: Configure, tmp_path: Path) -> None:
    stage = {"cooldown": 4, "evaluate_every": 100}
    for updates in (10, 14):
        config = configure(tmp_path / "run", updates=updates, **stage)
        if updates == 10:
            write_yaml(config.output / "config.yaml", config)
            trained_until(config, 6)
    train(config)
    train(configure(tmp_path / "whole", updates=14, **stage))
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


def test_the_average_of_an_interrupted_run_is_that_of_an_uninterrupted_one(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = {"updates": 12, "checkpoint_every": 2, "average": 3, "keep_checkpoints": 1, "evaluate_every": 12}
    trained_until(configure(tmp_path / "parts", **stage), 3, 5, 7, 9, 11)
    for name in ("parts", "whole"):
        losses = iter([3.0, 3.0, 2.0])  # of the last update, the best checkpoint and the mean
        monkeypatch.setattr(Trainer, "held_loss", lambda _, losses=losses: next(losses))
        train(configure(tmp_path / name, **stage))
    assert same(model_of(tmp_path / "parts"), model_of(tmp_path / "whole"))
    last = load_tensors(checkpoints(tmp_path / "whole").at(12).folder / WEIGHTS)
    assert not same(model_of(tmp_path / "whole"), last), "the mean was taken"


@pytest.mark.parametrize("damage", ["truncated", "another shape", "lacks a tensor"])
def test_a_damaged_checkpoint_costs_the_average_but_not_the_run(
    configure: Configure, tmp_path: Path, tram: Command, damage: str
) -> None:
    stage = {"updates": 6, "checkpoint_every": 2, "evaluate_every": 6}
    train(configure(tmp_path / "whole", **stage))
    config = configure(tmp_path / "run", average=3, **stage)
    trained_until(config, 5)
    remove_checksums(tmp_path / "run")
    path = checkpoints(tmp_path / "run").at(2).folder / WEIGHTS
    tensors = load_tensors(path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-8])
    else:
        name = "tokens.weight"
        save_tensors(path, {name: tensors[name].T} if damage == "another shape" else {name: tensors[name]})
    write_yaml(tmp_path / "config.yaml", config)
    done = tram("train", tmp_path / "config.yaml")
    assert done.code == 0, done.err
    assert f"warning: the mean of the last 3 checkpoints is not tried: {path}: " in done.err
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Put something in the place of a file whose bytes the system cannot read: its disk, for example, has a fault."""
    aside = path.with_name("aside")
    path.rename(aside)
    path.symlink_to("/proc/self/mem")
    try:
        yield
    finally:
        aside.replace(path)


needs_proc = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("update", [2, 4])
def test_a_checkpoint_that_cannot_be_read_now_is_neither_renamed_nor_forgotten(
    update: int, configure: Configure, tmp_path: Path
) -> None:
    """The last one, or the best one."""
    config = configure(tmp_path, updates=9, checkpoint_every=2)
    trained_until(config, 4)
    progress = checkpoints(tmp_path).at(4).folder / "progress.json"
    progress.write_text(json.dumps(json.loads(progress.read_text()) | {"best": 1.0, "best_update": 2}))
    (progress.parent / "checksums.json").unlink()
    with unreadable(checkpoints(tmp_path).at(update).folder / ("checksums.json" if update == 2 else "progress.json")):
        trainer = trainer_of(config)
        with pytest.raises(UnreadableError, match=r"json: cannot be read .Input/output error.; check the disk"):
            trainer.resume()
    trainer = trainer_of(config)
    trainer.resume()
    assert (trainer.standing.update, trainer.standing.best_update) == (4, 2)


@needs_proc
def test_a_checkpoint_that_cannot_be_read_now_does_not_cost_the_average(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the run is finished with another model, which the second stage starts from."""
    stage = {"updates": 6, "checkpoint_every": 2, "average": 3, "evaluate_every": 6}
    for name in ("whole", "run"):
        losses = iter([3.0, 3.0, 2.0] if name == "whole" else [3.0, 3.0, 3.0, 2.0])
        monkeypatch.setattr(Trainer, "held_loss", lambda _, losses=losses: next(losses))
        config = configure(tmp_path / name, **stage)
        if name == "run":
            trained_until(config, 5)
            with unreadable(checkpoints(tmp_path / "run").at(2).folder / "checksums.json"):
                with pytest.raises(UnreadableError, match=r"checksums\.json: cannot be read"):
                    train(config)
                assert not (tmp_path / "run" / "train" / "model").exists()
        train(config)
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


@needs_proc
def test_a_run_whose_record_of_its_model_cannot_be_read_now_is_not_called_finished(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure(tmp_path / "run", updates=2)
    train(config)
    with unreadable(tmp_path / "run" / "train" / "finished.json"), pytest.raises(UnreadableError):
        train(config)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_the_lines_of_metrics_are_on_the_disk_before_the_checkpoint_after_them(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, the run continues from the checkpoint and would not write them again."""
    flushed: list[tuple[str, int]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        flushed.append((path.name, path.stat().st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    train(configure(tmp_path, updates=4, checkpoint_every=2, evaluate_every=3))
    text = (tmp_path / "train" / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    for update in (2, 4):
        lines = [line for line in text if json.loads(line)["update"] <= update]
        place = max(n for n, (name, _) in enumerate(flushed) if name.startswith(f".{update:08}."))
        assert ("metrics.jsonl", len(b"".join(lines))) in flushed[:place]


def test_a_file_in_the_place_of_the_tensorboard_folder_is_named(
    configure: Configure, tmp_path: Path, tram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = lambda folder, purge_step: os.makedirs(folder, exist_ok=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=1))
    place = tmp_path / "run" / "train" / "tensorboard"
    place.parent.mkdir(parents=True)
    place.touch()
    refused(tram("train", tmp_path / "config.yaml"), f"{place}: cannot be written (File exists)")


# Frozen parameters.


def finetuned(configure: Configure, output: Path, **settings: Any) -> Trainer:
    finetune = DOCUMENTS | {"updates": 4, "weight_decay": 0.1, "warmup": 0, **settings}
    config = configure(output, updates=3, finetune=finetune)
    assert config.finetune is not None
    assert config.train is not None
    first = output / "train" / "model"
    if not first.exists():
        Trainer(config, config.train, PreparedData.open(config.data), output / "train").run()
    return Trainer(config, config.finetune, PreparedData.open(config.data), output / "finetune", first)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("freeze", ["base", ["encoder.*", "tokens.weight"], "none"])
def test_frozen_parameters_do_not_move_and_the_others_do(
    configure: Configure, tmp_path: Path, optimizer: str, freeze: Any
) -> None:
    trainer = finetuned(configure, tmp_path, optimizer=optimizer, freeze=freeze)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.run()
    if freeze == "base":
        frozen = set(model_of(tmp_path))
    else:
        frozen = {name for name in before if freeze != "none" and name.startswith(("encoder.", "tokens."))}
    last = load_tensors(trainer.checkpoints.all()[-1].folder / WEIGHTS)
    assert {name for name in before if torch.equal(last[name], before[name])} == frozen
    state = load_tensors(trainer.checkpoints.all()[-1].folder / "optimizer.safetensors")
    assert {name.rpartition("/")[0] for name in state} == before.keys() - frozen
    again = finetuned(configure, tmp_path, optimizer=optimizer, freeze=freeze)
    again.resume()
    assert again.standing.update == 4


def test_a_context_that_is_trained_further_is_no_part_of_the_base(configure: Configure, tmp_path: Path) -> None:
    first = finetuned(configure, tmp_path, freeze="base")
    first.run()
    config, stage = first.config, first.config.finetune
    assert stage is not None
    again = Trainer(config, stage, PreparedData.open(config.data), tmp_path / "again", tmp_path / "finetune" / "model")
    trained = {name for name, parameter in again.model.named_parameters() if parameter.requires_grad}
    assert trained == {name for name, parameter in first.model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("freeze", "problem"),
    [(["encoder.*", "nothing.*"], "no parameter matches `nothing"), (["*"], "leaves no parameter to train")],
)
def test_a_pattern_that_freezes_nothing_or_everything_is_refused(
    configure: Configure, tmp_path: Path, freeze: list[str], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        finetuned(configure, tmp_path, freeze=freeze)


# Two runs in one folder, and signals.


def test_a_second_run_in_the_same_folder_is_refused(configure: Configure, tmp_path: Path, tram: Command) -> None:
    config = configure(tmp_path / "run")
    write_yaml(tmp_path / "config.yaml", config)
    with locked(config.output):
        refused(tram("train", tmp_path / "config.yaml"), "another tram is writing to", str(config.output))
        assert not list(config.output.iterdir())


@pytest.mark.parametrize("fate", ["removed", "moved", "replaced"])
def test_a_run_whose_folder_is_removed_writes_no_checkpoint_there(
    fate: str, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key of its data beside it, a new run would continue such a checkpoint on any data."""
    config = configure(tmp_path / "run", updates=9, checkpoint_every=2)
    update = Trainer.next_update

    def then_lose_the_folder(trainer: Trainer) -> Any:
        losses = update(trainer)
        if trainer.standing.update == 4:
            config.output.rename(tmp_path / "moved")
            if fate == "removed":
                shutil.rmtree(tmp_path / "moved")
            if fate == "replaced":
                config.output.mkdir()
        return losses

    monkeypatch.setattr(Trainer, "next_update", then_lose_the_folder)
    with pytest.raises(InputError, match="run: was removed or replaced while it was written to"):
        train(config)
    assert not contents(config.output)
    if fate != "removed":
        assert [each.update for each in checkpoints(tmp_path / "moved").all()] == [2]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "phase"), [(signal.SIGTERM, "while it starts"), (signal.SIGINT, "while it trains")])
def test_a_stopped_run_ends_in_one_sentence(
    configure: Configure, tmp_path: Path, number: signal.Signals, phase: str
) -> None:
    output = tmp_path / "run"
    write_yaml(tmp_path / "config.yaml", configure(output, updates=10**9, evaluate_every=10**6))
    command = [sys.executable, "-m", "tram", "train", str(tmp_path / "config.yaml")]
    file = output / ("config.yaml" if phase == "while it starts" else "train/checkpoints/00000005")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: file.exists() or process.poll() is not None)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    sentence = errors.splitlines()[-1]
    if phase == "while it trains":
        assert process.returncode == 128 + number
        assert sentence == "stopped; run the same command again to continue"
    else:  # the first update may have begun
        assert process.returncode == 128 + number
        assert "stopped" in sentence
    with locked(output):
        pass


def same_parts(left: Path, right: Path) -> bool:
    """Whether two checkpoints are equal, but for the seconds they took."""
    progress = [json.loads((folder / "progress.json").read_text()) | {"seconds": 0} for folder in (left, right)]
    tensors = [[load_tensors(folder / part) for part in PARTS[:-1]] for folder in (left, right)]
    return progress[0] == progress[1] and all(map(same, *tensors))


@pytest.mark.parametrize("every", [7])
def test_a_run_that_is_stopped_anywhere_ends_as_if_it_had_not_been(
    every: int, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may arrive between the passes of an update, before its step, in an evaluation or while a run ends."""
    documents = DOCUMENTS | {"updates": 5, "evaluate_every": 2, "checkpoint_every": 3, "patience": 0, "average": 2}
    stage = {"updates": 4, "accumulate": 2, "tokens": 100, "evaluate_every": 2, "checkpoint_every": 3, "watch": "bleu"}
    whole, run = (configure(tmp_path / name, finetune=documents, **stage) for name in ("whole", "run"))
    train(whole)
    calls = 0

    @contextmanager
    def stopping(_: bool) -> Iterator[Callable[[], bool]]:
        def stopped() -> bool:
            nonlocal calls
            calls += 1
            return calls % every == 0

        yield stopped

    monkeypatch.setattr("tram.training.trainer.stop_signals", stopping)
    interrupted = 0
    while True:
        try:
            train(run)
            break
        except Interrupted:
            interrupted += 1
            assert interrupted < 100
    assert interrupted > 3
    for name in ("train", "finetune"):
        assert same(model_of(run.output, name), model_of(whole.output, name))
        last = [Checkpoints(config.output / name / "checkpoints").all()[-1].folder for config in (run, whole)]
        assert same_parts(*last)
        lines = [
            [{**json.loads(line), "seconds": 0, "tokens_per_second": 0} for line in text.splitlines()]
            for text in ((config.output / name / "metrics.jsonl").read_text() for config in (run, whole))
        ]
        assert lines[0] == lines[1]


def test_a_run_stopped_between_its_last_update_and_its_model_is_not_finished(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more updates than before, the model of fewer updates was taken for the finished one."""
    stage = {"evaluate_every": 2, "checkpoint_every": 4}
    train(configure(tmp_path / "run", updates=4, **stage))
    before = model_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", lambda trainer, _: trainer.save())
        train(configure(tmp_path / "run", updates=8, **stage))
    assert same(model_of(tmp_path / "run"), before)
    train(configure(tmp_path / "run", updates=8, **stage))
    train(configure(tmp_path / "whole", updates=8, **stage))
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))
    assert not same(model_of(tmp_path / "run"), before)


def test_a_kill_after_a_model_is_written_does_not_make_a_later_run_finished(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before finished.json was written; then killed again at the end of more updates."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    stage = {"evaluate_every": 2, "checkpoint_every": 4}
    for updates, step in ((4, "checksums"), (8, "save_model")):
        with monkeypatch.context() as patch:
            patch.setattr(f"tram.training.trainer.{step}", killed)
            with pytest.raises(KeyboardInterrupt):
                train(configure(tmp_path / "run", updates=updates, **stage))
    for name in ("run", "whole"):
        train(configure(tmp_path / name, updates=8, **stage))
    assert same(model_of(tmp_path / "run"), model_of(tmp_path / "whole"))


def test_a_signal_in_an_evaluation_does_not_wait_for_its_end(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(tmp_path, updates=4, evaluate_every=2, checkpoint_every=4)
    losses = Trainer.held_loss

    def signalled(trainer: Trainer) -> float:
        signal.raise_signal(signal.SIGTERM)
        loss = losses(trainer)
        raise AssertionError(f"the evaluation came to its end: {loss}")

    monkeypatch.setattr(Trainer, "held_loss", signalled)
    with pytest.raises(Interrupted):
        train(config)
    assert checkpoints(tmp_path).all()[-1].load().standing.evaluation_due


def test_a_signal_while_a_model_is_written_ends_the_run_before_its_second_stage(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(tmp_path, updates=2, finetune=DOCUMENTS | {"updates": 1})
    save = tram.training.trainer.save_model

    def signalled(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        save(*arguments)

    monkeypatch.setattr(tram.training.trainer, "save_model", signalled)
    with pytest.raises(Interrupted):
        train(config)
    assert (tmp_path / "train" / "model" / WEIGHTS).exists()
    assert not (tmp_path / "finetune").exists()


def test_the_second_signal_is_no_longer_caught() -> None:
    from tram.training.signals import stop_signals

    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append("outer"))
    try:
        with stop_signals(True) as stopped:
            assert not stopped()
            signal.raise_signal(signal.SIGTERM)
            assert stopped()
            assert not received
            signal.raise_signal(signal.SIGTERM)
            assert received == ["outer"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("name", ["text.json", "held.jsonl"])
def test_a_file_that_only_the_end_needs_is_read_before_the_first_update(
    name: str, prepared: Path, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    (data / name).unlink()
    monkeypatch.setattr(Trainer, "next_update", lambda trainer: pytest.fail("trained in vain"))
    with pytest.raises(InputError, match=name):
        train(configure(tmp_path / "run", data=data, watch="bleu"))


def test_the_start_of_the_second_stage_is_checked_before_the_first(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "next_update", lambda trainer: pytest.fail("trained in vain"))
    with pytest.raises(InputError, match="there is no such folder"):
        train(configure(tmp_path / "run", finetune=DOCUMENTS | {"start": str(tmp_path / "missing")}))


@pytest.mark.parametrize(
    ("finetune", "problem"),
    [
        ({"freeze": ["*"]}, "leaves no parameter to train"),
        ({"freeze": "base", "context": None}, "leaves no parameter to train"),
        ({"freeze": "base", "start": "nothing"}, "base freezes no parameter, because none is loaded"),
        ({"freeze": ["encoder.*", "missing.*"]}, "no parameter matches `missing"),
        ({"context": None, "unit": {"kind": "block", "tokens": 8}}, "needs a separator"),
        ({"context": {"kind": "selective", "sentences": 1}, "window": "document"}, "at most 1; cut it into parts"),
    ],
)
def test_settings_of_the_second_stage_are_checked_before_the_first(
    finetune: dict[str, Any], problem: str, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "next_update", lambda trainer: pytest.fail("trained in vain"))
    with pytest.raises(InputError, match=problem):
        train(configure(tmp_path / "run", finetune=DOCUMENTS | finetune))
    assert not (tmp_path / "run").exists(), "a corrected config may be given for the same folder"


def test_a_warning_of_the_translations_in_training_is_one_sentence(
    configure: Configure, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    short = TINY.model_copy(update={"max_length": 4})
    train(configure(tmp_path / "run", model=short, updates=2, evaluate_every=2, watch="bleu"))
    warnings = [line for line in capfd.readouterr().err.splitlines() if "split for translation" in line]
    assert [line[:9] for line in warnings] == ["warning: "]


def test_a_wrong_setting_of_accelerate_is_one_sentence(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "zzz")
    with pytest.raises(InputError, match="accelerate: 'ZZZ' is not a valid DynamoBackend; correct the environment"):
        train(configure(tmp_path / "run"))


def test_the_command_closes_its_connections_to_other_processes(
    configure: Configure, tmp_path: Path, tram: Command
) -> None:
    """Left open, their threads aborted every second process at its end: "terminate called", exit code 134."""
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=1))
    for code, settings in ((0, ()), (2, ("train.lr=0.5",))):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            assert tram("train", tmp_path / "config.yaml", *settings).code == code
            assert not torch.distributed.is_initialized()
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()


def test_a_token_table_thatis_smaller_than_the_data_needs_is_refused(configure: Configure, tmp_path: Path) -> None:
    small = TINY.model_copy(update={"source_vocabulary": 5})
    with pytest.raises(InputError, match="source_vocabulary is 5, but the source of"):
        train(configure(tmp_path / "run", model=small))
