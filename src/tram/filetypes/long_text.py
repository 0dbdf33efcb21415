"""Long plain texts in pieces, so that memory does not grow with the file.

    text = LongText("book.txt", file, options)       # a binary file that can be read from the start again
    for piece in text.pieces():                      # documents; their translations follow one another in the output
        content, report = finish(piece, rows)

A piece ends at a blank line; where there is none in PIECE characters, before a sentence that begins a line; where there
is none either, before any sentence.
"""

import codecs
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

from tram.errors import InputError
from tram.filetypes.base import ReadOptions
from tram.filetypes.encoding import BOMS, Decoded, byte_order
from tram.filetypes.layout import line_regions
from tram.filetypes.parts import PartsDocument
from tram.filetypes.plain_text import text_document

LONG = 1 << 21  # bytes from which on a text is read in pieces
PIECE = 1 << 17  # characters
READ = 1 << 16  # bytes at once
BLANK_LINE = re.compile(r"\n[^\S\n]*\n(?![^\S\n]*\n)")


class LongText:
    """A plain text, as pieces that are documents."""

    def __init__(self, name: str, file: BinaryIO, options: ReadOptions) -> None:
        self.name = name
        self.file = file
        self.options = options
        self.bom, encoding = byte_order(self._start())
        self.encoding = encoding or "utf-8"

    def _start(self) -> bytes:
        self.file.seek(0)
        return self.file.read(max(len(bom) for bom, _ in BOMS))

    def check(self) -> None:
        """Refuse what is not text in its encoding, before anything is translated."""
        line = 1
        try:
            for text in self._texts():
                if "\0" in text:
                    raise InputError(f"{self.name}:{line}: is not text in {self.encoding.upper()}; convert it to UTF-8")
                line += text.count("\n")
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise InputError(f"{self.name}:{line}: is not valid {self.encoding.upper()}; convert it to UTF-8") from None

    def pieces(self) -> Iterator[PartsDocument]:
        """Yield the pieces in order; what they write, one after the other, is the file."""
        bom = self.bom
        for text in self._cut():
            yield text_document(Decoded(self.name, text, self.encoding, bom), self.options)
            bom = b""

    def _texts(self) -> Iterator[str]:
        self.file.seek(len(self.bom))
        decoder = codecs.getincrementaldecoder(self.encoding)()
        while content := self.file.read(READ):
            yield decoder.decode(content)
        yield decoder.decode(b"", final=True)

    def _cut(self) -> Iterator[str]:
        waiting: list[str] = []
        size = 0
        for text in self._texts():
            waiting.append(text)
            size += len(text)
            if size >= 2 * PIECE:
                joined = "".join(waiting)
                end = self._end(joined)
                yield joined[:end]
                waiting, size = [joined[end:]], len(joined) - end
        if size:
            yield "".join(waiting)

    def _end(self, text: str) -> int:
        """Return where a piece of about PIECE characters ends, at least half of it and less than the whole text."""
        if (blank := BLANK_LINE.search(text, PIECE)) is not None and blank.end() < len(text):
            return blank.end()
        # The last sentence may go on behind the text. A line that a piece begins inside of would not look full.
        regions = [(0, 0), *line_regions(text, self.options.source_language)]
        for (_, before), (start, _) in reversed(list(pairwise(regions))):
            line = text.rfind("\n", 0, start) + 1  # before the mark of a list item
            if line >= max(before, PIECE // 2):
                return line
        end = regions[-1][0]
        return end if end >= PIECE // 2 else text.rfind(" ", PIECE) + 1 or PIECE
