"""DOCX and ODT: formatting, links, notes, fields and changes survive; bombs and passwords are refused."""

import io
import re
import zipfile
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filetype_samples import MAIN, W, docx, field, odt, packed
from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, Segment, Translation, translate_document
from tram.filetypes.registry import detect, read_bytes

TYPES = f'<Types><Override PartName="/word/document.xml" ContentType="{MAIN}.document.main+xml"/></Types>'
NS = {"w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main"}


def word_file(body: str) -> bytes:
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    return packed({"[Content_Types].xml": TYPES, "word/document.xml": document})


def body_of(content: bytes, part: str = "word/document.xml") -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        assert package.testzip() is None
        return package.read(part).decode()


def translated(name: str, content: bytes, new: dict[str, str]) -> bytes:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition(new[s.readable]) if s.readable in new else None for s in d] for d in documents]

    return translate_document(read_bytes(name, content), translate)[0]


def runs(body: str) -> list[tuple[str, str]]:
    """Text and formatting of each run with text."""
    tree = etree.fromstring(body.encode())
    found = []
    for run in tree.iter(f"{{{NS['w']}}}r"):
        text = "".join(run.xpath("w:t/text()", namespaces=NS))
        marks = ",".join(etree.QName(e).localname for e in run.xpath("w:rPr/*", namespaces=NS))
        if text:
            found.append((text, marks))
    return found


