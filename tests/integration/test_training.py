"""Training: what an update is, how a run ends, and that neither kills nor processes change the weights."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tram.training.run
import tram.training.trainer
from conftest import Done, contents, made_up, refused, snapshot, write_pair
from tram.config import Config, MemoryConfig, write_yaml
from tram.data.arrays import PreparedData
from tram.data.batches import SentencePlan, collate
from tram.data.corpus import ParallelDocument, write_parallel
from tram.data.prepare import PrepareSettings, prepare
from tram.errors import InputError
from tram.model.folder import WEIGHTS, load_tensors, weights
from tram.training.checkpoints import Checkpoints
from tram.training.run import train
from tram.training.stages import Processes
from tram.training.trainer import Trainer

Configure = Callable[..., Config]
Command = Callable[..., Done]
ENDLESS = 1_000_000  # updates of a run that only a signal ends


def checkpoints(output: Path) -> list[int]:
    return [checkpoint.update for checkpoint in Checkpoints(output / "train" / "checkpoints").all()]


def final_weights(output: Path, stage: str = "train") -> dict[str, Tensor]:
    """Of the last update, whichever was best."""
    last = Checkpoints(output / stage / "checkpoints").all()[-1]
    return load_tensors(last.folder / WEIGHTS)


def metrics(output: Path, stage: str = "train") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / stage / "metrics.jsonl").read_text().splitlines()]


def trainer_of(config: Config, first: Path | None = None) -> Trainer:
    """The trainer of the last stage that a config names, from the model folder `first`."""
    stage, name = (config.train, "train") if config.finetune is None else (config.finetune, "finetune")
    assert stage is not None
    return Trainer(config, stage, PreparedData.open(config.data), config.output / name, first)


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def scripted(monkeypatch: pytest.MonkeyPatch, losses: list[float]) -> None:
    """Let the evaluations find these held-out losses, one after the other."""
    given_losses = iter(losses)
    monkeypatch.setattr(Trainer, "held_loss", lambda _: next(given_losses))


# The learning rate, which tests/test_optim.py looks at more closely.


def test_the_rate_of_every_update_is_logged(run: Path) -> None:
    rates = {line["update"]: line["lr"] for line in metrics(run) if "lr" in line}
    assert sorted(rates) == list(range(1, 61))
    assert rates[5] == pytest.approx(0.005)
    assert rates[10] == pytest.approx(0.01)
    assert rates[40] == pytest.approx(0.005)


# What an update is.


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trainer], dict[str, Tensor]]:
    """Gives the gradients with which a trainer makes its next update."""

    def of(trainer: Trainer) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}

        def step() -> None:
            found.update({name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None})

        monkeypatch.setattr(trainer.optimizer, "step", step)
        trainer.next_update()
        return found

    return of


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_the_gradient_is_the_mean_over_all_tokens_of_an_update(
    configure: Configure,
    prepared: Path,
    tmp_path: Path,
    gradients: Callable[[Trainer], dict[str, Tensor]],
    accumulate: int,
) -> None:
    config = configure(tmp_path, precision="float64", dropout=0.0, clip=0, accumulate=accumulate)
    data = PreparedData.open(prepared)
    trainer = trainer_of(config)
    found = gradients(trainer)
    plan = SentencePlan(data.split("train"), trainer.stage_config.tokens, config.model.max_length, config.seed)
    assert len(plan.epoch(0)) >= 2, "of different lengths and sizes"
    rows = [row for batch in (plan.epoch(0) + plan.epoch(1))[:accumulate] for row in batch.tolist()]
    batch = collate(data.split("train"), rows, config.model.max_length)
    logits = trainer.model(batch.source, batch.decoder_input)
    loss = F.cross_entropy(logits.flatten(0, -2), batch.labels.flatten(), ignore_index=0, label_smoothing=0.1)
    expected = torch.autograd.grad(loss, list(trainer.model.parameters()))
    for (name, _), gradient in zip(trainer.model.named_parameters(), expected, strict=True):
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12)


def test_gradients_are_clipped(
    configure: Configure, prepared: Path, tmp_path: Path, gradients: Callable[[Trainer], dict[str, Tensor]]
) -> None:
    config = configure(tmp_path, clip=0.01)
    found = gradients(trainer_of(config))
    norm = torch.cat([gradient.flatten() for gradient in found.values()]).norm()
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_training_lowers_the_loss(run: Path) -> None:
    losses = [line["nll"] for line in metrics(run) if "nll" in line]
    held = [line["held_loss"] for line in metrics(run) if "held_loss" in line]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert held[-1] < held[0]


# How a run ends.


def test_patience_ends_a_run_and_the_best_model_is_taken(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [5, 4, 3, 3.5, 3])
    model = train(
        configure(tmp_path, updates=100, evaluate_every=1, patience=2, keep_checkpoints=1, checkpoint_every=50)
    )
    assert max(line["update"] for line in metrics(tmp_path)) == 5
    assert checkpoints(tmp_path) == [3, 5], "the best and the last"
    best = load_tensors(tmp_path / "train" / "checkpoints" / "00000003" / WEIGHTS)
    assert same(load_tensors(model / WEIGHTS), best)
    assert not same(best, final_weights(tmp_path))


def test_an_ended_run_stays_ended(configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between its last checkpoint and the model folder, it must not train on."""
    config = configure(tmp_path, updates=100, evaluate_every=1, patience=1)
    scripted(monkeypatch, [3, 4])
    monkeypatch.setattr(tram.training.trainer, "save_model", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train(config)
    before = final_weights(tmp_path)
    monkeypatch.undo()
    train(config)
    assert same(final_weights(tmp_path), before)


def test_with_more_patience_an_ended_run_continues_as_if_it_had_never_ended(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = {"updates": 6, "evaluate_every": 1}
    for name, *patience in (("parts", 1, 0), ("whole", 0)):
        scripted(monkeypatch, [3, 4, 4, 2, 5, 5])
        for each in patience:
            train(configure(tmp_path / name, patience=each, **stage))
    assert same(final_weights(tmp_path / "parts"), final_weights(tmp_path / "whole"))
    models = [load_tensors(tmp_path / name / "train" / "model" / WEIGHTS) for name in ("parts", "whole")]
    assert same(*models), "that of update 4"


def test_the_last_few_checkpoints_are_kept(configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path, updates=11, evaluate_every=100, checkpoint_every=2, keep_checkpoints=3))
    assert checkpoints(tmp_path) == [8, 10, 11]


@pytest.mark.parametrize("mean_wins", [True, False])
def test_the_mean_of_the_last_checkpoints_competes_with_the_best(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mean_wins: bool
) -> None:
    scripted(monkeypatch, [3, 3, 2 if mean_wins else 4])
    model = train(configure(tmp_path, updates=6, evaluate_every=6, checkpoint_every=2, average=3, keep_checkpoints=1))
    saved = [load_tensors(tmp_path / "train" / "checkpoints" / f"{n:08}" / WEIGHTS) for n in (2, 4, 6)]
    found = load_tensors(model / WEIGHTS)
    mean = {name: sum(part[name] for part in saved) / 3 for name in found}
    expected = mean if mean_wins else saved[-1]
    for name, value in found.items():
        torch.testing.assert_close(value, torch.as_tensor(expected[name]), rtol=1e-5, atol=1e-7)
    assert not torch.allclose(torch.as_tensor(mean["tokens.weight"]), saved[-1]["tokens.weight"], atol=1e-4)


def test_bleu_can_be_watched(configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path, updates=4, evaluate_every=2, watch="bleu"))
    found = [line["held_bleu"] for line in metrics(tmp_path) if "held_bleu" in line]
    assert len(found) == 2
    assert all(0 <= value <= 100 for value in found)
    progress = Checkpoints(tmp_path / "train" / "checkpoints").all()[-1].progress()
    assert progress["best"] == -max(found)


