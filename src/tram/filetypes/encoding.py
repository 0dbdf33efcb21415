"""Bytes to text and back in the encoding that a file has."""

import codecs
from dataclasses import dataclass

from tram.errors import InputError

# What is read as a whole: each tag, line and sentence takes up to a kilobyte in memory, however short it is. Plain text
# of any size is read in pieces (`long_text`).
MAX_BYTES = 1 << 25
MAX_MARKS = 1 << 20
MARKS = "<\n\r.!?。！？&|*["  # what tags, lines, cells and sentences begin or end with
MARK_BYTES = [mark.encode() for mark in MARKS]
BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]


def byte_order(content: bytes) -> tuple[bytes, str | None]:
    """Return the byte order mark of a file and the encoding that it stands for; empty and None if it has none."""
    return next(((bom, encoding) for bom, encoding in BOMS if content.startswith(bom)), (b"", None))


def beginning(content: bytes, size: int = 1 << 14) -> bytes:
    """Return the first bytes of a text file to recognise it by: without byte order mark, leading blanks and UTF-16."""
    start = content[:size]
    for bom, _ in BOMS:
        start = start.removeprefix(bom)
    return start.replace(b"\0", b"").lstrip()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file, line ends as they are, and how it was encoded."""

    name: str
    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str, references: bool = False) -> bytes:
        """Return text in the file's encoding; `references`: write what it lacks as `&#…;`."""
        try:
            return self.bom + text.encode(self.encoding, "xmlcharrefreplace" if references else "strict")
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise InputError(
                f"{self.name}: its encoding {self.encoding} has no {character!r}, which the translation needs;"
                " convert the file to UTF-8"
            ) from None


def check_size(name: str, size: int, marks: int = 0) -> None:
    """Refuse text that would take too much memory."""
    if size > MAX_BYTES:
        raise InputError(f"{name}: has {size / (1 << 20):.0f} MB of text, more than {MAX_BYTES >> 20}; split it")
    if marks > MAX_MARKS:
        raise InputError(f"{name}: has {marks:,} tags, lines and sentences, more than {MAX_MARKS:,}; split it")


def count_marks(content: bytes) -> int:
    """Return how many tags, lines and sentences a file can have at most."""
    return sum(map(content.count, MARK_BYTES))


def decode(name: str, content: bytes, declared: str | None = None) -> Decoded:
    """Return the text of a file: by its byte order mark, by the encoding that it declares, or UTF-8."""
    check_size(name, len(content), count_marks(content))
    bom, encoding = byte_order(content)
    encoding = encoding or declared or "utf-8"
    try:
        encoding = codecs.lookup(encoding).name
        text = content[len(bom) :].decode(encoding)
    except LookupError:
        raise InputError(f"{name}: declares an unknown encoding {encoding!r}; convert it to UTF-8") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        remedy = "" if declared or bom else ", for example with iconv -f windows-1252 -t utf-8"
        raise InputError(f"{name}:{line}: is not valid {encoding.upper()}; convert it to UTF-8{remedy}") from None
    except UnicodeError:  # of codecs that are not for files, such as `undefined`
        raise InputError(f"{name}: declares the encoding {encoding!r}; convert it to UTF-8") from None
    if "\0" in text:  # UTF-16 without a byte order mark, for example
        raise InputError(f"{name}: is not text in {encoding.upper()}; convert it to UTF-8, or name its format")
    return Decoded(name, text, encoding, bom)
