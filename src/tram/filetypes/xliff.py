"""XLIFF 1.2 and 2.x: empty targets are filled and their state set, existing ones are kept and are context.

A unit of version 1.2 whose source and target have the same segments (`mrk mtype="seg"`) is filled segment by segment.
Nothing else changes but the target language, where the file has none or repeats the source language.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions, Translation
from tram.filetypes.blocks import Block, Event
from tram.filetypes.languages import check_source, check_target, is_same
from tram.filetypes.parts import PartsDocument, XmlPart
from tram.filetypes.xml_inline import inline_items, is_segment, plain_text
from tram.filetypes.xml_source import (
    Element,
    Text,
    decode_xml,
    parse_xml,
    root_name,
    tag_name,
    with_attribute,
)

# States of a target that a translator has not worked on.
UNTRANSLATED = frozenset({"new", "needs-translation", "needs-l10n", "initial"})


class XliffPart(XmlPart):
    """One `<file>` of an XLIFF, with what precedes it; `data` of a block is what surrounds a new target."""

    def __init__(self, source: str, file: Element, span: tuple[int, int], options: ReadOptions, version: int) -> None:
        self.options = options
        self.version = version
        self.data: dict[int, dict[str, str]] = {}  # by unit of version 2: its original data
        self.holders: dict[int, Element] = {}  # by block: the element with its state, if the block does not write it
        super().__init__(source, self._blocks(source, file), span)

    def _blocks(self, source: str, file: Element) -> Iterator[Block]:
        for element in file.walk():
            if element.name == ("trans-unit" if self.version == 1 else "segment"):
                original, target = element.find("source"), element.find("target")
                if original is None:
                    continue
                segmented = element.find("seg-source") or original
                pairs: list[tuple[Element, Element | None]] = []
                if self.version == 1 and target is not None:
                    pairs += _segments(segmented, target)
                for one, other in pairs or [(segmented, target)]:
                    block = self._block(source, element, one, other)
                    if block is not None:
                        if self.version > 1 or pairs:
                            self.holders[id(block)] = element if self.version > 1 else target or element
                        yield block

    def _block(self, source: str, unit: Element, original: Element, target: Element | None) -> Block | None:
        """Return the block of a unit, or of one of the segments that its source and its target are divided into."""
        keep_lines = unit.inherited("xml:space") == "preserve" or original.inherited("xml:space") == "preserve"
        data = self._original_data(source, unit.parent) if self.version > 1 and unit.parent else {}
        items = inline_items(source, original, keep_lines, data)
        if not any(item.text.strip() for item in items):
            return None
        state = unit.attributes.get("state") if self.version > 1 else target and target.inherited("state")
        existing = inline_items(source, target, keep_lines, data) if target else []
        is_done = any(item.text.strip() for item in existing) and not (
            state in UNTRANSLATED
            and (self.version == 1 or (target and plain_text(source, target) == plain_text(source, original)))
        )
        prefix, suffix, start, end = _place(source, original, target)
        return Block(
            items,
            self.options.source_language,
            start,
            end,
            target=existing if is_done else None,
            target_language=self.options.target_language,
            translate=unit.inherited("translate") != "no",
            bilingual=True,
            data=(prefix, suffix),
        )

    def _original_data(self, source: str, unit: Element) -> dict[str, str]:
        if id(unit) not in self.data:
            stored = unit.find("originalData")
            elements = stored.children if stored else ()
            self.data[id(unit)] = {each.attributes.get("id", ""): plain_text(source, each) for each in elements}
        return self.data[id(unit)]

    def write(self, translations: Sequence[Translation | None]) -> str:
        """Return the file; states that are not in a new target's own tag are set."""
        fixed, given = list(self.edits), iter(translations)
        doubts: dict[tuple[int, int], bool] = {}
        for block in self.blocks:
            found = [next(given) for _ in block.segments]
            if id(block) in self.holders and block.changes(found):
                holder = self.holders[id(block)]
                place = holder.start, holder.inner
                doubts[place] = doubts.get(place, False) or _is_doubtful(found)
        for (start, end), doubtful in doubts.items():
            self.edits.append((start, end, with_attribute(self.source[start:end], "state", self._state(doubtful))))
        try:
            return super().write(translations)
        finally:
            self.edits = fixed

    def _state(self, doubtful: bool) -> str:
        return ("initial" if self.version > 1 else "needs-review-translation") if doubtful else "translated"

    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return the new target."""
        prefix, suffix = block.data
        if id(block) not in self.holders:
            lead, tag = re.fullmatch(r"(\s*)(.*)", prefix, re.DOTALL).groups()  # type: ignore[union-attr]
            prefix = lead + with_attribute(tag, "state", self._state(_is_doubtful(translations)))
        return prefix + super().write_block(block, events, translations) + suffix


def _is_doubtful(translations: Sequence[Translation | None]) -> bool:
    return any(new is not None and new.doubtful for new in translations)


def _segments(original: Element, target: Element) -> list[tuple[Element, Element]]:
    """Return the segments of a unit whose target has the same ones; each may be translated or not."""
    sources, targets = (_numbered(element) for element in (original, target))
    return [(sources[key], targets[key]) for key in sources] if sources.keys() == targets.keys() else []


def _numbered(element: Element) -> dict[tuple[str, int], Element]:
    """Return the segments of an element by their ids, and by their places where several have the same one."""
    found: dict[tuple[str, int], Element] = {}
    counts: Counter[str] = Counter()
    for child in element.walk():
        if is_segment(child):
            mid = child.attributes.get("mid", "")
            found[mid, counts[mid]] = child
            counts[mid] += 1
    return found


def _place(source: str, original: Element, target: Element | None) -> tuple[str, str, int, int]:
    """Return the tags of a target and the place that it takes."""
    if target is not None:
        tag = source[target.start : target.inner]
        name = tag_name(tag)
        opening = tag if target.inner_end < target.end else f"{tag[:-2].rstrip()}>"
        return opening, f"</{name}>", target.start, target.end
    name = tag_name(source[original.start : original.inner])
    name = name.replace("seg-source", "target").replace("source", "target")
    siblings = original.parent.nodes if original.parent else []
    before = siblings[siblings.index(original) - 1] if siblings.index(original) else None
    is_blank = isinstance(before, Text) and not source[before.start : before.end].strip()
    indentation = source[before.start : before.end] if before and is_blank else ""
    return f"{indentation}<{name}>", f"</{name}>", original.end, original.end


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read an XLIFF file: one document for each `<file>` in it."""
    decoded = decode_xml(name, content)
    text = decoded.text
    root = parse_xml(name, text)
    version = root.attributes.get("version", "")
    if root.name != "xliff" or version[:1] not in ("1", "2"):
        raise InputError(f"{name}: is no XLIFF 1.x or 2.x file; check its root element and version")
    major = int(version[0])
    files = [element for element in root.walk() if element.name == "file"]
    if not files:
        raise InputError(f"{name}: has no <file> element; check that it is whole")
    for holder in files if major == 1 else [root]:
        check_source(name, holder.attributes.get("source-language" if major == 1 else "srcLang", ""), options)
        check_target(name, holder.attributes.get("target-language" if major == 1 else "trgLang", ""), options)
    spans = pairwise([0, *(file.start for file in files[1:]), len(text)])
    parts = [XliffPart(text, file, span, options, major) for file, span in zip(files, spans, strict=True)]
    if options.target_language is not None:
        holders = files if major == 1 else [root]
        attribute = "target-language" if major == 1 else "trgLang"
        for part, holder in zip(parts, holders, strict=False):
            declared = holder.attributes.get(attribute, "")
            if not declared or is_same(declared, options.source_language):
                tag = with_attribute(text[holder.start : holder.inner], attribute, options.target_language)
                part.edits.append((holder.start, holder.inner, tag))
    return PartsDocument([[part] for part in parts], lambda texts: decoded.encode("".join(texts), references=True))


FILETYPE = FileType(
    "xliff",
    (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"),
    matches=lambda content: root_name(content) == b"xliff",
    read=read,
)
