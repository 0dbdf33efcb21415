"""XLIFF and TMX: sources never change, targets have the source's inline elements, states are set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filetype_samples import TMX, XLIFF
from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, Segment, Translation, translate_document
from tram.filetypes.registry import read_bytes

XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><originalData><data id="d1">{0}</data><data id="d2">&lt;br/></data></originalData>
<segment><source>Move <pc id="1">the <ph id="2" dataRef="d1"/></pc> up<ph id="3" dataRef="d2"/>.</source></segment>
<ignorable><source> </source></ignorable>
<segment state="final"><source>Done.</source><target>Fertig.</target></segment></unit>
<group id="g" translate="no"><unit id="2"><segment><source>No.</source></segment></unit></group>
<unit id="3"><segment state='initial' id="x"><source>Yes <sc id="1"/>to<ec startRef="1"/> it.</source></segment></unit>
</file></xliff>
"""


def translated(name: str, content: str, doubtful: bool = False, options: ReadOptions | None = None) -> bytes:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition(s.text.upper(), doubtful=doubtful) if s.translate else None for s in d] for d in documents]

    return translate_document(read_bytes(name, content.encode(), options=options), translate)[0]


def texts(content: bytes, name: str) -> list[str]:
    return ["".join(e.itertext()) for e in etree.fromstring(content).iter("{*}" + name)]


def test_xliff_1_fills_empty_targets_and_keeps_the_others() -> None:
    written = translated("x.xlf", XLIFF, options=ReadOptions(target_language="de"))
    tree = etree.fromstring(written)
    states = {(e.getparent().get("id"), e.get("state")) for e in tree.iter("{*}target")}
    assert ("1", "translated") in states
    assert ("2", "final") in states
    assert ("3", None) in states
    assert [e.get("target-language") for e in tree.iter("{*}file")] == ["de", "de"]
    assert b'OPEN THE <g id="1">FILE &amp; FOLDER</g><x id="2"/>. DONE.</target>' in written
    assert b'<mrk mtype="seg" mid="0">TWO.</mrk> <mrk mtype="seg" mid="1">SEGMENTS.</mrk></target>' in written
    assert b'SECOND <mrk mtype="protected">file</mrk>.</target>' in written
    assert texts(written, "source") == texts(XLIFF.encode(), "source")


def test_xliff_1_asks_for_a_review_of_doubtful_translations() -> None:
    assert translated("x.xlf", XLIFF, doubtful=True).count(b'state="needs-review-translation"') == 5


def test_xliff_2_sets_the_state_of_segments() -> None:
    written = translated("x.xlf", XLIFF2, options=ReadOptions(target_language="de"))
    segments = [(e.get("state"), len(e)) for e in etree.fromstring(written).iter("{*}segment")]
    assert segments == [("translated", 2), ("final", 2), (None, 1), ("translated", 2)]
    assert b'<pc id="1">THE <ph id="2" dataRef="d1"/></pc> UP<ph id="3" dataRef="d2"/>.</target>' in written
    assert b'trgLang="de"' in written


def test_placeholders_are_words_and_tags_are_not() -> None:
    segments = read_bytes("x.xlf", XLIFF2.encode()).documents[0]
    assert segments[0].readable == "Move the {0} up."
    assert [tag.kind for tag in segments[0].tags] == ["open", "close", "empty"]
    assert [s.target for s in segments] == [None, "Fertig.", None, None]
    assert [s.translate for s in segments] == [True, False, False, True]


def test_tmx_gets_a_variant_where_it_has_none() -> None:
    written = translated("x.tmx", TMX, options=ReadOptions(target_language="de"))
    assert texts(written, "seg")[2] == "SAVE <i>YOUR</i> WORK."
    assert written.count(b"<tuv") == TMX.count("<tuv") + 1
    with pytest.raises(InputError, match=r"x\.tmx.*language"):
        read_bytes("x.tmx", TMX.encode())


