"""What the scripts of the faults share: the register of faults, the same situation in either version, what came of it.

A script runs in a process of its own, in an empty folder, with the sources and tests of one version on its path, and
returns what it found in a short sentence. Both versions have the command line; names that have moved are looked up
with `named`.
"""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LIMIT = 120.0  # seconds that a command of a script may take
PATIENCE = 4.0  # seconds after a signal in which processes may end
CALL = "try:\n from tram.cli.main import main\nexcept ImportError:\n from tram.cli import main\nmain()"
# Files of tests, relative to tests/
ARRAYS, AUTHORS, CONFIG = "unit/data/test_arrays.py", "unit/pretrained/test_authors.py", "unit/test_config.py"
FILES, FOLDER, LIMITS = "unit/test_files.py", "unit/model/test_model_folder.py", "system/test_limits.py"
SIGNALS, STATES = "system/test_signals.py", "unit/translation/test_document_state.py"
TIME, TRAINING = "unit/data/test_linear_time.py", "integration/test_training_faults.py"
TRANSLATOR, PACKAGES = "unit/translation/test_translator.py", "unit/test_packages.py"

TINY = {
    "d_model": 16,
    "heads": 2,
    "feed_forward": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "max_positions": 64,
    "max_length": 48,
}
LONG = " ".join(["The old miller reads a letter on the bridge and sings near the station."] * 8)
LANG = " ".join(["Der alte Müller liest einen Brief auf der Brücke und singt nahe dem Bahnhof."] * 8)

Script = Callable[..., str]


@dataclass(frozen=True)
class Case:
    """One situation of a fault: the script for it and its regression tests."""

    number: int
    title: str
    tests: tuple[str, ...]  # FILE::FUNCTION, relative to tests/
    script: Script
    value: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """A name for it, the same in every process."""
        return f"{self.number} {self.title}"


CASES: list[Case] = []


def fault(number: int, *tests: str, values: Sequence[Any] = ()) -> Callable[[Script], Script]:
    """Register a script; its docstring is the title, and with `values` it is run once for each of them."""

    def register(script: Script) -> Script:
        title = (script.__doc__ or "").rstrip(".")
        for value in [(each,) for each in values] or [()]:
            CASES.append(Case(number, title.format(*value) if value else title, tests, script, value))
        return script

    return register


# The two versions.

MOVED = {
    "Blocks": ["tram.model.packing", "tram.layout"],
    "Config": ["tram.config"],
    "DocumentState": ["tram.translation.document_state", "tram.state"],
    "InputError": ["tram.errors"],
    "Layout": ["tram.model.packing", "tram.layout"],
    "ModelConfig": ["tram.config"],
    "Muon": ["tram.training.optimizers", "tram.optim"],
    "PreparedData": ["tram.data.arrays", "tram.arrays"],
    "TextPipeline": ["tram.text.pipeline", "tram.subwords"],
    "TrainConfig": ["tram.config"],
    "Trainer": ["tram.training.trainer", "tram.training"],
    "Transformer": ["tram.model.transformer", "tram.transformer"],
    "Translator": ["tram"],
    "cross_entropy": ["tram.training.loss", "tram.loss"],
    "import_authors": ["tram.pretrained.authors", "tram.importing"],
    "main": ["tram.cli.main", "tram.cli"],
    "make_optimizer": ["tram.training.optimizers", "tram.optim"],
    "read_documents": ["tram.data.corpus", "tram.corpus"],
    "save_model": ["tram.model.folder", "tram.checkpoint"],
    "split_document": ["tram.filetypes.plain_text", "tram.text"],
    "split_sentences": ["tram.text.sentences", "tram.text"],
    "train": ["tram.training.run", "tram.training"],
    "translated_lines": ["tram.cli.translate_lines", "tram.console"],
    "write_text": ["tram.files"],
}


