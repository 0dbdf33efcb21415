"""DOCX: body, tables, headers, footers, foot- and endnotes, text boxes; only the runs of changed paragraphs are new.

The formatting that most of a paragraph has is its base; other runs, links, fields and insertions are inline tags.
Descriptions of pictures (alternative texts) are translated too. Comments, deletions and all other parts stay as they
are; the language of text and styles becomes that of the translation.
"""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions, Translation
from tram.filetypes.blocks import Block, Event, Item
from tram.filetypes.docx_runs import Run, has_code_style, paragraph_items
from tram.filetypes.html_tags import text_items
from tram.filetypes.languages import base_language, is_same, region
from tram.filetypes.packages import Package, peek
from tram.filetypes.parts import Part, PartsDocument, XmlPart
from tram.filetypes.xml_source import Element, attribute_span, escape_xml, is_file_name, parse_xml, tag_name

TEXT_PARTS = re.compile(r"(document|template)[\w.]*\.main\+xml$|(header|footer|footnotes|endnotes)\+xml$", re.I)
STYLES = "word/styles.xml"
LANGUAGE = re.compile(r"""(<(?:\w+:)?lang\s(?:[^<>]*?\s)?(?:\w+:)?val=["'])([\w-]+)""")
DESCRIBED = {"docPr": ("title", "descr"), "cNvPr": ("title", "descr"), "shape": ("alt",), "rect": ("alt",)}
ORDER = ("main", "footnotes", "endnotes", "header", "footer")
NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)


