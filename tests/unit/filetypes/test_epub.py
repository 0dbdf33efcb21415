"""EPUB: reading order, chapters, languages, protection."""

import io
import zipfile

import pytest

from filetype_samples import OPF, PAGE, epub, packed
from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, translate_document
from tram.filetypes.registry import read_bytes

CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'


def book(**changes: str) -> bytes:
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "OPS/book.opf": OPF}
    parts |= {
        "OPS/a.xhtml": PAGE.format("The start"),
        **{name.replace("__", "/"): text for name, text in changes.items()},
    }
    return packed(parts, "mimetype")


def test_a_book_is_one_document_or_one_for_each_chapter() -> None:
    whole = read_bytes("x.epub", epub().content)
    chapters = read_bytes("x.epub", epub().content, options=ReadOptions(chapters=True))
    assert len(whole.documents) == 1
    assert len(chapters.documents) == 2
    assert [s for d in chapters.documents for s in d] == whole.documents[0]
    assert chapters.documents[1][0].text == "The end"


def test_the_language_of_the_book_and_of_its_pages_changes() -> None:
    document = read_bytes("x.epub", epub().content, options=ReadOptions(target_language="de"))
    written, _ = translate_document(document, lambda docs: [[Rendition(s.text) for s in d] for d in docs])
    with zipfile.ZipFile(io.BytesIO(written)) as package:
        assert b"<dc:language>de</dc:language>" in package.read("OPS/book.opf")
        assert b'xml:lang="de"' in package.read("OPS/a.xhtml")
        assert package.read("OPS/x.png") == b"no picture"
        assert package.infolist()[0].filename == "mimetype"
        assert package.infolist()[0].compress_type == zipfile.ZIP_STORED


def test_new_text_is_well_formed_in_pages_and_in_the_table_of_contents() -> None:
    document = read_bytes("x.epub", epub().content)
    written, _ = translate_document(document, lambda docs: [[Rendition("a < b & c") for _ in d] for d in docs])
    with zipfile.ZipFile(io.BytesIO(written)) as package:
        assert b"<text>a &lt; b &amp; c</text>" in package.read("OPS/toc.ncx")
        assert b'alt="a &lt; b &amp; c"' in package.read("OPS/a.xhtml")


DRM = '<encryption><CipherReference URI="OPS/{}"/></encryption>'


def test_a_protected_book_is_refused_but_protected_fonts_are_not() -> None:
    with pytest.raises(InputError, match=r"x\.epub.*DRM"):
        read_bytes("x.epub", book(**{"META-INF__encryption.xml": DRM.format("a.xhtml")}))
    assert read_bytes("x.epub", book(**{"META-INF__encryption.xml": DRM.format("font.otf")})).documents[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"META-INF__container.xml": "<container/>"}, "names no book"),
        ({"OPS__book.opf": "<package/>"}, "no pages"),
        ({"OPS__book.opf": "<package>"}, "well-formed"),
        ({"OPS__a.xhtml": "\x00"}, "is not text"),
        ({"OPS__a.xhtml": " "}, ""),
    ],
)
def test_a_wrong_book_is_refused_or_has_no_text(changes: dict[str, str], words: str) -> None:
    if words:
        with pytest.raises(InputError, match=words):
            read_bytes("x.epub", book(**changes))
    else:
        assert read_bytes("x.epub", book(**changes)).documents == [[]]
