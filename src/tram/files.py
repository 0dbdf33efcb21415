"""Durable, exclusive writes: a file is written under a temporary name, flushed to disk and then renamed.

    with replacing(path) as temporary:
        temporary.write_text("...")
    with locked(folder):            # one process at a time writes to this folder
        ...

A kill, an exception, a full disk or a power cut leaves the previous file unchanged. A symbolic link stays, and its
target is replaced; a device or a named pipe is written to; the mode of an existing file is kept.
"""

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tram.errors import InputError, UnreadableError, write_problem
from tram.json_text import parse_json

if sys.platform != "win32":
    import fcntl

NAME = 40  # characters of the name that a temporary name repeats: file systems allow 255 bytes in all
OLD = ".old.tmp"  # ends the name of a folder that is being replaced where the two cannot be exchanged
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}(?:\.old)?\.tmp", re.DOTALL)
BUSY = (errno.EWOULDBLOCK, errno.EACCES)
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux
KERNEL = re.compile(r"/proc/(?!\d)|/sys/")  # these call themselves regular files, but reading /proc/kmsg never ends
MAX_TEXT = 1 << 28  # bytes; the text.json of the largest vocabulary is a tenth of it


# Replacing files and folders.


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty temporary file; what is written to it replaces the file `path` at the end.

    Yields `path` itself if it is a device, a pipe or a file that is open already (/dev/stdout).
    """
    if writes_through(path):
        with writing(path):
            yield path
        return
    with writing(path):
        target = _target(path)
        make_folder(target.parent)
        mode = _mode(target)
        temporary, lock = _create(target, 0o666 if mode is None else mode)
        try:
            yield temporary
            _keep_mode(temporary, mode)
            flush_to_disk(temporary)
            os.replace(temporary, target)
        except BaseException:
            remove(temporary)
            raise
        finally:
            os.close(lock)
        flush_to_disk(target.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder, which replaces the folder `path` at the end."""
    with writing(path):
        target = _target(path, folder=True)
        make_folder(target.parent)
        mode = _mode(target)
        temporary, lock = _create(target, None)
        try:
            yield temporary
            _keep_mode(temporary, mode)
            for folder, _, names in os.walk(temporary, topdown=False):
                for place in (*(Path(folder) / name for name in names), Path(folder)):
                    flush_to_disk(place)
            old = _exchange(temporary, target)
        except BaseException:
            remove(temporary)
            raise
        finally:
            os.close(lock)
        flush_to_disk(target.parent)
        if old is not None:  # only now: after a power cut, the name must not lead to a folder that is half removed
            remove(old)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written later, before the work for it begins."""
    with writing(path):
        if writes_through(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        _probe(_target(path))


def check_folder_writable(path: Path) -> None:
    """Refuse a folder that could not be written later; `path` need not exist yet."""
    with writing(path):
        target = _target(path, folder=True)
        _probe(target / "probe" if target.is_dir() else target)


def _probe(target: Path) -> None:
    make_folder(target.parent)
    probe, lock = _create(target, 0o600)
    try:
        os.close(lock)
    finally:
        probe.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they exist, and wait until their names are on the disk."""
    new = [] if folder.is_dir() else [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        flush_to_disk(each.parent)


def writes_through(path: Path) -> bool:
    """Return whether a path is something to write into instead of a file to replace."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(mode):
        return not stat.S_ISDIR(mode)
    link = os.readlink(path) if path.is_symlink() else path  # /dev/stdout → /proc/self/fd/1
    return any(os.path.realpath(os.path.dirname(each)).startswith("/proc/") for each in (path, link))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a sentence about `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise InputError(write_problem(path, error)) from error


def _target(path: Path, folder: bool = False) -> Path:
    """Return what is to be replaced, behind symbolic links; refuse a path that has no name."""
    check_name(path)
    target = Path(os.path.realpath(path))
    if not folder and target.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    if folder and target.exists() and not target.is_dir():
        raise InputError(f"{path}: is a file; give the name of a folder")
    if not target.name:
        raise InputError(f"{path}: cannot be replaced; give a folder below it")
    return target


def _mode(target: Path) -> int | None:
    return stat.S_IMODE(target.stat().st_mode) if target.exists() else None


def _keep_mode(temporary: Path, mode: int | None) -> None:
    if mode is not None and stat.S_IMODE(temporary.stat().st_mode) != mode:
        temporary.chmod(mode)


def _create(target: Path, mode: int | None) -> tuple[Path, int]:
    """Create an empty temporary file, or a folder if mode is None, with a name that nobody can foresee.

    Return it and a descriptor, whose lock says that it is in use. Remove what killed processes left.
    """
    _clean(target)
    while True:
        temporary = target.with_name(f".{target.name[:NAME]}.{secrets.token_hex(8)}.tmp")
        if mode is None:
            os.mkdir(temporary)
            try:
                descriptor = os.open(temporary, os.O_RDONLY)
            except OSError:
                temporary.rmdir()
                raise
        else:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, mode)
        # Between the two calls another process may take it for a leftover and remove it.
        if _try_lock(descriptor) is not False and temporary.exists():
            return temporary, descriptor
        os.close(descriptor)


def temporary_for(name: str) -> str | None:
    """Return the start of the name that a temporary file or folder was made for; None if the name is not tram's."""
    match = TEMPORARY.fullmatch(name)
    return match and match[1]


def _clean(target: Path) -> None:
    """Remove temporary files and folders for `target` that no living process holds."""
    names = [name for name in os.listdir(target.parent) if temporary_for(name) == target.name[:NAME]]
    for leftover in map(target.with_name, names):
        if leftover.is_symlink():  # not ours
            continue
        if leftover.name.endswith(OLD) and leftover.is_dir() and not target.exists():
            with suppress(OSError):  # killed between the two renames of _exchange
                os.rename(leftover, target)
            continue
        with suppress(OSError):
            if leftover.is_dir() and not os.access(leftover, os.R_OK | os.W_OK | os.X_OK):
                leftover.chmod(stat.S_IRWXU)
            descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _try_lock(descriptor):
                    remove(leftover)
            finally:
                os.close(descriptor)


def _exchange(temporary: Path, target: Path) -> Path | None:
    """Put a folder in the place of another one, so that a kill at any time leaves one of them; return the other one."""
    if not target.exists():
        os.rename(temporary, target)
        return None
    if not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not _exchange_at_once(temporary, target):
        old = temporary.with_name(temporary.name.removesuffix(".tmp") + OLD)
        os.rename(target, old)  # after a kill here, _clean renames it back
        os.rename(temporary, target)
        temporary = old
    return temporary


def _exchange_at_once(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; return False where the system has no such step."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    done: int = rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return done == 0


def flush_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # file systems that cannot
            raise
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists; of a symbolic link, the link."""
    if path.is_dir() and not path.is_symlink():
        with suppress(OSError):
            path.chmod(stat.S_IRWXU)  # of a read-only folder, nothing could be removed
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


# Locks.


@dataclass(frozen=True)
class Lock:
    """An output folder that this process holds."""

    folder: Path
    descriptor: int

    def check(self) -> None:
        """Refuse to go on if the folder was removed, renamed or replaced: writing would make another one."""
        try:
            held = os.path.samestat(os.fstat(self.descriptor), os.stat(self.folder))
        except OSError:
            held = False
        if not held:
            raise InputError(
                f"{self.folder}: was removed or replaced while it was written to; put it back, or start again"
            )


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Hold an output folder for this process alone; refuse if another one holds it. A kill releases it.

    The folder is made if it does not exist, and removed again if it is still empty at the end.
    """
    with writing(folder):
        target = _target(folder, folder=True)
        is_new = not target.exists()
        make_folder(target)
        descriptor = os.open(target, os.O_RDONLY)
    try:
        if _try_lock(descriptor) is False:
            raise InputError(f"another tram is writing to {folder}; wait for it or choose another folder")
        try:
            yield Lock(folder, descriptor)
        finally:
            if is_new:
                with suppress(OSError):  # not empty
                    target.rmdir()
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder and return whether that succeeded; None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in BUSY else None
    return True


# What is read.


def exists(path: Path) -> bool:
    """Return whether there is anything at a path; refuse one below a folder that may not be looked into."""
    with reading(path):
        return path.exists()


def is_file(path: Path) -> bool:
    """Return whether there is a regular file at a path; refuse one below a folder that may not be looked into."""
    with reading(path):
        return path.is_file()


def is_folder(path: Path) -> bool:
    """Return whether there is a folder at a path; refuse one below a folder that may not be looked into."""
    with reading(path):
        return path.is_dir()


def names_in(folder: Path) -> list[str]:
    """Return the sorted names of what is in a folder; none if there is no such folder."""
    with reading(folder):
        return sorted(os.listdir(folder)) if folder.is_dir() else []


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a sentence about `path`, but for a file that does not exist."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError.of(path, error) from error


def check_name(path: Path) -> None:
    """Refuse a path with a null character or a lone surrogate, which no file can have."""
    try:
        valid = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        valid = False
    if not valid:
        raise InputError(f"{str(path)!r}: contains a null character or a lone surrogate; choose another name")


def regular_file(path: Path, largest: int | None = None) -> Path:
    """Return the path of a file to read; refuse what would never end or block: pipes, devices, folders, huge files.

    A path that does not exist is returned as it is: opening it says so. largest: in bytes.
    """
    check_name(path)
    try:
        found = os.stat(path)
    except OSError:
        return path
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    if not stat.S_ISREG(found.st_mode) or KERNEL.match(os.path.realpath(path)):
        raise InputError(f"{path}: is {kinds.get(stat.S_IFMT(found.st_mode), 'a device')}; put a regular file there")
    if largest is not None and found.st_size > largest:
        raise InputError(f"{path}: is larger than {largest:,} bytes, so it is damaged; use another copy of it")
    return path


def readable_file(path: Path, largest: int | None = None) -> Path:
    """Return the path of a regular file, or of a pipe that a shell opened, as in `tram train <(…)`."""
    is_open = re.match(r"/dev/fd/|/proc/\d+/fd/", os.path.realpath(path)) is not None
    return path if is_open else regular_file(path, largest)


def read_text(path: Path, largest: int = MAX_TEXT) -> str:
    """Return the text of a regular UTF-8 file; what is not UTF-8 is a ValueError."""
    with reading(path):
        return regular_file(path, largest).read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; whatever is wrong with the text is a ValueError."""
    return parse_json(read_text(path))
