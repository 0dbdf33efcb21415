"""The blocks of an HTML or XHTML page: runs of text and inline elements between all other tags, and attributes.

Pages are not parsed into a tree and rewritten, which would change them; only text changes in its place. So unclosed
paragraphs, wrong nesting and templates come back as they were.
"""

import re
from collections.abc import Iterator, Sequence

from tram.filetypes.base import ReadOptions, Translation
from tram.filetypes.blocks import NOTE, Block, Event, Item, is_inside_word
from tram.filetypes.html_tags import (
    INLINE,
    OPAQUE,
    SKIPPED,
    Attribute,
    Token,
    attributes,
    references,
    text_items,
    tokens,
)
from tram.filetypes.languages import differ, is_same
from tram.filetypes.parts import Part

ARIA = {"aria-label", "aria-description", "aria-placeholder", "aria-roledescription", "aria-valuetext"}
TRANSLATED = frozenset({"alt", "title", "placeholder", "label", *ARIA})
CARDS = {f"{site}:{name}" for site in ("og", "twitter") for name in ("title", "description", "image:alt")}
META = frozenset({"description", *CARDS})
BUTTONS = frozenset({"submit", "button", "reset"})
BEFORE_NOTE = re.compile(r"[^\W\d_]|[.,;:!?”»]")


