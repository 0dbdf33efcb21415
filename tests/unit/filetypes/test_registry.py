"""Which type a file is, and what is refused."""

from pathlib import Path

import pytest

from filetype_samples import SAMPLES, plain_text
from tram.errors import InputError
from tram.filetypes import detect, extras, open_file
from tram.filetypes.registry import FILETYPES, find, names, read_bytes


@pytest.mark.parametrize("suffix", ["", *sorted({suffix for f in FILETYPES for suffix in f.suffixes}), ".xml", ".csv"])
@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in ("text", "markdown")])
def test_a_file_with_a_misleading_suffix_is_what_it_begins_as(name: str, suffix: str) -> None:
    assert detect(f"file{suffix}", SAMPLES[name]().content).name == name


SUBTITLE = "00:00:01,000 --> 00:00:02,000"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.md", 'Text about PO.\n\nmsgid "a"\nmsgstr ""\n', "markdown"),
        ("x.md", f"How subtitles look:\n\n1\n{SUBTITLE}\nHello.\n", "markdown"),
        ("x.txt", f"How subtitles look:\n\n1\n{SUBTITLE}\nHello.\n", "text"),
        ("x.txt", "WEBVTTX is no word.", "text"),
        ("x.txt", "msgid is a keyword.", "text"),
        ("x.md", "<p align=center>A logo</p>\n\n# Title", "markdown"),
        ("x.html", "<p>An example: <xliff version='1.2'>", "html"),
        ("x.html", "<!-- <tmx> --><p>Text", "html"),
        ("x", f"\ufeff\n{SUBTITLE}\nNo number.\n", "srt"),
        ("x", '#, fuzzy\n\nmsgctxt "a"\n"b"\nmsgid "c"\n', "po"),
        ("x", "<?xml version='1.0'?>\n<!-- a --><!DOCTYPE x [<!-- b -->]>\n<x:xliff version='1.2'/>", "xliff"),
        ("x", "<?xml version='1.0'?><!DOCTYPE html><html><body>x", "html"),
        ("x", "WEBVTT", "vtt"),
    ],
)
def test_what_a_text_mentions_does_not_decide(name: str, content: str, expected: str) -> None:
    assert detect(name, content.encode()).name == expected
    if name == "x":
        assert detect(name, content.lstrip("\ufeff").encode("utf-16")).name == expected


@pytest.mark.parametrize("unit", ["<!---->", "<?a?>", "<!DOCTYPE a>", "#\n", "\n", 'msgctxt "a"\n', '"a"\n', "1\n"])
def test_a_type_is_found_in_linear_time(unit: str) -> None:
    assert detect("x.md", (unit * 100_000).encode()).name == "markdown"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", b'{"a": 1}'),
        ("x.py", b"print()"),
        ("x.xml", b"<a/>"),
        ("x.csv", b"a,b"),
        ("script", b"#!/bin/sh\necho"),
        ("data", b'{"a": 1}'),
        ("binary", b"\0\1\2"),
        ("x.pdf", b"%PDF-1.7"),
        ("x.txt", b"%PDF-1.7"),
        ("x.gz", b"\x1f\x8b"),
        ("x.doc", b"\xd0\xcf\x11\xe0"),
        ("x.rtf", b"{\\rtf1 x}"),
        ("x.xlsx", b"PK\3\4"),
    ],
)
def test_unknown_types_are_refused_in_one_sentence_and_never_read_as_plain_text(name: str, content: bytes) -> None:
    with pytest.raises(InputError) as caught:
        detect(name, content)
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)


def test_plain_text_without_a_suffix_is_text_and_any_file_can_be_named_so() -> None:
    assert detect("README", b"Hello there.\n").name == "text"
    assert detect("README", b"").name == "text"
    assert read_bytes("x.tex", b"Hello there.", format="text").documents[0][0].text == "Hello there."
    with pytest.raises(InputError, match="is not text"):
        read_bytes("x.txt", b"a\0b")


def test_formats_are_found_by_name_and_alias() -> None:
    assert find("MD").name == "markdown"
    assert "docx" in names()
    with pytest.raises(InputError, match="markdown"):
        find("word")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    for name in ("po", "srt", "vtt"):
        with pytest.raises(InputError, match=r"pip install 'tram-mt\[files\]'"):
            read_bytes("x", SAMPLES[name]().content, format=name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: there is no such file"):
        open_file(tmp_path / "none.txt")
    with pytest.raises(InputError, match="folder"):
        open_file(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_and_line_ends_are_kept(encoding: str) -> None:
    content = plain_text().content.decode("utf-8-sig").encode(encoding)
    document = read_bytes("x.txt", content)
    assert document.documents[0][1].text == "The first item."
    assert document.write([[None] * len(document.documents[0])]) == content


@pytest.mark.parametrize("content", [b"\xff\xff\xfe", b"Gr\xf6\xdfe\n", b"\xff\xfea"])
def test_a_wrong_encoding_names_the_line_and_the_remedy(content: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.txt:1: is not valid UTF-\S+; convert it to UTF-8"):
        read_bytes("x.txt", content)
