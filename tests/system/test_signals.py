"""Signals: no process is left behind, and what the user reads is one sentence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conftest import made_up, write_pair
from tram.config import Config, write_yaml
from tram.files import locked

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
PATIENCE = 300.0  # seconds until a slow machine is called stuck
LIMIT = 2.0  # seconds after a signal in which every process ends, on a machine that is not overloaded


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def limit() -> float:
    """The seconds in which a machine with other work to do has given us `LIMIT` seconds."""
    return LIMIT * max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def of_group(group: int) -> set[int]:
    """The living processes of a process group."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it just ended
            continue
        if int(its_group) == group and state != "Z":
            found.add(int(path.parent.name))
    return found


def stop(process: subprocess.Popen[bytes], number: signal.Signals) -> bytes:
    """Send a signal as a shell does, and return the errors; no process that it started may be left after `LIMIT`."""
    started = children(process.pid) | {process.pid}
    began = time.monotonic()
    if number == signal.SIGINT:  # Ctrl-C is for the whole group of processes
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, error = process.communicate(timeout=PATIENCE)
    wait_for(lambda: not any(map(alive, started)) and not of_group(process.pid), "the end of all processes")
    assert time.monotonic() - began < limit()
    return error


def children(pid: int) -> set[int]:
    """The processes below one, at any depth."""
    try:
        direct = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    return direct.union(*(children(child) for child in direct))


def is_filled(path: Path) -> bool:
    """Whether a file has contents; one that was just renamed has none."""
    with suppress(FileNotFoundError):
        return path.stat().st_size > 0
    return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def command(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command of tram in a session of its own, as a terminal starts it."""
    line = [sys.executable, "-m", "tram", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, start_new_session=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def preparing(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tram prepare --workers 2` on a corpus that takes long."""
    folder.mkdir()
    source, target = write_pair(folder, "train", made_up([5] * 20, seed=1))
    for path in (source, target):
        path.write_text((path.read_text() + "\n") * 400)
    with command("prepare", folder / "out", "--train", source, target, "--workers", 2) as process:
        yield process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("early", [True, False], ids=["while workers start", "while they work"])
def test_no_worker_outlives_prepare(number: signal.Signals, early: bool, tmp_path: Path) -> None:
    with preparing(tmp_path / "folder") as process:
        cache = tmp_path / "folder" / "out" / ".cache"
        wait_for(lambda: len(children(process.pid)) >= 2, "two workers")
        if not early:
            wait_for(lambda: any(map(is_filled, cache.glob(".*.tmp"))), "the first results")
        error = stop(process, number)
    assert b"Traceback" not in error
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert error.endswith(b"tram: stopped\n")
        assert not list(cache.glob(".*.tmp")), "temporary files are removed"
    with locked(tmp_path / "folder" / "out"):
        pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_process_outlives_train(number: signal.Signals, configure: Callable[..., Config], tmp_path: Path) -> None:
    output = tmp_path / "run"
    write_yaml(tmp_path / "config.yaml", configure(output, updates=10**9, evaluate_every=10**6))
    with command("train", tmp_path / "config.yaml") as process:
        wait_for(lambda: any((output / "train" / "checkpoints").glob("[0-9]*")), "a checkpoint")
        second = subprocess.run([str(part) for part in process.args], capture_output=True, check=False)  # type: ignore[union-attr]
        error = stop(process, number)
    assert second.returncode == 2
    assert (
        second.stderr == f"tram: another tram is writing to {output}; wait for it or choose another folder\n".encode()
    )
    assert b"Traceback" not in error
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert error.endswith(b"stopped; run the same command again to continue\n")
    with locked(output):
        pass


def test_no_process_outlives_a_benchmark_that_measures_in_another_process() -> None:
    with command("bench", "memory") as process:
        wait_for(lambda: bool(children(process.pid)), "the process that is measured")
        error = stop(process, signal.SIGINT)
    assert (process.returncode, error) == (130, b"tram: stopped\n")


def test_a_second_prepare_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with preparing(tmp_path / "folder") as process:
        out = tmp_path / "folder" / "out"
        wait_for((out / ".cache").exists, "the first one to begin")
        done = subprocess.run([str(part) for part in process.args], capture_output=True, check=False)  # type: ignore[union-attr]
    assert done.returncode == 2
    assert done.stderr.startswith(f"tram: another tram is writing to {out}".encode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_waits_for_input_stops_in_one_sentence(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C outside training: here `tram stats` of a pipe that nobody writes to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tram", "stats", pipe, "--format", "blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process, pipe.open("wb"):  # waits for a reader
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE)
    assert error == b"tram: stopped\n"
    assert process.returncode == 128 + number


def test_a_command_stops_although_nobody_reads_its_errors(tmp_path: Path) -> None:
    """Standard error is a pipe that is full: the sentence cannot be written."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    command = [sys.executable, "-m", "tram", "stats", pipe, "--format", "blank"]
    with subprocess.Popen(command, stderr=writing) as process:
        try:
            with pipe.open("wb"):  # waits for a reader
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=30) == 143
        finally:
            process.kill()
            os.close(reading)
            os.close(writing)


def test_a_signal_at_the_start_ends_a_command_whose_terminal_was_closed(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "tram", "--help"]
    done = subprocess.run(line, env=environment, stderr=writing, check=False, timeout=PATIENCE)
    os.close(writing)
    assert done.returncode == 129


def test_ctrl_c_while_the_command_is_imported_is_one_sentence(tmp_path: Path) -> None:
    """A library that the command needs, here typer, is being imported when the signal arrives."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    line = [sys.executable, "-m", "tram", "--help"]
    done = subprocess.run(line, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"tram: stopped\n")


def test_a_library_that_swallows_exceptions_while_it_is_imported_does_not_keep_the_command_running(
    tmp_path: Path,
) -> None:
    """A command imports what it needs late; some libraries import optional ones between `try` and a bare `except`."""
    (tmp_path / "sacrebleu").mkdir()
    swallow = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGTERM)\nexcept BaseException:\n    pass\n"
    (tmp_path / "sacrebleu" / "__init__.py").write_text(swallow)
    (tmp_path / "text").write_text("A fox.\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    line = [sys.executable, "-m", "tram", "score", str(tmp_path / "text"), "-i", str(tmp_path / "text")]
    done = subprocess.run(line, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"tram: stopped\n")


FINALISER = """
import builtins, os, signal, sys
from tram.cli.main import main

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def show(*values, print=print, **options):
    Finalised()
    print(*values, **options)

builtins.print = show
main()
"""


def test_a_signal_in_a_finaliser_stops_the_command(tmp_path: Path) -> None:
    """Python ignores what a finaliser raises; the command would go on and print its table."""
    (tmp_path / "text").write_text("A fox.\n")
    line = [sys.executable, "-c", FINALISER, "stats", tmp_path / "text"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(line, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"tram: stopped\n")


FREED = """
import builtins, os, signal
from tram.cli.main import main

class Freed:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGTERM):
        kill(process, number)

builtins.freed = Freed()
main()
"""


def test_a_signal_after_the_end_changes_nothing() -> None:
    """Python takes a second to free what torch holds; by then it has reset the handlers of signals."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", FREED, "--version"]
    done = subprocess.run(line, env=environment, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"tram ")
