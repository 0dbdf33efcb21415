"""Faults 12 to 19: reliability."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from common import (
    DOCUMENTS,
    FILES,
    LIMITS,
    PATIENCE,
    SIGNALS,
    TRAINING,
    TRANSLATOR,
    Done,
    command,
    config,
    corpus,
    descendants,
    fault,
    is_alive,
    named,
    raised,
    started,
    trained,
    trained_until,
    trainer,
    tram,
    tram_here,
    wait_for,
)


@fault(
    12,
    f"{SIGNALS}::test_a_second_prepare_on_the_same_folder_is_refused",
    f"{FILES}::test_a_second_process_is_refused_and_a_kill_releases_the_lock",
)
def two_prepares() -> str:
    """Two `tram prepare` on one folder at once, three times."""
    refused, failed, other = 0, 0, "none"
    for trial in range(3):
        line = command("prepare", f"out{trial}", "--train", *corpus(), "--merges", 60, "--workers", 1)
        pair = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        results = [(*process.communicate(), process.returncode) for process in pair]
        for _, err, code in results:
            if code and "another tram is writing to" in err:
                refused += 1
            elif code:
                failed, other = failed + 1, Done(code, "", err).outcome
    return f"{refused} refused because of the other, {failed} disturbed: {other}"


@fault(12, f"{SIGNALS}::test_no_process_outlives_train", f"{TRAINING}::test_a_second_run_in_the_same_folder_is_refused")
def two_trains() -> str:
    """A second `tram train` while one trains in the same folder."""
    path = config(updates=10**8, evaluate_every=10**6)
    with started("train", path):
        wait_for(Path("run/train/checkpoints/00000005").exists)
        with started("train", path) as second:
            assert second.stderr is not None
            err = b""
            for line in second.stderr:
                err += line
                if b"parameters" in line:
                    return "the second one trains, too"
            return Done(second.wait(), "", err.decode()).outcome


@fault(
    13, f"{TRAINING}::test_a_run_continues_before_a_damaged_checkpoint", values=["model.safetensors", "progress.json"]
)
def empty_part(part: str) -> str:
    """The last checkpoint's `{}` has no bytes; the run is continued."""
    trained_until(config(updates=6, checkpoint_every=2), 4)
    (Path("run/train/checkpoints/00000004") / part).write_bytes(b"")
    done = tram("train", Path("run.yaml"))
    lines = [line for line in done.err.splitlines() if line.startswith(("continuing", "going on"))]
    return done.outcome if done.code else lines[0]


@fault(13, f"{FILES}::test_the_file_is_on_the_disk_before_it_gets_its_name_and_the_name_before_the_call_returns")
def flushed() -> str:
    """What is flushed to the disk when a file is written."""
    flush, names = os.fsync, []

    def note(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        names.append("the folder" if path.is_dir() else "the file")
        flush(descriptor)

    os.fsync = note
    named("write_text")(Path("file"), "x")
    return " and ".join(names) or "nothing"


@fault(
    14,
    f"{SIGNALS}::test_no_worker_outlives_prepare",
    values=[signal.SIGKILL.name, signal.SIGTERM.name, signal.SIGINT.name],
)
def workers(name: str) -> str:
    """`tram prepare --workers 2`, {}."""
    number = signal.Signals[name]
    source, target = corpus()
    for path in (source, target):
        path.write_text((path.read_text() + "\n") * 800)
    with started("prepare", "out", "--train", source, target, "--workers", 2) as process:
        wait_for(lambda: len(descendants(process.pid)) >= 2)
        time.sleep(0.5)
        below = descendants(process.pid)
        try:
            if number == signal.SIGINT:  # Ctrl-C is for the whole group of processes
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and any(map(is_alive, below)):
                time.sleep(0.05)
            left = sum(map(is_alive, below))
        finally:
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        err = process.communicate()[1].decode()
    return f"{left} of {len(below)} workers alive after {PATIENCE:.0f} s, {err.count('Traceback')} tracebacks"


@fault(15, f"{FILES}::test_threads_that_write_one_file_do_not_collide")
def threads() -> str:
    """Eight threads write one file, 400 times."""
    write, error = named("write_text"), named("InputError")

    def once(number: int) -> bool:
        try:
            write(Path("file"), str(number) * 1000)
        except (OSError, error):
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(once, range(400)))
    return f"{results.count(False)} writes failed"


@fault(15, f"{FILES}::test_a_planted_link_is_not_followed", f"{FILES}::test_a_temporary_name_that_exists_is_refused")
def planted() -> str:
    """A symbolic link with the temporary name of the next write, whatever it will be."""
    victim = Path("victim")
    victim.write_text("precious")
    opened = []

    def plant(event: str, arguments: Any) -> None:
        """Put the link there at the last moment before the temporary file is opened for writing."""
        if event != "open" or opened or not isinstance(arguments[0], str | os.PathLike):
            return
        path = Path(arguments[0])
        if path.name.startswith(".file.") and path.suffix == ".tmp":
            opened.append(path)
            with suppress(FileExistsError):
                path.symlink_to(victim.resolve())

    sys.addaudithook(plant)
    told = raised(lambda: named("write_text")(Path("file"), "new"), "written")
    kept = victim.read_text() == "precious"
    return f"{told}; the file that the link names is {'as before' if kept else 'overwritten'}"