def test_a_model_is_trained_without_held_out_documents_too(tmp_path: Path, configure: Configure) -> None:
    pair = write_pair(tmp_path, "a", made_up([6], seed=1))
    prepare(tmp_path / "data", [pair], [], PrepareSettings(merges=20, held_out=0), workers=1)
    model = train(configure(tmp_path / "run", data=tmp_path / "data", updates=3, average=2, patience=1))
    assert same(load_tensors(model / WEIGHTS), final_weights(tmp_path / "run"))


def test_held_out_documents_without_a_translation_are_none(tmp_path: Path, configure: Configure) -> None:
    """Their loss would be 0 at the first evaluation, and never lower."""
    documents = [*made_up([6], seed=1), *(ParallelDocument([f"Line {n}."], [""]) for n in range(30))]
    write_parallel(tmp_path / "a.jsonl", None, documents, format="jsonl")
    files = (tmp_path / "a.jsonl", tmp_path / "a.jsonl")
    prepare(tmp_path / "data", [files], [], PrepareSettings(merges=20, held_out=0.1), workers=1)
    held = PreparedData.open(tmp_path / "data").split("held")
    assert len(held.target) > 0
    assert not held.usable.any()
    stage = {"updates": 3, "evaluate_every": 1, "patience": 1}
    config = configure(tmp_path / "run", data=tmp_path / "data", finetune=DOCUMENTS | stage, **stage)
    train(config)
    for name in ("train", "finetune"):
        assert not any("held_loss" in line for line in metrics(tmp_path / "run", name))
        model = load_tensors(tmp_path / "run" / name / "model" / WEIGHTS)
        assert same(model, final_weights(tmp_path / "run", name))


