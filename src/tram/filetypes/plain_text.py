"""Text on its way to the subwords and back: Moses' normalisation, tokenisation and truecasing (sacremoses).

    moses = Moses("de")
    tokens = moses.tokenize(moses.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    moses.detokenize(tokens)

How plain text falls into sentences stands in the second half: `split_sentences` and `split_document`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tram.text.sentences import sentence_spans

# What stands before the text of a list item or a heading. A bullet makes a line an item wherever it stands;
# "3. " may be a date after a line break.
MARKER = re.compile(r"\s*(?:(?:[-–*+•‣▪]|#{1,6}|>+|\(?\d{1,3}[.)]|\(?[a-z]\))\s+)?")


BULLET = re.compile(r"\s*(?:[-*+•‣▪]|#{1,6}|>+)\s")


WRAP = re.compile(r"\s*\n\s*")


@dataclass(frozen=True)
class PlainText:
    """A plain text as its sentences and all that stands before, between and after them."""

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
    sentences: list[str] = []
    gaps: list[str] = []
    kept = 0  # text up to here is in sentences and gaps
    for start, end in _blocks(text):
        for first, last in sentence_spans(text[start:end], language):
            sentence = text[start + first : start + last]
            if not any(map(str.isalnum, sentence)):
                continue
            gaps.append(text[kept : start + first])
            sentences.append(WRAP.sub(" ", sentence))
            kept = start + last
    return PlainText(sentences, [*gaps, text[kept:]])


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that are read as one, without the mark of a list item."""
    position = 0
    for group in _groups(text):
        width = max(len(line.rstrip()) for line in group)
        start, marker = position, _marker(group[0])
        for line, following in zip(group, [*group[1:], ""], strict=True):
            position += len(line)
            if not following or not _continues(line, following, marker, width):
                yield start + len(marker), position
                start, marker = position, _marker(following)


def _groups(text: str) -> Iterator[list[str]]:
    """The lines of `text` with their ends; a blank line ends a group and belongs to it."""
    group: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines would also cut at U+2028 and form feeds
        group.append(line)
        if not line.strip():
            yield group
            group = []
    if group:
        yield group


def _marker(line: str) -> str:
    match = MARKER.match(line)
    return match[0] if match else ""


def _continues(line: str, following: str, marker: str, width: int) -> bool:
    """Whether a line breaks because the next word did not fit; `marker` stands before its paragraph."""
    text = following.strip()
    indentation = len(following) - len(following.lstrip())
    if not text or BULLET.match(following) or indentation > len(marker):
        return False
    lower = text[0].islower()
    if lower and marker.strip() and indentation == len(marker):  # right below the text of a list item
        return True
    full = len(line.rstrip()) + 1 + len(text.split(maxsplit=1)[0]) > width
    return full and (30 if lower else 60) <= width <= 120