def named(name: str) -> Any:
    """Return what has this name in the version that runs."""
    for module in MOVED[name]:
        try:
            return getattr(importlib.import_module(module), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise LookupError(f"this version of tram has no {name}")


@cache
def is_old() -> bool:
    """Whether this is 596f58d, whose modules lie flat."""
    return (Path(os.environ["TRAM_CHECKOUT"]) / "src" / "tram" / "transformer.py").exists()


# Commands.


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def outcome(self) -> str:
        """The sentence it ended with, or the exception of a traceback."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        panics = [line for line in lines if "PanicException" in line]
        if self.err.startswith("no end"):
            return self.err
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if any("Traceback" in line for line in lines):
            return f"traceback, {(panics or lines)[-1]}"
        sentences = [line for line in lines if line.startswith(("tram: ", "Error", "│ ")) or "rror:" in line]
        told = (sentences or lines or ["nothing"])[-1].strip("│ ").removeprefix("tram: ")
        return f"exit code {self.code}" + (f": {told}" if self.code else "")


def command(*arguments: object) -> list[str]:
    """Return the command line of `tram` with these arguments."""
    return [sys.executable, "-c", CALL, *map(str, arguments)]


def tram(*arguments: object, stdin: bytes = b"", limit: float = LIMIT) -> Done:
    """Run the command."""
    try:
        done = subprocess.run(command(*arguments), input=stdin, capture_output=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return Done(-signal.SIGKILL, "", f"no end after {limit:.0f} s")
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def tram_here(*arguments: object) -> Done:
    """Run the command in this process, where a script may have replaced a part of it."""
    import contextlib
    import io
    import traceback

    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["tram", *map(str, arguments)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(Exception):
        try:
            if not is_old():
                importlib.import_module("tram.cli.main")._leave = sys.exit  # would end this process
            named("main")()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except Exception:
            code = 1
            traceback.print_exc(file=err)
    return Done(code, out.getvalue(), err.getvalue())


def raised(call: Callable[[], object], accepted: str = "accepted") -> str:
    """Return what a call raises, as Python prints it, or what it returns."""
    try:
        result = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return result if isinstance(result, str) else accepted


# Data, configs, models.


@cache
def corpus(name: str = "train", seed: int = 1) -> tuple[Path, Path]:
    """Write the documents of the tests, in two languages."""
    conftest = importlib.import_module("conftest")
    documents = conftest.made_up([3, 5, 4, 6, 2, 7, 5, 3, 4, 6, 5, 4, 3, 2], seed=seed)
    folder = Path(f"corpus{seed}")
    folder.mkdir(exist_ok=True)
    pair: tuple[Path, Path] = conftest.write_pair(folder, name, documents[:12] if name == "train" else documents[12:])
    return pair


def shared(name: str, make: Callable[[], Path]) -> Path:
    """Return a copy of a folder that all scripts of a version need; the first one makes it."""
    kept = Path(os.environ["TRAM_SHARED"]) / name
    if not kept.exists():
        shutil.copytree(make(), kept)
    elif not Path(name).exists():
        shutil.copytree(kept, name)
    return Path(name).resolve()


@cache
def prepared() -> Path:
    """Prepare the documents of the tests."""
    return shared("prepared", lambda: prepare("prepared"))


def prepare(name: str, seed: int = 1, text: Path | None = None) -> Path:
    """Prepare documents with the command."""
    more = ("--text", text) if text else ("--merges", 60)
    pairs = ("--train", *corpus("train", seed), "--dev", *corpus("dev", seed))
    done = tram("prepare", name, *pairs, *more, "--held-out", 0.1, "--workers", 1)
    assert done.code == 0, done.err
    return Path(name).resolve()


STAGE = {
    "lr": 0.01,
    "warmup": 10,
    "updates": 12,
    "tokens": 256,
    "log_every": 1,
    "patience": 0,
    "evaluate_every": 5,
    "checkpoint_every": 5,
}
DOCUMENTS = {"start": "train", "window": [1, 3], "documents": 3, "tokens": 60, "warmup": 2, "lr_new": 0.01}


def config(output: str = "run", data: Path | None = None, finetune: Any = None, **stage: Any) -> Path:
    """Write the config of a tiny run, with the keys of 596f58d, which today's tram reads, too."""
    import yaml

    values = {
        "data": str(data or prepared()),
        "output": str(Path(output).resolve()),
        "model": TINY,
        "train": STAGE | stage,
        "finetune": finetune,
    }
    path = Path(f"{Path(output).name}.yaml")
    path.write_text(yaml.safe_dump(values))
    return path


def trainer(path: Path, stage: str = "train") -> Any:
    """Return the trainer of the first stage of a config."""
    settings = named("Config").load(path)
    data = named("PreparedData").open(settings.data)
    return named("Trainer")(settings, getattr(settings, stage), data, settings.output / stage)


def trained_until(path: Path, *updates: int) -> Any:
    """Train as if the run had been stopped after each of these updates, with a checkpoint."""
    for update in updates:
        this = trainer(path)
        this.resume()
        while this.standing.update < update:
            this.next_update()
            if this.standing.update % this.stage_config.checkpoint_every == 0:
                this.save()
        this.save()
    return this


def trained() -> Path:
    """Train a tiny model with the command; return its folder."""

    def make() -> Path:
        done = tram("train", config("run", updates=3))
        assert done.code == 0, done.err
        return Path("run/train/model").rename("model")

    return shared("model", make)


def translator(memory: bool = True, **changes: Any) -> Any:
    """Return a translator with random weights, on the tiny prepared corpus."""
    import torch

    helpers = importlib.import_module("helpers")
    text = named("TextPipeline").load(prepared())
    sizes = TINY | {"encoder_layers": 2, "decoder_layers": 2} | changes
    settings = named("ModelConfig")(**sizes, memory={"slots": 4} if memory else None)
    torch.manual_seed(1)
    model = named("Transformer")(settings, text.vocabulary).double()
    helpers.shake(model, seed=2)
    return named("Translator")(model, text, **({} if is_old() else {"guards": False}))


# Files, time, processes.


def tensors(path: Path) -> dict[str, Any]:
    """Read a safetensors file."""
    from safetensors.torch import load_file

    return load_file(path)


def same_weights(one: str, other: str) -> str:
    """Say whether two model folders have the same weights."""
    import torch

    left, right = (tensors(Path(folder) / "model.safetensors") for folder in (one, other))
    different = [name for name in left if not torch.equal(left[name], right[name])]
    return f"{len(different)} of {len(left)} tensors differ" if different else "the same weights"


def growth(work: Callable[[int], Callable[[], object]], size: int = 4000) -> str:
    """Say how many times longer four times the size takes, in processor time."""

    def seconds(call: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    while (once := seconds(work(size))) < 0.05:
        size *= 2
    return f"four times the input: {seconds(work(4 * size)) / once:.1f} times the time"


def wait_for(condition: Callable[[], bool], limit: float = LIMIT) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Say whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> set[int]:
    """Return the processes below one, at any depth."""
    try:
        direct = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    return direct.union(*map(descendants, direct))


@contextmanager
def started(*arguments: object, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command in a session of its own, as a terminal does; at the end nothing of it is left."""
    pipe = subprocess.PIPE
    line = command(*arguments)
    with subprocess.Popen(
        line, stdout=pipe, stderr=pipe, start_new_session=True, env=os.environ | (environment or {})
    ) as process:
        try:
            yield process
        finally:
            for pid in {process.pid, *descendants(process.pid)}:
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


def short(text: str, limit: int = 150) -> str:
    """Make a finding one line of a Markdown table, without the names of temporary folders."""
    text = re.sub(re.escape(os.getcwd()) + "/?", "", text)
    text = re.sub(r"(.)\1{9,}", r"\1\1\1…", text)
    text = re.sub(r"\s+", " ", text).strip().replace("|", "/").replace("`", "'")
    return text if len(text) <= limit else text[: limit - 1] + "…"