def test_a_finished_run_run_again_does_nothing(run: Path, configure: Configure, tmp_path: Path, tram: Command) -> None:
    write_yaml(tmp_path / "config.yaml", configure(run, updates=60))
    before = snapshot(run)
    done = tram("train", tmp_path / "config.yaml")
    assert (done.code, done.out.strip()) == (0, str(run / "train" / "model"))
    assert snapshot(run) == before


def test_the_config_of_a_run_is_written_again_only_if_a_setting_changed(configure: Configure, tmp_path: Path) -> None:
    config, path = configure(tmp_path, updates=3), tmp_path / "config.yaml"
    trainer_of(config).run()
    tram.training.run.remember_config(config)
    path.write_text(f"# the second try\n{path.read_text()}")
    before = snapshot(tmp_path), path.read_text()
    tram.training.run.remember_config(config)
    assert (snapshot(tmp_path), path.read_text()) == before
    tram.training.run.remember_config(configure(tmp_path, updates=5))
    assert Config.load(path).train == configure(tmp_path, updates=5).train


def test_the_model_folder_says_where_it_comes_from(run: Path, prepared: Path) -> None:
    card = (run / "train" / "model" / "README.md").read_text()
    assert prepared.name in card
    assert str(prepared) not in card, "a folder that is given away names no path of its maker's machine"


# Going on.


DOCUMENTS = {
    "start": "nothing",
    "window": (1, 3),
    "documents": 3,
    "tokens": 60,
    "warmup": 5,
    "lr_new": 0.01,
    "log_every": 1,
    "evaluate_every": 4,
}


MEMORY = {"kind": "memory"}
RAGGED = {"kind": "transformer_xl", "memory_length": 12}  # a state that differs in length between documents
SEGMENTS = {"kind": "zheng", "sentences": 3}  # the whole source of three sentences is read


@pytest.mark.parametrize(
    ("context", "optimizer"),
    [(None, "adamw"), (None, "muon"), (MEMORY, "adamw"), (MEMORY, "muon"), (RAGGED, "adamw"), (SEGMENTS, "adamw")],
    ids=str,
)
def test_a_run_cut_at_any_update_ends_with_the_same_weights(
    configure: Configure, tmp_path: Path, context: dict[str, Any] | None, optimizer: str
) -> None:
    """Between two sentences of a document, too."""
    documents = context is not None

    def config(name: str, updates: int) -> Config:
        settings = {"updates": updates, "dropout": 0.3, "optimizer": optimizer, "cooldown": 6}
        window = {"window": "document"} if context is SEGMENTS else {}
        finetune = DOCUMENTS | settings | window | {"context": context} if documents else None
        return configure(tmp_path / name, **settings, finetune=finetune)

    trainer_of(config("whole", 12)).run()
    for updates in (3, 4, 9):
        cut = trainer_of(config("parts", 12))
        cut.resume()
        while cut.standing.update < updates:
            cut.next_update()
        cut.save()
    trainer_of(config("parts", 12)).run()
    stage = "finetune" if documents else "train"
    assert same(final_weights(tmp_path / "parts", stage), final_weights(tmp_path / "whole", stage))


