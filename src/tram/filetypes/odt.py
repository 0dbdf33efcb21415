"""ODT: body, tables, headers, footers, notes, text boxes; comments, tracked changes and all other parts stay.

Descriptions of pictures are translated too. In a sentence that changes, runs of blanks (`<text:s/>`) become one blank.
The language of styles becomes that of the translation.
"""

import re
from collections.abc import Iterator

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions
from tram.filetypes.blocks import NOTE, Block, Item, is_inside_word
from tram.filetypes.docx_runs import CODE_STYLE
from tram.filetypes.html_tags import text_items
from tram.filetypes.languages import base_language, is_same, region
from tram.filetypes.packages import Package, peek
from tram.filetypes.parts import PartsDocument, XmlPart
from tram.filetypes.xml_inline import plain_text
from tram.filetypes.xml_source import Element, Text, is_file_name, parse_xml

MIMETYPE = b"application/vnd.oasis.opendocument.text"
STYLED = re.compile(r'<[^<>]*\sfo:language="([\w-]+)"[^<>]*>')
LANGUAGE = re.compile(r'(?<=\s)fo:language="[^"]*"')
COUNTRY = re.compile(r'(?<=\s)fo:country="[^"]*"')
PAIRS = frozenset({"span", "a", "meta", "meta-field"})
# Elements that are not part of the text around them, and whose own text is not translated either.
LEFT_ALONE = frozenset({"annotation", "tracked-changes", "note-citation", "forms", "script", "bibliography-source"})
SVG = ":svg-compatible:1.0"  # descriptions of pictures
# Elements with paragraphs of their own, such as notes and text boxes.
SEPARATE = frozenset({"note", "frame", "custom-shape", "g", "rect", "line", "annotation", "control", "object"})


class OdtPart(XmlPart):
    """One XML part with paragraphs."""

    def __init__(self, source: str, root: Element, options: ReadOptions) -> None:
        self.parents = {
            style.attributes.get("name", ""): style.attributes.get("parent-style-name", "")
            for style in root.walk()
            if style.name == "style"
        }
        self.raised = {
            properties.parent.attributes.get("name", "")
            for properties in root.walk()
            if properties.parent and properties.attributes.get("text-position", "").startswith("super")
        }
        super().__init__(source, self._blocks(source, root, options.source_language))

    def _blocks(self, source: str, root: Element, language: str) -> Iterator[Block]:
        stack = [root]
        while stack:
            element = stack.pop()
            if element.name in LEFT_ALONE:
                continue
            is_text = element.namespace.endswith(":text:1.0") and element.name in ("p", "h")
            if element.namespace.endswith(SVG) and element.name in ("title", "desc"):
                yield from _description(source, element, language)
            elif is_text and element.inner_end < element.end and not self._is_code(element):
                items = list(self._items(source, element))
                if any(item.kind == "text" and item.text.strip() for item in items):
                    yield Block(items, language, element.inner, element.inner_end)
            stack += reversed(list(element.children))

    def _items(self, source: str, element: Element) -> Iterator[Item]:
        for node in element.nodes:
            if isinstance(node, Text):
                if node.kind == "text":
                    yield from text_items(source, node.start, node.end)
                else:
                    yield Item("empty", node.start, node.end)
            elif node.name == "span" and self._is_code(node) and plain_text(source, node).strip():
                yield Item("opaque", node.start, node.end, plain_text(source, node))
            elif self._is_note(source, node):
                yield Item("empty", node.start, node.end)
            elif node.name in PAIRS and node.inner_end < node.end:
                yield Item("open", node.start, node.inner, name=f"{node.name} {node.start}")
                yield from self._items(source, node)
                yield Item("close", node.inner_end, node.end, name=f"{node.name} {node.start}")
            elif node.name == "s":
                yield Item("text", node.start, node.end, " ")
            elif node.name == "tab":
                yield Item("break", node.start, node.end)
            elif node.name == "line-break":
                yield Item("line", node.start, node.end)
            elif node.name in SEPARATE or node.find("title", "desc") or not plain_text(source, node).strip():
                yield Item("empty", node.start, node.end)
            else:  # page numbers, dates, references: computed by the office program
                yield Item("opaque", node.start, node.end, plain_text(source, node))

    def _is_note(self, source: str, node: Element) -> bool:
        """Return whether an element is what refers to a note, above the line."""
        is_raised = node.attributes.get("style-name") in self.raised
        before, after = source[node.start - 1 : node.start], source[node.end : node.end + 1]
        return is_raised and NOTE.fullmatch(plain_text(source, node)) is not None and not is_inside_word(before, after)

    def _is_code(self, element: Element) -> bool:
        """Return whether a paragraph or a span has a style of code, directly or through an automatic style."""
        style = element.attributes.get("style-name", "")
        return any(CODE_STYLE.search(name) for name in (style, self.parents.get(style, "")))


def _description(source: str, element: Element, language: str) -> Iterator[Block]:
    """Yield what is read out in place of a picture."""
    text = plain_text(source, element).strip()
    if text and not is_file_name(text) and all(isinstance(n, Text) and n.kind == "text" for n in element.nodes):
        items = list(text_items(source, element.inner, element.inner_end))
        yield Block(items, language, element.inner, element.inner_end)


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read an ODT file as one document: the body, then headers and footers."""
    package = Package(name, content)
    if "META-INF/manifest.xml" in package.parts and b"encryption-data" in package.read("META-INF/manifest.xml"):
        raise InputError(f"{name}: is password-protected; save it without a password")
    if "content.xml" not in package.parts:
        raise InputError(f"{name}: has no OpenDocument text in it; save it as .odt")
    names: list[str] = [part for part in ("content.xml", "styles.xml") if part in package.parts]
    texts = {part: package.read_xml(part) for part in names}
    parts = [OdtPart(text.text, parse_xml(text.name, text.text), options) for text in texts.values()]
    return PartsDocument([parts], package.writer(texts, lambda text: _in_language(text, options)))


def _in_language(text: str, options: ReadOptions) -> str:
    """Return XML whose styles are no longer in the source language, so that the spelling is checked."""
    target = options.target_language
    if target is None:
        return text

    def replaced(match: re.Match[str]) -> str:
        if not is_same(match[1], options.source_language):
            return match[0]
        tag = LANGUAGE.sub(f'fo:language="{base_language(target)}"', match[0])
        return COUNTRY.sub(f'fo:country="{region(target)}"', tag)

    return STYLED.sub(replaced, text)


FILETYPE = FileType(
    "odt",
    (".odt", ".ott"),
    matches=lambda content: (peek(content, "mimetype") or b"").strip() in (MIMETYPE, MIMETYPE + b"-template"),
    read=read,
    is_package=True,
)
