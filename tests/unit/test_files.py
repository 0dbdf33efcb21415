"""Durable, exclusive writes: links, devices, pipes and modes; threads, kills, leftovers; locks."""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import no_open_files
from tram import files
from tram.data.arrays import _load_array
from tram.data.text_files import open_text
from tram.errors import InputError, UnreadableError
from tram.files import (
    check_writable,
    locked,
    names_in,
    read_json,
    readable_file,
    regular_file,
    replacing,
    replacing_folder,
    write_text,
)
from tram.fingerprints import content_fingerprint, has_checksum
from tram.model.tensors import load_tensors, tensor_shapes
from tram.yaml_files import read_yaml


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# What is written to.


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.txt", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_to_nothing_creates_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "new"


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_text(tmp_path / "new", "")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_named_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through the pipe")
    reader.join()
    assert received == ["through the pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to() -> None:
    before = os.stat(os.devnull)
    check_writable(Path(os.devnull))
    write_text(Path(os.devnull), "nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_ino == before.st_ino


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_standard_output_by_its_name_reaches_a_pipe_and_a_file(tmp_path: Path) -> None:
    program = "from pathlib import Path; from tram.files import write_text; write_text(Path('/dev/stdout'), 'here')"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"here"
    with (tmp_path / "out").open("wb") as out:
        inode = os.fstat(out.fileno()).st_ino
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "here"
    assert (tmp_path / "out").stat().st_ino == inode


@pytest.mark.parametrize("name", ["", ".", "/", ".."])
@pytest.mark.parametrize("write", [check_writable, lambda path: write_text(path, "x")])
def test_a_folder_is_no_file_to_write(
    name: str, write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        write(Path(name))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
@pytest.mark.parametrize(
    "use",
    [
        *(check_writable, lambda path: write_text(path, "x"), lambda path: locked(path).__enter__()),
        *(regular_file, read_json, open_text),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(use: Callable[[Path], object], name: str) -> None:
    with pytest.raises(InputError, match="null character"):
        use(Path(name))


def test_a_very_long_name_is_written_or_refused_in_one_sentence(tmp_path: Path) -> None:
    write_text(tmp_path / ("ä" * 120), "x")
    assert len(names(tmp_path)) == 1
    with pytest.raises(InputError, match="shorter name"):
        write_text(tmp_path / ("a" * 300), "x")


def test_a_path_below_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="part of this path is a file"):
        check_writable(tmp_path / "file" / "below")


# Temporary files.


def test_threads_that_write_one_file_do_not_collide(tmp_path: Path) -> None:
    texts = [str(i) * 1000 for i in range(10)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_text(tmp_path / "file", texts[i % 10]), range(200)))
    assert (tmp_path / "file").read_text() in texts
    assert names(tmp_path) == {"file"}


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    write_text(tmp_path / "file", "new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "file").read_text() == "new"
    assert not (tmp_path / "file").is_symlink()


def test_a_temporary_name_that_exists_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda n: "0")
    (tmp_path / ".file.0.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "file", "new")
    assert not (tmp_path / "victim").exists()


def test_leftovers_of_killed_processes_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    other = ".other.0123456789abcdef.tmp"
    (tmp_path / ".file.0123456789abcdef.tmp").write_text("half")
    (tmp_path / ".file.fedcba9876543210.tmp").mkdir()
    (tmp_path / other).write_text("not of this file")
    with replacing(tmp_path / "file") as first:
        first.write_text("first")
        write_text(tmp_path / "file", "second")
        assert names(tmp_path) == {"file", first.name, other}
    assert (tmp_path / "file").read_text() == "first"
    assert names(tmp_path) == {"file", other}


@pytest.mark.parametrize(
    "name",
    [
        *(".file.tmp", ".file.bak.tmp", ".file.2024.tmp", ".file.0123456789ABCDEF.tmp", ".file.0123456789abcde.tmp"),
        *(".file.txt.0123456789abcdef.tmp", ".file.0123456789abcdef.new.tmp", ".file.0123456789abcdef.tmp\n"),
    ],
)
def test_a_file_of_the_user_with_a_similar_name_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("precious")
    write_text(tmp_path / "file", "x")
    with replacing_folder(tmp_path / "file.folder"):
        pass
    assert (tmp_path / name).read_text() == "precious"


def as_a_user(statement: str, folder: Path) -> None:
    """Run a statement about `folder` in a process of its own, in which root gives up its right to everything."""
    imports = "from pathlib import Path; from fuzz.run import drop_override; from tram.files import *"
    program = f"{imports}\ndrop_override()\nfolder = Path({str(folder)!r})\n{statement}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_a_leftover_folder_without_permissions_is_removed(tmp_path: Path) -> None:
    leftover = tmp_path / ".file.0123456789abcdef.tmp"
    (leftover / "below").mkdir(parents=True)
    leftover.chmod(0)
    as_a_user("write_text(folder / 'file', 'x')", tmp_path)
    assert names(tmp_path) == {"file"}


def test_a_read_only_folder_is_replaced_and_not_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "x").write_text("old")
    folder.chmod(0o555)
    as_a_user("with replacing_folder(folder / 'model') as new: (new / 'x').write_text('new')", tmp_path)
    assert (folder / "x").read_text() == "new"
    assert names(tmp_path) == {"model"}


def test_a_temporary_folder_that_cannot_be_opened_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(InputError, match="folder: cannot be written"), replacing_folder(tmp_path / "folder"):
            pass
    assert not names(tmp_path)


def test_an_error_inside_leaves_the_file_and_no_temporary_one(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "old")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == {"file"}


# Folders.


def test_a_kill_at_any_step_of_replacing_a_folder_leaves_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two folders cannot be exchanged in one step, the next write restores the one that was moved away."""

    class Killed(BaseException):
        pass

    folder = tmp_path / "model"
    monkeypatch.setattr(files, "_exchange_at_once", lambda one, other: False)
    monkeypatch.setattr(files, "remove", lambda path: None)  # a killed process removes nothing
    with replacing_folder(folder) as temporary:
        (temporary / "x").write_text("old")
    rename = os.rename
    calls: list[str] = []

    def die_at_the_second(one: Path, other: Path) -> None:
        calls.append(str(one))
        if len(calls) == 2:
            raise Killed
        rename(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", die_at_the_second)
        with pytest.raises(Killed), replacing_folder(folder) as temporary:
            (temporary / "x").write_text("new")
    assert not folder.exists()
    check_writable(folder)
    assert (folder / "x").read_text() == "old"


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is of Linux")
def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    assert files._exchange_at_once(tmp_path / "one", tmp_path / "other")
    assert [(tmp_path / name / "x").read_text() for name in ("one", "other")] == ["other", "one"]


def test_a_folder_keeps_its_mode_and_a_link_to_it_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    with replacing_folder(link) as temporary:
        (temporary / "x").write_text("new")
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o700
    assert names(real) == {"x"}
    assert names(tmp_path) == {"real", "link"}


def test_a_folder_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="is a file"), replacing_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "precious"
    assert names(tmp_path) == {"file"}


# The disk.


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is flushed, and `rename`, in order."""
    done: list[str] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def flushed(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("rename"), replace(*paths)))
    monkeypatch.setattr(os, "rename", lambda *paths: (done.append("rename"), rename(*paths)))
    return done


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_the_file_is_on_the_disk_before_it_gets_its_name_and_the_name_before_the_call_returns(
    tmp_path: Path, steps: list[str]
) -> None:
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("x")
    assert steps == [temporary.name, "rename", tmp_path.name]
    steps.clear()
    with replacing_folder(tmp_path / "folder") as temporary:
        (temporary / "part").write_text("x")
    assert steps == ["part", temporary.name, "rename", tmp_path.name]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_the_names_of_new_folders_are_on_the_disk_before_the_file(tmp_path: Path, steps: list[str]) -> None:
    write_text(tmp_path / "a" / "b" / "file", "x")
    assert set(steps[: steps.index("rename") - 1]) == {tmp_path.name, "a"}
    steps.clear()
    with locked(tmp_path / "c"):
        assert steps == [tmp_path.name]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_replaced_folder_is_removed_when_the_name_of_the_new_one_is_on_the_disk(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    rmtree = files.shutil.rmtree
    monkeypatch.setattr(files.shutil, "rmtree", lambda *a, **k: (steps.append("remove"), rmtree(*a, **k)))
    with replacing_folder(tmp_path / "folder") as temporary:
        (temporary / "part").write_text("x")
    assert steps[-2:] == [tmp_path.name, "remove"]
    assert names(tmp_path) == {"folder"}


def test_a_probe_that_cannot_be_closed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota of a network disk is met when a file is closed."""
    close = os.close

    def over_quota(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", over_quota)
        with pytest.raises(InputError, match=r"file: cannot be written .*your quota"):
            check_writable(tmp_path / "file")
    assert not names(tmp_path)


def test_a_file_system_without_fsync_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "no fsync here")

    monkeypatch.setattr(os, "fsync", refuse)
    write_text(tmp_path / "file", "x")
    assert (tmp_path / "file").read_text() == "x"


# What is read.


def fifo(path: Path) -> None:
    os.mkfifo(path)


NOT_REGULAR: dict[str, Callable[[Path], None]] = {
    "a named pipe": fifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", NOT_REGULAR)
def test_what_would_block_or_never_end_is_not_read(kind: str, tmp_path: Path) -> None:
    NOT_REGULAR[kind](tmp_path / "file")
    with pytest.raises(InputError, match=f"is {kind}; put a regular file there"):
        read_json(tmp_path / "file")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
@pytest.mark.parametrize("read", [read_json, read_yaml, readable_file, content_fingerprint])
def test_a_file_of_the_kernel_is_a_device(read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("/proc/version")
    with pytest.raises(InputError, match="file: is a device; put a regular file there"):
        read(tmp_path / "file")


def test_a_file_of_terabytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.truncate(tmp_path / "file", 1 << 42)
    with pytest.raises(InputError, match="is larger than"):
        read_json(tmp_path / "file")


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":', b"\xff", b"", b"1" * 5000, b'[{"a": 1, "a": 2}]'])
def test_text_that_is_not_json_is_a_value_error(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=r"\w"):
        read_json(tmp_path / "file")


@pytest.mark.parametrize("long", ["x", "\n", "\U000e0001"])
def test_an_error_is_one_line_that_a_terminal_only_shows(long: str) -> None:
    message = str(InputError("a\nb\x1b[2J\udcff" + long * 10_000))
    assert message.startswith("a\\nb\\x1b[2J\\udcff")
    assert message.isprintable()
    assert len(message) < 2000


# Locks.


def test_a_second_process_is_refused_and_a_kill_releases_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    program = (
        "import sys; from pathlib import Path; from tram.files import locked\n"
        f"with locked(Path({str(folder)!r})):\n    print('held', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another tram is writing to"), locked(folder):
            pass
        other.kill()
    with locked(folder):
        assert names(folder) == set()


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path), pytest.raises(InputError), locked(tmp_path):
        pass


# What is read.


def test_a_folder_that_may_not_be_looked_into_is_one_sentence(tmp_path: Path) -> None:
    """In a process of its own, because root has to give up its right to read everything."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "file").touch()
    folder.chmod(0)
    program = f"""
from pathlib import Path
from fuzz.run import drop_override
from tram.errors import InputError
from tram.files import exists, names_in
drop_override()
folder = Path({str(folder)!r})
for function, path in ((exists, folder / "file"), (names_in, folder)):
    try:
        function(path)
    except InputError as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    folder.chmod(0o700)
    reason = "cannot be read (Permission denied); change its permissions"
    assert done.stdout.splitlines() == [f"{folder / 'file'}: {reason}", f"{folder}: {reason}"]


@pytest.mark.parametrize(
    "read",
    [
        *(read_json, content_fingerprint, read_yaml, load_tensors, tensor_shapes),
        *(lambda path: has_checksum(path, "2 x"), lambda path: _load_array(path, (int,))),
    ],
)
def test_a_file_that_the_system_does_not_open_is_not_called_damaged_or_missing(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("{}")
    with no_open_files(), pytest.raises(UnreadableError, match=r"file: cannot be read .Too many open files.; raise"):
        read(tmp_path / "file")


def test_what_is_not_a_folder_has_no_names(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert names_in(tmp_path) == ["a", "b"]
    assert names_in(tmp_path / "a") == names_in(tmp_path / "none") == []


def test_a_folder_that_was_made_for_the_lock_alone_is_removed(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new" / "below"
    kept.mkdir()
    for folder in (kept, new):
        with locked(folder):
            assert folder.is_dir()
    assert kept.exists()
    assert not new.exists()
    with locked(new):
        (new / "file").touch()
    assert (new / "file").exists()
