"""UTF-8 text files, plain or compressed (.gz, .xz), that report bad input with its file and line.

    for number, line in Lines(Path("talks.jsonl.gz")): ...
    with open_atomically(Path("out.en.xz")) as handle: ...

The file appears under its name only when the block ends without an error.
"""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NoReturn, TextIO, cast

from tram.errors import InputError, write_problem
from tram.files import check_name, replacing

MAX_LINE = 1 << 25  # bytes; a whole novel as one line of JSON is a tenth of it
COMPRESSION_SUFFIXES = (".gz", ".xz")


class _Gzip(gzip.GzipFile):
    """A gzip stream without a file name and a time, so that the same text always results in the same bytes."""

    def __init__(self, raw: IO[bytes], mode: str) -> None:
        super().__init__("", mode, 6, raw, 0)
        self._raw = raw

    def close(self) -> None:
        """Close the stream and the file below it."""
        super().close()
        self._raw.close()


def _open_bytes(path: Path, mode: Literal["rb", "wb"], suffix: str) -> IO[bytes]:
    check_name(path)
    if suffix == ".gz":
        return cast(IO[bytes], _Gzip(open(path, mode), mode))
    if suffix == ".xz":
        # Without the older .lzma format, which has no magic number: zeros decode as an endless series of empty files.
        return cast(IO[bytes], lzma.LZMAFile(path, mode, format=lzma.FORMAT_XZ))
    return open(path, mode)


def open_text(path: Path | str, mode: Literal["r", "w"] = "r") -> TextIO:
    r"""Open a UTF-8 text file, compressed if its name ends in .gz or .xz; only "\n" ends a line."""
    path = Path(path)
    try:
        if mode == "w":
            return _text_writer(path, path.suffix)
        return io.TextIOWrapper(_open_bytes(path, "rb", path.suffix), encoding="utf-8-sig", newline="\n")
    except OSError as error:
        problem = write_problem if mode == "w" else _read_problem
        raise InputError(problem(path, error)) from error


def _text_writer(path: Path, suffix: str) -> TextIO:
    return io.TextIOWrapper(_open_bytes(path, "wb", suffix), encoding="utf-8", newline="\n")


@contextmanager
def open_atomically(path: Path) -> Iterator[TextIO]:
    """Yield a handle for writing text; the file appears under its name only if the block succeeds."""
    with replacing(path) as temporary, _text_writer(temporary, path.suffix) as handle:
        yield handle


def without_compression_suffix(path: Path) -> Path:
    """Return the path without .gz or .xz."""
    return path.with_suffix("") if path.suffix in COMPRESSION_SUFFIXES else path


def _read_problem(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path}: there is no such file; check the name"
    if isinstance(error, IsADirectoryError):
        return f"{path}: this is a folder; give a file in it"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{path}: cannot be read ({error.strerror}); check its permissions"
    return f"{path}: is truncated or not a {path.suffix} file ({error}); download or compress it again"


@dataclass(frozen=True, slots=True)
class Lines:
    """The numbered lines of a text file, without line ends and without a byte order mark."""

    path: Path

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, raw in self._raw():
            # Only "\n" and "\r\n" end a line: U+2028, U+0085 and a vertical tab belong to the sentence.
            end = -2 if raw.endswith(b"\r\n") else -1 if raw.endswith(b"\n") else None
            yield number, self._decode(number, raw[:end])

    def with_ends(self) -> Iterator[str]:
        """Yield the lines with their ends."""
        for number, raw in self._raw():
            yield self._decode(number, raw)

    def _raw(self) -> Iterator[tuple[int, bytes]]:
        try:
            with _open_bytes(self.path, "rb", self.path.suffix) as stream:
                # The extra buffer finds line ends in C; the decompressors do it in Python, many times slower.
                reader = io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16)
                for number, line in enumerate(iter(lambda: reader.readline(MAX_LINE + 1), b""), start=1):
                    if len(line) > MAX_LINE:  # a small compressed file can contain a line of gigabytes
                        self.refuse(number, f"is longer than {MAX_LINE:,} bytes; put each sentence on its own line")
                    yield number, line
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InputError(_read_problem(self.path, error)) from error

    def _decode(self, number: int, raw: bytes) -> str:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse(number, f"is not UTF-8 (byte {error.start + 1} of the line); convert the file to UTF-8")
        return text.removeprefix("\ufeff") if number == 1 else text

    def refuse(self, number: int, problem: str) -> NoReturn:
        """Raise an `InputError` that names this file and a line in it."""
        raise InputError(f"{self.path}:{number} {problem}")
