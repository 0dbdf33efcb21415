"""The runs of a Word paragraph as items of a block."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tram.filetypes.blocks import NOTE, Item, is_inside_word
from tram.filetypes.html_tags import text_items
from tram.filetypes.xml_inline import plain_text
from tram.filetypes.xml_source import Element

CONTAINERS = frozenset({"hyperlink", "smartTag", "ins", "moveTo", "customXml", "bdo", "dir"})
OPAQUE = frozenset({"oMath", "oMathPara", "fldSimple"})
TRANSLATED_FIELDS = ("HYPERLINK", "TOC")  # the result of any other field is computed by Word
CONTROLS = frozenset({"dropDownList", "comboBox", "date", "checkbox", "picture", "dataBinding", "citation"})
MAX_FIELDS = 20  # inside of each other, as in Word
GAP = 3  # blanks between columns
BLANKS = str.maketrans("\n\t", "  ")
# Names of the styles of code in Word, LibreOffice and pandoc.
CODE_STYLE = re.compile(r"preformatted|source_?(?:20_)?(?:code|text)|^code|html.?code|verbatim|listing|teletype", re.I)
# Differences between runs that readers do not see.
UNSEEN = re.compile(r"<(?:\w+:)?(?:lang|noProof|rFonts\s+(?:\w+:)?hint)\b[^>]*/>|\s+")


@dataclass(frozen=True, slots=True)
class Run:
    """The formatting of a run, as in the file; `is_element`: the item is an element inside the run, not text."""

    formatting: str
    is_element: bool = False

    @property
    def key(self) -> str:
        """What is the same for runs that look the same."""
        visible = UNSEEN.sub("", self.formatting)
        return "" if re.fullmatch(r"<[^<>]*rPr[^<>]*>(?:</[^<>]*>)?", visible) else visible


def paragraph_items(source: str, paragraph: Element) -> tuple[list[Item], str]:
    """Return the items of a paragraph and the formatting that most of its text has.

    Runs with another formatting are inside a pair of tags, which exists only in the items.
    """
    items = list(_items(source, [node for node in paragraph.children if node.name != "pPr"]))
    lengths: Counter[str] = Counter()
    first: dict[str, str] = {}
    depth = 0
    for item in items:
        if item.kind in ("open", "close"):
            depth += 1 if item.kind == "open" else -1
        elif item.kind == "text" and isinstance(item.data, Run):
            # Text of a link is no model for the text around it.
            lengths[item.data.key] += (len(item.text.strip()) + 1) * (1 if depth else 1000)
            first.setdefault(item.data.key, item.data.formatting)
    base = lengths.most_common(1)[0][0] if lengths else ""
    return list(_with_formats(items, base)), first.get(base, "")


def _with_formats(items: Sequence[Item], base: str) -> Iterator[Item]:
    """Put a pair of tags around each stretch of runs that differ from the base."""
    open_tag: Item | None = None
    number = 0
    waiting: list[Item] = []  # elements that may be inside of the pair or behind it
    for item in items:
        is_text = item.kind == "text" and isinstance(item.data, Run)
        is_point = item.kind in ("empty", "line")
        if open_tag is not None:
            if is_text and item.data.key == open_tag.data.key:
                yield from waiting
                waiting = []
            elif is_point:
                waiting.append(item)
                continue
            else:
                at = waiting[0].start if waiting else item.start
                yield replace(open_tag, kind="close", start=at, end=at)
                yield from waiting
                open_tag, waiting = None, []
        if is_text and open_tag is None and item.data.key != base:
            number += 1
            open_tag = Item("open", item.start, item.start, name=f"format {number}", data=Run(item.data.formatting))
            yield open_tag
        yield item
    if open_tag is not None:
        yield replace(open_tag, kind="close", start=items[-1].end, end=items[-1].end)
    yield from waiting


def _items(source: str, nodes: Sequence[Element], fields: int = 0) -> Iterator[Item]:
    """Yield the items of elements; `fields`: how many fields they are in."""
    position = 0
    ends = _field_ends(nodes)
    while position < len(nodes):
        node = nodes[position]
        end = ends.get(position, position)
        if end > position:
            yield from _field(source, nodes[position:end], fields + 1)
            position = end
            continue
        position += 1
        if node.name == "r":
            yield from _run(source, node, nodes[max(position - 2, 0) : position - 1], nodes[position : position + 1])
        elif node.name in CONTAINERS and node.inner_end < node.end:
            yield Item("open", node.start, node.inner, name=f"{node.name} {node.start}")
            yield from _items(source, list(node.children), fields)
            yield Item("close", node.inner_end, node.end, name=f"{node.name} {node.start}")
        elif node.name == "sdt":
            yield from _control(source, node, fields)
        elif node.name in OPAQUE:
            yield Item("opaque", node.start, node.end, _text(source, node))
        else:  # bookmarks, marks of comments, deletions
            yield Item("empty", node.start, node.end)


def has_code_style(properties: Element, name: str) -> bool:
    """Return whether the properties of a paragraph (`pStyle`) or a run (`rStyle`) name a style of code."""
    style = properties.find(name)
    return style is not None and CODE_STYLE.search(style.attributes.get("val", "")) is not None


def _is_raised(properties: Element) -> bool:
    position = properties.find("vertAlign")
    return position is not None and position.attributes.get("val") == "superscript"


def _run(source: str, run: Element, before: Sequence[Element], after: Sequence[Element]) -> Iterator[Item]:
    """Yield the items of a run; before, after: its neighbour on that side, or none."""
    properties = run.find("rPr")
    formatting = source[properties.start : properties.end] if properties else ""
    text, element = Run(formatting), Run(formatting, is_element=True)
    is_code = properties is not None and has_code_style(properties, "rStyle")
    raised = properties is not None and _is_raised(properties)
    if raised and before and after:
        raised = not is_inside_word(_text(source, before[0]), _text(source, after[0]))
    for node in run.children:
        if node.name == "t" and raised and NOTE.fullmatch(plain_text(source, node)):
            yield Item("empty", node.start, node.end, data=element)
        elif node.name == "t" and is_code:
            yield Item("opaque", node.start, node.end, plain_text(source, node), data=element)
        elif node.name == "t":
            for item in text_items(source, node.inner, node.inner_end, keep_lines=True):
                # Runs of blanks are what some use for a tab
                is_gap = item.end - item.start >= GAP and not item.text.strip()
                blank = source[item.start : item.end] if is_gap else item.text.translate(BLANKS)
                yield replace(item, kind="break" if is_gap else "text", text=blank, data=text)
        elif node.name == "noBreakHyphen":
            yield Item("text", node.start, node.end, "\u2011", data=element)
        elif node.name == "softHyphen":
            yield Item("text", node.start, node.end, "", data=element)
        elif node.name in ("tab", "ptab") or (node.name == "br" and node.attributes.get("type") in ("page", "column")):
            yield Item("break", node.start, node.end, data=element)
        elif node.name in ("br", "cr"):
            yield Item("line", node.start, node.end, data=element)
        elif node.name == "ruby":
            yield Item("opaque", node.start, node.end, _text(source, node), data=element)
        elif node.name != "rPr":
            yield Item("empty", node.start, node.end, data=element)


def _control(source: str, control: Element, fields: int) -> Iterator[Item]:
    """Yield a content control: a pair of tags around its text, or one piece if it is a list, a date or the like."""
    properties, content = control.find("sdtPr"), control.find("sdtContent")
    kinds = {child.name for child in properties.children} if properties else set()
    if content is None or content.inner_end == content.end or kinds & CONTROLS:
        yield Item("opaque", control.start, control.end, _text(source, control))
        return
    yield Item("open", control.start, content.inner, name=f"sdt {control.start}")
    yield from _items(source, list(content.children), fields)
    yield Item("close", content.inner_end, control.end, name=f"sdt {control.start}")


def _marks(node: Element) -> list[str]:
    """Return the field characters of a run."""
    return (
        [n.attributes.get("fldCharType", "") for n in node.children if n.name == "fldChar"] if node.name == "r" else []
    )


def _field_ends(nodes: Sequence[Element]) -> dict[int, int]:
    """Return the index behind each field by that of the node with its beginning."""
    marks = [_marks(node) for node in nodes]
    after = [0]  # how many fields are open behind each node
    for each in marks:
        after.append(after[-1] + each.count("begin") - each.count("end"))
    ends: dict[int, int] = {}
    last: dict[int, int] = {}  # the next node behind which so many are open
    separate = None  # the next node with this mark
    for i in reversed(range(len(nodes))):
        last[after[i + 1]] = i
        separate = i if "separate" in marks[i] else separate
        if "begin" in marks[i]:
            # It may end in another paragraph: then what precedes its result here is one piece.
            found = last.get(after[i], separate)
            ends |= {} if found is None else {i: found + 1}
    return ends


def _field(source: str, nodes: Sequence[Element], fields: int) -> Iterator[Item]:
    """Yield a complex field: one piece if Word computes its text, else tags around that text."""
    code = "".join(_instruction(source, node) for node in nodes)
    depth, separate, end = 0, None, None
    for i, node in enumerate(nodes):
        for mark in _marks(node):
            depth += {"begin": 1, "end": -1}.get(mark, 0)
            if mark == "separate" and depth == 1 and separate is None:
                separate = i
            if mark == "end" and depth == 0:
                end = i
    if end is None or separate is None:
        yield Item("empty", nodes[0].start, nodes[-1].end)
    elif fields <= MAX_FIELDS and code.split()[:1] and code.split()[0].upper() in TRANSLATED_FIELDS:
        name = f"field {nodes[0].start}"
        yield Item("open", nodes[0].start, nodes[separate].end, name=name)
        yield from _items(source, nodes[separate + 1 : end], fields)
        yield Item("close", nodes[end].start, nodes[end].end, name=name)
    else:
        text = "".join(_text(source, node) for node in nodes[separate + 1 : end])
        yield Item("opaque" if text.strip() else "empty", nodes[0].start, nodes[-1].end, text)


def _instruction(source: str, node: Element) -> str:
    return "".join(plain_text(source, child) for child in node.walk() if child.name == "instrText")


def _text(source: str, node: Element) -> str:
    """Return the text that a reader sees in an element."""
    return "".join(plain_text(source, child) for child in node.walk() if child.name == "t")
