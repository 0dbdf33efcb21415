"""`tram translate`: files with their layout. Short ones go through the lockstep together; long texts piece by piece."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tram.cli.console import naming
from tram.cli.translate_lines import STDIN
from tram.cli.translation_report import Reports, counted_remarks
from tram.errors import InputError
from tram.progress import Progress

if TYPE_CHECKING:
    from tram.filetypes.base import FileDocument, ReadOptions
    from tram.filetypes.batch import FileSettings
    from tram.filetypes.translate import FileReport
    from tram.text.verbatim import VerbatimRules
    from tram.translation.translator import Translator

Advance = Callable[[int], None]


def translate_files(
    translator: "Translator",
    sources: list[str],
    outputs: list[Path | None],
    format: str | None,
    rules: "VerbatimRules",
    reports: Reports,
) -> None:
    """Translate files to their outputs (None: standard output), and report."""
    from tram.filetypes.batch import FileSettings
    from tram.filetypes.registry import is_long_text

    by_position = 0
    with naming(named(sources)), counted_remarks() as remarks, progress() as advance:
        work = _Work(translator, FileSettings(rules, reports.wanted, remarks), format, advance)
        opened = (_Opened.open(*pair, format) for pair in zip(sources, outputs, strict=True))
        for is_long, files in groupby(opened, key=lambda each: is_long_text(each.name, each.file, format)):
            for source, place, report in (work.in_pieces if is_long else work.as_wholes)(files):
                by_position += report.placed_by_position + report.repaired
                reports.add_file(source, place, report)
                if len(sources) > 1:
                    print(place)
    if by_position:
        print(f"warning: {by_position} sentences should be checked: markup was placed by position", file=sys.stderr)
    reports.write(remarks)


def named(sources: list[str]) -> str:
    """Return files for a message; of several, the translator numbers the documents through."""
    return ", ".join("standard input" if source == STDIN else source for source in sources)


@dataclass(frozen=True)
class _Opened:
    """A file that is open, and where its translation goes."""

    source: str
    place: Path | None
    name: str
    file: BinaryIO

    @classmethod
    def open(cls, source: str, place: Path | None, format: str | None) -> "_Opened":
        from tram.filetypes.registry import open_binary, spooled

        if source == STDIN:
            name = "standard input"
            return cls(source, place, name, spooled(name, sys.stdin.buffer, format))
        return cls(source, place, source, open_binary(Path(source), format))


@dataclass(frozen=True)
class _Work:
    translator: "Translator"
    settings: "FileSettings"
    format: str | None
    advance: Advance

    def as_wholes(self, files: Iterable[_Opened]) -> "Iterator[tuple[str, Path | None, FileReport]]":
        """Translate files in lockstep; yield each when it is written."""
        from tram.filetypes.batch import translate_opened
        from tram.filetypes.registry import read_stream
        from tram.filetypes.translate import finish

        waiting: deque[_Opened] = deque()

        def documents() -> Iterator["FileDocument"]:
            for each in files:
                waiting.append(each)
                with each.file as file:
                    document = read_stream(each.name, file, self.format, self._options)
                yield document

        for document, rows in translate_opened(self.translator, documents(), self.settings, self.advance):
            each = waiting.popleft()
            content, report = finish(document, rows, self.settings.alignment)
            with writer(each.place) as write:
                write(content)
            yield each.source, each.place, report

    def in_pieces(self, files: Iterable[_Opened]) -> "Iterator[tuple[str, Path | None, FileReport]]":
        """Translate plain texts one after the other in bounded memory; yield each when it is written."""
        from tram.filetypes.batch import translate_pieces
        from tram.filetypes.long_text import LongText
        from tram.filetypes.translate import FileReport, finish

        for each in files:
            if self.settings.alignment:  # what is reported about each sentence would be in memory until the end
                raise InputError(f"{each.name}: is too long for --json and --alignment; split it, or leave them out")
            with each.file as file, writer(each.place) as write:
                text = LongText(each.name, file, self._options)
                text.check()
                total = FileReport()
                for piece, rows in translate_pieces(self.translator, text.pieces(), self.settings, self.advance):
                    content, report = finish(piece, rows, sentences=False)
                    write(content)
                    total.add(report)
            yield each.source, each.place, total

    @property
    def _options(self) -> "ReadOptions":
        from tram.filetypes.base import ReadOptions

        return ReadOptions(self.translator.text.source_language, self.translator.text.target_language)


# Output.


@contextmanager
def writer(output: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which appears only when it is complete, or to standard output."""
    from tram.files import replacing

    if output is None:
        yield _write_out
        sys.stdout.flush()
        return
    with replacing(output) as temporary, temporary.open("wb") as file:
        yield file.write


def _write_out(content: bytes) -> None:
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:  # standard output that was replaced by a text stream
        sys.stdout.write(content.decode())


@contextmanager
def progress() -> Iterator[Advance]:
    """Yield what counts the sentences of a progress bar."""
    with Progress("translating", unit="sentences") as bar:
        yield bar.advance