INLINE = [
    "Word",
    "two. ",
    " ",
    "&amp;",
    "<x id='{}'/>",
    "<g id='{}'>in</g>",
    "<g id='{}'>a <x id='9{}'/> b</g>",
    "&#233;",
]
contents = st.lists(st.sampled_from(INLINE), max_size=8).map(
    lambda parts: "".join(part.format(i, i) for i, part in enumerate(parts))
)


@given(st.lists(contents, min_size=1, max_size=4), st.sampled_from(["&", "<b>", "漢 字", "x"]))
def test_targets_have_the_inline_elements_of_their_sources(units: list[str], text: str) -> None:
    body = "\n".join(f'<trans-unit id="{i}"><source>{unit}</source></trans-unit>' for i, unit in enumerate(units))
    content = f'<xliff version="1.2"><file original="x"><body>\n{body}\n</body></file></xliff>'.encode()
    document = read_bytes("x.xlf", content)
    assert document.write([[None] * len(d) for d in document.documents]) == content
    identity = etree.fromstring(document.write([[Translation(s.text, s.tags) for s in d] for d in document.documents]))
    new, _ = translate_document(document, lambda d: [[Rendition(text) for _ in d[0]]])
    for unit in identity.iter("trans-unit"):
        if len(unit) > 1:
            assert [etree.tostring(e, with_tail=False) for e in unit[0]] == [
                etree.tostring(e, with_tail=False) for e in unit[1]
            ]
            assert unit[0].text == unit[1].text
    for unit in etree.fromstring(new).iter("trans-unit"):
        if len(unit) > 1:
            assert sorted(e.get("id") for e in unit[0].iter("g", "x")) == sorted(
                e.get("id") for e in unit[1].iter("g", "x")
            )


def test_segments_of_a_unit_are_translated_or_kept_one_by_one() -> None:
    marks = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'
    unit = f"<source>One. Two.</source><seg-source>{marks.format('One.', 'Two.')}</seg-source>"
    content = f"<xliff version='1.2'><file><trans-unit>{unit}<target>{{}}</target></trans-unit></file></xliff>"
    written = translated("x.xlf", content.format(marks.format("Eins.", "")))
    assert written.decode() == content.format(marks.format("Eins.", "TWO.")).replace(
        "<target>", '<target state="translated">'
    )
    copied = content.replace("<target>", '<target state="new">')
    assert marks.format("ONE.", "TWO.").encode() in translated("x.xlf", copied.format(marks.format("One.", "Two.")))


@pytest.mark.parametrize("mid", ["", ' mid="1"'])
def test_segments_with_one_id_or_none_are_all_translated(mid: str) -> None:
    marks = f'<mrk mtype="seg"{mid}>{{}}</mrk> <mrk mtype="seg"{mid}>{{}}</mrk>'
    unit = f"<source>One. Two.</source><seg-source>{marks.format('One.', 'Two.')}</seg-source>"
    content = f"<xliff version='1.2'><file><trans-unit>{unit}<target>{{}}</target></trans-unit></file></xliff>"
    assert marks.format("ONE.", "TWO.").encode() in translated("x.xlf", content.format(marks.format("", "")))
    assert marks.format("Eins.", "TWO.").encode() in translated("x.xlf", content.format(marks.format("Eins.", "")))


