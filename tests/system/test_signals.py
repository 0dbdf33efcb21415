"""Signals: no process is left behind, and what the user reads is one sentence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import made_up, write_pair
from tram.files import locked

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
PATIENCE = 60.0  # seconds until a slow machine is called stuck


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def children(pid: int) -> set[int]:
    """The processes below one, at any depth."""
    try:
        direct = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    return direct.union(*(children(child) for child in direct))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def preparing(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tram prepare --workers 2` on a corpus that takes long, in a session of its own, as a terminal starts it."""
    folder.mkdir()
    source, target = write_pair(folder, "train", made_up([5] * 20, seed=1))
    for path in (source, target):
        path.write_text((path.read_text() + "\n") * 400)
    command = [sys.executable, "-m", "tram", "prepare", folder / "out", "--train", source, target, "--workers", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, start_new_session=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("early", [True, False], ids=["while workers start", "while they work"])
def test_no_worker_outlives_prepare(number: signal.Signals, early: bool, tmp_path: Path) -> None:
    with preparing(tmp_path / "folder") as process:
        cache = tmp_path / "folder" / "out" / ".cache"
        wait_for(lambda: len(children(process.pid)) >= 2, "two workers")
        if not early:
            wait_for(lambda: any(path.stat().st_size for path in cache.glob(".*.tmp")), "the first results")
        started = children(process.pid)
        if number == signal.SIGINT:  # Ctrl-C is for the whole group of processes
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE)
        wait_for(lambda: not any(map(alive, started)), "the end of all workers")
    assert b"Traceback" not in error
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert error.endswith(b"tram: stopped\n")
        assert not list(cache.glob(".*.tmp")), "temporary files are removed"
    with locked(tmp_path / "folder" / "out"):
        pass


def test_a_second_prepare_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with preparing(tmp_path / "folder") as process:
        out = tmp_path / "folder" / "out"
        wait_for((out / ".cache").exists, "the first one to begin")
        done = subprocess.run([str(part) for part in process.args], capture_output=True, check=False)  # type: ignore[union-attr]
    assert done.returncode == 2
    assert done.stderr.startswith(f"tram: another tram is writing to {out}".encode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
