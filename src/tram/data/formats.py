"""Document formats whose unit is the line (blank lines, `<d>`, start lines, columns, JSON), plain or packed.

    for passage in JsonLines().read(Lines(Path("talks.jsonl.gz")), "both"): ...

A `Format` turns the lines of one file into `Passage`s and an `Entry` into text; `corpus.py` puts the two
sides together and `markup.py` holds the formats made of tags.
"""

import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NoReturn, TextIO, cast

from tram.errors import InputError
from tram.files import replacing, write_problem

Sides = Literal["source", "target", "both"]

PACKED = (".gz", ".xz")


# Text files, plain or packed.


class _Gzip(gzip.GzipFile):
    """A gzip stream that holds no name and no time, so that the same text gives the same bytes."""

    def __init__(self, raw: IO[bytes], mode: str) -> None:
        super().__init__("", mode, 6, raw, 0)
        self._raw = raw

    def close(self) -> None:
        """Close the stream and the file below it."""
        super().close()
        self._raw.close()


def _open_bytes(path: Path, mode: Literal["rb", "wb"], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], _Gzip(open(path, mode), mode))
    if suffix == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(path, mode))
    return open(path, mode)


def open_text(path: Path | str, mode: Literal["r", "w"] = "r") -> TextIO:
    r"""Open a UTF-8 text file, packed if it ends in .gz or .xz; lines end in "\n" and nowhere else."""
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
def writing(path: Path) -> Iterator[TextIO]:
    """A handle for new text; the file appears under its name only when the block ends well."""
    with replacing(path) as temporary, _text_writer(temporary, path.suffix) as handle:
        yield handle


def unpacked(path: Path) -> Path:
    """The name without .gz or .xz."""
    return path.with_suffix("") if path.suffix in PACKED else path


def _read_problem(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path}: there is no such file; check the name"
    if isinstance(error, IsADirectoryError):
        return f"{path}: this is a folder; name a file in it"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{path}: cannot be read ({error.strerror}); check its permissions"
    return f"{path}: is cut off or no {path.suffix} file at all ({error}); fetch or pack it again"


@dataclass(frozen=True, slots=True)
class Lines:
    """The numbered lines of a text file, without their line ends and without a byte order mark."""

    path: Path

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number = 0
        try:
            with _open_bytes(self.path, "rb", self.path.suffix) as packed:
                # The extra buffer finds line ends in C; the unpackers do it in Python, many times slower.
                for raw in io.BufferedReader(cast(io.RawIOBase, packed), 1 << 16):
                    number += 1
                    yield number, self._decode(number, raw)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InputError(_read_problem(self.path, error)) from error

    def _decode(self, number: int, raw: bytes) -> str:
        # Only "\n" and "\r\n" end a line: U+2028, U+0085 and a vertical tab belong to the sentence.
        end = -2 if raw.endswith(b"\r\n") else -1 if raw.endswith(b"\n") else None
        try:
            text = raw[:end].decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse(number, f"is not UTF-8 (byte {error.start + 1} of the line); convert the file to UTF-8")
        return text.removeprefix("\ufeff") if number == 1 else text

    def refuse(self, number: int, problem: str) -> NoReturn:
        """Raise an `InputError` that names this file and a line of it."""
        raise InputError(f"{self.path}:{number} {problem}")


# What formats read and write.


@dataclass(slots=True)
class Passage:
    """One document as it stands in one file; a file with one side has it in `source` and in `target`."""

    id: str | None
    end: int  # the line that ends it
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each sentence, where a format has them on lines

    @classmethod
    def one_sided(cls, line: int, id: str | None = None) -> "Passage":
        """A passage whose only side serves as source or as target."""
        sentences: list[str] = []
        return cls(id, line, sentences, sentences)

    def add(self, line: int, sentence: str) -> None:
        """Append a sentence to the only side."""
        self.source.append(sentence)
        self.lines.append(line)
        self.end = line

    def line_of(self, sentence: int) -> int:
        """The line of a sentence (0-based), as near as the format tells."""
        return self.lines[sentence] if sentence < len(self.lines) else self.end