@pytest.mark.parametrize(
    ("key", "value"),
    [("train.lr", 0.02), ("train.tokens", 128), ("model.d_model", 32), ("seed", 9), ("train.dropout", 0.5)],
)
def test_a_changed_config_is_refused_by_its_key(
    run: Path, configure: Configure, tmp_path: Path, tram: Command, key: str, value: float
) -> None:
    write_yaml(tmp_path / "config.yaml", configure(run, updates=60))
    before = snapshot(run)
    refused(
        tram("train", tmp_path / "config.yaml", f"{key}={value}"), "config.yaml", f"started with {key}: ", str(value)
    )
    assert snapshot(run) == before


def test_a_finished_run_is_prolonged_as_if_it_had_never_ended(configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path / "parts", updates=5))
    train(configure(tmp_path / "parts", updates=10))
    train(configure(tmp_path / "whole", updates=10))
    assert same(final_weights(tmp_path / "parts"), final_weights(tmp_path / "whole"))


def test_a_first_stage_is_not_prolonged_under_a_finished_second_one(configure: Configure, tmp_path: Path) -> None:
    finetune = DOCUMENTS | {"updates": 2, "start": "train"}
    train(configure(tmp_path, updates=3, finetune=finetune))
    before = contents(tmp_path / "train")
    with pytest.raises(InputError, match="finetune: was finetuned from the first stage as it was before"):
        train(configure(tmp_path, updates=5, finetune=finetune))
    assert contents(tmp_path / "train") == before


def test_a_run_may_be_prolonged(configure: Configure, tmp_path: Path) -> None:
    config = configure(tmp_path, updates=3, keep_checkpoints=1)
    trainer_of(config).run()
    tram.training.run.remember_config(config)
    tram.training.run.remember_config(
        configure(tmp_path, updates=5, keep_checkpoints=4, patience=7, log_every=2, average=2)
    )
    with pytest.raises(InputError, match=r"train\.warmup: 10, not 11"):
        tram.training.run.remember_config(configure(tmp_path, updates=5, warmup=11))
    path = tmp_path / "config.yaml"  # as a tram wrote it that did not know of some setting yet
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "activation_dropout" not in line))
    tram.training.run.remember_config(config)


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ({"slots": 8}, "its memory has slots 4, but finetune.context.slots is 8; leave it out"),
        ({"side": "source"}, "its memory has side both, but finetune.context.side is source"),
        (None, r"has a context \(memory\), but finetune.context is null; start from a sentence model"),
    ],
)
def test_a_memory_that_is_there_is_trained_on_as_it_is_but_for_its_depth(
    configure: Configure, tmp_path: Path, memory: dict[str, Any] | None, problem: str
) -> None:
    def config(name: str, **settings: Any) -> Config:
        return configure(tmp_path / name, finetune=DOCUMENTS | {"updates": 2} | settings)

    train(config("first", memory={"slots": 4, "depth": "full"}))
    start = tmp_path / "first" / "finetune" / "model"
    again = trainer_of(config("second", memory={"depth": 2}), start)
    assert again.model.config.memory == MemoryConfig(slots=4, depth=2)
    assert not again.new, "nothing of it is new"
    assert same(weights(again.model), final_weights(tmp_path / "first", "finetune"))
    assert trainer_of(config("third"), start).model.config.memory == MemoryConfig(slots=4, depth="full")
    with pytest.raises(InputError, match=problem):
        trainer_of(config("fourth", memory=memory), start)


