"""Inline elements of the translators' formats, XLIFF and TMX: pairs, placeholders, protected text."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from tram.filetypes.blocks import Item, find_partners
from tram.filetypes.html_tags import VOID, text_items
from tram.filetypes.markup_text import reread, with_tags
from tram.filetypes.message_forms import message_items
from tram.filetypes.xml_source import CDATA, Element, Text

PAIRS = frozenset({"g", "mrk", "pc", "hi"})  # elements around text
STARTS = frozenset({"bpt", "bx", "sc", "sm"})
ENDS = frozenset({"ept", "ex", "ec", "em"})
CODE_TAG = re.compile(r"\s*<(/?)([A-Za-z][\w:.-]*)[^<>]*?(/?)>\s*")
MARKUP = re.compile(r"\s*(?:<|\\|\{\\|\[/?\w+\]|&lt;)|\s*\Z")  # code that is no word of the sentence


def inline_items(source: str, element: Element, keep_lines: bool, data: dict[str, str]) -> list[Item]:
    """Return the items of a segment; `data` is what `dataRef`s of XLIFF 2 refer to."""
    items = with_tags(reread(list(_items(source, element, keep_lines, data)), message_items))
    partners = find_partners(items)
    # Code that looks like a tag but has no partner is an element of its own.
    unpaired = {i for i, item in enumerate(items) if item.name.startswith("code ") and i not in partners}
    return [replace(item, kind="empty") if i in unpaired else item for i, item in enumerate(items)]


def _items(source: str, element: Element, keep_lines: bool, data: dict[str, str]) -> Iterator[Item]:
    behind = 0  # everything before it is done
    ends = _span_ends(element)
    for node in element.nodes:
        if node.start < behind:
            continue
        if isinstance(node, Text):
            yield from _text(source, node, keep_lines)
        elif is_segment(node):
            yield Item("break", node.start, node.inner)
            yield from _items(source, node, keep_lines, data)
            yield Item("break", node.inner_end, node.end)
        elif node.name == "mrk" and ("no" in (node.attributes.get("translate"), _protected(node))):
            yield Item("opaque", node.start, node.end, plain_text(source, node))
        elif (
            node.name == "sm"
            and node.attributes.get("translate") == "no"
            and (end := ends.get(node.attributes.get("id")))
        ):
            first, last = (bisect_left(element.nodes, at, key=lambda each: each.start) for at in (node.end, end))
            inside = element.nodes[first:last]
            yield Item("opaque", node.start, end, "".join(_readable(source, other) for other in inside))
            behind = end
        elif node.name in PAIRS and node.inner_end < node.end:
            name = f"{node.name} {node.start}"
            yield Item("open", node.start, node.inner, name=name)
            yield from _items(source, node, keep_lines, data)
            yield Item("close", node.inner_end, node.end, name=name)
        elif node.name in STARTS | ENDS:
            number = node.attributes.get("startRef") or node.attributes.get("rid") or node.attributes.get("i")
            name = f"pair {number or node.attributes.get('id', '')}"
            kind = "open" if node.name in STARTS else "close"
            yield Item(kind, node.start, node.end, name=name)  # type: ignore[arg-type]
        else:
            yield _code(source, node, data)


def is_segment(node: Element) -> bool:
    """Return whether an element marks a segment of a unit of XLIFF 1.2."""
    return node.name == "mrk" and node.attributes.get("mtype") == "seg"


def _span_ends(parent: Element) -> dict[str | None, int]:
    """Return where each span ends that an `<sm/>` of XLIFF 2 starts and that ends in this element, by its id."""
    ends: dict[str | None, int] = {}
    for child in parent.children:
        if child.name == "em":
            ends.setdefault(child.attributes.get("startRef"), child.end)
    return ends


def _protected(node: Element) -> str:
    return "no" if node.attributes.get("mtype") == "protected" else ""


def _text(source: str, node: Text, keep_lines: bool) -> Iterator[Item]:
    if node.kind == "text":
        yield from text_items(source, node.start, node.end, keep_lines)
    elif node.kind == CDATA:
        start, end = node.start + len("<![CDATA["), node.end - len("]]>")
        yield Item("text", start, end, source[start:end], data=CDATA)
    else:
        yield Item("empty", node.start, node.end)


def _code(source: str, node: Element, data: dict[str, str]) -> Item:
    """Return a placeholder: a tag of the original format, or something that is read as a word."""
    values = node.attributes
    known = (values.get(key) for key in ("equiv-text", "equiv", "disp"))
    code = plain_text(source, node) or next(filter(None, known), "") or data.get(values.get("dataRef", ""), "")
    if values.get("ctype") == "lb" or values.get("subType") == "xlf:lb":
        return Item("line", node.start, node.end)
    tag = CODE_TAG.fullmatch(code)
    if tag and not tag[3] and tag[2].lower() not in VOID and node.name in ("x", "ph"):
        return Item("close" if tag[1] else "open", node.start, node.end, name=f"code {tag[2]}")
    return Item("empty" if MARKUP.match(code) else "opaque", node.start, node.end, code)


def plain_text(source: str, element: Element) -> str:
    """Return all text inside of an element."""
    return _readable(source, element)


def _readable(source: str, node: Element | Text) -> str:
    parts: list[str] = []
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Element):
            stack += reversed(node.nodes)
        else:
            parts += (item.text for item in _text(source, node, True))
    return "".join(parts)