def run(text: str, marks: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{marks}</w:rPr>" if marks else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def test_new_text_has_the_formatting_of_its_words() -> None:
    content = word_file(f"<w:p>{run('Very ')}{run('bold', '<w:b/>')}{run(' text.')}</w:p>")
    written = body_of(translated("x.docx", content, {"Very bold text.": "Sehr fetter Text."}))
    assert runs(written) == [("Sehr ", ""), ("fetter", "b"), (" Text.", "")]


def test_runs_that_look_the_same_are_one_text() -> None:
    spelled = '<w:lang w:val="en-US"/>'
    content = word_file(
        f"<w:p>{run('One')}{run(' wo', spelled)}<w:proofErr/>{run('rd')}{run('.', '<w:noProof/>')}</w:p>"
    )
    written = body_of(translated("x.docx", content, {"One word.": "Ein Wort."}))
    assert "".join(text for text, _ in runs(written)) == "Ein Wort."
    assert written.count("proofErr") == 1


def test_text_around_a_link_does_not_take_its_style() -> None:
    link = f"<w:hyperlink>{run('a very long link text', '<w:u/>')}</w:hyperlink>"
    content = word_file(f"<w:p>{run('See ')}{link}{run('.')}</w:p>")
    written = body_of(translated("x.docx", content, {"See a very long link text.": "Lies einen sehr langen Text."}))
    assert ("Lies ", "") in runs(written)
    assert [text for text, marks in runs(written) if marks == "u"] != []
    assert written.count("<w:hyperlink>") == written.count("</w:hyperlink>") == 1


def test_fields_that_word_computes_are_copied_and_links_are_translated() -> None:
    content = word_file(f"<w:p>{run('Page ')}{field(' PAGE ', '3')}{run(' of ')}{field(' HYPERLINK x ', 'it')}</w:p>")
    written = body_of(translated("x.docx", content, {"Page 3 of it": "\U0010f000 von ihm: Seite"}))
    text = "".join(text for text, _ in runs(written))
    assert text == "3 von ihm: Seite"
    assert written.count("fldChar ") == 6


def test_only_translated_parts_change_and_untranslated_paragraphs_stay_byte_for_byte() -> None:
    content = docx().content
    written = translated("x.docx", content, {"A cell.": "Eine Zelle."})
    assert body_of(written) == body_of(content).replace(
        "<w:r><w:t>A cell.</w:t></w:r>", '<w:r><w:t xml:space="preserve">Eine Zelle.</w:t></w:r>'
    )
    for part in ("word/comments.xml", "word/media/image1.png", "word/header1.xml", "[Content_Types].xml"):
        assert body_of(written, part) == body_of(content, part)


def test_a_part_that_is_listed_twice_is_translated_once() -> None:
    document = f"<w:document {W}><w:body><w:p><w:r><w:t>One.</w:t></w:r></w:p></w:body></w:document>"
    twice = re.sub(r"(<Override[^>]*/>)", r"\1\1", TYPES)
    assert twice != TYPES
    content = packed({"[Content_Types].xml": twice, "word/document.xml": document})
    assert "Eins." in body_of(translated("x.docx", content, {"One.": "Eins."}))


def test_a_text_box_is_translated_once_and_written_twice() -> None:
    segments = [s for d in read_bytes("x.docx", docx().content).documents for s in d]
    assert [s.text for s in segments].count("In a box.") == 1
    assert body_of(translated("x.docx", docx().content, {"In a box.": "Im Kasten."})).count("Im Kasten.") == 2


def test_an_odt_keeps_comments_changes_and_its_mimetype_first() -> None:
    new = {"A bold sentence with a note.": "Ein fetter Satz mit Notiz.", "The note & so.": "Die Notiz & so."}
    written = translated("x.odt", odt().content, new)
    body = body_of(written, "content.xml")
    assert "Die Notiz &amp; so." in body
    assert all(kept in body for kept in ("A comment.", "Deleted text.", "<text:note-citation>1<"))
    assert written.startswith(b"PK")
    assert zipfile.ZipFile(io.BytesIO(written)).infolist()[0].compress_type == zipfile.ZIP_STORED
    assert detect("x", written).name == "odt"


MARKS = ["", "<w:b/>", "<w:i/>", '<w:color w:val="red"/>']
PIECES = st.one_of(
    st.tuples(st.sampled_from(["one ", "two", " three. ", "Four", " ", "&amp;"]), st.sampled_from(MARKS)).map(
        lambda t: run(*t)
    ),
    st.sampled_from(
        [
            "<w:r><w:tab/></w:r>",
            "<w:r><w:br/></w:r>",
            "<w:bookmarkStart/>",
            field(" PAGE ", "7"),
            field(" HYPERLINK ", "x y"),
            f"<w:hyperlink>{run('link ')}{run('text', '<w:b/>')}</w:hyperlink>",
            "<w:r><w:footnoteReference/></w:r>",
            f"<w:ins>{run('new ')}</w:ins>",
            "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>",
        ]
    ),
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(["neu & so", "a b c d e f", "x", "<w:b/>"]))
def test_generated_paragraphs_keep_every_element(pieces: list[str], text: str) -> None:
    content = word_file(f"<w:p><w:pPr/>{''.join(pieces)}</w:p>")
    document = read_bytes("x.docx", content)
    assert document.write([[Translation(s.text, s.tags) for s in d] for d in document.documents]) == content

    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(" ".join([text, *(c for c in s.text if c >= "\U0010f000")])) for s in d] for d in documents]

    written = body_of(translate_document(document, translate)[0])
    kept = re.compile(r"<w:(tab|br|bookmarkStart|fldChar|instrText|hyperlink|footnoteReference|ins|del|delText)\b")
    assert Counter(kept.findall(written)) == Counter(kept.findall(body_of(content)))
    spaced = written.replace("<w:r><w:br/></w:r>", run(" "))  # a line break may take the place of a blank
    found = re.sub(" +", " ", "".join(part for part, _ in runs(spaced)))
    assert found.count(text) == len(document.documents[0])


def encrypted() -> bytes:
    content = bytearray(docx().content)
    for start in [m.start() for m in re.finditer(rb"PK\x01\x02", content)]:
        content[start + 8] |= 1
    return bytes(content)


def bomb() -> bytes:
    return packed({"[Content_Types].xml": TYPES, "word/document.xml": " " * (1 << 25)})


def encrypted_odt() -> bytes:
    mimetype = "application/vnd.oasis.opendocument.text"
    manifest = "<manifest><encryption-data/></manifest>"
    return packed({"mimetype": mimetype, "content.xml": "?", "META-INF/manifest.xml": manifest})


def overlapping() -> bytes:
    """A package whose last two entries of the directory are the same part."""
    content = bytearray(
        packed({"[Content_Types].xml": TYPES, "word/document.xml": "<a/>", "a": "x" * 99, "b": "x" * 99})
    )
    first, last = (content.rfind(b"PK\1\2", 0, end) for end in (content.rfind(b"PK\1\2"), len(content)))
    content[last + 42 : last + 46] = content[first + 42 : first + 46]
    return bytes(content)