class DocxPart(XmlPart):
    """One XML part with paragraphs; the `data` of other blocks is the quote of an attribute."""

    def __init__(self, source: str, root: Element, options: ReadOptions) -> None:
        super().__init__(source, _blocks(source, root, options.source_language))

    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return the runs of a paragraph, or the value of an attribute."""
        if isinstance(block.data, str):
            value = super().write_block(block, events, translations)
            return value.replace(block.data, "&quot;" if block.data == '"' else "&apos;")
        prefix, base = block.data
        writer = _RunWriter(prefix, base)
        after_line = False
        for event in events:
            if isinstance(event, str):
                writer.text(event.removeprefix(" ") if after_line else event)
            else:
                writer.item(event, self.raw(event, block))
            after_line = isinstance(event, Item) and event.kind == "line"
        return writer.finish()


class _RunWriter:
    """Text and items to runs; text that follows text of the same formatting goes into the same run."""

    def __init__(self, prefix: str, base: str) -> None:
        self.prefix = prefix
        self.formats = [base]
        self.parts: list[str] = []
        self.pending = ""  # text of the run that is open
        self.format = base

    def text(self, text: str, formatting: str | None = None) -> None:
        formatting = self.formats[-1] if formatting is None else formatting
        if formatting != self.format:
            self._close()
        self.format = formatting
        self.pending += text

    def item(self, item: Item, raw: str) -> None:
        data = item.data
        if isinstance(data, Run) and item.kind in ("open", "close"):
            if item.kind == "open":
                self.formats.append(data.formatting)
            elif len(self.formats) > 1:
                self.formats.pop()
        elif item.kind in ("text", "opaque", "empty", "break") and isinstance(data, Run) and not data.is_element:
            self.text(item.text or unescape(raw), data.formatting)  # a soft hyphen is no text of its sentence
        else:
            self._close()
            self.parts.append(
                f"<{self.prefix}r>{data.formatting}{raw}</{self.prefix}r>" if isinstance(data, Run) else raw
            )

    def _close(self) -> None:
        if self.pending:
            text = f'<{self.prefix}t xml:space="preserve">{escape_xml(self.pending)}</{self.prefix}t>'
            self.parts.append(f"<{self.prefix}r>{self.format}{text}</{self.prefix}r>")
        self.pending = ""

    def finish(self) -> str:
        self._close()
        return "".join(self.parts)


def _blocks(source: str, root: Element, language: str) -> Iterator[Block]:
    """Yield the paragraphs of a part; those of a fallback for older programs are copies of their originals."""
    originals: dict[tuple[object, ...], Block] = {}
    for element in root.walk():
        if element.name == "p" and element.namespace in NAMESPACES:
            block = _block(source, element, language)
            if block is None or not block.segments:
                continue
            if _inside(element, "Fallback") and _key(block) in originals:
                block.mirrors = originals[_key(block)]
            elif _inside(element, "Choice"):
                originals[_key(block)] = block
            yield block
        elif element.name in DESCRIBED and not (_inside(element, "del") or _inside(element, "moveFrom")):
            for block in _descriptions(source, element, language):
                if element.name == "docPr":
                    originals[_key(block)] = block
                else:  # the picture itself, and what older programs show, repeat what is said about their frame
                    block.mirrors = originals.get(_key(block))
                yield block


def _key(block: Block) -> tuple[object, ...]:
    """Return what is the same for a block and its copies."""
    return tuple((segment.text, segment.tags) for segment in block.segments)


def _descriptions(source: str, element: Element, language: str) -> Iterator[Block]:
    """Yield the texts that are read out in place of a picture."""
    for name in DESCRIBED[element.name]:
        if element.attributes.get(name, "").strip() and not is_file_name(element.attributes[name]):
            start, end, quote = attribute_span(source, element, name)
            yield Block(list(text_items(source, start, end)), language, start, end, data=quote)


def _inside(element: Element, name: str) -> bool:
    parent = element.parent
    while parent is not None and parent.name != name:
        parent = parent.parent
    return parent is not None


def _block(source: str, paragraph: Element, language: str) -> Block | None:
    if paragraph.inner_end == paragraph.end:
        return None
    prefix = tag_name(source[paragraph.start : paragraph.inner]).removesuffix("p")
    properties = paragraph.find("pPr")
    if properties is not None and has_code_style(properties, "pStyle"):
        return None
    start = properties.end if properties else paragraph.inner
    items, base = paragraph_items(source, paragraph)
    return Block(items, language, start, paragraph.inner_end, data=(prefix, base))


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a DOCX file as one document."""
    package = Package(name, content)
    types = parse_xml(name, package.read_xml("[Content_Types].xml").text)
    found: list[tuple[int, str]] = []
    for element in types.walk():
        kind = TEXT_PARTS.search(element.attributes.get("ContentType", ""))
        part = element.attributes.get("PartName", "").removeprefix("/")
        if kind and part in package.parts:
            rank = next(i for i, word in enumerate(ORDER) if word in (kind[2] or "main").lower())
            found.append((rank, part))
    if not found or min(found)[0] != 0:
        raise InputError(f"{name}: has no Word document in it; save it as .docx")
    names = list(dict.fromkeys(part for _, part in sorted(found)))  # a part may be listed twice
    texts = {part: package.read_xml(part) for part in names}
    parts: list[Part] = [DocxPart(text.text, parse_xml(text.name, text.text), options) for text in texts.values()]
    if options.target_language is not None and STYLES in package.parts:  # they say what language most text is in
        texts[STYLES] = package.read_xml(STYLES)
        parts.append(Part(texts[STYLES].text, []))
    return PartsDocument([parts], package.writer(texts, lambda text: _in_language(text, options)))


def _in_language(text: str, options: ReadOptions) -> str:
    """Return XML whose text is no longer said to be in the source language, so that Word checks its spelling."""
    target = options.target_language
    if target is None:
        return text
    code = f"{base_language(target)}-{region(target)}"
    return LANGUAGE.sub(lambda m: f"{m[1]}{code}" if is_same(m[2], options.source_language) else m[0], text)


FILETYPE = FileType(
    "docx",
    (".docx", ".docm", ".dotx", ".dotm"),
    matches=lambda content: (
        b"<" in (peek(content, "[Content_Types].xml") or b"") and peek(content, "word/document.xml") is not None
    ),
    read=read,
    is_package=True,
)
