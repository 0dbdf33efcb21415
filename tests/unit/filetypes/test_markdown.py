"""Markdown keeps its structure whatever a translation contains."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tram.filetypes import Rendition, Segment, Translation, translate_document
from tram.filetypes.registry import read_bytes

PLAIN = MarkdownIt("commonmark").enable(["table", "strikethrough"])

PIECES = [
    "word", "two words.", "End!", "**bold**", "*em*", "`code`", "[link](u)", "![alt](i)", "a\\*b", "&amp;", "~~no~~",
    "<b>html</b>", "<br>", "snake_case", "[ref]", "[x][ref]", "<https://a.b>", "1\\. x", "“q”", "**a *b* c**", "[^1]",
    "$x_1$", "$5", ":tada:", "{{ v }}", '[t](u "a &amp; b")', "![i](u 'c \\' d')", "[p](<u> (e f))", "![j][ref]",
]  # fmt: skip
inline = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(" ".join)
paragraph = st.lists(inline, min_size=1, max_size=3)
block = st.one_of(
    paragraph.map("\n".join),
    inline.map(lambda text: f"## {text}"),
    paragraph.map(lambda lines: "\n".join(f"> {line}" for line in lines)),
    st.lists(inline, min_size=1, max_size=3).map(lambda items: "\n".join(f"- {item}" for item in items)),
    paragraph.map(lambda lines: "1. " + "\n   ".join(lines)),
    inline.map(lambda text: f"| a | {text} |\n|---|---|\n| {text} | b |"),
    st.just("```\ncode *x*\n```"),
    st.just("<div>\nraw *x*\n</div>"),
    st.just("    indented code"),
    st.just("***"),
    inline.map(lambda text: f"{text}\n==="),
)
files = st.tuples(st.lists(block, max_size=5), st.sampled_from(["\n\n", "\r\n\r\n"])).map(
    lambda drawn: drawn[1].join([*drawn[0], '[ref]: https://r.s "The title"']).encode()
)
# Text that is full of what Markdown could take for markup.
NASTY = [
    "*",
    "_",
    "`",
    "[x]",
    "](",
    "<b>",
    "&amp;",
    "\\",
    "|",
    "# h",
    "- i",
    "1. n",
    "> q",
    "===",
    "~~",
    "ok",
    "![",
    "+",
    "$x$",
    '"',
    "')",
    "(",
]
nasty = st.lists(st.sampled_from(NASTY), min_size=1, max_size=6).map(" ".join)


def structure(content: bytes) -> list[tuple[str, str, int]]:
    """Everything that a translation must not change: blocks, their nesting, code and tags."""
    found = []
    for token in PLAIN.parse(content.decode()):
        kept = token.content if token.type in ("fence", "code_block") else ""
        kept = "".join(re.findall("<[^>]*>", token.content)) if token.type == "html_block" else kept
        found.append((token.type, kept, token.level))
    return found


@given(files)
def test_generated_files_come_back_byte_for_byte(content: bytes) -> None:
    document = read_bytes("x.md", content)
    assert document.write([[Translation(s.text, s.tags) for s in d] for d in document.documents]) == content


@given(files, st.lists(nasty, min_size=1, max_size=5))
@example(b"## word **bold** `code`\n", ["a ==="])
def test_a_translation_full_of_markup_is_only_text(content: bytes, texts: list[str]) -> None:
    document = read_bytes("x.md", content)
    segments = document.documents[0]
    new = [" ".join([texts[i % len(texts)], *(c for c in s.text if c >= "\U0010f000")]) for i, s in enumerate(segments)]
    written, _ = translate_document(document, lambda _: [[Rendition(text) for text in new]])
    assert structure(written) == structure(content)
    # Every block could be written; a blank line end and a bar are where sentences may be cut in another way.
    again = " ".join(s.text for s in read_bytes("x.md", written).documents[0])
    assert {word for text in new for word in re.findall(r"[a-z]+", text)} <= set(re.findall(r"[a-z]+", again))


def translated(content: str, **pairs: str) -> str:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(pairs.get(s.readable, s.text)) for s in d] for d in documents]

    return translate_document(read_bytes("x.md", content.encode()), translate)[0].decode()


def test_the_text_of_html_blocks_is_translated() -> None:
    content = (
        '<p align="center">\r\n  <img alt="Old" src="a_b.png"> Old &amp;\r\n  wrapped</p>\r\n\r\n'
        "- <details><summary>Old</summary>\r\n\r\n  Old\r\n\r\n  </details>\r\n\r\n"
        "<pre>\r\nOld\r\n\r\nOld\r\n</pre>\r\n\r\n<!-- Old -->\r\n\r\n> <div>\r\n> Old\r\n> </div>\r\n"
    )
    new = translated(content, **{"Old": "a < *b*", "Old & wrapped": "c & *d*"})
    assert new == (
        '<p align="center">\r\n  <img alt="a &lt; *b*" src="a_b.png"> c &amp; *d*</p>\r\n\r\n'
        "- <details><summary>a &lt; *b*</summary>\r\n\r\n  a < \\*b\\*\r\n\r\n  </details>\r\n\r\n"
        "<pre>\r\nOld\r\n\r\nOld\r\n</pre>\r\n\r\n<!-- Old -->\r\n\r\n> <div>\r\n> Old\r\n> </div>\r\n"
    )


def test_marks_of_other_tools_are_kept() -> None:
    content = "An ==old house== and [[the page|its name]] with \u200fa mark.\n"
    assert translated(content) == content
    texts = [segment.text for segment in read_bytes("x.md", content.encode()).documents[0]]
    assert texts == ["An old house and \U0010f000 with a mark."]
    new = translated(content, **{"An old house and [[the page|its name]] with a mark.": "Ein"})
    assert new.count("==") == 2
    assert new.count("\u200f") == 1


@pytest.mark.parametrize(
    ("content", "new", "expected"),
    [
        ("Old\n", "2. Mai", "2\\. Mai\n"),
        ("Old\n", "- so", "\\- so\n"),
        ("Old\n", "a * b", "a * b\n"),
        ("Old\n", "*x*", "\\*x\\*\n"),
        ("Old\n", "snake_case", "snake_case\n"),
        ("# Old #\n", "C #", "# C \\# #\n"),
        ("| a | Old |\n|-|-|\n", "x | y", "| a | x \\| y |\n|-|-|\n"),
        ("> Old\n", "> new", "> \\> new\n"),
    ],
)
def test_only_what_needs_it_is_escaped(content: str, new: str, expected: str) -> None:
    assert translated(content, Old=new) == expected


def test_a_line_in_bold_type_is_a_title_only_if_the_next_does_not_go_on() -> None:
    content = "**Runs:**\n**[ci](u)**\nis used. It *is*\n**Title**\nText.\n"
    new = {"Runs:": "Läufe:", "ci is used.": "ci läuft.", "It is Title": "Es ist Titel", "Text.": "Wort."}
    written = translated(content, **new)
    assert written == "**Läufe:**\n**[ci](u)** läuft. Es *ist* **Titel**\nWort.\n"


def test_titles_of_links_and_images_are_translated() -> None:
    content = """See [it](u "One") and ![pic](i.png (Two)).

