"""Uploaded files: translated in their own format, kept for a while in a temporary folder.

Names that clients choose never become paths: a file is found by a random id in a table.
"""

import re
import secrets
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath

from tram.errors import InputError
from tram.filetypes.base import FileDocument, ReadOptions
from tram.filetypes.batch import translate_opened
from tram.filetypes.registry import FILETYPES, read_bytes
from tram.filetypes.translate import finish
from tram.service.errors import Problem
from tram.service.shared import SharedTranslator

SUFFIXES = sorted({suffix for filetype in FILETYPES for suffix in filetype.suffixes})
MAX_UNPACKED = 20  # times the limit on the size of a file
MAX_PARTS = 5_000
UNSAFE = re.compile(r"[^\w.-]+")
LONGEST_NAME, LONGEST_SUFFIX = 100, 16
LIFETIME = 3_600.0  # seconds for which a translation can be downloaded
MAX_KEPT, MAX_KEPT_BYTES = 200, 500_000_000  # of one client; its oldest files make room for new ones


@dataclass(frozen=True)
class Upload:
    """A file that a client has sent."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Kept:
    """A translated file that waits for its download."""

    path: Path
    name: str
    created: float
    owner: str
    size: int


class Uploads:
    """Translated files in a temporary folder, which is removed with the service."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tram-")
        self._kept: dict[str, Kept] = {}
        self._lock = threading.Lock()
        self._clock = clock

    def keep(self, name: str, content: bytes, owner: str) -> str:
        """Store a translated file; return the random name that it can be downloaded by."""
        self.remove_expired()
        self._make_room(owner, len(content))
        id = f"{secrets.token_hex(16)}.{name}"
        path = Path(self._folder.name) / secrets.token_hex(16)
        path.write_bytes(content)
        with self._lock:
            self._kept[id] = Kept(path, name, self._clock(), owner, len(content))
        return id

    def _make_room(self, owner: str, size: int) -> None:
        """Delete the oldest files of a client that has too many."""
        with self._lock:
            own = [(id, kept.size) for id, kept in self._kept.items() if kept.owner == owner]
        count, total = len(own) + 1, sum(each for _, each in own) + size
        for id, each in own:
            if count <= MAX_KEPT and total <= MAX_KEPT_BYTES:
                return
            self.remove(id)
            count, total = count - 1, total - each

    def get(self, id: str) -> Kept:
        """Return a file by its random name."""
        with self._lock:
            kept = self._kept.get(id)
        if kept is None or self._clock() - kept.created > LIFETIME:
            raise Problem(404, "There is no such file; it may have expired")
        return kept

    def remove(self, id: str) -> None:
        """Delete a file, if it is there."""
        with self._lock:
            kept = self._kept.pop(id, None)
        if kept is not None:
            kept.path.unlink(missing_ok=True)

    def remove_expired(self) -> None:
        """Delete the files that were not downloaded in time."""
        with self._lock:
            expired = [id for id, kept in self._kept.items() if self._clock() - kept.created > LIFETIME]
        for id in expired:
            self.remove(id)

    def close(self) -> None:
        """Delete everything."""
        self._folder.cleanup()


def safe_name(name: str) -> str:
    """Return a file's name without folders and without characters that mean something to a shell or a header."""
    base = UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).lstrip(".") or "file"
    path = PurePosixPath(base)
    return path.stem[:LONGEST_NAME] + path.suffix[:LONGEST_SUFFIX]


def translated_name(name: str, language: str) -> str:
    """Return letter.de.txt for letter.txt."""
    path = PurePosixPath(safe_name(name))
    return f"{path.stem}.{language}{path.suffix}"


def unpacked_size(content: bytes, max_bytes: int) -> int:
    """Return the size of an uploaded file, unpacked; refuse one that is too large, or unpacks to far more."""
    if max_bytes and len(content) > max_bytes:
        raise Problem(413, f"The file has {len(content)} bytes, the limit is {max_bytes}")
    return _package_size(content, max_bytes * MAX_UNPACKED) if content.startswith(b"PK") else len(content)


def _package_size(content: bytes, max_unpacked: int) -> int:
    try:
        with zipfile.ZipFile(BytesIO(content)) as package:
            infos = package.infolist()
    except Exception:  # zipfile raises whatever damaged bytes lead it to
        raise Problem(400, "Invalid request: the file is a damaged package") from None
    size = sum(info.file_size for info in infos)
    if len(infos) > MAX_PARTS or (max_unpacked and size > max_unpacked):
        raise Problem(413, "The file unpacks to more than this service reads")
    return size


def open_upload(upload: Upload, options: ReadOptions) -> FileDocument:
    """Read an uploaded file."""
    try:
        return read_bytes(safe_name(upload.name), upload.content, None, options)
    except InputError as error:
        raise Problem(400, f"Invalid request: {error}") from None


def characters(document: FileDocument) -> int:
    """Return how many characters of a file are to be translated."""
    return sum(len(segment.text) for segments in document.documents for segment in segments if segment.translate)


def translate_upload(translator: SharedTranslator, document: FileDocument) -> bytes:
    """Return the file with its segments translated."""
    ((_, rows),) = translate_opened(translator, [document])
    try:
        return finish(document, rows)[0]
    except InputError as error:
        raise Problem(400, f"Invalid request: {error}") from None


def translate_html(translator: SharedTranslator, texts: Sequence[str], options: ReadOptions) -> list[str]:
    """Return pieces of HTML with their text translated, each on its own."""
    try:
        # The mark says that it is UTF-8, whatever a <meta> in it says
        files = [read_bytes("html", text.encode("utf-8-sig"), "html", options) for text in texts]
        return [finish(file, rows)[0].decode("utf-8-sig") for file, rows in translate_opened(translator, files)]
    except InputError as error:
        raise Problem(400, f"Invalid request: {error}") from None
