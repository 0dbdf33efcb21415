"""The interface of all file types: segments to translate, a skeleton to write them back into.

    document = open_file(Path("manual.docx"))
    for sentences in document.documents: ...          # lists of Segment, in reading order
    document.write(translations)                      # bytes; one Translation, or None to keep, per segment

A file type is a module with a `FILETYPE`; `registry` lists them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

TagKind = Literal["open", "close", "empty"]

# Characters that stand for pieces of a sentence which are not to be translated, such as inline code. They are private
# to tram: a file that contains one of them gets it back through a placeholder of its own.
FIRST_PLACEHOLDER = 0x10F000
PLACEHOLDERS = 0xF00


@dataclass(frozen=True, slots=True)
class Tag:
    """One inline tag at a character position of a plain text; the two tags of a pair share their key."""

    kind: TagKind
    key: int
    position: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One sentence of a file.

    text: plain, without tags; pieces that are not translated, such as inline code, are one placeholder character each.
    tags: in the order of the file. A tag whose partner is missing belongs to markup that covers several sentences.
    opaque: what the placeholders stand for, in the order of the text.
    target: the translation that the file has already; it is context to read and is kept.
    """

    text: str
    tags: tuple[Tag, ...] = ()
    opaque: tuple[str, ...] = ()
    target: str | None = None
    translate: bool = True

    @property
    def readable(self) -> str:
        """The text with the placeholders replaced by what they stand for; those of subtitles are the file's own."""
        contents = iter(self.opaque)
        return "".join(next(contents, c) if is_placeholder(c) else c for c in self.text)


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of a segment: its text with the segment's placeholders, and the tags in their new places.

    alignment: (source word, target word) pairs, for formats that split sentences.
    """

    text: str
    tags: tuple[Tag, ...] = ()
    doubtful: bool = False  # formats with a state for it (PO, XLIFF) ask for a review
    alignment: Sequence[tuple[int, int]] | None = None


Translations = Sequence[Sequence[Translation | None]]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file."""

    source_language: str = "en"
    target_language: str | None = None  # written where a file names its language
    chapters: bool = False  # EPUB: one document per chapter, not one per book


class FileDocument(ABC):
    """A file as documents of segments, and everything else that it holds."""

    documents: list[list[Segment]]

    @abstractmethod
    def write(self, translations: Translations) -> bytes:
        """Return the file with these translations, one per segment; None keeps what the file has."""

    def check(self, translations: Translations) -> None:
        """Refuse translations that do not match the segments one to one."""
        found = [len(sentences) for sentences in translations]
        expected = [len(segments) for segments in self.documents]
        if found != expected:
            raise ValueError(f"translations of documents with {found} sentences for {expected} segments")


@dataclass(frozen=True, slots=True)
class FileType:
    """One format: how its files are recognised and read.

    matches: whether the content begins as only files of this type do; packages need all of it.
    read: (name for messages, content, options) → document; raises InputError.
    """

    name: str
    suffixes: tuple[str, ...]
    matches: Callable[[bytes], bool]
    read: Callable[[str, bytes, ReadOptions], FileDocument]
    aliases: tuple[str, ...] = ()
    is_package: bool = False  # a ZIP file


def is_placeholder(character: str) -> bool:
    """Return whether a character stands for an opaque piece of a sentence."""
    return FIRST_PLACEHOLDER <= ord(character) < FIRST_PLACEHOLDER + PLACEHOLDERS


def placeholder(number: int) -> str:
    """Return the placeholder with this number."""
    if not 0 <= number < PLACEHOLDERS:
        raise ValueError(f"a block has at most {PLACEHOLDERS} placeholders")
    return chr(FIRST_PLACEHOLDER + number)
