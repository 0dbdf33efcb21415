"""Document formats that are read line by line: blank lines, `<d>`, start lines, columns, JSON.

    for document in JsonLines().read(Lines(Path("talks.jsonl.gz")), "both"): ...

A `Format` parses the lines of one file into `ParsedDocument`s and renders an `OutputDocument` as text. `corpus.py`
combines the two sides; `xml_formats.py` has the formats made of tags.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from tram.data.text_files import COMPRESSION_SUFFIXES, Lines, without_compression_suffix
from tram.errors import InputError
from tram.files import is_file
from tram.json_text import parse_json

Sides = Literal["source", "target", "both"]


@dataclass(slots=True)
class ParsedDocument:
    """A document as read from one file; for a file with one side, `source` and `target` are the same list."""

    id: str | None
    end: int  # the line that ends the document
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each sentence, in formats with one sentence per line

    @classmethod
    def one_sided(cls, line: int, id: str | None = None) -> "ParsedDocument":
        """Return an empty document whose only side serves as source and as target."""
        sentences: list[str] = []
        return cls(id, line, sentences, sentences)

    def add(self, line: int, sentence: str) -> None:
        """Append a sentence to the only side."""
        self.source.append(sentence)
        self.lines.append(line)
        self.end = line

    def line_of(self, sentence: int) -> int:
        """Return the line of a sentence (0-based), or the last line if the format does not have it."""
        return self.lines[sentence] if sentence < len(self.lines) else self.end


@dataclass(frozen=True, slots=True)
class OutputDocument:
    """One document to be written to a file; `columns` contains one side or both."""

    path: Path
    number: int  # 1-based
    offset: int  # number of sentences before it in the file
    id: str | None
    previous: str | None  # the name of the previous document
    sides: Sides
    columns: tuple[list[str], ...]

    @property
    def name(self) -> str:
        """The id, or the number of a document without an id, for formats that need one."""
        return str(self.number) if self.id is None else self.id

    def refuse(self, sentence: int, problem: str) -> NoReturn:
        """Raise an `InputError` that names this document and a sentence (0-based) in it."""
        where = f"sentence {sentence + 1} of {document_label(self.number, self.id)}"
        raise InputError(f"{self.path}: cannot store {where}: {problem}")

    def check_lines(self) -> None:
        """Refuse sentences that contain a line break."""
        for column in self.columns:
            for i, sentence in enumerate(column):
                if "\n" in sentence or sentence.endswith("\r"):
                    self.refuse(i, "it contains a line break; remove it or write the jsonl format")

    def check_name(self, forbidden: str) -> None:
        """Refuse an id that contains one of the forbidden characters."""
        if any(character in self.name for character in forbidden):
            raise InputError(
                f"{self.path}: cannot store the id {self.name!r} of document {self.number}; simplify the id"
            )


def document_label(number: int, id: str | None) -> str:
    """Return the name of a document in error messages: its number and, if it has one, its id."""
    return f"document {number}" if id is None else f"document {number} (id {id})"


class Format:
    """A file format for documents."""

    two_sided: ClassVar[bool] = False  # whether one file can contain both sides

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield the documents of a file, including empty ones; refuse a document that lacks one of `sides`."""
        raise NotImplementedError

    def head(self, sides: Sides) -> str:
        """Return the text before the first document."""
        return ""

    def render(self, document: OutputDocument) -> str:
        """Return the text of one document; refuse a document that would not be read back unchanged."""
        raise NotImplementedError

    def tail(self, sides: Sides) -> str:
        """Return the text after the last document."""
        return ""


def joined_lines(lines: Iterable[str]) -> str:
    """Return the lines, each with its line end."""
    return "".join(f"{line}\n" for line in lines)