@dataclass(frozen=True, slots=True)
class Entry:
    """One document on its way into a file: `columns` holds one side or both."""

    path: Path
    number: int  # 1-based
    offset: int  # sentences before it in the file
    id: str | None
    previous: str | None  # the name of the document before it
    sides: Sides
    columns: tuple[list[str], ...]

    @property
    def name(self) -> str:
        """The id; a document that has none is given its number, where a format asks for one."""
        return str(self.number) if self.id is None else self.id

    def refuse(self, sentence: int, problem: str) -> NoReturn:
        """Raise an `InputError` that names this document and a sentence (0-based) of it."""
        where = f"sentence {sentence + 1} of {describe(self.number, self.id)}"
        raise InputError(f"{self.path}: cannot hold {where}: {problem}")

    def check_lines(self) -> None:
        """Refuse what does not stay on one line."""
        for column in self.columns:
            for i, sentence in enumerate(column):
                if "\n" in sentence or sentence.endswith("\r"):
                    self.refuse(i, "it holds a line break; remove it or write the jsonl format")

    def check_name(self, forbidden: str) -> None:
        """Refuse an id that holds one of the forbidden characters."""
        if any(character in self.name for character in forbidden):
            raise InputError(
                f"{self.path}: cannot hold the id {self.name!r} of document {self.number}; simplify the id"
            )


def describe(number: int, id: str | None) -> str:
    """A document for an error message: its number and, if it has one, its id."""
    return f"document {number}" if id is None else f"document {number} (id {id})"


class Format:
    """A way to lay documents out in a file."""

    both: ClassVar[bool] = False  # one file can hold both sides

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Give the passages of a file one by one, empty ones too; refuse those that lack one of `sides`."""
        raise NotImplementedError

    def head(self, sides: Sides) -> str:
        """What stands before the first document."""
        return ""

    def render(self, entry: Entry) -> str:
        """The text of one document; refuses what the format cannot give back when read."""
        raise NotImplementedError

    def tail(self, sides: Sides) -> str:
        """What stands after the last document."""
        return ""


def joined_lines(lines: Iterable[str]) -> str:
    """The lines, each with its end."""
    return "".join(f"{line}\n" for line in lines)


# The formats.


class Blank(Format):
    """One sentence per line, a blank line between documents."""

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Each blank line ends a passage: the second of two ends an empty one."""
        passage = Passage.one_sided(1)
        for number, line in lines:
            if line and not line.isspace():
                passage.add(number, line)
            else:
                passage.end = number
                yield passage
                passage = Passage.one_sided(number)
        yield passage

    def render(self, entry: Entry) -> str:
        """Refuses empty sentences, which would end the document."""
        entry.check_lines()
        (sentences,) = entry.columns
        for i, sentence in enumerate(sentences):
            if not sentence or sentence.isspace():
                entry.refuse(i, "it is empty, and a blank line ends a document; write the d or jsonl format")
        return ("\n" if entry.number > 1 else "") + joined_lines(sentences)


class Marked(Format):
    """`<d>` alone on a line opens a document; one sentence per line, empty ones included."""

    MARK = "<d>"

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Each mark ends the passage before it."""
        passage: Passage | None = None
        for number, line in lines:
            if line.strip() == self.MARK:
                if passage is not None:
                    passage.end = number
                    yield passage
                passage = Passage.one_sided(number)
            elif passage is not None:
                passage.add(number, line)
            elif line.strip():
                lines.refuse(number, "stands before the first <d>; put <d> on a line of its own above each document")
        if passage is not None:
            yield passage

    def render(self, entry: Entry) -> str:
        """Refuses a sentence that reads as the mark."""
        entry.check_lines()
        (sentences,) = entry.columns
        for i, sentence in enumerate(sentences):
            if sentence.strip() == self.MARK:
                entry.refuse(i, "it is <d>, which opens a document; change it or write the blank or jsonl format")
        return joined_lines([self.MARK, *sentences])


class Starts(Format):
    """One sentence per line; `X.doc` beside `X.en` lists the 0-based lines on which documents start."""

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Walk through the text and the starts together."""
        index = Lines(self.found_index(lines.path))
        starts = self._starts(index)
        at, start = next(starts, (1, None))
        if start is None:
            index.refuse(1, "is missing: the file is empty; give the 0-based line number of each document's start")
        passage = Passage.one_sided(1)
        number = 0
        for number, line in lines:
            while start == number - 1:
                if number > 1 or passage.lines:
                    yield passage
                passage = Passage.one_sided(number)
                at, start = next(starts, (at, None))
            passage.add(number, line)
        yield passage
        if start is not None and start > number:
            index.refuse(at, f"starts a document at {start}, but {lines.path} has {number} lines; make both anew")

    def _starts(self, index: Lines) -> Iterator[tuple[int, int | None]]:
        last = 0
        for number, line in index:
            if not (line.strip().isascii() and line.strip().isdigit()):
                index.refuse(number, f"is {line.strip()!r}; give the 0-based line number of a document's start")
            start = int(line)
            if number == 1 and start != 0:
                index.refuse(number, f"is {start}, but the first document starts at 0; count lines from 0")
            if start < last:
                index.refuse(number, f"is {start}, below the {last} before it; give the starts in ascending order")
            last = start
            yield number, start

    @staticmethod
    def index_path(path: Path) -> Path:
        """The name of the file of starts that belongs to a text file."""
        return unpacked(path).with_suffix(".doc")

    @classmethod
    def find_index(cls, path: Path) -> Path | None:
        """The file of starts, packed or not, if there is one."""
        index = cls.index_path(path)
        candidates = [index, *(index.with_name(index.name + suffix) for suffix in PACKED)]
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    @classmethod
    def found_index(cls, path: Path) -> Path:
        """The file of starts, which must be there."""
        index = cls.find_index(path)
        if index is None:
            raise InputError(
                f"{path}: the starts format needs {cls.index_path(path)} beside it, with the line number "
                f"(from 0) of each document's first sentence; make that file or name another format"
            )
        return index

    def render(self, entry: Entry) -> str:
        """The sentences; where they start is `StartsIndex`'s to say."""
        entry.check_lines()
        (sentences,) = entry.columns
        return joined_lines(sentences)


