"""Fingerprints of values and files, and checksums that notice damage which leaves a file readable."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tram.files import reading, regular_file


def fingerprint(value: Any) -> str:
    """Return twelve hexadecimal digits that identify a JSON value, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def bytes_fingerprint(content: bytes) -> str:
    """Return twelve hexadecimal digits that identify some bytes; those of a file: `content_fingerprint`."""
    return hashlib.sha256(content).hexdigest()[:12]


def content_fingerprint(path: Path) -> str:
    """Return twelve hexadecimal digits that identify the bytes of a file."""
    with reading(path), regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return size and fingerprint of files of a folder by their names, to notice damage that leaves them readable."""
    return {name: f"{(folder / name).stat().st_size} {content_fingerprint(folder / name)}" for name in names}


def has_checksum(path: Path, checksum: object) -> bool:
    """Return whether a file has a checksum; the size is compared first, because a sparse file can have any."""
    with reading(path):
        size = regular_file(path).stat().st_size
    return str(checksum).startswith(f"{size} ") and checksum == f"{size} {content_fingerprint(path)}"
