"""Plain text as sentences, with its layout kept.

layout = split_document(text, "en")
layout.join(translate(layout.sentences))
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tram.filetypes.base import FileType, ReadOptions
from tram.filetypes.blocks import Block, Item
from tram.filetypes.encoding import Decoded, decode
from tram.filetypes.layout import WRAP, line_regions
from tram.filetypes.parts import Part, PartsDocument


@dataclass(frozen=True)
class PlainText:
    """A plain text as its sentences and what precedes, separates and follows them."""

    sentences: list[str]
    gaps: list[str]  # one more than sentences: blanks, line ends, marks of list items, lines without a word

    def join(self, translations: Sequence[str]) -> str:
        """Put translations in the places of the sentences."""
        if len(translations) != len(self.sentences):
            raise ValueError(f"{len(translations)} translations for {len(self.sentences)} sentences")
        parts = [self.gaps[0]]
        for translation, gap in zip(translations, self.gaps[1:], strict=True):
            parts += [translation, gap]
        return "".join(parts)


def split_document(text: str, language: str) -> PlainText:
    """Split plain text into sentences so that translations can take their places.

    A blank line, a list item, a deeper indentation and a line that ends early end a paragraph. Lines that
    break only because they are full are read as one, and a sentence that runs over such a break comes back in
    one line; every other line break, blank line and indentation stays where it was. What holds no letter and
    no digit is not a sentence but part of the layout.
    """
    regions = list(line_regions(text, language))
    edges = [0, *(edge for region in regions for edge in region), len(text)]
    gaps = [text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]
    return PlainText([WRAP.sub(" ", text[start:end]) for start, end in regions], gaps)


class _TextPart(Part):
    def escape(self, text: str) -> str:
        """Return text in one line, as a sentence is."""
        return " ".join(text.split("\n"))


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a plain text as one document; a blank line ends a paragraph."""
    return text_document(decode(name, content), options)


def text_document(decoded: Decoded, options: ReadOptions) -> PartsDocument:
    """Return a text, or a piece of a longer one, as a document."""
    source = decoded.text
    text = re.sub(r"\r(?!\n)", "\n", source)  # line ends of old Macs; all positions stay
    block = Block([Item("text", 0, len(text), text)], options.source_language, 0, len(text), lines=True)
    return PartsDocument([[_TextPart(source, [block])]], lambda texts: decoded.encode(texts[0]))


FILETYPE = FileType("text", (".txt", ".text"), matches=lambda content: False, read=read)