def damaged_picture() -> bytes:
    content = bytearray(packed({"[Content_Types].xml": TYPES, "word/document.xml": "<a/>", "p.png": "x"}, "p.png"))
    content[content.index(b"p.png") + 5] ^= 1
    return bytes(content)


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.docx", encrypted(), "without a password"),
        ("x.docx", b"\xd0\xcf\x11\xe0" + b"\0" * 512, "without a password"),
        ("x.odt", encrypted_odt(), "without a password"),
        ("x.docx", bomb(), "bomb"),
        ("x.docx", packed({"[Content_Types].xml": TYPES, "word/document.xml": ENTITIES}), "entities"),
        ("x.docx", packed({"[Content_Types].xml": TYPES, "word/document.xml": "<a><b></a>"}), "well-formed"),
        ("x.docx", packed({"[Content_Types].xml": "<Types/>", "word/document.xml": "<a/>"}), "no Word document"),
        ("x.docx", packed({"xl/workbook.xml": "<a/>"}), "no part"),
        ("x.xlsx", packed({"xl/workbook.xml": "<a/>"}), "package of a type"),
        ("x.odt", docx().content[:300], "damaged"),
        ("x.docx", overlapping(), "overlap"),
        ("x.docx", damaged_picture(), r"p\.png is damaged"),
    ],
)
def test_bad_packages_are_refused_in_one_sentence(name: str, content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_bytes(name, content)
    assert str(caught.value).startswith(name)


RAISED = '<w:vertAlign w:val="superscript"/>'


def test_a_raised_number_is_no_part_of_the_word_before_it() -> None:
    content = word_file(f"<w:p>{run('It is hot')}{run('2', RAISED)}{run('.')}</w:p>")
    written = translated("x.docx", content, {"It is hot.": "Es ist heiß."})
    assert runs(body_of(written)) == [("Es ist heiß", ""), ("2", "vertAlign"), (".", "")]


def test_a_raised_number_inside_a_word_is_part_of_it() -> None:
    content = word_file(f"<w:p>{run('Add x')}{run('2', RAISED)}{run('y now.')}</w:p>")
    written = translated("x.docx", content, {"Add x2y now.": "Nun x2y dazu."})
    assert runs(body_of(written)) == [("Nun x", ""), ("2", "vertAlign"), ("y dazu.", "")]
    content = odt_file('Add x<t:span t:style-name="T2">2</t:span>y now.')
    body = body_of(translated("x.odt", content, {"Add x2y now.": "Nun x2y dazu."}), "content.xml")
    assert 'Nun x<t:span t:style-name="T2">2</t:span>y dazu.' in body


def test_descriptions_of_pictures_are_translated_where_they_are_said() -> None:
    said = "descr=\"A &quot;big&quot; dog\" title='Rex'"
    deleted = '<w:del><w:r><w:drawing><wp:docPr descr="Old"/></w:drawing></w:r></w:del>'
    picture = (
        f'<w:r><w:drawing xmlns:wp="d"><wp:docPr id="1" name="Picture 1" {said}/><pic:cNvPr xmlns:pic="p" {said}/>'
        f'<wp:docPr descr="dog.png"/></w:drawing></w:r>'
    )
    content = word_file(f'<w:p xmlns:wp="d">{run("See ")}{picture}{deleted}{run(" here.")}</w:p>')
    segments = [s.text for s in read_bytes("x.docx", content).documents[0]]
    assert segments == ["See here.", "Rex", 'A "big" dog']
    new = {"Rex": "Rex' Bild", 'A "big" dog': 'Ein "großer" <Hund>', "See here.": "Sieh hier."}
    body = body_of(translated("x.docx", content, new))
    assert body.count("title='Rex&apos; Bild'") == 2
    assert body.count('descr="Ein &quot;großer&quot; &lt;Hund&gt;"') == 2
    assert all(kept in body for kept in ('"Old"', '"dog.png"', 'name="Picture 1"'))


def test_descriptions_of_pictures_of_an_odt_are_translated() -> None:
    namespaces = 'xmlns:d="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:g="urn:x:svg-compatible:1.0"'
    frame = f"<d:path {namespaces}><g:title>Rex</g:title><g:desc>A big dog &amp; me</g:desc></d:path>"
    content = odt_file(f"See {frame} here.")
    assert [s.text for s in read_bytes("x.odt", content).documents[0]] == ["See here.", "Rex", "A big dog & me"]
    body = body_of(translated("x.odt", content, {"A big dog & me": "Ein <Hund>", "See here.": "Sieh"}), "content.xml")
    assert "<g:title>Rex</g:title><g:desc>Ein &lt;Hund&gt;</g:desc></d:path>" in body
    assert "<t:p>Sieh" in body


def odt_file(paragraph: str) -> bytes:
    names = " ".join(
        f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for prefix, name in (("o", "office"), ("t", "text"), ("s", "style"))
    )
    styles = '<s:style s:name="T1"/><s:style s:name="T2"><s:text-properties s:text-position="super 58%"/></s:style>'
    content = f"<o:document-content {names}>{styles}<t:p>{paragraph}</t:p></o:document-content>"
    return packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def test_a_raised_number_of_an_odt_is_no_part_of_a_word() -> None:
    content = odt_file('It is hot<t:span t:style-name="T2">2</t:span>.')
    written = translated("x.odt", content, {"It is hot.": "Es ist heiß."})
    assert '<t:p>Es ist heiß<t:span t:style-name="T2">2</t:span>.</t:p>' in body_of(written, "content.xml")


def test_spans_that_share_a_word_do_not_take_another() -> None:
    spans = "".join(f'<t:span t:style-name="T1">{part}</t:span>' for part in ("hou", "ses"))
    document = read_bytes("x.odt", odt_file(f"Many old {spans} here."))

    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition("Hier viele alte Häuser.", [(3, 0), (0, 1), (1, 2), (2, 3)])]]

    written = translate_document(document, translate)[0]
    text = re.sub(r'<t:span t:style-name="T1"></t:span>', "", body_of(written, "content.xml"))
    assert '<t:p>Hier viele alte <t:span t:style-name="T1">Häuser</t:span>.</t:p>' in text


