"""What several tests share: a made-up corpus, what `tram prepare` and `tram train` make of it, and the command itself.

`tram(*arguments)` calls the command in this process (fast: torch is loaded once); `run_tram(*arguments)` starts it as
a user's shell would. Both give a `Done`.
"""

import io
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

# Before torch is loaded: the tests compare weights bit by bit, and more threads are slower on tiny tensors.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
from hypothesis import settings

from tram.config import Config, ModelConfig
from tram.data.corpus import ParallelDocument, write_parallel
from tram.data.prepare import PrepareSettings, prepare
from tram.signals import STOP_SIGNALS

# On CI the same examples every time: a rare one must not stop a change that has nothing to do with it
settings.register_profile("tram", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("tram")

# In the background or under nohup, these signals are ignored, and would be by the commands that the tests start, too
for number in STOP_SIGNALS:
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None)

WHO = {
    "The old miller": "Der alte Müller",
    "A small fox": "Ein kleiner Fuchs",
    "My neighbour": "Mein Nachbar",
    "The tired pilot": "Der müde Pilot",
    "Our teacher": "Unser Lehrer",
    "A loud parrot": "Ein lauter Papagei",
}
DOES = {
    "waits": "wartet",
    "sings": "singt",
    "sleeps": "schläft",
    "reads a letter": "liest einen Brief",
    "drinks cold tea": "trinkt kalten Tee",
}
WHERE = {
    "behind the mill": "hinter der Mühle",
    "in the green boat": "im grünen Boot",
    "on the bridge": "auf der Brücke",
    "near the station": "nahe dem Bahnhof",
    "under a tree": "unter einem Baum",
}
TINY = ModelConfig(
    d_model=16, heads=2, feed_forward=32, encoder_layers=1, decoder_layers=1, max_positions=64, max_length=48
)

Pair = tuple[Path, Path]


@dataclass(frozen=True)
class Corpus:
    """Files with made-up parallel documents, blank lines between them."""

    train: Pair
    dev: Pair


@dataclass(frozen=True)
class Done:
    """What a command came back with."""

    code: int
    out: str
    err: str


def made_up(documents: Sequence[int], seed: int) -> list[ParallelDocument]:
    """Documents of so many sentences each, no sentence twice."""
    pairs = [
        (f"{who} {does} {where}.", f"{WHO[who]} {DOES[does]} {WHERE[where]}.")
        for who, does, where in product(WHO, DOES, WHERE)
    ]
    chosen = iter(random.Random(seed).sample(pairs, sum(documents)))
    result = []
    for size in documents:
        sides = list(zip(*(next(chosen) for _ in range(size)), strict=True))
        result.append(ParallelDocument(list(sides[0]), list(sides[1])))
    return result


def write_pair(folder: Path, name: str, documents: Sequence[ParallelDocument]) -> Pair:
    """Write NAME.en and NAME.de."""
    pair = (folder / f"{name}.en", folder / f"{name}.de")
    write_parallel(*pair, documents)
    return pair


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Time and inode of every file below a folder: equal if nothing was written again."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(done: Done, *words: str) -> str:
    """The one sentence with which a command refused its input; it has all the words."""
    lines = [line for line in done.err.splitlines() if line.startswith("tram: ")]
    assert done.code == 2, done
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    assert done.err.endswith(lines[0] + "\n"), "the sentence stands last"
    for word in words:
        assert word in lines[0]
    return lines[0]


@contextmanager
def _file_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def file_limit() -> Callable[[int], AbstractContextManager[None]]:
    """Inside `file_limit(size)` no file grows beyond so many bytes: a disk that is full, which root meets too."""
    return _file_limit


@contextmanager
def no_open_files() -> Iterator[None]:
    """Inside, no file can be opened, whoever asks: as many are open as the process may have."""
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Twelve training documents and two for dev."""
    folder = tmp_path_factory.mktemp("corpus")
    documents = made_up([3, 5, 4, 6, 2, 7, 5, 3, 4, 6, 5, 4, 3, 2], seed=1)
    return Corpus(write_pair(folder, "train", documents[:12]), write_pair(folder, "dev", documents[12:]))


@pytest.fixture(scope="session")
def prepared(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, prepared; some documents are held out."""
    folder = tmp_path_factory.mktemp("data") / "prepared"
    prepare(folder, [corpus.train], [corpus.dev], PrepareSettings(merges=60, held_out=0.1), workers=1)
    return folder


@pytest.fixture(scope="session")
def configure(prepared: Path) -> Callable[..., Config]:
    """Makes the config of a tiny run: `configure(output, updates=7, …)`; finetune: settings of a second stage."""

    def make(
        output: Path, data: Path = prepared, model: ModelConfig = TINY, finetune: Any = None, **stage: Any
    ) -> Config:
        defaults = {
            "lr": 0.01,
            "warmup": 10,
            "updates": 12,
            "tokens": 256,
            "log_every": 1,
            "patience": 0,
            "evaluate_every": 5,
            "checkpoint_every": 5,
        }
        values = {
            "data": str(data),
            "output": str(output),
            "model": model.model_dump(),
            "train": defaults | stage,
            "finetune": finetune,
        }
        return Config.model_validate(values)

    return make


@pytest.fixture(scope="session")
def run(configure: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished tiny run. Not to be written to."""
    from tram.training.run import train

    output = tmp_path_factory.mktemp("runs") / "tiny"
    train(configure(output, updates=60))
    return output


@contextmanager
def kept_signals() -> Iterator[None]:
    """Set the handlers of signals back, which the command keeps until its process ends."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture
def tram(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Calls the command in this process."""
    from tram.cli.main import main

    def call(*arguments: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr("tram.cli.main._leave", sys.exit)  # would end this process
        monkeypatch.setattr(sys, "argv", ["tram", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code: Any = 0
        with kept_signals():
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        captured = capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def run_tram() -> Callable[..., Done]:
    """Runs the command in a process of its own."""

    def call(*arguments: object, stdin: bytes = b"", **more: Any) -> Done:
        command = [sys.executable, "-m", "tram", *map(str, arguments)]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=300, **more)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call