| a | [x](u 'Three') |
|---|---|

![Four][six] ![six]

[six]: <v> "Five"
"""
    new = {"One": '1 "a" &amp; \\', "Two": "(2", "Three": "'3' | b", "Four": "4]", "Five": '5"', "six": "never"}
    written = translated(content, **new)
    titles = [t.attrs.get("title") for each in PLAIN.parse(written) for t in each.children or () if "title" in t.attrs]
    assert titles == [new["One"], new["Two"], new["Three"], new["Five"], new["Five"]]
    assert r"![4\]][six] ![six]" in written
    assert structure(written.encode()) == structure(content.encode())


def test_a_shortcut_reference_keeps_its_label() -> None:
    content = "See [the manual].\n\n[the manual]: https://m.n\n"
    new = {"See the manual.": "Siehe das Handbuch."}
    assert "[das Handbuch][the manual]" in translated(content, **new).replace("Siehe [das", "[das")


def test_emphasis_that_markdown_cannot_write_becomes_html() -> None:
    assert translated("a **b d e** c\n", **{"a b d e c": "漢“字”語"}) == "漢<strong>“字”</strong>語\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Let $x_1 *y* z_2$ be $$E = mc^2$$ here.", "LET $x_1 *y* z_2$ BE $$E = mc^2$$ HERE."),
        ("Pay $5 and $10, or US$3 for `a$b`.", "PAY $5 AND $10, OR US$3 FOR `a$b`."),
        ("$$\n\\int f\n\n= 1\n$$\n\n\\begin{align}\na\n\\end{align}", None),
        ("> [!NOTE] Title\n> One line\n> and more.", "> [!NOTE] TITLE\n> ONE LINE AND MORE."),
        ("Term\n: Its definition.\n: Another one.", "TERM\n: ITS DEFINITION.\n: ANOTHER ONE."),
        ("*[HTML]: Hyper Text\n\n[TOC]\n\n[[_TOC_]]", None),
        (
            "{{< fig src=a_b >}} Text {% x %} :smile: {{ name }}.",
            "{{< fig src=a_b >}} TEXT {% x %} :smile: {{ name }}.",
        ),
        ("At 10:30:45 and :: there.", "AT 10:30:45 AND :: THERE."),
    ],
)
def test_formulas_alerts_definitions_and_templates_are_no_text(content: str, expected: str | None) -> None:
    document = read_bytes("x.md", content.encode())
    written, _ = translate_document(document, lambda docs: [[Rendition(s.text.upper()) for s in d] for d in docs])
    assert written.decode() == (content if expected is None else expected)


def test_notes_admonitions_and_imports_are_read_as_their_tools_do() -> None:
    content = (
        "import Tabs from '@theme/Tabs';\n\n[^1]: A note\n[^2]: Another *note*.\n\n    Its second paragraph.\n\n"
        '        code\n\n!!! tip "A hint"\n\n    Press it.\n\n??? note\n    Hidden text.\n\n    code = 1\n'
    )
    document = read_bytes("x.md", content.encode())
    found = [segment.text for segment in document.documents[0]]
    assert found == [
        *("A note", "Another note.", "Its second paragraph."),
        *("A hint", "Press it.", "Hidden text.", "code = 1"),
    ]
    new = [Translation(s.text.replace("A hint", 'Ein "Tipp"'), s.tags) for s in document.documents[0]]
    assert document.write([new]).decode() == content.replace('"A hint"', "\"Ein 'Tipp'\"")
