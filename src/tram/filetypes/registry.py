"""All file types: which one a file is, by its content and its suffix."""

from pathlib import Path, PurePath

from tram.errors import InputError
from tram.files import readable_file
from tram.filetypes import docx, epub, html, markdown, odt, plain_text, po, srt, tmx, vtt, xliff
from tram.filetypes.base import FileDocument, FileType, ReadOptions

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
MAX_BYTES = 1 << 29  # of a whole file; parts of packages have limits of their own

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
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: is larger than {MAX_BYTES >> 20} MB; split it")
        content = readable_file(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the name") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder; give a file in it") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: cannot be read ({reason}); check its name and permissions") from None
    return read_bytes(str(path), content, format, options)


def read_bytes(
    name: str, content: bytes, format: str | None = None, options: ReadOptions | None = None
) -> FileDocument:
    """Read the content of a file; `name` is for messages and, without a format, for its suffix."""
    filetype = find(format) if format else detect(name, content)
    return filetype.read(name, content, options or ReadOptions())
