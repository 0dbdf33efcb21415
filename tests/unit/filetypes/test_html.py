"""HTML pages keep every tag whatever a translation contains."""

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, Segment, Translation, translate_document
from tram.filetypes.registry import read_bytes

PIECES = [
    "word", "Two words.", " ", "\n", "&amp;", "&nbsp;", "&lt;", "<b>", "</b>", "<i>", "</i>", "<br>", "<code>x</code>",
    "<p>", "</p>", "<li>", "<img src=x alt='An image'>", "<!-- -->", "<a title=\"A title\">", "</a>", "<pre>  p </pre>",
    "<script>a<b</script>", "< 3", "&bogus;", "<span translate=no>keep</span>", "é", "\U0010f001", "<input value=Go>",
]  # fmt: skip
pages = st.lists(st.sampled_from(PIECES), max_size=25).map(lambda pieces: "<!doctype html>" + "".join(pieces))
NASTY = ["<b>", "&amp;", "&", '"', "'", "]]>", "ok", "<!--", "é", "漢"]
nasty = st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map(" ".join)


@given(pages)
def test_generated_pages_come_back_byte_for_byte(page: str) -> None:
    document = read_bytes("x.html", page.encode())
    assert document.write([[Translation(s.text, s.tags) for s in d] for d in document.documents]) == page.encode()


def elements(page: bytes) -> list[tuple[str, list[str]]]:
    tree = lxml.html.fromstring(page)
    return sorted((str(e.tag), sorted(e.attrib)) for e in tree.iter() if isinstance(e.tag, str))


@given(st.lists(st.sampled_from(PIECES[:13]), max_size=12), nasty)
def test_a_translation_full_of_markup_is_only_text(pieces: list[str], text: str) -> None:
    page = f'<html><body><p class="x">{"".join(pieces)}</p><img alt="A b"></body></html>'.encode()

    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(" ".join([text, *(c for c in s.text if c >= "\U0010f000")])) for s in d] for d in documents]

    written, _ = translate_document(read_bytes("x.html", page), translate)
    before, after = elements(page), elements(written)
    assert [tag for tag, _ in after if tag not in "bi"] == [tag for tag, _ in before if tag not in "bi"]
    assert len(after) >= len(before) - 2  # a browser drops or doubles wrongly nested <b> and <i>
    assert lxml.html.fromstring(written).xpath("//img[last()]/@alt")[-1] == text


def translated(page: bytes, new: dict[str, str], options: ReadOptions | None = None) -> bytes:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(new.get(s.readable, s.text)) for s in d] for d in documents]

    return translate_document(read_bytes("x.html", page, options=options), translate)[0]


@pytest.mark.parametrize(
    ("page", "new", "expected"),
    [
        (b"<p>A&nbsp;b</p>", {"A\xa0b": "C\xa0d\xa0e"}, b"<p>C&nbsp;d&nbsp;e</p>"),
        (b"<img alt=Old>", {"Old": 'Say "x" & y'}, b'<img alt="Say &quot;x&quot; &amp; y">'),
        (b"<img alt='Old'>", {"Old": "It's"}, b"<img alt='It&#39;s'>"),
        (b"<meta charset=latin1><p>Old", {"Old": "€ 漢 é"}, b"<meta charset=latin1><p>\x80 &#28450; \xe9"),
        (b"<p>One. <b>Two so.</b> End.</p>", {"Two so.": "So two."}, b"<p>One. <b>So two.</b> End.</p>"),
        (b"<p>An <b>end. One</b> more.</p>", {"An end.": "Ein Ende."}, b"<p>Ein <b>Ende. One</b> more.</p>"),
        (b"<p>Old", {"Old": "é"}, b"<p>&#233;"),
        (b"<p>one<br>two</p>", {"one": "x", "two": "y"}, b"<p>x<br>y</p>"),
        (b"<p>Old <% if a > b %> one</p>", {"Old one": "New two"}, b"<p>New <% if a > b %> two</p>"),
        (b"<p>Old <?php echo '<b>' ?></p>", {"Old": "New"}, b"<p>New <?php echo '<b>' ?></p>"),
        (b"<p>Old &x; one</p>", {}, b"<p>Old &x; one</p>"),
        (b"<html><title>A < b</title>", {"A < b": "B > a"}, b"<html><title>B &gt; a</title>"),
    ],
)
def test_text_is_written_as_the_page_writes_it(page: bytes, new: dict[str, str], expected: bytes) -> None:
    assert translated(page, new) == expected