class HtmlWriter(Part):
    """A part that has blocks of HTML; their `data` is the quote of an attribute, or None for text."""

    _references: dict[str, str] = {}  # noqa: RUF012 (of a page, or none)

    def escape(self, text: str) -> str:
        """Return text with the references that the file uses."""
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return "".join(self._references.get(c, c) for c in text) if self._references else text

    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return a block; the value of an attribute with its quotes escaped."""
        text = super().write_block(block, events, translations)
        if block.data is None:
            return text
        if block.data == '"' or not block.data:
            text = text.replace('"', "&quot;")
        if block.data == "'":
            text = text.replace("'", "&#39;")
        return text if block.data else f'"{text}"'


class HtmlPart(HtmlWriter):
    """A page. `xml`: it is XHTML."""

    def __init__(self, source: str, options: ReadOptions, xml: bool) -> None:
        reader = _Reader(source, options, xml)
        super().__init__(source, sorted(reader.blocks(), key=lambda block: block.start))
        self.edits = reader.edits
        self._references = references(source)


def html_blocks(source: str, start: int, end: int, options: ReadOptions) -> list[Block]:
    """Return the blocks of a piece of HTML in a file of another type."""
    return sorted(_Reader(source, options, False, (start, end)).blocks(), key=lambda block: block.start)


class _Reader:
    """One pass over the tokens of a page."""

    def __init__(self, source: str, options: ReadOptions, xml: bool, span: tuple[int, int] | None = None) -> None:
        self.source = source
        self.options = options
        self.tokens = list(tokens(source, xml, *(span or (0, len(source)))))
        self.ends = _ends(self.tokens)
        self.items: list[Item] = []
        self.edits: list[tuple[int, int, str]] = []

    def blocks(self) -> Iterator[Block]:
        i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            if token.kind == "text":
                self.items += text_items(self.source, token.start, token.end)
            elif token.kind == "other":
                self.items.append(Item("empty", token.start, token.end))
            elif token.kind == "end":
                if token.name in INLINE:
                    self.items.append(Item("close", token.start, token.end, name=token.name))
                else:
                    yield from self._flush()
            else:
                found = list(attributes(self.source, token))
                last = self._last(i, found)
                if last == i:
                    yield from self._attributes(token, found)
                    if token.name not in INLINE and token.name != "br":
                        yield from self._flush()
                    else:
                        self.items.append(_tag(token))
                elif token.name in INLINE:
                    self.items.append(self._whole(i, last))
                else:
                    yield from self._flush()
                i = last
            i += 1
        yield from self._flush()

    def _flush(self) -> Iterator[Block]:
        items, self.items = self.items, []
        if any(item.kind == "text" and item.text.strip() for item in items):
            yield Block(items, self.options.source_language, items[0].start, items[-1].end)

    def _last(self, i: int, found: list[Attribute]) -> int:
        """Return the index of the end tag of an element that is not to be read; else that of the start tag."""
        token = self.tokens[i]
        if token.kind != "start":
            return i
        if token.name in SKIPPED or token.name in OPAQUE or any(self._is_left(token, each) for each in found):
            return self.ends.get(i, i)
        last = self.ends.get(i, i)
        if not (self._can_be_note(token, found) and i < last <= i + 12 and NOTE.fullmatch(self._text(i, last))):
            return i
        end = self.tokens[last].end
        before, after = self.source[max(token.start - 1, 0) : token.start], self.source[end : end + 1]
        return i if is_inside_word(before, after) else last

    def _can_be_note(self, token: Token, found: list[Attribute]) -> bool:
        """Return whether an element with a number in it refers to a note: above the line, or stuck to a word."""
        if token.name != "a":
            return token.name == "sup"
        is_named = any(a.name in ("epub:type", "role") and "noteref" in a.value for a in found)
        return is_named or BEFORE_NOTE.search(self.source, max(token.start - 1, 0), token.start) is not None

    def _is_left(self, token: Token, attribute: Attribute) -> bool:
        """Return whether an attribute says that an element is not to be translated, or is in another language."""
        value = attribute.value.strip()
        if attribute.name in ("lang", "xml:lang") and token.name not in ("html", "body"):  # else nothing would be left
            return differ(value, self.options.source_language)
        return (attribute.name == "translate" and value.lower() == "no") or (
            attribute.name == "class" and "notranslate" in value.split()
        )

    def _text(self, i: int, last: int) -> str:
        parts = (text_items(self.source, t.start, t.end) for t in self.tokens[i:last] if t.kind == "text")
        return "".join(item.text for part in parts for item in part)

    def _whole(self, i: int, last: int) -> Item:
        """Return an element with all its content as one item."""
        text = self._text(i, last)
        start, end = self.tokens[i].start, self.tokens[last].end
        name = self.tokens[i].name
        is_text = name not in SKIPPED and text.strip() and not (name in ("sup", "a") and NOTE.fullmatch(text))
        return Item("opaque" if is_text else "empty", start, end, text)

    def _attributes(self, token: Token, found: list[Attribute]) -> Iterator[Block]:
        values = {a.name: a.value.lower() for a in found}
        for attribute in found:
            name = attribute.name
            is_text = (
                name in TRANSLATED
                or (name == "content" and token.name == "meta" and META & {values.get("name"), values.get("property")})
                or (name == "value" and token.name == "input" and values.get("type") in BUTTONS)
            )
            if is_text and attribute.value.strip():
                items = list(text_items(self.source, attribute.start, attribute.end))
                language = self.options.source_language
                yield Block(items, language, attribute.start, attribute.end, data=attribute.quote)
            elif name in ("lang", "xml:lang") and token.name == "html" and self.options.target_language:
                is_source = is_same(attribute.value, self.options.source_language)
                self.edits += [(attribute.start, attribute.end, self.options.target_language)] if is_source else []


def _ends(found: list[Token]) -> dict[int, int]:
    """Return the index of the end tag of each start tag that has one."""
    opened: dict[str, list[int]] = {}
    result: dict[int, int] = {}
    for i, token in enumerate(found):
        if token.kind == "start":
            opened.setdefault(token.name, []).append(i)
        elif token.kind == "end" and opened.get(token.name):
            result[opened[token.name].pop()] = i
    return result


def _tag(token: Token) -> Item:
    if token.name == "br":
        return Item("line", token.start, token.end)
    kind = "open" if token.kind == "start" else "empty"
    return Item(kind, token.start, token.end, name=token.name)  # type: ignore[arg-type]