def test_spans_that_are_not_translated_are_copied() -> None:
    source = '<source>A <sm id="m" translate="no"/>Left <pc id="1">alone</pc><em startRef="m"/> b &x;.</source>'
    content = f"<!DOCTYPE xliff SYSTEM 'x.dtd'><xliff version='2.0'><file><unit><segment>{source}"
    written = translated("x.xlf", f"{content}</segment></unit></file></xliff>").decode()
    new = source.replace("> b", "> B").replace("source>", "target>")
    assert written == f"{content}{new}</segment></unit></file></xliff>".replace(
        "<segment>", '<segment state="translated">'
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.xlf", '<xliff version="1.2"><file source-language="fr"/></xliff>'),
        ("x.xlf", '<xliff version="1.2"><file source-language="en-US" target-language="fr-FR"/></xliff>'),
        ("x.xlf", '<xliff version="2.0" srcLang="en" trgLang="fr"><file/></xliff>'),
        ("x.tmx", '<tmx><body><tu><tuv xml:lang="fr"><seg>Bonjour.</seg></tuv></tu></body></tmx>'),
    ],
)
def test_files_of_other_languages_are_refused(name: str, content: str) -> None:
    with pytest.raises(InputError, match=rf"{name}.*fr"):
        read_bytes(name, content.encode(), options=ReadOptions(target_language="de"))


def test_an_empty_variant_of_a_tmx_is_filled() -> None:
    unit = '<tu><tuv xml:lang="en_GB"><seg>Done.</seg></tuv><tuv xml:lang="de"><seg{}</tuv></tu>'
    other = '<tu><tuv xml:lang="fr"><seg>Non.</seg></tuv></tu>'
    content = f"<tmx><body>{unit}{other}</body></tmx>"
    written = translated("x.tmx", content.format("/>"), options=ReadOptions(target_language="de"))
    assert written.decode() == content.format(">DONE.</seg>")


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BOMB + "<xliff version='1.2'><file>&b;</file></xliff>", "entities"),
        ("<xliff version='1.2'><file></xliff>", "well-formed"),
        ("<xliff version='1.2'>" + "<g>" * 1000, "nested"),
        ("<xliff version='9'/>", "version"),
        ("<xliff version='1.2'/>", "file"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><xliff version="1.2">&x;</xliff>', "xliff"),
    ],
)
def test_bad_files_are_refused(content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_bytes("x.xliff", content.encode())


def test_other_encodings_are_kept() -> None:
    content = '<?xml version="1.0" encoding="{}"?>\r\n<xliff version="1.2"><file><trans-unit><source>Größe</source>'
    content += "</trans-unit></file></xliff>"
    latin = translate_document(
        read_bytes("x.xlf", content.format("ISO-8859-1").encode("latin-1")), lambda d: [[Rendition("é 漢")]]
    )[0]
    assert b'<target state="translated">\xe9 &#28450;</target>' in latin
    wide = translate_document(
        read_bytes("x.xlf", content.format("UTF-16").encode("utf-16")), lambda d: [[Rendition("漢")]]
    )
    assert ">漢</target>" in wide[0].decode("utf-16")


def test_tags_that_are_written_as_text_follow_their_words() -> None:
    units = (
        '<trans-unit id="1"><source><![CDATA[A <b>red</b> car & bus. It<br>is here.]]></source></trans-unit>'
        '<trans-unit id="2"><source>&lt;b&gt;Red <x id="1"/> tea&lt;/b&gt; &lt; beer</source></trans-unit>'
    )
    content = f'<xliff version="1.2"><file source-language="en"><body>{units}</body></file></xliff>'
    document = read_bytes("x.xlf", content.encode())
    assert [s.text for s in document.documents[0]] == ["A red car & bus.", "It", "is here.", "Red tea < beer"]
    found = texts(translated("x.xlf", content), "target")
    assert found == ["A <b>RED</b> CAR & BUS. IT<br>IS HERE.", "<b>RED  TEA</b> < BEER"]


def test_tabs_of_preserved_space_stay() -> None:
    unit = '<trans-unit id="1" xml:space="preserve"><source>Name:\tValue</source></trans-unit>'
    content = f'<xliff version="1.2"><file source-language="en"><body>{unit}</body></file></xliff>'
    document = read_bytes("x.xlf", content.encode())
    written = document.write([[Translation("Name:"), Translation("Wert")]])
    assert b">Name:\tWert</target>" in written