class BlankLines(Format):
    """One sentence per line, with a blank line between documents."""

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield a document at each blank line; two blank lines in a row have an empty document between them."""
        document = ParsedDocument.one_sided(1)
        for number, line in lines:
            if line and not line.isspace():
                document.add(number, line)
            else:
                document.end = number
                yield document
                document = ParsedDocument.one_sided(number)
        yield document

    def render(self, document: OutputDocument) -> str:
        """Return the sentences; refuse empty ones, which would end the document."""
        document.check_lines()
        (sentences,) = document.columns
        for i, sentence in enumerate(sentences):
            if not sentence or sentence.isspace():
                document.refuse(i, "it is empty, and a blank line ends a document; write the d or jsonl format")
        return ("\n" if document.number > 1 else "") + joined_lines(sentences)


class DocumentMarks(Format):
    """One sentence per line, which may be empty; a line with only `<d>` starts a document."""

    MARK = "<d>"

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield a document at each mark and at the end of the file."""
        document: ParsedDocument | None = None
        for number, line in lines:
            if line.strip() == self.MARK:
                if document is not None:
                    document.end = number
                    yield document
                document = ParsedDocument.one_sided(number)
            elif document is not None:
                document.add(number, line)
            elif line.strip():
                lines.refuse(number, "comes before the first <d>; put <d> on a line of its own above each document")
        if document is not None:
            yield document

    def render(self, document: OutputDocument) -> str:
        """Return the mark and the sentences; refuse a sentence that looks like the mark."""
        document.check_lines()
        (sentences,) = document.columns
        for i, sentence in enumerate(sentences):
            if sentence.strip() == self.MARK:
                document.refuse(i, "it is <d>, which starts a document; change it or write the blank or jsonl format")
        return joined_lines([self.MARK, *sentences])


class StartLines(Format):
    """One sentence per line; `X.doc` beside `X.en` lists the 0-based lines on which documents start."""

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Read the text and the start lines in parallel."""
        index = Lines(self.require_index(lines.path))
        starts = self._starts(index)
        index_line, start = next(starts, (1, None))
        if start is None:
            index.refuse(1, "is missing: the file is empty; list the 0-based line number of each document's start")
        document = ParsedDocument.one_sided(1)
        number = 0
        for number, line in lines:
            while start == number - 1:
                if number > 1 or document.lines:
                    yield document
                document = ParsedDocument.one_sided(number)
                index_line, start = next(starts, (index_line, None))
            document.add(number, line)
        yield document
        if start is not None and start > number:
            problem = f"starts a document at {start}, but {lines.path} has {number} lines; regenerate both files"
            index.refuse(index_line, problem)

    def _starts(self, index: Lines) -> Iterator[tuple[int, int | None]]:
        last = 0
        for number, line in index:
            if not re.fullmatch("[0-9]{1,18}", line.strip()):
                index.refuse(number, f"is {line.strip()!r}; give the 0-based line number of a document's start")
            start = int(line.strip())
            if number == 1 and start != 0:
                index.refuse(number, f"is {start}, but the first document starts at 0; count lines from 0")
            if start < last:
                index.refuse(number, f"is {start}, below the {last} before it; give the starts in ascending order")
            last = start
            yield number, start

    @staticmethod
    def index_path(path: Path) -> Path:
        """Return the name of the file with the start lines of a text file."""
        return without_compression_suffix(path).with_suffix(".doc")

    @classmethod
    def find_index(cls, path: Path) -> Path | None:
        """Return the file with the start lines, compressed or not, if it exists."""
        index = cls.index_path(path)
        candidates = [index, *(index.with_name(index.name + suffix) for suffix in COMPRESSION_SUFFIXES)]
        return next((candidate for candidate in candidates if is_file(candidate)), None)

    @classmethod
    def require_index(cls, path: Path) -> Path:
        """Return the file with the start lines, which must exist."""
        index = cls.find_index(path)
        if index is None:
            raise InputError(
                f"{path}: the starts format needs {cls.index_path(path)} beside it, with the line number "
                f"(from 0) of each document's first sentence; create that file or choose another format"
            )
        return index

    def render(self, document: OutputDocument) -> str:
        """Return the sentences; `StartLinesIndex` writes the start lines."""
        document.check_lines()
        (sentences,) = document.columns
        return joined_lines(sentences)


class StartLinesIndex(Format):
    """The file with the start lines, for writing only."""

    def render(self, document: OutputDocument) -> str:
        """Return the 0-based line on which the document starts."""
        return f"{document.offset}\n"


@dataclass(frozen=True, slots=True)
class Columns(Format):
    """Document id, source and target of one sentence per line; consecutive lines with one id are one document."""

    separator: str
    two_sided: ClassVar[bool] = True

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield a document per run of one id; in files with two columns, the sentences serve as either side."""
        needed = 3 if sides == "both" else 2
        columns = 0
        document: ParsedDocument | None = None
        for number, line in lines:
            cells = line.split(self.separator)
            if len(cells) < needed:
                shape = self.separator.join(["id", "source", "target"][:needed])
                lines.refuse(number, f"has {len(cells)} of {needed} columns; write it as {shape!r}")
            columns = columns or len(cells)
            if len(cells) != columns:
                lines.refuse(number, f"has {len(cells)} columns, the lines above {columns}; give all the same number")
            if document is None or document.id != cells[0]:
                if document is not None:
                    yield document
                document = (
                    ParsedDocument(cells[0], number) if columns > 2 else ParsedDocument.one_sided(number, cells[0])
                )
            document.add(number, cells[1])
            if columns > 2:
                document.target.append(cells[2])
        if document is not None:
            yield document

    def render(self, document: OutputDocument) -> str:
        """Return a line per sentence; refuse text that would not be split into the same columns again."""
        document.check_lines()
        document.check_name("\n")
        if document.name == document.previous:
            raise InputError(
                f"{document.path}: documents {document.number - 1} and {document.number} have the same id "
                f"{document.name!r} and would be merged; give each its own id"
            )
        rows = list(zip(*document.columns, strict=True))
        texts = [self.separator.join((document.name, *row)) for row in rows]
        for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
            if text.split(self.separator) != [document.name, *row]:
                document.refuse(i, f"it or the id contains the separator {self.separator!r}; remove it or write jsonl")
        return joined_lines(texts)


