"""`tram translate`: files with their layout. Short ones go through the lockstep together; long texts piece by piece."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from tram.cli.console import naming
from tram.cli.translate_lines import STDIN
from tram.cli.translate_outputs import writer
from tram.cli.translation_report import Reports, counted_remarks
from tram.errors import InputError
from tram.progress import Progress

if TYPE_CHECKING:
    from tram.filetypes.base import FileDocument, ReadOptions
    from tram.filetypes.batch import FileSettings, Row
    from tram.filetypes.translate import FileReport
    from tram.text.verbatim import VerbatimRules
    from tram.translation.translator import Translator

Advance = Callable[[int], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Reading:
    """How files are read; format: None if it is to be detected. chapters: those of a book are documents."""

    format: str | None = None
    chapters: bool = False


def translate_files(
    translator: "Translator",
    sources: list[str],
    outputs: list[Path | None],
    reading: Reading,
    rules: "VerbatimRules",
    reports: Reports,
) -> None:
    """Translate files to their outputs (None: standard output), and report.

    Of several files, one that cannot be read or written is named, and the others are translated.
    """
    from tram.filetypes.batch import FileSettings

    by_position = 0
    with naming(named(sources)), counted_remarks() as remarks, progress() as advance:
        failures = _Failures(len(sources), reports)
        work = _Work(translator, FileSettings(rules, reports.wanted, remarks), reading, advance, failures)
        for is_long, files in groupby(work.opened(sources, outputs), key=lambda each: each.is_long):
            for source, place, report in (work.in_pieces if is_long else work.as_wholes)(files):
                by_position += report.placed_by_position + report.repaired
                reports.add_file(source, place, report)
                if len(sources) > 1:
                    print(place, flush=True)
    if by_position:
        print(f"warning: {by_position} sentences should be checked: markup was placed by position", file=sys.stderr)
    reports.write(remarks)
    failures.check()


def named(sources: list[str]) -> str:
    """Return files for a message; of several, the translator numbers the documents through."""
    return ", ".join("standard input" if source == STDIN else source for source in sources)


@dataclass(frozen=True)
class _Opened:
    """A file that is open, and where its translation goes; `is_long`: a plain text that is read in pieces."""

    source: str
    place: Path | None
    name: str
    file: BinaryIO
    is_long: bool

    @classmethod
    def open(cls, source: str, place: Path | None, format: str | None) -> "_Opened":
        from tram.filetypes.registry import is_long_text, open_binary, spooled

        name = named([source])
        file = spooled(name, sys.stdin.buffer, format) if source == STDIN else open_binary(Path(source), format)
        return cls(source, place, name, file, is_long_text(name, file, format))


@dataclass
class _Failures:
    """Files of several that cannot be translated; the only file is not caught."""

    files: int
    reports: Reports
    count: int = 0

    def attempt(self, source: str, function: Callable[..., Result], *arguments: object) -> Result | None:
        """Return the result of a function; None, after a sentence about the file, if it cannot be read or written."""
        try:
            return function(*arguments)
        except InputError as error:
            if self.files == 1:
                raise
            self.count += 1
            self.reports.add_failure(source, str(error))
            print(f"tram: {error}", file=sys.stderr)
            return None

    def check(self) -> None:
        """End the command with an error if a file was not translated."""
        if self.count:
            raise InputError(f"{self.count} of {self.files} files could not be translated; see above")


@dataclass(frozen=True)
class _Work:
    translator: "Translator"
    settings: "FileSettings"
    reading: Reading
    advance: Advance
    failures: _Failures

    def opened(self, sources: list[str], outputs: list[Path | None]) -> Iterator[_Opened]:
        """Open files one after the other."""
        for source, place in zip(sources, outputs, strict=True):
            if (each := self.failures.attempt(source, _Opened.open, source, place, self.reading.format)) is not None:
                yield each

    def as_wholes(self, files: Iterable[_Opened]) -> "Iterator[tuple[str, Path | None, FileReport]]":
        """Translate files in lockstep; yield each when it is written, which is as soon as it is finished."""
        from tram.filetypes.batch import files_as_finished

        waiting: dict[int, _Opened] = {}  # by the identity of the document, which is kept until then

        def documents() -> Iterator["FileDocument"]:
            for each in files:
                if (document := self.failures.attempt(each.source, self._read, each)) is not None:
                    waiting[id(document)] = each
                    yield document

        for document, rows in files_as_finished(self.translator, documents(), self.settings, self.advance):
            each = waiting.pop(id(document))
            if (report := self.failures.attempt(each.source, self._write, each, document, rows)) is not None:
                yield each.source, each.place, report

    def _read(self, each: _Opened) -> "FileDocument":
        from tram.filetypes.registry import read_stream

        with each.file as file:
            return read_stream(each.name, file, self.reading.format, self._options)

    def _write(self, each: _Opened, document: "FileDocument", rows: "list[Row]") -> "FileReport":
        from tram.filetypes.translate import finish

        content, report = finish(document, rows, self.settings.alignment)
        with writer(each.place, each.name) as write:
            write(content)
        return report

    def in_pieces(self, files: Iterable[_Opened]) -> "Iterator[tuple[str, Path | None, FileReport]]":
        """Translate plain texts one after the other in bounded memory; yield each when it is written."""
        for each in files:
            if (report := self.failures.attempt(each.source, self._write_pieces, each)) is not None:
                yield each.source, each.place, report

    def _write_pieces(self, each: _Opened) -> "FileReport":
        from tram.filetypes.batch import translate_pieces
        from tram.filetypes.long_text import LongText
        from tram.filetypes.translate import FileReport, finish

        if self.settings.alignment:  # what is reported about each sentence would be in memory until the end
            raise InputError(f"{each.name}: is too long for --json and --alignment; split it, or leave them out")
        with each.file as file, writer(each.place, each.name) as write:
            text = LongText(each.name, file, self._options)
            text.check()
            total = FileReport()
            for piece, rows in translate_pieces(self.translator, text.pieces(), self.settings, self.advance):
                content, report = finish(piece, rows, sentences=False)
                write(content)
                total.add(report)
        return total

    @property
    def _options(self) -> "ReadOptions":
        from tram.filetypes.base import ReadOptions

        text = self.translator.text
        return ReadOptions(text.source_language, text.target_language, self.reading.chapters)


@contextmanager
def progress() -> Iterator[Advance]:
    """Yield what counts the sentences of a progress bar."""
    with Progress("translating", unit="sentences") as bar:
        yield bar.advance
