"""What awkward files of all types had broken: characters that cannot be seen, tabs, notes, labels, other languages."""

import io
import zipfile

import pytest

from filetype_samples import MAIN, OPF, PAGE, W, packed
from tram.filetypes import ReadOptions, Rendition, Segment, translate_document
from tram.filetypes.registry import read_bytes
from tram.text.verbatim import find_spans

SENTENCE = "The \u200fold hou\u00adse is\u200b red.\u200e"
PO = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr ""\n'
TYPES = f'<Types><Override PartName="/word/document.xml" ContentType="{MAIN}.document.main+xml"/></Types>'


def texts(name: str, content: bytes, **options: str) -> list[str]:
    document = read_bytes(name, content, options=ReadOptions(**options))  # type: ignore[arg-type]
    return [segment.readable for segments in document.documents for segment in segments]


def shouted(name: str, content: bytes) -> bytes:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition(s.text.upper()) if s.translate else None for s in d] for d in documents]

    return translate_document(read_bytes(name, content), translate)[0]


def word_file(text: str) -> bytes:
    body = f"<w:document {W}><w:body><w:p><w:r><w:t>{text} It stays.</w:t></w:r></w:p></w:body></w:document>"
    return packed({"[Content_Types].xml": TYPES, "word/document.xml": body})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", SENTENCE.encode()),
        ("a.md", SENTENCE.encode()),
        ("a.html", f"<p>{SENTENCE}</p>".replace("\u00ad", "&shy;").replace("\u200e", "&lrm;").encode()),
        ("a.po", PO.format(SENTENCE).encode()),
        ("a.docx", word_file(SENTENCE)),
    ],
)
def test_marks_of_direction_are_kept_and_breakable_places_are_no_text(name: str, content: bytes) -> None:
    assert texts(name, content)[0] == "The old house is red."
    written = shouted(name, content)
    if name == "a.docx":
        with zipfile.ZipFile(io.BytesIO(written)) as package:
            written = package.read("word/document.xml")
        assert b"<w:r>\xe2" not in written, "text outside of <w:t>"
    new = written.decode().rpartition("msgstr")[2].replace("&lrm;", "\u200e")
    assert "OLD HOUSE IS RED." in new
    assert (new.count("\u200f"), new.count("\u200e")) == (1, 1)


def test_lines_keep_marks_of_direction_as_spans() -> None:
    assert [span.content for span in find_spans("\u200fThe house \u2066is\u2069 old.")] == [
        "\u200f",
        "\u2066",
        "\u2069",
    ]


def test_tabs_between_texts_are_layout() -> None:
    text = (
        "Total:\t\t12.50 EUR\n\tThe house\t is old. It is red.\t\n\nA wrapped line that is long enough to be full is\n"
    )
    assert texts("a.txt", text.encode())[:5] == ["Total:", "12.50 EUR", "The house", "is old.", "It is red."]
    assert shouted("a.txt", text.encode()).decode() == text.upper()
    message = PO.format(r"Name:\tBob\nThe age:\t3")
    assert r'"NAME:\tBOB\n"' in shouted("a.po", message.encode()).decode()


def test_lines_of_dots_and_underscores_are_layout() -> None:
    text = "The house ........ 12\nName: ______ Date: ____\nWait .... no... well. a___b\n"
    found = ["The house", "12", "Name:", "Date:", "Wait", "no... well. a___b"]
    assert texts("a.txt", text.encode()) == found
    assert shouted("a.txt", text.encode()).decode() == text.upper()


def test_a_run_of_tabs_takes_linear_time() -> None:
    assert texts("a.txt", b"a" + b"\t" * 200_000 + b"\nb") == ["a", "b"]


def test_a_link_that_is_the_number_of_a_note_takes_no_word() -> None:
    page = '<p>He saw the house<a href="#n">1</a>. It was red.<a role="doc-noteref" href="#m">[2]</a>'
    page += ' See <a href="#3">3</a>.'
    assert texts("a.html", page.encode()) == ["He saw the house.", "It was red.", "See 3."]
    assert b'HOUSE<a href="#n">1</a>. IT WAS RED.<a role="doc-noteref" href="#m">[2]</a> SEE' in shouted(
        "a.html", page.encode()
    )


def test_a_link_with_a_name_that_is_kept_stays_in_its_sentence() -> None:
    assert texts("a.html", b'<p>Ask <a translate="no">Brand</a> now.') == ["Ask Brand now."]


def test_text_in_another_language_is_left_alone() -> None:
    page = '<html lang="en"><body><p>Hello.<p lang="fr">Bonjour.</p><p>A <i lang="de">Haus</i> it is.'
    page += '<p lang="en-GB">Hi.<p lang="x-none">Yes.'
    assert texts("a.html", page.encode()) == ["Hello.", "A Haus it is.", "Hi.", "Yes."]
    assert b'<i lang="de">Haus</i>' in shouted("a.html", page.encode())


def test_the_reading_of_a_word_is_not_part_of_the_sentence() -> None:
    page = b"<p>The <ruby>word<rp>(</rp><rt>reading</rt><rp>)</rp></ruby> is here."
    assert texts("a.html", page) == ["The word is here."]
    assert b"<rp>(</rp><rt>reading</rt><rp>)</rp>" in shouted("a.html", page)


def test_elements_in_the_labels_of_a_book_stay_elements() -> None:
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OPS/book.opf"/></container>',
        "OPS/book.opf": OPF,
        "OPS/a.xhtml": PAGE.format("The start"),
        "OPS/toc.ncx": "<ncx><navLabel><text>The <tt>lb</tt> command<!-- x --> &amp; more</text></navLabel></ncx>",
    }
    content = packed(parts, "mimetype")
    assert texts("a.epub", content)[-1] == "The lb command & more"
    with zipfile.ZipFile(io.BytesIO(shouted("a.epub", content))) as package:
        assert b"<text>THE <tt>LB</tt> COMMAND<!-- x --> &amp; MORE</text>" in package.read("OPS/toc.ncx")


def test_a_blank_line_in_a_cue_does_not_become_a_line() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\nIt is\n\nmine.\n\n"
    assert shouted("a.srt", cue.encode()).decode() == cue.upper().replace("IS\n\nM", "IS\nM")


def test_a_comment_of_html_ends_as_browsers_end_it() -> None:
    page = b"<p>One.<!-- a --!> Two.<!--> Three.<!---> Four.<!-- <p>Five. --> Six.<!-- Seven."
    assert texts("a.html", page) == ["One.", "Two.", "Three.", "Four.", "Six."]
    assert texts("a.html", b"<p>One.<!-- <b>Two</b> three") == ["One."]
    assert shouted("a.html", b"<p>One.<!-- two") == b"<p>ONE.<!-- two"


def test_line_ends_of_old_macs_are_line_ends() -> None:
    text = "The house.\rA door\r\r- an item\rIt is red.\nMixed.\r"
    assert texts("a.txt", text.encode()) == ["The house.", "A door", "an item", "It is red.", "Mixed."]
    assert shouted("a.txt", text.encode()).decode() == text.upper()


def test_notes_and_emoji_of_markdown_stay_whole() -> None:
    assert shouted("a.md", b"A word^[a note] and :+1: now.\n") == b"A WORD^[a note] AND :+1: NOW.\n"
