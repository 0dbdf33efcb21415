"""Generated ODT, EPUB and TMX files: identity gives them back, and no translation loses an element."""

import io
import zipfile
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filetype_samples import OPF, packed
from tram.filetypes import FileDocument, ReadOptions, Rendition, Translation, translate_document
from tram.filetypes.registry import read_bytes

TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
ODT_PIECES = [
    "one ", "two", ". Three", "&amp;", "<t:s/>", "<t:tab/>", "<t:line-break/>", "<t:bookmark/>",
    "<t:page-number>3</t:page-number>", "<t:span>in <t:a>link</t:a></t:span>",
    "<t:note><t:note-citation>1</t:note-citation><t:p>A note.</t:p></t:note>",
    "<annotation><t:p>A comment.</t:p></annotation>", "\n  ",
]  # fmt: skip
XHTML_PIECES = [
    "One ",
    "two.",
    "&amp;",
    "<b>three</b>",
    "<br/>",
    "</p><p>",
    "<code>x</code>",
    '<img alt="A b"/>',
    "<i>a<b>c</b></i>",
]
TMX_PIECES = ["One ", "two.", "&lt;", "<ph>%s</ph>", '<bpt i="1"/>in<ept i="1"/>', "<it>x</it>", "<hi>three</hi>"]
NEW = ["neu & so", "a b c d", "<x>", "y"]


def pieces(choices: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(choices), max_size=8).map("".join)


def part(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        return package.read(name)


def elements(xml: bytes) -> Counter[str]:
    tags = (str(element.tag) for element in etree.fromstring(xml).iter())
    return Counter(tag for tag in tags if not tag.endswith("}s"))  # <text:s/> is a blank


def is_identity(document: FileDocument, content: bytes) -> bool:
    return document.write([[Translation(s.text, s.tags) for s in d] for d in document.documents]) == content


def replaced(document: FileDocument, text: str) -> bytes:
    def rendition(source: str) -> Rendition:
        return Rendition(" ".join([text, *(c for c in source if c >= "\U0010f000")]))

    return translate_document(document, lambda docs: [[rendition(s.text) for s in d] for d in docs])[0]


@given(pieces(ODT_PIECES), st.sampled_from(NEW))
def test_odt(body: str, text: str) -> None:
    xml = f'<d xmlns:t="{TEXT}"><t:p>{body}</t:p></d>'
    content = packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": xml}, "mimetype")
    document = read_bytes("x.odt", content)
    assert is_identity(document, content)
    new = part(replaced(document, text), "content.xml")
    assert elements(new) == elements(xml.encode())
    assert new.count(b"A comment.") == xml.count("A comment.")


@given(pieces(XHTML_PIECES), st.sampled_from(NEW))
def test_epub(body: str, text: str) -> None:
    page = f'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{body}</p></body></html>'
    container = '<container><rootfile full-path="OPS/book.opf"/></container>'
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/book.opf": OPF}
    content = packed({**parts, "OPS/a.xhtml": page}, "mimetype")
    document = read_bytes("x.epub", content)
    assert is_identity(document, content)
    assert elements(part(replaced(document, text), "OPS/a.xhtml")) == elements(page.encode())


@given(pieces(TMX_PIECES), st.sampled_from(NEW))
def test_tmx(body: str, text: str) -> None:
    content = f'<tmx><body><tu><tuv xml:lang="en"><seg>{body}</seg></tuv></tu></body></tmx>'.encode()
    document = read_bytes("x.tmx", content, options=ReadOptions(target_language="de"))
    assert document.write([[None] * len(d) for d in document.documents]) == content
    segments = etree.fromstring(replaced(document, text)).findall(".//seg")
    assert len(segments) == 1 + bool(document.documents[0])
    assert elements(etree.tostring(segments[0])) == elements(etree.tostring(segments[-1]))
