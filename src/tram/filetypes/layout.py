"""Where the sentences of a plain text are: which line breaks end a paragraph, what is a mark of a list item."""

import re
from collections.abc import Iterable, Iterator

from tram.text.sentences import sentence_spans

# What precedes the text of a list item or a heading. A bullet makes any line an item;
# "3. " may be a date after a line break.
MARKER = re.compile(r"\s*(?:(?:[-–*+•‣▪]|#{1,6}|>+|\(?\d{1,3}[.)]|\(?[a-z]\))\s+)?")
BULLET = re.compile(r"\s*(?:[-*+•‣▪]|#{1,6}|>+)\s")
WRAP = re.compile(r"(?<!\s)\s*\n\s*")  # only from the start of a run of blanks: linear time
# What is between two columns of a line: tabs, three blanks or more, or a line of dots or underscores, as in a form or a
# table of contents; two blanks behind an option, as in `--help`.
COLUMN = re.compile(
    r"(?<=\S)[^\S\n\t]*+\t[^\S\n]*+(?=\S)|(?<=\S)[^\S\n]++\.{4,}+(?!\S)|(?<![\w.])_{3,}+(?!\w)"
    r"|(?<=\S)[ ]{3,}+(?=\S)|(?P<two>(?<=\S)[ ]{2}(?=\S))"
)
OPTION = re.compile(r"\s*--?\w[^.!?\n]*")
LONGEST_OPTION = 40  # characters before its explanation


def sentence_regions(text: str, language: str) -> list[tuple[int, int]]:
    """Return start and end of each sentence that has a letter or a digit; line breaks count as in `split_document`."""
    if "\n" in text or COLUMN.search(text):
        return list(line_regions(text, language))
    return [(start, end) for start, end in sentence_spans(text, language) if any(map(str.isalnum, text[start:end]))]


def line_regions(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the same for a text whose first line may begin with a mark of a list item."""
    for start, end in _columns(text, _blocks(text)):
        for first, last in sentence_spans(text[start:end], language):
            if any(map(str.isalnum, text[start + first : start + last])):
                yield start + first, start + last


def _columns(text: str, blocks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Cut runs of lines where columns end."""
    for start, end in blocks:
        for gap in COLUMN.finditer(text, start, end):
            if gap["two"] and not _is_option(text[max(start, gap.start() - LONGEST_OPTION) : gap.start()]):
                continue
            yield start, gap.start()
            start = gap.end()
        yield start, end


def _is_option(text: str) -> bool:
    return OPTION.fullmatch(text.rpartition("\n")[2]) is not None


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of lines that are read as one, without the mark of a list item."""
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
    """Yield the lines of `text` with their ends; a blank line ends a group and belongs to it."""
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
    """Return whether a line breaks because the next word did not fit; `marker` precedes its paragraph."""
    text = following.strip()
    indentation = len(following) - len(following.lstrip())
    if not text or BULLET.match(following) or indentation > len(marker):
        return False
    lower = text[0].islower()
    if lower and marker.strip() and indentation == len(marker):  # right below the text of a list item
        return True
    full = len(line.rstrip()) + 1 + len(text.split(maxsplit=1)[0]) > width
    return full and (30 if lower else 60) <= width <= 120