class JsonLines(Format):
    """One document per line: `source` and `target`, or `sentences` for one side, and optionally `id`."""

    two_sided: ClassVar[bool] = True

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield a document per line; blank lines are ignored."""
        for number, line in lines:
            if line and not line.isspace():
                yield self._parse(lines, number, line, sides)

    def _parse(self, lines: Lines, number: int, line: str, sides: Sides) -> ParsedDocument:
        try:
            value = parse_json(line)
        except ValueError as error:
            lines.refuse(number, f"is not JSON ({error}); write one complete object per line")
        if not isinstance(value, dict):
            lines.refuse(number, 'is not an object; write {"id": ..., "source": [...], "target": [...]}')
        needed = ("source", "target") if sides == "both" else (sides,)
        if "sentences" in value and sides != "both":
            value |= {"source": value["sentences"], "target": value["sentences"]}
        for key in needed:
            if key not in value:
                keys = ", ".join(repr(key) for key in value) or "no keys"
                lines.refuse(number, f"has no {key!r} but {keys}; give {key!r} as a list of sentences")
        present = [key for key in ("source", "target") if key in value]
        texts = {key: self._sentences(lines, number, key, value[key]) for key in present}
        id = value.get("id")
        return ParsedDocument(None if id is None else str(id), number, texts.get("source", []), texts.get("target", []))

    @staticmethod
    def _sentences(lines: Lines, number: int, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
            lines.refuse(number, f"has a {key!r} that is not a list of strings; give one string per sentence")
        try:
            "".join(value).encode()
        except UnicodeEncodeError:
            lines.refuse(number, f"has a lone surrogate in {key!r}; write valid Unicode")
        return value

    def render(self, document: OutputDocument) -> str:
        """Return the document as one JSON object, which can contain any sentence."""
        keys = ("source", "target") if len(document.columns) == 2 else ("sentences",)
        value: dict[str, Any] = {} if document.id is None else {"id": document.id}
        return json.dumps(value | dict(zip(keys, document.columns, strict=True)), ensure_ascii=False) + "\n"