def test_an_element_that_nothing_ends_hides_no_tags_among_the_text() -> None:
    new = {"One": "Eins", "Two": "Zwei"}
    closed, unclosed = b"<p>One</p><iframe src=x /><p>Two</p></body>", b"<p>One</p><iframe src=x><p>Two</p></body>"
    assert translated(closed, new) == b"<p>Eins</p><iframe src=x /><p>Zwei</p></body>"
    assert translated(unclosed, new) == b"<p>Eins</p><iframe src=x><p>Two</p></body>"


def test_a_reference_without_its_end_is_read_as_browsers_read_it() -> None:
    page = b'<meta charset="utf-8"><p>&copy2020 AT&T &bogus x</p>'
    assert [s.text for s in read_bytes("x.html", page).documents[0]] == ["©2020 AT&T &bogus x"]
    written = translated(page, {"©2020 AT&T &bogus x": "von 2020©"})
    assert written == '<meta charset="utf-8"><p>von 2020©</p>'.encode()


def test_a_raised_number_inside_a_word_is_part_of_it() -> None:
    new = {"Add x2y now.": "Nun x2y dazu.", "It is hot.": "Es ist heiß."}
    assert translated(b"<p>Add x<sup>2</sup>y now.", new) == b"<p>Nun x<sup>2</sup>y dazu."
    assert translated(b"<meta charset=utf-8><p>It is hot<sup>2</sup>.", new).endswith("heiß<sup>2</sup>.".encode())


def test_the_language_of_a_page_becomes_the_target_language() -> None:
    options = ReadOptions(source_language="en", target_language="de")
    assert translated(b'<html lang="en-US"><p lang="fr">x', {}, options) == b'<html lang="de"><p lang="fr">x'
    assert translated(b'<html lang="cs"><p>x', {}, options) == b'<html lang="cs"><p>x'


@pytest.mark.parametrize(
    "page",
    [
        b"<p>\xff</p>",
        b"<meta charset=no-such><p>x",
        b"<meta charset=hex>",
        b"<meta charset=undefined>",
        b'<meta charset="utf-8">\n<p>\xe9',
        b"<\0p\0>\0",
    ],
)
def test_a_wrong_encoding_is_refused(page: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.html.*convert it to UTF-8"):
        read_bytes("x.html", page)


@pytest.mark.parametrize(
    "unit", ["<", "<a ", '<a b="', "<!--", "&", "<b>", "<a/", "<script>", "</", "<sup>", "<code>", "<b></i>", "<br>"]
)
def test_long_runs_take_linear_time(unit: str) -> None:
    document = read_bytes("x.html", (unit * 5_000 + "word").encode())
    translate_document(document, lambda docs: [[Rendition("x" + s.text) for s in d] for d in docs])


@pytest.mark.parametrize(
    ("page", "translation", "written"),
    [
        ("<p>See the cable <img src=a>.</p>", "Siehe Kabel.", "<p>Siehe Kabel <img src=a>.</p>"),
        (
            "<p>See the <b>cable</b> <a href=b><img src=a></a>.</p>",
            "Siehe Kabel.",
            "<p>Siehe <b>Kabel</b> <a href=b><img src=a></a>.</p>",
        ),
        ("<p>See the cable<img src=a>.</p>", "Siehe Kabel.", "<p>Siehe Kabel<img src=a>.</p>"),
    ],
)
def test_an_image_behind_a_blank_keeps_it(page: str, translation: str, written: str) -> None:
    document = read_bytes("x.html", page.encode())
    content, _ = translate_document(document, lambda _: [[Rendition(translation, [(0, 0), (2, 1), (3, 2)])]])
    assert content.decode() == written
