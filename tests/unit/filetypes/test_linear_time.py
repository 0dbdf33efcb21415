"""Time grows with the length of a file, not with its square: four times the input takes less than ten times as long."""

import io
import zipfile
from collections.abc import Callable

import pytest

from growth import growth
from tram.errors import InputError
from tram.filetypes import ReadOptions
from tram.filetypes.registry import read_bytes
from tram.filetypes.translate import by_sentences, translate_document
from tram.text.verbatim import VerbatimRules

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def page(text: str) -> bytes:
    return f"<html><body><p>a {text} b.</p></body></html>".encode()


def message(text: str) -> bytes:
    return f'msgid "a {text} b"\nmsgstr ""\n'.encode()


def cue(text: str) -> bytes:
    return f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n".encode()


def web_cue(text: str) -> bytes:
    return f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n".encode()


def unit(text: str) -> bytes:
    file = '<file source-language="en" target-language="de" original="a" datatype="x">'
    source = f"<body><trans-unit id='1'><source>{text}</source></trans-unit></body>"
    return f'<xliff version="1.2">{file}{source}</file></xliff>'.encode()


def segments(text: str) -> bytes:
    file = f'<file id="f"><unit id="1">{text}</unit></file>'
    return f'<xliff version="2.0" srcLang="en" trgLang="de">{file}</xliff>'.encode()


def paragraph(runs: str) -> bytes:
    types = f'<Types><Override PartName="/word/document.xml" ContentType="{TYPE}"/></Types>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("[Content_Types].xml", types)
        package.writestr("word/document.xml", f"<w:document {WORD}><w:body><w:p>{runs}</w:p></w:body></w:document>")
    return file.getvalue()


def mark(kind: str) -> str:
    return f"<w:r><w:fldChar w:fldCharType='{kind}'/></w:r>"


FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "blanks that are not spaces": ("text", lambda n: ("a" + "\u00a0" * n + "b\n").encode()),
    "foreign words": ("text", lambda n: ("漢 a " * n).encode()),
    "terms among spans": ("text", lambda n: b"term http://a.de and " * n),
    "signs behind markup": ("html", lambda n: page("<b>a</b> " + ";" * n)),
    "tags that cross": ("html", lambda n: page("<i>" * n + "a" + "</b>" * n)),
    "breaks in words": ("html", lambda n: page("a <wbr> " * n)),
    "descriptions of pictures": ("html", lambda n: page("<img alt='a'>" * n)),
    "code without an end": ("md", lambda n: b"<code>" * n),
    "notes without an end": ("md", lambda n: b"[^a" * n),
    "formulas without an end": ("md", lambda n: b"\\begin{align}\n" * n),
    "tags without an end": ("po", lambda n: message("<a " * n)),
    "written tags without a partner": ("po", lambda n: message("<a>" * n + "</b>" * n)),
    "sentences in a cue": ("srt", lambda n: cue("A.\n" * n)),
    "speakers in a cue": ("vtt", lambda n: web_cue("- a\n" * n)),
    "tags in a cue without an end": ("vtt", lambda n: web_cue("<c a='" * n)),
    "codes of a unit": (
        "xliff",
        lambda n: segments(
            "<originalData>"
            + "<data id='d'>a</data>" * n
            + "</originalData>"
            + "<segment><source>a</source></segment>" * n
        ),
    ),
    "spans without an end": (
        "xliff",
        lambda n: segments(
            "<segment><source>a" + "<sm id='1' translate='no'/>" * n + "<em startRef='2'/>" * n + "</source></segment>"
        ),
    ),
    "fields without an end": ("docx", lambda n: paragraph(mark("begin") * n)),
}
RULES = VerbatimRules(glossary={"term": "Begriff"})


def upper_case(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


@pytest.mark.parametrize("name", FILES)
def test_a_translation_takes_linear_time(name: str) -> None:
    format, content = FILES[name]

    def work(size: int) -> Callable[[], object]:
        file = content(size)
        options = ReadOptions("en", "de")
        return lambda: translate_document(read_bytes("f", file, format, options), by_sentences(upper_case, RULES))

    assert growth(work, 300) < 10


def test_a_broken_cue_is_refused_in_linear_time() -> None:
    def work(size: int) -> Callable[[], object]:
        file = cue("a\n\n2\n00:00:20,000 -->" + " " * size)

        def read() -> None:
            with pytest.raises(InputError, match=r"f:5: is not valid SRT"):
                read_bytes("f", file, "srt")

        return read

    assert growth(work, 300) < 10