class StartsIndex(Format):
    """The file of starts itself; it is only written."""

    def render(self, entry: Entry) -> str:
        """The 0-based line on which the document starts."""
        return f"{entry.offset}\n"


@dataclass(frozen=True, slots=True)
class Columns(Format):
    """Id of the document, source and target of one sentence per line; a run of one id is one document."""

    separator: str
    both: ClassVar[bool] = True

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Two columns (id, sentence) serve as either side; further columns than three are left aside."""
        needed = 3 if sides == "both" else 2
        found = 0
        passage: Passage | None = None
        for number, line in lines:
            cells = line.split(self.separator)
            if len(cells) < needed:
                shape = self.separator.join(["id", "source", "target"][:needed])
                lines.refuse(number, f"has {len(cells)} of {needed} columns; write it as {shape!r}")
            found = found or len(cells)
            if len(cells) != found:
                lines.refuse(number, f"has {len(cells)} columns and the lines above {found}; give each the same number")
            if passage is None or passage.id != cells[0]:
                if passage is not None:
                    yield passage
                passage = Passage(cells[0], number) if found > 2 else Passage.one_sided(number, cells[0])
            passage.add(number, cells[1])
            if found > 2:
                passage.target.append(cells[2])
        if passage is not None:
            yield passage

    def render(self, entry: Entry) -> str:
        """Refuses what would not fall into the same columns again."""
        entry.check_lines()
        entry.check_name("\n")
        if entry.name == entry.previous:
            raise InputError(
                f"{entry.path}: documents {entry.number - 1} and {entry.number} have the same id "
                f"{entry.name!r} and would become one; give each its own id"
            )
        rows = list(zip(*entry.columns, strict=True))
        texts = [self.separator.join((entry.name, *row)) for row in rows]
        for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
            if text.split(self.separator) != [entry.name, *row]:
                entry.refuse(i, f"it or the id holds {self.separator!r}, which ends a column; remove it or write jsonl")
        return joined_lines(texts)


class JsonLines(Format):
    """A document per line: `source` and `target`, or `sentences` for one side, and `id` if there is one."""

    both: ClassVar[bool] = True

    def read(self, lines: Lines, sides: Sides) -> Iterator[Passage]:
        """Blank lines do not count."""
        for number, line in lines:
            if line and not line.isspace():
                yield self._passage(lines, number, line, sides)

    def _passage(self, lines: Lines, number: int, line: str, sides: Sides) -> Passage:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            lines.refuse(number, f"is not JSON ({error}); write one whole object per line")
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
        return Passage(None if id is None else str(id), number, texts.get("source", []), texts.get("target", []))

    @staticmethod
    def _sentences(lines: Lines, number: int, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
            lines.refuse(number, f"has a {key!r} that is no list of strings; give one string per sentence")
        try:
            "".join(value).encode()
        except UnicodeEncodeError:
            lines.refuse(number, f"has half a surrogate pair in {key!r}; write whole characters")
        return value

    def render(self, entry: Entry) -> str:
        """Holds any sentence."""
        keys = ("source", "target") if len(entry.columns) == 2 else ("sentences",)
        value: dict[str, Any] = {} if entry.id is None else {"id": entry.id}
        return json.dumps(value | dict(zip(keys, entry.columns, strict=True)), ensure_ascii=False) + "\n"
