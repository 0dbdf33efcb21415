"""Markdown: only the text of paragraphs, headings, list items, table cells, titles and HTML blocks changes.

Code, formulas, link targets, front matter and all white space around text stay byte for byte. New text is escaped only
if it would be read as markup otherwise: every block of Markdown is parsed again after it was written.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote.index import footnote_def

from tram.filetypes.base import FileType, ReadOptions, Translation
from tram.filetypes.blocks import Block, Event, Item, is_direction_mark
from tram.filetypes.encoding import decode
from tram.filetypes.html_blocks import HtmlWriter, html_blocks
from tram.filetypes.markdown_inline import Content, LinkTitle, content_of, formula, formulas, inline_items, title_items
from tram.filetypes.parts import PartsDocument

FRONT_MATTER = re.compile(
    r"(?:---[ \t]*\r?\n.*?^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?^\+\+\+)[ \t]*(?:\r?\n|\Z)", re.S | re.M
)
LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
# Signs that can be markup; those of one kind are escaped first, then all.
SIGNS = ("<>&", "*_", "[]!", "`", "$", "~^=|\\")
ALL_SIGNS = "".join(SIGNS)
LINE_START = re.compile(r"(\s*)([-+=#:]|\d{1,9}(?=[.)]))")
# Paragraphs that other tools do not read as text: definitions of abbreviations, the place of a table of contents, and
# imports and exports of MDX.
NOT_TEXT = re.compile(
    r"""\*\[[^\]]+\]:|(?:\[TOC\]|\[\[_TOC_\]\])\s*\Z
      |import\s[^\n]*["'][^"'\n]+["'];?\s*$|export\s+(?:const|default|function|let|var|\{)""",
    re.I | re.M | re.VERBOSE,
)
# How a block of a kind looks on its own, and the token that it must begin with.
TEMPLATES = {
    "paragraph": "{}",
    "title": "{}",
    "heading": "# {}",
    "cell": "| {} |\n|-|\n",
    "image": "![{}](u)",
    "cell image": "| ![{}](u) |\n|-|\n",
}
TYPES = {"heading": "heading_open", "cell": "table_open", "cell image": "table_open"}
KINDS = {"th_open": "cell", "td_open": "cell", "heading_open": "heading", "admonition_title_open": "title"}
EMPHASIS = {"em": "em", "strong": "strong", "s": "del"}


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return a parser that keeps escapes and labels apart."""
    md = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
    md.use(dollarmath_plugin).use(amsmath_plugin).inline.ruler.at("math_inline", formula)
    md.block.ruler.at("amsmath", formulas, {"alt": ["paragraph", "reference", "blockquote", "list", "footnote_def"]})
    md.use(admon_plugin).use(deflist_plugin)
    # Only definitions of notes: references to them are items (`markdown_inline`), and all stay in their places.
    md.block.ruler.before("reference", "footnote_def", footnote_def, {"alt": ["paragraph", "reference"]})
    return md.disable("text_join")


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a Markdown file as one document."""
    decoded = decode(name, content)
    part = _MarkdownPart(decoded.text, options)
    return PartsDocument([[part]], lambda texts: decoded.encode(texts[0]))


@dataclass(frozen=True, slots=True)
class Escapes:
    """What is escaped in new text: signs; what begins a block at the start of a line. html: emphasis is written so."""

    signs: str = ""
    line_start: bool = False
    html: bool = False


class _MarkdownPart(HtmlWriter):
    def __init__(self, source: str, options: ReadOptions) -> None:
        front = FRONT_MATTER.match(source)
        start = front.end() if front else 0
        self.env: dict[str, Any] = {}
        tokens = parser().parse(source[start:], self.env)
        lines = [(m.start(1), m.end(1)) for m in LINE.finditer(source, start)]
        titles = _reference_titles(source, self.env.get("references", {}), lines, options.source_language)
        super().__init__(source, [*_blocks(source, tokens, lines, options), *titles])

    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return a block with as few escapes as its text needs to be read as text."""
        if isinstance(block.data, LinkTitle):
            return self._link_title(block, events, block.data)
        if block.data not in TEMPLATES:
            return super().write_block(block, events, translations)
        for escapes in _attempts(events, block.data):
            written = [self._event(event, escapes, i, events, block) for i, event in enumerate(events)]
            content, raw = ("".join(each[way] for each in written) for way in (0, 1))
            if block.data == "title":
                raw = raw.replace('"', "'")
            if self._reads_as(raw if "cell" in block.data else content, events, block.data, escapes):
                return raw
        return self._splice(block.start, block.end, block.inner)  # no way to write it: left in the source language

    def _link_title(self, block: Block, events: list[Event], title: LinkTitle) -> str:
        """Return the title of a link; as it was if the new one would not be read as one."""
        pieces = [self._in_title(event, block, title) for event in events]
        contents = [piece.replace(r"\|", "|") for piece in pieces] if title.in_cell else pieces
        quoted = title.opening + "".join(contents) + title.closing
        found = parser().helpers.parseLinkTitle(quoted, 0, len(quoted))
        pairs = zip(events, contents, strict=True)
        plain = "".join(event if isinstance(event, str) else unescapeAll(content) for event, content in pairs)
        is_title = found.ok and found.pos == len(quoted) and found.str == plain
        return "".join(pieces) if is_title else self._splice(block.start, block.end, block.inner)

    def _in_title(self, event: Event, block: Block, title: LinkTitle) -> str:
        if not isinstance(event, str):
            return self.raw(event, block)
        text = title.escaped(event)
        return text.replace("|", r"\|") if title.in_cell else text

    def _event(self, event: Event, escapes: Escapes, i: int, events: list[Event], block: Block) -> tuple[str, str]:
        """Return an event as inline content, and as the file has it, with what surrounds continuation lines."""
        if isinstance(event, str):
            text = _escaped(event, escapes, _starts_line(events[i - 1] if i else "\n"), block.data)
            return text, text
        inner, label = content_of(event), event.data[1] if event.data else None
        raw = self.raw(event, block)
        if label is not None and _link_text(events[:i]) != label:
            return f"][{label}]", f"][{label}]"
        if escapes.html and event.name in EMPHASIS:
            tag = f"<{'/' if event.kind == 'close' else ''}{EMPHASIS[event.name]}>"
            return tag, tag
        return (raw if raw.startswith("![") else inner), raw

    def _reads_as(self, content: str, events: list[Event], kind: str, escapes: Escapes) -> bool:
        """Whether content is read as one block of its kind with just these tags and this text."""
        tokens = parser().parse(TEMPLATES[kind].format(content), dict(self.env))
        inline = [token for token in tokens if token.type == "inline"]
        if len(inline) != 1 or tokens[0].type != TYPES.get(kind, "paragraph_open"):
            return False
        children, text = inline[0].children or [], inline[0].content
        if kind.endswith("image"):
            if len(children) != 1 or children[0].type != "image":
                return False
            children, text = children[0].children or [], children[0].content
        found = inline_items(parser(), children, _identical(text))
        return found is not None and _summary(found[0], escapes.html) == _summary(events, escapes.html)


def _identical(text: str) -> Content:
    return Content(text, range(len(text)), range(1, len(text) + 1))


def _attempts(events: Sequence[Event], kind: str) -> Iterator[Escapes]:
    """Yield ways of escaping, the fewest escapes first."""
    text = "".join(event for event in events if isinstance(event, str))
    # A stray mark in the text of an image can pair with one outside of it, so all are escaped at once.
    if "image" not in kind:
        yield Escapes()
        yield from (Escapes(signs) for signs in SIGNS if any(sign in text for sign in signs))
    yield Escapes(ALL_SIGNS, line_start=True)
    yield Escapes(ALL_SIGNS, line_start=True, html=True)


def _summary(events: Sequence[Event], html: bool) -> list[str]:
    """Return texts and tags in a form that can be compared: neighbouring texts joined, blanks made equal."""
    result = [""]
    for event in events:
        is_line_end = isinstance(event, Item) and event.kind == "break" and event.text == " "  # behind a title
        if isinstance(event, str) or event.kind == "text" or is_line_end or is_direction_mark(event):
            text = event if isinstance(event, str) else event.text
            result[-1] += text
        elif event.kind == "line":
            result[-1] = result[-1].rstrip() + "\n"
        else:
            name = EMPHASIS.get(event.name, event.name) if html else event.name
            result += [f"{event.kind} {name} {event.text}", ""]
    return [re.sub(r"[ \t]*\n[ \t]*", "\n", re.sub(r"[ \t]+", " ", text)).strip(" ") for text in result]


def _link_text(events: Sequence[Event]) -> str:
    """Return the content of the link that is open at the end of these events."""
    parts: list[str] = []
    for event in reversed(events):
        if isinstance(event, str):
            parts.append(event)
        elif (event.kind, event.name) == ("open", "link"):
            break
        else:
            parts.append(content_of(event))
    return "".join(reversed(parts))


def _starts_line(last: Event) -> bool:
    """Return whether what follows an event is at the start of a line."""
    return (last if isinstance(last, str) else content_of(last)).rstrip(" \t").endswith("\n")


def _escaped(text: str, escapes: Escapes, at_line_start: bool, kind: str) -> str:
    signs = escapes.signs + ("|" if "cell" in kind and "|" not in escapes.signs else "")
    if signs:
        text = re.sub(rf"(?!!(?!\[|\Z))[{re.escape(signs)}]", r"\\\g<0>", text)  # ! only before [, or at the end
    if not escapes.line_start:
        return text
    if kind == "heading":
        text = re.sub(r"#(?=\s*\Z)", r"\\#", text)
    start = LINE_START.match(text) if at_line_start else None
    if start is None:
        return text
    sign = f"{start[2]}\\" if start[2].isdecimal() else f"\\{start[2]}"
    return start[1] + sign + text[start.end() :]


def _blocks(source: str, tokens: list[Token], lines: list[tuple[int, int]], options: ReadOptions) -> Iterator[Block]:
    """Yield the blocks of a file, alternative texts and titles behind the block that they are in."""
    column = 0
    language = options.source_language
    for before, token in zip([Token("", "", 0), *tokens], tokens, strict=False):
        if token.type == "tr_open":
            column = -1
        if before.type in ("th_open", "td_open"):
            column += 1
        if token.type == "html_block" and token.map:
            yield from _html(source, lines[token.map[0] : token.map[1]], token.content, options)
        if token.type != "inline" or not token.map or not token.content or NOT_TEXT.match(token.content):
            continue
        kind = KINDS.get(before.type, "paragraph")
        span = lines[token.map[0] : max(token.map[1], token.map[0] + 1)]  # that of a defined term ends where it starts
        if kind == "cell":
            content = _cell(source, span[0], column, token.content)
        elif kind == "title":
            content = _title(source, span[0], token.content)
        elif kind == "heading" and before.markup.startswith("#"):
            content = _heading(source, span[0], token.content)
        else:
            content = _lines(source, span, token.content)
        found = inline_items(parser(), token.children or [], content) if content else None
        if content is None or found is None:
            continue
        items, inner = found
        if before.type == "heading_open" and not before.markup.startswith("#"):
            kind = "paragraph"  # underlined: written like a paragraph
        yield Block(items, language, content.starts[0], content.ends[-1], data=kind)
        for each in inner:
            image = "cell image" if kind == "cell" else "image"
            data = replace(each.title, in_cell=kind == "cell") if each.title else image
            yield Block(each.items, language, each.start, each.end, data=data)


def _reference_titles(
    source: str, references: Mapping[str, Any], lines: list[tuple[int, int]], language: str
) -> Iterator[Block]:
    """Yield the titles in definitions such as `[label]: address "title"`, if they end the last line of it."""
    for reference in references.values():
        if not reference["title"].strip():
            continue
        first, last = lines[reference["map"][1] - 1]
        end = first + len(source[first:last].rstrip())
        for at in range(end - 2, first, -1):
            found = parser().helpers.parseLinkTitle(source, at, end)
            if found.ok and found.pos == end and found.str == reference["title"] and source[at - 1] in " \t":
                title = Content(source[at + 1 : end - 1], range(at + 1, end - 1), range(at + 2, end))
                yield Block(title_items(title), language, at + 1, end - 1, data=LinkTitle(source[at]))
                break


def _html(source: str, span: list[tuple[int, int]], content: str, options: ReadOptions) -> list[Block]:
    """Return the blocks of an HTML block; none if marks of a quote are between its lines."""
    raw = [source[first:last].strip() for first, last in span]
    first, *others = (line.strip() for line in content.removesuffix("\n").split("\n"))
    if raw[1:] != others or not raw[0].endswith(first):  # the first line may have the mark of a list item
        return []
    return html_blocks(source, source.index(first, span[0][0]), span[-1][1], options)


def _lines(source: str, span: list[tuple[int, int]], text: str) -> Content | None:
    """Find the content of a paragraph: the end of each line, behind marks of quotes and lists."""
    starts: list[int] = []
    ends: list[int] = []
    parts = text.split("\n")
    if len(parts) > len(span):
        return None
    for i, (line, (first, last)) in enumerate(zip(parts, span, strict=False)):
        bare = line.lstrip(" \t")
        raw = source[first:last] if i + 1 < len(parts) else source[first:last].rstrip()
        if not raw.endswith(bare):
            return None
        at = first + len(raw) - len(bare)
        if i:
            starts.append(ends[-1] if ends else first)
            ends.append(at)
        starts += [at] * (len(line) - len(bare)) + list(range(at, at + len(bare)))
        ends += [at] * (len(line) - len(bare)) + list(range(at + 1, at + len(bare) + 1))
    return Content(text, starts, ends)


def _heading(source: str, span: tuple[int, int], text: str) -> Content | None:
    marks = source.find("#", *span)
    at = source.find(text, marks + len(re.match("#*", source[marks : span[1]])[0]), span[1])  # type: ignore[index]
    return Content(text, range(at, at + len(text)), range(at + 1, at + len(text) + 1)) if at >= 0 else None


def _title(source: str, span: tuple[int, int], text: str) -> Content | None:
    """Find the title of an admonition in its quotes; the name of its kind is no title."""
    at = source.find(f'"{text}"', *span) + 1
    return Content(text, range(at, at + len(text)), range(at + 1, at + len(text) + 1)) if at else None


@lru_cache(maxsize=1)  # all cells of a row are looked for one after the other
def _row(source: str, first: int, last: int) -> list[tuple[int, int]]:
    """Return start and end of each cell of a row."""
    bars = [i for i in range(first, last) if source[i] == "|" and source[i - 1 : i] != "\\"]
    cells = [(a + 1, b) for a, b in pairwise([first - 1, *bars, last])]
    # What precedes the first bar may be the marks of a quote or a list, which belong to no cell.
    lead = source[cells[0][0] : cells[0][1]]
    return cells[1:] if len(cells) > 1 and not re.sub(r"[\s>*+\-]|\d+[.)]", "", lead) else cells


def _cell(source: str, span: tuple[int, int], column: int, text: str) -> Content | None:
    """Find a cell in its row; a backslash before a bar is not part of the content."""
    cells = _row(source, *span)
    if column >= len(cells):
        return None
    start, end = cells[column]
    starts: list[int] = []
    ends: list[int] = []
    while start < end:
        width = 2 if source[start : start + 2] == "\\|" else 1
        starts.append(start)
        ends.append(start + width)
        start += width
    plain = "".join(source[e - 1] for e in ends)
    at = plain.find(text)
    if at < 0 or plain.strip() != text:
        return None
    return Content(text, starts[at : at + len(text)], ends[at : at + len(text)])


FILETYPE = FileType(
    "markdown", (".md", ".markdown", ".mdown", ".mkd"), matches=lambda content: False, read=read, aliases=("md",)
)
