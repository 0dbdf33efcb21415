"""All file types: which one a file is, by its content and its suffix."""

from os import SEEK_END
from pathlib import Path, PurePath
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, cast

from tram.errors import InputError
from tram.files import readable_file
from tram.filetypes import docx, epub, html, markdown, odt, plain_text, po, srt, tmx, vtt, xliff
from tram.filetypes.base import FileDocument, FileType, ReadOptions
from tram.filetypes.encoding import MAX_BYTES
from tram.filetypes.long_text import LONG

# By content in this order: packages first, the vaguest last.
FILETYPES: tuple[FileType, ...] = (
    docx.FILETYPE,
    odt.FILETYPE,
    epub.FILETYPE,
    xliff.FILETYPE,
    tmx.FILETYPE,
    html.FILETYPE,
    vtt.FILETYPE,
    srt.FILETYPE,
    po.FILETYPE,
    markdown.FILETYPE,
    plain_text.FILETYPE,
)
MAX_PACKAGE = 1 << 28  # bytes of a whole package; its parts have limits of their own
MAX_PIPE = 1 << 30  # bytes from a pipe, which are kept on the disk
START = 1 << 16  # bytes that types other than packages are recognised by

HINTS = {
    b"%PDF": "is a PDF file, which has no paragraphs to write back into; convert it to DOCX or ODT",
    b"\xd0\xcf\x11\xe0": "is password-protected or an old Office file; save it as .docx without a password",
    b"{\\rtf": "is an RTF file; save it as .docx or .odt",
    b"\x1f\x8b": "is compressed; unpack it first",
    b"BZh": "is compressed; unpack it first",
    b"\xfd7zXZ": "is compressed; unpack it first",
    b"PK": "is a package of a type that tram does not know; it reads .docx, .odt and .epub",
}


def names() -> list[str]:
    """Return the names that `--format` takes."""
    return [filetype.name for filetype in FILETYPES]


def find(name: str) -> FileType:
    """Return the file type with this name."""
    for filetype in FILETYPES:
        if name.lower() in (filetype.name, *filetype.aliases):
            return filetype
    raise InputError(f"{name!r} is no format that tram knows; choose one of {', '.join(names())}")


def detect(name: str | PurePath, content: bytes) -> FileType:
    """Return the type of a file. How it begins decides, if only one type begins so; else its suffix does.

    Only `.txt` files and files without a suffix are plain text; any other file of no known type is refused.
    """
    name = str(name)
    suffix = PurePath(name).suffix.lower()
    by_content = next((filetype for filetype in FILETYPES if filetype.matches(content)), None)
    by_suffix = next((filetype for filetype in FILETYPES if suffix in filetype.suffixes), None)
    hint = next((text for magic, text in HINTS.items() if content.startswith(magic)), None)
    is_package = content.startswith(b"PK")
    if by_content is None and hint is not None and not (is_package and by_suffix and by_suffix.is_package):
        raise InputError(f"{name}: {hint}")
    found = by_content or by_suffix
    if found is None and not suffix and _is_prose(content):
        found = plain_text.FILETYPE
    if found is None:
        raise InputError(f"{name}: is of no type that tram knows; name one with --format: {', '.join(names())}")
    return found


def _is_prose(content: bytes) -> bool:
    """Whether a file without a suffix can be plain text rather than data or a program."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return not start.startswith((b"#!", b"{", b"[", b"<", b"%!")) and b"\0" not in start


def open_file(path: Path, format: str | None = None, options: ReadOptions | None = None) -> FileDocument:
    """Read a file as documents of segments."""
    with open_binary(path, format) as file:
        return read_stream(str(path), file, format, options)


def open_binary(path: Path, format: str | None = None) -> BinaryIO:
    """Open a file so that it can be read more than once; `format` as in `open_file`."""
    try:
        file = readable_file(path).open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the name") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder; give a file in it") from None
    except OSError as error:
        raise _unreadable(str(path), error) from None
    if file.seekable():
        return file
    with file:
        return spooled(str(path), file, format)


def spooled(name: str, pipe: IO[bytes], format: str | None = None) -> BinaryIO:
    """Return what a pipe has as a file that can be read more than once: in memory or, if it is long, on the disk."""
    file = SpooledTemporaryFile(LONG)  # noqa: SIM115 (the caller closes it)
    try:
        file.write(pipe.read(START))
        limit = _limit(recognised(name, file, format)) or MAX_PIPE
        file.seek(0, SEEK_END)
        while content := pipe.read(START):
            file.write(content)
            if file.tell() > limit:
                raise InputError(f"{name}: is larger than {limit >> 20} MB; split it")
    except OSError as error:
        raise _unreadable(name, error) from None
    return cast(BinaryIO, file)


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"{name}: cannot be read ({error.strerror or error}); check its name and permissions")


def recognised(name: str, file: IO[bytes], format: str | None = None) -> FileType | None:
    """Return the type of an open file by its beginning; None for packages, which are recognised by their parts."""
    file.seek(0)
    start = file.read(START)
    if format:
        return find(format)
    return None if start.startswith(b"PK") else detect(name, start)


def _limit(filetype: FileType | None) -> int | None:
    """Return how large a file may be, in bytes; None: of any size."""
    if filetype is plain_text.FILETYPE:
        return None
    return MAX_PACKAGE if filetype is None or filetype.is_package else MAX_BYTES


def is_long_text(name: str, file: IO[bytes], format: str | None = None) -> bool:
    """Return whether an open file is plain text that is to be read in pieces."""
    return file.seek(0, SEEK_END) > LONG and recognised(name, file, format) is plain_text.FILETYPE


def read_stream(
    name: str, file: IO[bytes], format: str | None = None, options: ReadOptions | None = None
) -> FileDocument:
    """Read an open file as documents of segments; one that is too large is refused before it is read."""
    try:
        size = file.seek(0, SEEK_END)
        limit = _limit(recognised(name, file, format)) or MAX_BYTES
        if size > limit:
            raise InputError(f"{name}: is larger than {limit >> 20} MB; split it")
        file.seek(0)
        content = file.read(limit)
    except OSError as error:
        raise _unreadable(name, error) from None
    return read_bytes(name, content, format, options)


def read_bytes(
    name: str, content: bytes, format: str | None = None, options: ReadOptions | None = None
) -> FileDocument:
    """Read the content of a file; `name` is for messages and, without a format, for its suffix."""
    filetype = find(format) if format else detect(name, content)
    return filetype.read(name, content, options or ReadOptions())
