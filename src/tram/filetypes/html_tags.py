"""What the tags of HTML mean to a translator, and the tokens of a page with their places in the file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Literal

from tram.filetypes.blocks import Item


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements inside a sentence; every other element ends a block.
INLINE = _words(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label map mark math meter nobr output"
    " picture progress q rb rp rt rtc ruby s samp small source span strike strong sub sup svg time tt u var wbr input"
)
# Inline elements whose content is copied as it is.
OPAQUE = _words("code kbd samp var tt")
# Elements that are left alone with all their content; inline ones are like an empty element to the sentence around.
SKIPPED = _words(
    "script style pre textarea template math svg object audio video canvas iframe noembed noframes xmp rt rtc rp"
)
VOID = _words("area base br col embed hr img input link meta param source track wbr")
# Elements in which nothing is a tag but their own end; `title` has text in it.
RAW_TEXT = _words("script style textarea title xmp iframe noembed noframes")
RAW_TEXT_END = re.compile(rf"</({'|'.join(sorted(RAW_TEXT))})(?=[\s/>])", re.I)

ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+))?"""
TOKEN = re.compile(
    rf"""(?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) | <!\[CDATA\[.*?(?:\]\]>|\Z)
         | <\?(?:php|=)(?:[^<?]|<(?!\?)|\?(?!>))*+\?> | <%(?:[^<%]|<(?!%)|%(?!>))*+%> | <[!?][^>]*+> )
       | (?P<tag> <(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*+)(?>(?:[\s/]++|{ATTRIBUTE})*+)> )""",
    re.VERBOSE | re.DOTALL,
)
PARTS = re.compile(r"""([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+)))?""")
# In text: a character reference, a run of blanks, anything else.
REFERENCE = r"&(?:\#[0-9]{1,8}|\#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{0,31});?"
TEXT = re.compile(rf"(?P<reference>{REFERENCE})|(?P<blank>[ \t\r\n\f]+)|[^&\s]+(?: [^&\s]+)*|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a tag, its value (as in the file) and where that is, without quotes."""

    name: str
    value: str
    start: int
    end: int
    quote: str


@dataclass(frozen=True, slots=True)
class Token:
    """A tag, text between tags, or something else; `end` is behind it."""

    kind: Literal["start", "end", "empty", "text", "other"]
    start: int
    end: int
    name: str = ""


def html_tag(raw: str) -> tuple[Literal["open", "close", "empty", "line"], str]:
    """Return kind and name of one tag, as an item of a block; comments and the like are empty elements."""
    match = TOKEN.fullmatch(raw)
    if match is None or not match["name"]:
        return "empty", ""
    name = match["name"].lower()
    if name == "br":
        return "line", name
    if match["close"]:
        return "close", name
    return ("empty" if raw.endswith("/>") or name in VOID else "open"), name


def tokens(source: str, xml: bool, position: int, end: int) -> Iterator[Token]:
    """Yield the tokens of a page from a position to an end; what is no tag to a browser is text.

    `xml`: `<a/>` is empty whatever its name.
    """
    last = source.rfind(">", position, end) + 1  # no tag can end behind it, so none is looked for
    last_ends = {m[1].lower(): m.start() for m in RAW_TEXT_END.finditer(source, position, end)}
    raw_text = ""  # the element that only its own end can end
    while position < end:
        if raw_text:
            match = re.compile(rf"</{re.escape(raw_text)}(?=[\s/>])[^>]*>", re.I).search(source, position, end)
        else:
            match = TOKEN.search(source, position, last)
        if match is None and raw_text:  # without an end, so that browsers show nothing of what follows
            yield Token("other", position, end)
            return
        if match is None:
            comment = source.find("<!--", position, end)  # without an end
            yield from [Token("text", position, comment if comment >= 0 else end)] * (comment != position)
            yield from [Token("other", comment, end)] * (comment >= 0)
            return
        if match.start() > position:
            yield Token("text", position, match.start())
        position = match.end() if not _is_open_comment(match[0]) else end
        if raw_text:
            yield Token("end", match.start(), position, raw_text)
            raw_text = ""
        elif match["comment"]:
            yield Token("other", match.start(), position)
        else:
            name = match["name"].lower()
            is_closed = xml or (name in RAW_TEXT and last_ends.get(name, -1) < position)  # what else would end it?
            is_empty = name in VOID or (is_closed and match[0].endswith("/>"))
            kind: Literal["start", "end", "empty"] = "end" if match["close"] else "empty" if is_empty else "start"
            yield Token(kind, match.start(), position, name)
            raw_text = name if kind == "start" and name in RAW_TEXT else ""


def _is_open_comment(raw: str) -> bool:
    return raw.startswith("<!--") and not raw.endswith(("-->", "--!>")) and raw not in ("<!-->", "<!--->")


def attributes(source: str, token: Token) -> Iterator[Attribute]:
    """Yield the attributes of a start tag."""
    for match in PARTS.finditer(source, token.start + 1 + len(token.name), token.end - 1):
        group = next((g for g in (2, 3, 4) if match[g] is not None), 0)
        value, (start, end) = (match[group], match.span(group)) if group else ("", (match.end(), match.end()))
        yield Attribute(match[1].lower(), value, start, end, {2: '"', 3: "'"}.get(group, ""))


def text_items(source: str, start: int, end: int, keep_lines: bool = False) -> Iterator[Item]:
    """Yield the items of text with character references: each reference and each run of blanks is one.

    A reference to nothing that HTML knows is copied.
    keep_lines: line ends and tabs are text, as in `xml:space="preserve"`.
    """
    for match in TEXT.finditer(source, start, end):
        first, last = match.span()
        if match["blank"]:
            is_kept = keep_lines and ("\n" in match[0] or "\t" in match[0])
            yield Item("text", first, last, match[0] if is_kept else " ")
        elif match["reference"]:
            yield from _reference(match[0], first)
        else:
            yield Item("text", first, last, match[0])


def _reference(raw: str, start: int) -> Iterator[Item]:
    text = unescape(raw)  # as browsers do: &copy2020 is ©2020
    if raw[1] != "#" and text == raw:
        yield Item("opaque" if raw.endswith(";") else "text", start, start + len(raw), raw)
        return
    is_blank = text in "\t\n\r\f"
    yield Item("text", start, start + len(raw), " " if is_blank else text)


def references(source: str) -> dict[str, str]:
    """Return how a file writes characters for which it uses references, for example U+00A0 as `&nbsp;`."""
    found: dict[str, str] = {}
    for match in re.finditer(REFERENCE, source):
        text = unescape(match[0])
        if match[0].endswith(";") and len(text) == 1 and text not in "&<>\"'" and not text.isascii():
            found.setdefault(text, match[0])
    return found
