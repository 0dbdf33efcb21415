"""Atomic writes: a file is written under a temporary name first and then renamed.

    with replacing(path) as temporary:
        temporary.write_text("...")

A kill, an exception or a full disk inside the block leaves the previous file unchanged.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tram.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; the file or folder written there replaces `path` at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(temporary)  # left by a killed process with the same id, which is common in containers
        yield temporary
        if temporary.is_dir() and path.exists():
            # Renamed instead of removed: a kill during a removal would leave neither the old folder nor the new one.
            old = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
            os.rename(path, old)
            os.replace(temporary, path)
            remove(old)
        else:
            os.replace(temporary, path)
    except BaseException as error:
        remove(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(write_problem(path, error)) from error
        raise


def check_writable(path: Path) -> None:
    """Refuse a path that could not be written later, before the work for it begins."""
    probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(write_problem(path, error)) from None


def write_problem(path: Path, error: OSError) -> str:
    """Return one sentence that says why `path` could not be written."""
    remedies = {
        errno.ENOSPC: "free some space on the disk and run again",
        errno.EDQUOT: "free some space in your quota and run again",
        errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run again",
        errno.EACCES: "choose another location or change its permissions",
        errno.EPERM: "choose another location or change its permissions",
        errno.EROFS: "choose a writable location",
        errno.ENOTDIR: "part of this path is a file; choose another location",
        errno.EEXIST: "part of this path is a file; choose another location",
    }
    reason = error.strerror or str(error)
    return f"{path}: cannot be written ({reason}): {remedies.get(error.errno or 0, 'choose another location')}"


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        path.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def fingerprint(value: Any) -> str:
    """Return twelve hexadecimal digits that identify a JSON value, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def content_fingerprint(path: Path) -> str:
    """Return twelve hexadecimal digits that identify the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