def command(config: Path) -> list[str]:
    return [sys.executable, "-m", "tram", "train", str(config)]


def started(config: Config, path: Path, until: int) -> subprocess.Popen[str]:
    """A run in its own process that has made more than `until` updates."""
    write_yaml(path, config)
    process = subprocess.Popen(command(path), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    log = config.output / "train" / "metrics.jsonl"
    while not log.exists() or not any(update_of(line) > until for line in log.read_text().splitlines()):
        if process.poll() is not None:
            raise AssertionError(process.communicate()[1])
        time.sleep(0.005)
    return process


def update_of(line: str) -> int:
    try:
        return int(json.loads(line)["update"])
    except ValueError:  # half-written
        return 0


def check_goes_on(configure: Configure, output: Path, whole: Path, **stage: Any) -> None:
    """The run in `output` ends a little later with the weights and the log of one that nobody stopped."""
    updates = checkpoints(output)[-1] + 7
    train(configure(output, updates=updates, **stage))
    train(configure(whole, updates=updates, **stage))
    assert same(final_weights(output), final_weights(whole))
    for lines in (metrics(output), metrics(whole)):
        logged = [line["update"] for line in lines if "loss" in line]
        evaluated = [line["update"] for line in lines if "held_loss" in line]
        assert logged == list(range(1, updates + 1))
        assert evaluated == sorted(set(evaluated))
    losses = ([line["loss"] for line in metrics(place) if "loss" in line] for place in (output, whole))
    assert next(losses) == next(losses)


def test_killed_three_times_a_run_ends_with_the_same_weights(configure: Configure, tmp_path: Path) -> None:
    stage = {"checkpoint_every": 3, "evaluate_every": 20, "dropout": 0.2, "accumulate": 2}
    run, until = tmp_path / "killed", 0
    chance = random.Random()
    for _ in range(3):
        until += chance.randint(3, 20)
        process = started(configure(run, updates=ENDLESS, **stage), tmp_path / "config.yaml", until)
        process.kill()
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert "Traceback" not in errors
        until = max(until, checkpoints(run)[-1])
    check_goes_on(configure, run, tmp_path / "whole", **stage)


def test_a_terminated_run_writes_a_checkpoint_and_goes_on(configure: Configure, tmp_path: Path) -> None:
    stage = {"checkpoint_every": ENDLESS, "evaluate_every": ENDLESS, "dropout": 0.2}
    run = tmp_path / "stopped"
    process = started(configure(run, updates=ENDLESS, **stage), tmp_path / "config.yaml", 10)
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.endswith("stopped; run the same command again to continue\n")
    assert "Traceback" not in errors
    assert checkpoints(run) == [metrics(run)[-1]["update"]], "nothing of what was done is lost"
    check_goes_on(configure, run, tmp_path / "whole", **stage)


def test_a_full_disk_while_saving_leaves_the_last_checkpoint(
    configure: Configure, tmp_path: Path, tram: Command, file_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    stage = {"checkpoint_every": 3, "evaluate_every": ENDLESS}
    output = tmp_path / "run"
    config = configure(output, updates=7, **stage)
    trainer_of(config).run()
    (output / "train" / "model" / WEIGHTS).unlink()
    write_yaml(tmp_path / "config.yaml", configure(output, updates=20, **stage))
    before = contents(output / "train" / "checkpoints")
    with file_limit(20_000):
        refused(tram("train", tmp_path / "config.yaml"), "00000009: cannot be written")
    assert contents(output / "train" / "checkpoints") == before
    check_goes_on(configure, output, tmp_path / "whole", **stage)


@pytest.mark.parametrize("name", [WEIGHTS, "optimizer.safetensors", "progress.json"])
def test_a_truncated_checkpoint_is_refused_by_its_file(
    configure: Configure, tmp_path: Path, tram: Command, name: str
) -> None:
    config = configure(tmp_path / "run", updates=2)
    trainer_of(config).run()
    (config.output / "train" / "model" / WEIGHTS).unlink()
    path = config.output / "train" / "checkpoints" / "00000002" / name
    path.write_bytes(path.read_bytes()[:-5])
    write_yaml(tmp_path / "config.yaml", config)
    refused(tram("train", tmp_path / "config.yaml"), f"00000002/{name}: is ")


@pytest.mark.parametrize("name", ["optimizer.safetensors", "progress.json"])
def test_a_foreign_checkpoint_is_refused_by_its_file(
    configure: Configure, tmp_path: Path, tram: Command, name: str
) -> None:
    config = configure(tmp_path / "run", updates=2)
    trainer_of(config).run()
    (config.output / "train" / "model" / WEIGHTS).unlink()
    folder = config.output / "train" / "checkpoints" / "00000002"
    foreign = (folder / WEIGHTS).read_bytes() if name == "optimizer.safetensors" else b'{"epoch": 3}'
    (folder / "checksums.json").unlink()
    (folder / name).write_bytes(foreign)
    write_yaml(tmp_path / "config.yaml", config)
    refused(tram("train", tmp_path / "config.yaml"), f"00000002/{name}")


def test_data_without_a_sentence_pair_is_refused(configure: Configure, tmp_path: Path) -> None:
    write_parallel(tmp_path / "a.jsonl", None, [ParallelDocument(["One.", ""], ["", "Zwei."])])
    prepare(tmp_path / "data", [(tmp_path / "a.jsonl", tmp_path / "a.jsonl")], [], PrepareSettings(merges=5), workers=1)
    with pytest.raises(InputError, match="the training split has no sentence pair"):
        train(configure(tmp_path / "run", data=tmp_path / "data"))


# Several processes.


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("documents", [False, True])
def test_the_gradients_of_all_processes_add_up_to_those_of_one(
    configure: Configure, tmp_path: Path, documents: bool, processes: int
) -> None:
    """Also where a process has nothing to do: its documents have ended, or there are fewer than processes."""
    finetune = DOCUMENTS | {"precision": "float64", "dropout": 0.0, "updates": 9} if documents else None
    config = configure(tmp_path, finetune=finetune, precision="float64", dropout=0.0)

    def updates_of(number: int, count: int) -> list[Tensor]:
        trainer = trainer_of(config)
        trainer.stage.processes = Processes(number, count)
        found = []
        for update in range(9):
            trainer.stage.run_update(update, Tensor.backward)
            parameters = trainer.model.parameters()
            found.append(torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]))
            trainer.model.zero_grad()
        return found

    shares = zip(*(updates_of(number, processes) for number in range(processes)), strict=True)
    for whole, parts in zip(updates_of(0, 1), shares, strict=True):
        torch.testing.assert_close(torch.stack(parts).sum(0), whole, rtol=0, atol=1e-12)
        assert whole.norm() > 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started_twice(configs: list[Path]) -> list[subprocess.Popen[str]]:
    """Start one run of two processes on this machine, with a config for each."""
    port = free_port()
    return [
        subprocess.Popen(
            command(config),
            env=os.environ
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, config in enumerate(configs)
    ]


@pytest.mark.parametrize("context", [MEMORY, RAGGED], ids=["memory", "ragged"])
def test_two_processes_make_the_same_updates_as_one(
    configure: Configure, tmp_path: Path, context: dict[str, Any]
) -> None:
    long = ParallelDocument([" ".join(["tea"] * 40)], [" ".join(["Tee"] * 40)])
    pair = write_pair(tmp_path, "a", [*made_up([7, 8, 6, 5, 9, 5], seed=2), long])
    prepare(tmp_path / "data", [pair], [], PrepareSettings(merges=60, held_out=0.15), workers=1)
    exact = {"precision": "float64", "dropout": 0.0, "updates": 8}
    stage = {"tokens": 80, "accumulate": 2, "evaluate_every": 4, **exact}
    finetune = DOCUMENTS | exact | {"start": "train", "documents": 2, "context": context, "checkpoint_every": 3}
    one, two = (
        configure(tmp_path / name, data=tmp_path / "data", finetune=finetune, **stage) for name in ("one", "two")
    )
    train(one)
    write_yaml(tmp_path / "config.yaml", two)
    processes = started_twice([tmp_path / "config.yaml"] * 2)
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(text[-1000:] for text in errors)
    assert ["parameters" in text for text in errors] == [True, False], "one run of two processes, not two runs"
    plan = SentencePlan(PreparedData.open(tmp_path / "data").split("train"), 80, one.model.max_length, one.seed)
    rows = [len(batch) for epoch in range(16) for batch in plan.epoch(epoch)][:16]
    assert 1 in rows, "a batch with fewer rows than processes"
    assert any(n % 2 for n in rows if n > 1), "a batch of an odd number of rows"
    for name in ("train", "finetune"):
        left, right = final_weights(tmp_path / "one", name), final_weights(tmp_path / "two", name)
        for key, value in left.items():
            torch.testing.assert_close(right[key], value, rtol=0, atol=1e-10)
        for here, there in zip(metrics(tmp_path / "one", name), metrics(tmp_path / "two", name), strict=True):
            for key in here.keys() & {"loss", "nll", "held_loss", "gradient_norm", "tokens"}:
                assert here[key] == pytest.approx(there[key], rel=1e-9)


def test_a_process_that_loses_another_one_ends_in_one_sentence(configure: Configure, tmp_path: Path) -> None:
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=ENDLESS, checkpoint_every=2))
    killed, other = started_twice([tmp_path / "config.yaml"] * 2)
    try:
        while not checkpoints(tmp_path / "run"):
            assert killed.poll() is None, killed.communicate()[1]
            time.sleep(0.01)
        killed.kill()
        errors = other.communicate(timeout=60)[1]
    finally:
        for process in (killed, other):
            process.kill()
            process.communicate()
    assert other.returncode == 1
    assert "Traceback" not in errors
    assert [line for line in errors.splitlines() if line.startswith("tram: another process of this run ended")]


