"""`tram translate --lines`: one sentence per line, streamed; a blank line starts a new document."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.filetypes.translate import SentenceReport
    from tram.text.verbatim import VerbatimRules
    from tram.translation.documents import Remarks
    from tram.translation.translator import Translator

STDIN = "-"


def translated_lines(
    translator: "Translator",
    lines: Iterable[str],
    advance: Callable[[int], None] | None = None,
    verbatim: "VerbatimRules | None" = None,
    remarks: "Remarks | None" = None,
    record: "Callable[[SentenceReport], None] | None" = None,
) -> Iterator[str]:
    r"""Yield the translation of lines piece by piece: one line for every line.

    lines: with their ends, "\n" or "\r\n"; that of the first line is used for all.
    record: called with every line and its translation, alignment, score and warnings; blank lines, too.
    """
    newline, ended = "\n", False
    waiting: list[list[str]] = []  # sources of documents in progress, for `record`

    def documents() -> Iterator[list[str]]:
        nonlocal newline, ended
        document: list[str] = []
        for number, line in enumerate(lines):
            ended = line.endswith("\n")
            if number == 0 and line.endswith("\r\n"):
                newline = "\r\n"
            if line.strip():
                document.append(line.removesuffix("\n").removesuffix("\r"))
            else:
                yield _noted(document)
                document = []
        yield _noted(document)

    def _noted(document: list[str]) -> list[str]:
        if record is not None:
            waiting.append(document)
        return document

    written = 0
    found = translator.detailed(documents(), advance, alignment=record is not None, verbatim=verbatim, remarks=remarks)
    for number, result in enumerate(found):
        # A model that spells in bytes may produce a line end, which would shift all lines after it
        texts = [one_line(translation.text) for translation in result]
        for line in [""] * (number > 0) + texts:
            yield line if not written else newline + line
            written += 1
        if record is not None:
            from tram.filetypes.translate import SentenceReport

            if number > 0:
                record(SentenceReport("", "", None, None, ()))
            for source, text, translation in zip(waiting.pop(0), texts, result, strict=True):
                record(SentenceReport(source, text, translation.score, translation.alignment, translation.warnings))
    if ended:
        yield newline


def n_best_lines(translator: "Translator", lines: Iterable[str], n: int) -> Iterator[str]:
    """Yield the n best translations of every line as NUMBER ||| TEXT ||| SCORE."""
    for number, best in enumerate(translator.n_best([line.rstrip("\r\n") for line in lines], n)):
        for option in best:
            yield f"{number} ||| {one_line(option.text)} ||| {option.score:.4f}\n"


def one_line(text: str) -> str:
    r"""Return a translation without "\r" and other line ends, which a model that spells in bytes may produce."""
    return " ".join(text.splitlines())


def read_lines(source: str) -> Iterator[str]:
    """Yield the lines of a file, compressed or not, or of standard input, with their ends."""
    from tram.data.text_files import Lines

    if source != STDIN:
        yield from Lines(Path(source)).with_ends()
        return
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"standard input:{number}: is not valid UTF-8; convert it to UTF-8") from None
