"""Faults 1 to 11: results that could be wrong or lost."""

import importlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from common import (
    CONFIG,
    DOCUMENTS,
    FILES,
    FOLDER,
    LANG,
    LIMITS,
    LONG,
    TINY,
    TRAINING,
    TRANSLATOR,
    command,
    config,
    corpus,
    fault,
    is_old,
    named,
    prepare,
    prepared,
    same_weights,
    tensors,
    trained,
    trained_until,
    tram,
    tram_here,
    translator,
)

STAGES = "unit/training/test_stages.py"
SEVERAL = "integration/test_training.py"


@fault(
    1,
    "unit/training/test_optimizers.py::test_an_overflowed_step_is_skipped",
    f"{TRAINING}::test_a_run_in_float16_survives_overflows_and_continues_with_its_scale",
)
def overflow() -> str:
    """Muon, one overflow under a gradient scaler."""
    import torch

    torch.manual_seed(1)
    model = named("Transformer")(named("ModelConfig")(**TINY), 30)
    optimizer = named("make_optimizer")(model, named("TrainConfig")(optimizer="muon"))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for overflows in (False, True):
        loss = sum((parameter * torch.randn_like(parameter)).sum() for parameter in model.parameters())
        scaler.scale(loss).backward()
        if overflows:
            model.get_parameter("encoder.layers.0.feed_forward.inner.weight").grad[1, 2] = torch.inf
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    state = [value for each in optimizer.state.values() for value in each.values()]
    counts = [sum(not bool(value.isfinite().all()) for value in values) for values in (model.parameters(), state)]
    return "not finite: {} tensors of weights, {} of the optimiser".format(*counts)


@fault(2, f"{TRAINING}::test_stages_of_different_precision_run_one_after_the_other")
def precision() -> str:
    """`train.precision: float32`, `finetune.precision: bfloat16`."""
    finetune = DOCUMENTS | {"updates": 3, "precision": "bfloat16"}
    return tram("train", config(updates=3, precision="float32", finetune=finetune)).outcome


@fault(
    3,
    f"{STAGES}::test_pieces_equal_whole_documents_with_memories_in_two_layers_of_both_sides",
    f"{STAGES}::test_an_update_has_the_gradient_of_the_unbroken_document_for_the_sentences_of_its_window",
    f"{STAGES}::test_at_full_depth_gradients_go_through_all_pieces_of_a_window",
    values=[1, "full"],
)
def pieces(depth: int | str) -> str:
    """Gradients of pieces and of whole documents, `side: both`, two layers, depth {}."""
    helpers = importlib.import_module("helpers")
    stages = importlib.import_module("test_stages" if is_old() else "document_stages")
    memory = {"slots": 3, "side": "both", "depth": depth, "layers": (0, 1)}
    split = stages.example(stages.FIXED).split
    found = []
    for tokens in (9, 10_000):
        model = helpers.tiny_model(helpers.tiny_config(memory=memory), seed=7)
        found.append(stages.update_gradients(stages.stage_of(model, split, tokens=tokens)))
    pairs = [(found[0][name] - value, value) for name, value in found[1].items()]
    difference, whole = (sum(float(each[i].norm()) ** 2 for each in pairs) ** 0.5 for i in (0, 1))
    return f"they differ by {difference / whole:.1%}"


@fault(4, f"{TRAINING}::test_the_average_of_an_interrupted_run_is_that_of_an_uninterrupted_one")
def average() -> str:
    """`average: 3`, a run that was interrupted five times and one that was not."""
    stage = {"updates": 12, "checkpoint_every": 2, "average": 3, "keep": 1, "evaluate_every": 12}
    trained_until(config("parts", **stage), 3, 5, 7, 9, 11)
    for name in ("parts", "whole"):
        losses = iter([3.0, 3.0, 2.0])  # of the last update, the best checkpoint and the mean, which is taken
        named("Trainer").held_loss = lambda _, losses=losses: next(losses, 1.0)
        named("train")(named("Config").load(config(name, **stage)))
    return same_weights("parts/train/model", "whole/train/model")