def test_only_the_main_process_reads_and_writes_the_run(configure: Configure, tmp_path: Path) -> None:
    """On two machines the second process does not see the folder of the first; here it has another one.

    The run was interrupted, has a damaged checkpoint and takes the best one of its first stage: all of that is on the
    first disk only.
    """
    exact = {"precision": "float64", "dropout": 0.0}
    stage = {"updates": 6, "checkpoint_every": 2, "evaluate_every": 2, "average": 2, **exact}
    finetune = DOCUMENTS | exact | {"updates": 4, "start": "train", "documents": 2}
    names = ("alone", "main", "second")
    alone, main, second = (configure(tmp_path / name, finetune=finetune, **stage) for name in names)
    train(alone)
    assert main.train is not None
    for update in (3, 5):
        trainer = Trainer(main, main.train, PreparedData.open(main.data), main.output / "train")
        trainer.resume()
        while trainer.standing.update < update:
            trainer.next_update()
            if trainer.standing.update % 2 == 0:
                trainer.evaluate()
                trainer.save()
        trainer.save()
    (trainer.checkpoints.at(5).folder / "progress.json").write_bytes(b"")
    for name, config in (("main", main), ("second", second)):
        write_yaml(tmp_path / f"{name}.yaml", config)
    processes = started_twice([tmp_path / "main.yaml", tmp_path / "second.yaml"])
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(text[-1000:] for text in errors)
    assert "continuing after update 4" in errors[0]
    assert not second.output.exists()
    for name in ("train", "finetune"):
        left, right = (load_tensors(config.output / name / "model" / WEIGHTS) for config in (alone, main))
        for key, value in left.items():
            torch.testing.assert_close(right[key], value, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_what_the_main_process_refuses_ends_all_processes(configure: Configure, tmp_path: Path) -> None:
    train(configure(tmp_path / "run", updates=1))
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run", updates=1, lr=0.5))
    processes = started_twice([tmp_path / "config.yaml"] * 2)
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [2, 2]
    assert all("started with train.lr: 0.01, not 0.5" in text for text in errors)
    assert not any("Traceback" in text for text in errors)