MODEL_FOLDER = """
import importlib, os, signal, sys
from common import TINY, named
model = named("Transformer")(named("ModelConfig")(**TINY), 30)
save = named("save_model")
save(model, "model")
left = int(sys.argv[1])

def before(function):
    def call(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

os.rename, os.replace, os.unlink, os.rmdir = map(before, (os.rename, os.replace, os.unlink, os.rmdir))
files = importlib.import_module("tram.files")
if hasattr(files, "_exchange_at_once"):
    files._exchange_at_once = before(files._exchange_at_once)
    if sys.argv[2] == "without":
        files._exchange_at_once = lambda one, other: False
save(model, "model")
"""


@fault(
    15,
    f"{FILES}::test_a_kill_at_any_step_of_replacing_a_folder_leaves_one",
    f"{FILES}::test_folders_are_exchanged_in_one_step",
)
def killed_exchange() -> str:
    """A kill before each step of replacing a model folder; then a new write."""
    lost, unrepaired, steps = 0, 0, 0
    while True:
        for name in Path().iterdir():
            shutil.rmtree(name)
        done = subprocess.run([sys.executable, "-c", MODEL_FOLDER, str(steps + 1), "with"], check=False)
        if done.returncode != -signal.SIGKILL:
            assert done.returncode == 0
            break
        steps += 1
        lost += not Path("model/model.safetensors").exists()
    for step in (1, 2, 3):  # where a file system cannot exchange two folders at once
        for name in Path().iterdir():
            shutil.rmtree(name)
        subprocess.run([sys.executable, "-c", MODEL_FOLDER, str(step), "without"], check=False)
        if not Path("model/model.safetensors").exists():
            with suppress(AttributeError, ImportError):
                importlib.import_module("tram.files").check_writable(Path("model").resolve())
            unrepaired += not Path("model/model.safetensors").exists()
    return f"no model folder after {lost} of {steps} kills; of an exchange in two steps, {unrepaired} not restored"


@fault(15, f"{FILES}::test_leftovers_of_killed_processes_are_removed_and_those_in_use_are_not")
def leftovers() -> str:
    """Temporary files of killed processes, after the next write of the file."""
    for name in (".file.0123456789abcdef.tmp", ".file.fedcba9876543210.tmp"):
        Path(name).write_text("half")
    named("write_text")(Path("file"), "new")
    return f"{len(list(Path().glob('.file.*.tmp')))} of 2 left"


@fault(
    16,
    f"{LIMITS}::test_the_output_of_lines_is_probed_first",
    f"{LIMITS}::test_the_output_of_a_document_is_probed_before_it_is_translated",
    f"{LIMITS}::test_an_output_that_cannot_be_written_is_refused_before_the_work",
    values=["translate -o", "translate --lines -o", "evaluate --json", "evaluate --hypothesis"],
)
def unwritable(words: str) -> str:
    """`tram {} /proc/nothing/x`."""
    name, *options = words.split()
    files = corpus("dev") if name == "evaluate" else corpus("dev")[:1]
    translated = []

    def translate(*_: Any, **__: Any) -> Any:
        translated.append(name)
        raise SystemExit(0)

    for method in ("as_finished", "detailed", "n_best", "translate_documents"):
        setattr(named("Translator"), method, translate)
    done = tram_here(name, *files, "--model", trained(), *options, "/proc/nothing/x")
    return "translated before the output was looked at" if translated else done.outcome


@fault(17, f"{TRAINING}::test_frozen_parameters_do_not_move_and_the_others_do")
def frozen() -> str:
    """Parameters of the encoder with `requires_grad=False`, weight decay."""
    import torch

    module = importlib.import_module(named("Trainer").__module__)
    make = module.make_optimizer

    def make_with_frozen(model: Any, *arguments: Any) -> Any:
        for parameter in model.encoder.layers.parameters():
            parameter.requires_grad_(False)
        return make(model, *arguments)

    module.make_optimizer = make_with_frozen
    this = trainer(config(weight_decay=0.1, warmup=0))
    before = {name: value.detach().clone() for name, value in this.model.encoder.layers.named_parameters()}
    for _ in range(3):
        this.next_update()
    moved = sum(not torch.equal(value, before[name]) for name, value in this.model.encoder.layers.named_parameters())
    return f"{moved} of {len(before)} frozen tensors moved"


@fault(
    17,
    f"{TRAINING}::test_frozen_parameters_do_not_move_and_the_others_do",
    f"{TRAINING}::test_a_pattern_that_freezes_nothing_or_everything_is_refused",
)
def freeze() -> str:
    """`finetune.freeze: base`."""
    return tram("train", config(updates=2, finetune=DOCUMENTS | {"updates": 2, "freeze": "base"})).outcome


@fault(18, f"{TRANSLATOR}::test_the_fingerprint_is_that_of_the_file_whatever_the_data_type")
def fingerprints() -> str:
    """One model folder, loaded as float32, float64, bfloat16 and float16."""
    import torch

    folder = trained()
    types = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    return f"{len({named('Translator').load(folder, dtype=dtype).fingerprint for dtype in types})} fingerprints"


@fault(19, "unit/model/test_packing.py::test_a_sentence_in_two_blocks_is_refused")
def two_rectangles() -> str:
    """A sentence in two rectangles: the gradient of its tokens, where 2 is right."""
    import numpy as np
    import torch

    helpers = importlib.import_module("helpers")
    layout = named("Layout")(helpers.random_ids([[3, 2], [4, 1]]))
    groups = [np.array([0, 1]), np.array([1, 2])]

    def gradient() -> str:
        blocks = named("Blocks")(layout, layout, groups)
        states = torch.zeros(layout.tokens, 4, requires_grad=True)
        sum(part.sum() for part in blocks.into_queries.pad(states)).backward()
        assert states.grad is not None
        return f"{states.grad[3, 0]:.0f}"

    return raised(gradient)