@fault(
    5,
    f"{TRAINING}::test_updates_are_not_raised_during_a_cooldown",
    f"{TRAINING}::test_updates_may_be_raised_before_the_cooldown",
)
def cooldown() -> str:
    """`updates` raised from 10 to 20 after 8, during a cooldown of 4."""
    stage = {"cooldown": 4, "warmup": 0, "schedule": "constant", "evaluate_every": 100}
    trained_until(config(updates=10, **stage), 8)
    Path("run/config.yaml").write_text(Path("run.yaml").read_text())  # as the command would have left it
    done = tram("train", config(updates=20, **stage))
    if done.code:
        return done.outcome
    lines = map(json.loads, Path("run/train/metrics.jsonl").read_text().splitlines())
    rates = {line["update"]: line["lr"] for line in lines if "lr" in line}
    return f"learning rate {rates[9]:.4f} at update 9, where 10 updates have 0.0040"


@fault(
    6,
    f"{LIMITS}::test_an_empty_translation_costs_neither_the_scores_nor_the_translations",
    f"{LIMITS}::test_a_format_is_chosen_that_holds_empty_sentences",
)
def empty_translation() -> str:
    """`tram evaluate --hypothesis` with one empty translation."""
    kind = named("Translator")
    translate = kind.translate_documents

    def with_empty(self: Any, *arguments: Any, **options: Any) -> Any:
        first, *rest = translate(self, *arguments, **options)
        found = [["", *first[1:]], *rest]
        return found if is_old() else iter(found)

    model = trained()
    kind.translate_documents = with_empty
    options = ("--no-perplexity", "--beam", 1, "--hypothesis", "h.de", "--json", "scores.json")
    done = tram_here("evaluate", *corpus("dev"), "--model", model, *options)
    kept = [
        f"{what}: {'yes' if Path(name).exists() else 'no'}"
        for what, name in (("scores", "scores.json"), ("translations", "h.de"))
    ]
    return f"{', '.join(kept)}; {done.outcome}"


@fault(7, f"{TRANSLATOR}::test_read_splits_long_sentences_as_translate_does")
def read_and_translate() -> str:
    """A long sentence, read and translated with its reference."""
    import torch

    this = translator()
    read, other = this.start(), this.start()
    this.read([LONG], [LANG], read)
    list(this.translate_documents([[LONG]], states=[other], history="gold", gold=[[LANG]]))

    def values(state: Any) -> Any:
        if is_old():
            return [value for unit in state.carried.values() for value in unit.values()]
        return list(state.state.tensors().values())

    same = all(torch.allclose(one, two) for one, two in zip(values(read), values(other), strict=True))
    return f"{'the same memories' if same else 'other memories'}; {read.sentences} and {other.sentences} sentences"


@fault(7, f"{TRANSLATOR}::test_a_sentence_model_counts_sentences_like_a_document_model", values=["memory", "sentence"])
def counted(kind: str) -> str:
    """`state.sentences` of a {} model after two sentences, one of them long."""
    this = translator(memory=kind == "memory")
    state = this.start()
    this.translate(["A small fox sings.", " ", LONG], state=state)
    return f"{state.sentences}"


def not_finite(folder: Path) -> int:
    """Count the files of weights below a folder that hold values that are not finite."""
    files = folder.rglob("model.safetensors")
    return sum(any(not bool(value.isfinite().all()) for value in tensors(path).values()) for path in files)


@fault(
    8,
    f"{TRAINING}::test_a_diverged_training_stops_in_one_sentence_and_leaves_only_finite_weights",
    f"{TRAINING}::test_a_gradient_that_is_not_finite_changes_nothing",
    f"{TRAINING}::test_weights_that_no_model_has_are_not_saved",
)
def divergence() -> str:
    """`train.lr=1e30`."""
    done = tram("train", config(evaluate_every=1, checkpoint_every=1), "train.lr=1e30")
    return f"{not_finite(Path('run'))} files of weights not finite; {done.outcome}"


@fault(8, f"{CONFIG}::test_every_number_has_bounds")
def no_number() -> str:
    """`train.lr=.inf`."""
    return tram("train", config(updates=3), "train.lr=.inf").outcome


@fault(8, f"{FOLDER}::test_weights_that_are_not_finite_or_far_too_large_are_refused")
def weights_not_finite() -> str:
    """A model with one weight that is NaN translates."""
    import torch
    from safetensors.torch import save_file

    path = trained() / "model.safetensors"
    values = tensors(path)
    values["encoder.layers.0.feed_forward.inner.weight"][0, 0] = torch.nan
    save_file(values, path)
    return tram("translate", "--lines", "--model", "model", stdin=b"A small fox sings.\n").outcome