def test_the_language_of_text_is_that_of_the_translation() -> None:
    languages = '<w:lang w:eastAsia="ja-JP" w:val="en-GB"/>', '<w:lang w:val="fr-FR"/>'
    paragraph = f"<w:p>{run('Tea', languages[0])}{run('Thé', languages[1])}</w:p>"
    document = f"<w:document {W}><w:body>{paragraph}</w:body></w:document>"
    styles = f'<w:styles {W}><w:rPrDefault><w:rPr><w:lang w:val="en-US"/></w:rPr></w:rPrDefault></w:styles>'
    content = packed({"[Content_Types].xml": TYPES, "word/document.xml": document, "word/styles.xml": styles})
    opened = read_bytes("x.docx", content, options=ReadOptions("en", "de"))
    written = opened.write([[None] * len(opened.documents[0])])
    assert re.findall(r'w:lang [^>]*w:val="(.*?)"', body_of(written)) == ["de-DE", "fr-FR"]
    assert 'w:lang w:val="de-DE"' in body_of(written, "word/styles.xml")
    assert read_bytes("x.docx", content).write([[None] * len(opened.documents[0])]) == content
    styled = '<a xmlns:fo="urn:xsl-fo"><b fo:language="en" fo:country="US"/><b fo:language="cs" fo:country="CZ"/></a>'
    content = packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": styled})
    written = read_bytes("x.odt", content, options=ReadOptions("en", "de-AT")).write([[]])
    assert 'fo:language="de" fo:country="AT"' in body_of(written, "content.xml")
    assert 'fo:language="cs" fo:country="CZ"' in body_of(written, "content.xml")


def test_fields_inside_of_fields_are_read_to_the_depth_that_word_has() -> None:
    """Each field is read inside of the one around it; there may be thousands."""
    begin = [f"<w:r><w:fldChar w:fldCharType='{kind}'/></w:r>" for kind in ("begin", "separate", "end")]
    link = f"{begin[0]}<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>{begin[1]}"
    for depth, is_read in ((20, True), (2000, False)):
        content = word_file(f"<w:p>{run('Out. ')}{link * depth}{run('In.')}{begin[2] * depth}</w:p>")
        (segments,) = read_bytes("x.docx", content).documents
        assert ("In." in [segment.text for segment in segments]) == is_read


def test_text_in_deep_markup_is_read() -> None:
    content = odt_file("A " + "<t:x>" * 390 + "word" + "</t:x>" * 390 + " end.")
    (segments,) = read_bytes("x.odt", content).documents
    assert [segment.readable for segment in segments] == ["A word end."]
