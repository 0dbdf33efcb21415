"""EPUB: the pages of a book in reading order, then its table of contents; one document per book or per chapter."""

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions
from tram.filetypes.blocks import Block, Item
from tram.filetypes.encoding import Decoded
from tram.filetypes.html import decode_page
from tram.filetypes.html_blocks import HtmlPart
from tram.filetypes.html_tags import text_items
from tram.filetypes.languages import is_same
from tram.filetypes.packages import Package, peek
from tram.filetypes.parts import Part, PartsDocument, XmlPart
from tram.filetypes.xml_source import Element, parse_xml, with_attribute

PAGES = ("application/xhtml+xml", "text/html")
CONTENTS = "application/x-dtbncx+xml"


class _ContentsPart(XmlPart):
    """The table of contents of EPUB 2 (NCX), or the package document, in which only the language changes."""

    def __init__(self, source: str, root: Element, options: ReadOptions) -> None:
        labels = [element for element in root.walk() if element.name == "text" and element.inner_end < element.end]
        language = options.source_language
        items = ((label, list(_label_items(source, label))) for label in labels)
        super().__init__(source, [Block(found, language, label.inner, label.inner_end) for label, found in items])
        if root.name == "ncx" and options.target_language and is_same(root.attributes.get("xml:lang", ""), language):
            tag = with_attribute(source[root.start : root.inner], "xml:lang", options.target_language)
            self.edits.append((root.start, root.inner, tag))
        for element in root.walk():
            is_language = element.name == "language" and element.namespace.startswith("http://purl.org/dc/")
            if is_language and options.target_language and is_same(source[element.inner : element.inner_end], language):
                self.edits.append((element.inner, element.inner_end, options.target_language))


def _label_items(source: str, element: Element) -> Iterator[Item]:
    """Yield the items of a label; some books have elements in it."""
    for node in element.nodes:
        if isinstance(node, Element):
            name = f"{node.name} {node.start}"
            if node.inner_end < node.end:
                yield Item("open", node.start, node.inner, name=name)
                yield from _label_items(source, node)
                yield Item("close", node.inner_end, node.end, name=name)
            else:
                yield Item("empty", node.start, node.end)
        elif node.kind == "text":
            yield from text_items(source, node.start, node.end)
        else:
            yield Item("empty", node.start, node.end)


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a book."""
    package = Package(name, content)
    _check_protection(name, package)
    container = parse_xml(name, package.read_xml("META-INF/container.xml").text)
    files = [element.attributes.get("full-path", "") for element in container.walk() if element.name == "rootfile"]
    if not files or files[0] not in package.parts:
        raise InputError(f"{name}: its META-INF/container.xml names no book; get it again")
    opf = parse_xml(name, package.read_xml(files[0]).text)
    pages, contents = _reading_order(package, files[0], opf)
    if not pages:
        raise InputError(f"{name}: has no pages to read in its spine; get it again")
    texts: dict[str, Decoded] = {}
    parts: dict[str, Part] = {}
    others = [part for part in (*contents, files[0]) if part not in pages]
    is_page = {part: part in pages or not part.endswith((".ncx", ".opf")) for part in (*pages, *others)}
    for part, found in is_page.items():
        # All are read before the first is parsed, so that a book that is too long is refused at once.
        texts[part] = decode_page(f"{name} ({part})", package.read(part)) if found else package.read_xml(part)
    for part, text in texts.items():
        if is_page[part]:
            parts[part] = HtmlPart(text.text, options, xml=True)
        else:
            parts[part] = _ContentsPart(text.text, parse_xml(text.name, text.text), options)
    chapters = [[parts[part]] for part in pages] if options.chapters else [[parts[part] for part in pages]]
    chapters[-1] += [parts[part] for part in others]
    return PartsDocument(chapters, package.writer(texts))


def _check_protection(name: str, package: Package) -> None:
    """Refuse a book whose pages are encrypted; fonts may be."""
    if "META-INF/encryption.xml" not in package.parts:
        return
    encrypted = re.findall(rb"""URI\s*=\s*["']([^"']+)""", package.read("META-INF/encryption.xml"))
    if any(uri.lower().endswith((b"html", b".htm", b".xml", b".opf", b".ncx")) for uri in encrypted):
        raise InputError(f"{name}: is protected by DRM; get a copy without it")


def _reading_order(package: Package, opf_name: str, opf: Element) -> tuple[list[str], list[str]]:
    """Return the pages of the spine in order, and the tables of contents that are not among them."""
    folder = posixpath.dirname(opf_name)
    items: dict[str, tuple[str, str, str]] = {}
    for element in opf.walk():
        if element.name == "item":
            values = element.attributes
            path = posixpath.normpath(posixpath.join(folder, unquote(values.get("href", ""))))
            if path in package.parts:
                items[values.get("id", "")] = (path, values.get("media-type", ""), values.get("properties", ""))
    references = [element.attributes.get("idref", "") for element in opf.walk() if element.name == "itemref"]
    spine = [items[reference] for reference in references if reference in items]
    pages = list(dict.fromkeys(path for path, kind, _ in spine if kind in PAGES))
    others = [
        path
        for path, kind, properties in items.values()
        if path not in pages and (kind == CONTENTS or (kind in PAGES and "nav" in properties.split()))
    ]
    return pages, sorted(set(others))


FILETYPE = FileType(
    "epub",
    (".epub",),
    matches=lambda content: (peek(content, "mimetype") or b"").strip() == b"application/epub+zip",
    read=read,
    is_package=True,
)