@fault(9, f"{TRAINING}::test_a_run_is_not_continued_on_other_data", f"{TRAINING}::test_a_damaged_data_file_is_refused")
def other_data() -> str:
    """A run of 3 updates is continued to 6 on other data with the same subwords."""
    first = tram("train", config(updates=3))
    assert first.code == 0, first.err
    other = prepare("other", 9, prepared())
    return tram("train", config(updates=6, data=other)).outcome


def kind_of(path: Path) -> str:
    """Say what a path names now."""
    mode = path.lstat().st_mode
    kinds = {"a link": stat.S_ISLNK, "a pipe": stat.S_ISFIFO, "a device": stat.S_ISCHR, "a regular file": stat.S_ISREG}
    return next(name for name, test in kinds.items() if test(mode))


@fault(10, f"{FILES}::test_a_device_is_written_to")
def device() -> str:
    """`tram stats --json` to a copy of `/dev/null`."""
    path = Path("null")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return f"{tram('stats', *corpus(), '--json', path).outcome}; afterwards {kind_of(path)}"


@fault(10, f"{FILES}::test_a_named_pipe_is_written_to")
def pipe() -> str:
    """`tram stats --json` to a named pipe."""
    path = Path("pipe")
    os.mkfifo(path)
    received: list[bytes] = []
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    done = tram("stats", *corpus(), "--json", path)
    received.append(os.read(reader, 1 << 16))
    return f"{done.outcome}; afterwards {kind_of(path)}, {len(received[0])} bytes came through"


@fault(
    10,
    f"{FILES}::test_a_symbolic_link_stays_and_its_target_is_replaced",
    f"{FILES}::test_a_link_to_nothing_creates_its_target",
)
def link() -> str:
    """`tram stats --json` to a symbolic link."""
    Path("target").write_text("old")
    path = Path("link")
    path.symlink_to("target")
    done = tram("stats", *corpus(), "--json", path)
    target = "as before" if Path("target").read_text() == "old" else "written"
    return f"{done.outcome}; afterwards {kind_of(path)}, its target {target}"


@fault(10, f"{FILES}::test_the_mode_of_a_file_is_kept")
def mode() -> str:
    """`tram stats --json` to a file of mode 600."""
    path = Path("private")
    path.touch()
    path.chmod(0o600)
    tram("stats", *corpus(), "--json", path)
    return f"mode {stat.S_IMODE(path.stat().st_mode):o}"


# Two processes of one run.


def two_processes(line: list[str], paths: list[Path]) -> list[subprocess.CompletedProcess[str]]:
    """Run a command in two processes that belong together, each with a config of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank, path in enumerate(paths):
        about = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        about |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
        environment = os.environ | about
        processes.append(
            subprocess.Popen(
                [*line, str(path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    done = []
    for process in processes:
        killer = threading.Timer(60, process.kill)
        killer.start()
        out, err = process.communicate()
        killer.cancel()
        done.append(subprocess.CompletedProcess(line, process.returncode, out, err))
    return done


RESUME = """
import sys
from pathlib import Path
from common import trainer
this = trainer(Path(sys.argv[1]))
this.resume()
print(this.standing.update)
"""


@fault(
    11,
    f"{SEVERAL}::test_only_the_main_process_reads_and_writes_the_run",
    f"{SEVERAL}::test_two_processes_make_the_same_updates_as_one",
)
def two_disks() -> str:
    """Two processes with disks of their own, a checkpoint after update 4 on the first: where they continue."""
    trained_until(config("first", updates=6, checkpoint_every=2), 4)
    paths = [Path("first.yaml").resolve(), config("second", updates=6, checkpoint_every=2).resolve()]
    done = two_processes([sys.executable, "-c", RESUME], paths)
    assert [each.returncode for each in done] == [0, 0], done[1].stderr[-500:]
    return "after update " + " and after update ".join(each.stdout.split()[-1] for each in done)


@fault(
    11,
    f"{SEVERAL}::test_only_the_main_process_reads_and_writes_the_run",
    f"{SEVERAL}::test_what_the_main_process_refuses_ends_all_processes",
)
def two_writers() -> str:
    """Two processes with disks of their own: files that the second one writes."""
    paths = [config(name, updates=2).resolve() for name in ("first", "second")]
    two_processes(command("train"), paths)
    written = sorted(str(path.relative_to("second")) for path in Path("second").rglob("*") if path.is_file())
    return ", ".join(written) or "none"
