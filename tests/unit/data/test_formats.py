"""Files of other tools are read as intended, and bad files are named with their line."""

import gzip
import lzma
from pathlib import Path

import pytest

from tram.data.corpus import ParallelDocument, detect_format, open_text, read_documents, read_parallel, write_documents
from tram.errors import InputError


def read(path: Path, text: str | bytes, **options: str) -> list[tuple[str | None, list[str]]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return [(document.id, document.sentences) for document in read_documents(path, **options)]


def test_byte_order_mark_and_crlf_are_not_text(tmp_path):
    assert read(tmp_path / "x", b"\xef\xbb\xbf<d>\r\nA.\r\n\r\nB.\r\n") == [(None, ["A.", "", "B."])]


def test_a_carriage_return_inside_a_sentence_stays(tmp_path):
    assert read(tmp_path / "x", "A\rB\nC\n") == [(None, ["A\rB", "C"])]


def test_the_last_line_needs_no_end(tmp_path):
    assert read(tmp_path / "x", "A.\n\nB.") == [(None, ["A."]), (None, ["B."])]


def test_runs_of_blank_lines_and_marks_are_not_documents(tmp_path):
    assert read(tmp_path / "x", "\nA.\n\n  \nB.\n\n\n") == [(None, ["A."]), (None, ["B."])]
    assert read(tmp_path / "x", "<d>\n<d>\nA.\n<d>\n") == [(None, ["A."])]


def test_start_lines(tmp_path):
    (tmp_path / "x.doc").write_text("0\n2\n2\n3\n")
    assert read(tmp_path / "x.en", "A.\n\nB.\nC.\n") == [(None, ["A.", ""]), (None, ["B."]), (None, ["C."])]


def test_a_word_processors_file_beside_the_text_is_not_a_list_of_start_lines(tmp_path):
    (tmp_path / "x.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    assert detect_format_of(tmp_path / "x.en", "A.\n") == "blank"


def test_columns_group_lines_that_follow_each_other(tmp_path):
    text = "a\tOne.\tEins.\na\tTwo.\tZwei.\nb\t\tDrei.\na\tFour.\tVier.\n"
    assert read(tmp_path / "x", text) == [("a", ["One.", "Two."]), ("b", [""]), ("a", ["Four."])]
    assert read(tmp_path / "x", text.replace("\t", " ||| "), side="target")[1] == ("b", ["Drei."])


TALKS = """<doc docid="7" genre="lectures">
<url>http://talks.example/7</url>
<keywords>trams, R&D</keywords>
<speaker>A Driver</speaker>
<talkid>7</talkid>
<title>On rails</title>
<description>A talk & a ride</description>
 We do R&D &amp; more.
 a < b, <i>really</i>.

<reviewer>Nobody</reviewer>
<translator>Nobody</translator>
</doc>
<doc docid="8">
<title>Off rails</title>
 Second talk.
</doc>
"""


def test_talks_with_tagged_lines(tmp_path):
    talks = [("7", ["We do R&D & more.", "a < b, <i>really</i>.", ""]), ("8", ["Second talk."])]
    assert read(tmp_path / "train.tags.en-de.en", TALKS) == talks


def test_older_talks_have_no_doc_tag(tmp_path):
    text = "".join(
        f"<url>u{i}</url>\n<speaker>s</speaker>\n<talkid>{i}</talkid>\n<title>t</title>\n Talk {i}.\n By.\n"
        for i in (1, 2)
    )
    assert read(tmp_path / "x", text) == [("1", ["Talk 1.", "By."]), ("2", ["Talk 2.", "By."])]


TALK_SEGMENTS = """<?xml version="1.0" encoding="UTF-8"?>
<mteval>
<srcset setid="s" srclang="english">
<doc docid="7" genre="lectures">
<talkid>7</talkid>
<title>On rails</title>
<description>Not this.</description>
<seg id="1"> We do R&D. </seg>
<seg id="2"> Two
lines. </seg>
<seg id="3"> </seg>
</doc>
</srcset>
</mteval>
"""


def test_talks_with_segments(tmp_path):
    assert detect_format_of(tmp_path / "x.xml", TALK_SEGMENTS) == "iwslt"
    assert read(tmp_path / "x.xml", TALK_SEGMENTS) == [("7", ["We do R&D.", "Two lines.", ""])]


SGML = """<srcset setid="n" srclang="any">
<DOC sysid="ref" docid="paper.1" genre="news" origlang="en">
<hl>
<seg id="1">Trams &amp; &lt;rails&gt; &quot;now&quot; &copy;</seg>
</hl>
<p>
<seg id='2'>One.</seg> <seg id="3">Two.</seg>
</p>
</DOC>
</srcset>
"""


def test_sgml(tmp_path):
    assert detect_format_of(tmp_path / "x.sgm", SGML) == "sgml"
    assert read(tmp_path / "x.sgm", SGML) == [("paper.1", ['Trams & <rails> "now" &copy;', "One.", "Two."])]


WMT = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="t"><collection id="general">
  <doc id="d1" origlang="en">
    <src lang="en"><p><seg id="1">A &amp; B.</seg>
    <seg id="2">Long
      line.</seg></p></src>
    <ref lang="de" translator="A"><p><seg id="1">A und B.</seg><seg id="2">Zeile.</seg></p></ref>
    <ref lang="de" translator="B"><p><seg id="1">Anders.</seg><seg id="2">Noch.</seg></p></ref>
    <hyp lang="de" system="S"><p><seg id="1">Falsch.</seg></p></hyp>
  </doc>
  <doc id="s1" testsuite="pronouns"><src lang="en"><p><seg id="1">It.</seg></p></src></doc>
</collection></dataset>
"""


def test_wmt_xml_uses_the_first_reference_and_skips_test_suites(tmp_path):
    (tmp_path / "x.xml").write_text(WMT)
    assert detect_format(tmp_path / "x.xml") == "wmtxml"
    expected = [ParallelDocument(["A & B.", "Long line."], ["A und B.", "Zeile."], "d1")]
    assert list(read_parallel(tmp_path / "x.xml")) == expected
    assert [document.id for document in read_documents(tmp_path / "x.xml")] == ["d1", "s1"]


def test_json_lines(tmp_path):
    text = '{"id": 5, "source": ["A.\\nB."], "target": ["X."]}\n\n{"sentences": ["C."]}\n{"source": []}\n'
    assert read(tmp_path / "x", text) == [("5", ["A.\nB."]), (None, ["C."])]


def test_open_text_compresses_and_decompresses(tmp_path):
    for name, opener in (("x", open), ("x.gz", gzip.open), ("x.xz", lzma.open)):
        with open_text(tmp_path / name, "w") as handle:
            handle.write("a\u2028b\n")
        with open_text(tmp_path / name) as handle:
            assert list(handle) == ["a\u2028b\n"]
        with opener(tmp_path / name, "rb") as handle:
            assert handle.read() == "a\u2028b\n".encode()


def detect_format_of(path: Path, text: str) -> str:
    path.write_text(text)
    return detect_format(path)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("A line.\n\nAnother.\n", "blank"),
        ("A tab\there.\nNone here.\n", "blank"),
        ('{"this": "is prose"}\n', "blank"),
        ("<b>Bold</b> words.\n", "blank"),
        ("\n<d>\nA.\n", "d"),
        ("", "blank"),
    ],
)
def test_detection(tmp_path, text, format):
    assert detect_format_of(tmp_path / "x.txt", text) == format


# Bad files.


@pytest.mark.parametrize(
    ("name", "data", "format", "message"),
    [
        ("x", b"", None, "x: contains no sentences"),
        ("x", b"\n \n", None, "x: contains no sentences"),
        ("x", b"<d>\n<d>\n", None, "x: contains no sentences"),
        ("x", b"A.\n\nB \xff.\n", None, r"x:3 is not UTF-8 \(byte 3 of the line\)"),
        ("x", b"A.\n<d>\nB.\n", None, "x:1 comes before the first <d>"),
        ("x.gz", b"no gzip", None, r"x.gz: is truncated or not a .gz file"),
        ("x.xz", b"no xz", None, r"x.xz: is truncated or not a .xz file"),
        ("x.gz", gzip.compress(b"A line.\n" * 99)[:-9], None, r"x.gz: is truncated"),
        ("x.xz", lzma.compress(b"A line.\n" * 99)[:-9], None, r"x.xz: is truncated"),
        ("x.gz", gzip.compress(b"A line.\n")[:12] + b"\xff" * 20, None, r"x.gz: is truncated"),
        ("x.tsv", b"a\tOne.\tEins.\nTwo.\n", None, r"x.tsv:2 has 1 of 2 columns"),
        ("x.tsv", b"a\tOne.\tEins.\na\tTwo.\n", None, r"x.tsv:2 has 2 columns, the lines above 3"),
        ("x", b"a ||| b\nc\n", "bars", r"x:2 has 1 of 2 columns"),
        ("x.jsonl", b'{"source": ["A."]}\n{"source"\n', None, "x.jsonl:2 is not JSON"),
        ("x.jsonl", b"[" * 100_000, None, "x.jsonl:1 is not JSON"),
        ("x.jsonl", b"[]\n", None, "x.jsonl:1 is not an object"),
        ("x.jsonl", b'{"text": []}\n', None, "x.jsonl:1 has no 'source' but 'text'"),
        ("x.jsonl", b'{"source": "A."}\n', None, "x.jsonl:1 has a 'source' that is not a list"),
        ("x.jsonl", b'{"source": [1]}\n', None, "x.jsonl:1 has a 'source' that is not a list"),
        ("x.jsonl", b'{"source": ["\\ud800"]}\n', None, "x.jsonl:1 has a lone surrogate"),
        ("x.sgm", b"<srcset>\n<seg>A.</seg>\n", None, "x.sgm:2 has a <seg> outside <doc>"),
        ("x.sgm", b"<doc docid='a'>\n<seg>A.</seg>\n", None, "x.sgm:2 is the last .* without </doc>"),
        ("x.sgm", b"<doc docid='a'>\n<seg>A.\n<seg>B.</seg>\n", None, "x.sgm:2 has a <seg> without </seg>"),
        ("x.sgm", b"<doc docid='a'>\n<seg>A.\n", None, "x.sgm:2 has a <seg> without </seg>"),
        ("x", b"A sentence.\n<doc docid='1'>\nB.\n</doc>\n", "iwslt", "x:1 comes before the first <doc>"),
        (
            "x.xml",
            b"<dataset>\n<doc id='a'>\n<src><seg>A & B</seg>\n",
            None,
            "x.xml:3 is not well-formed XML",
        ),
        ("x.xml", b"<dataset>\n<doc id='a'>\n", None, "x.xml:3 is not well-formed XML"),
        (
            "x.xml",
            b"<dataset>\n<doc id='a'>\n</doc></dataset>",
            None,
            "x.xml:2 starts a document without <src>",
        ),
        ("x", b"A.\n", "starts", r"x: the starts format needs .*x.doc"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, name, data, format, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(read_documents(tmp_path / name, format))


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ("", "x.doc:1 is missing"),
        ("0\n" + "9" * 5000, "x.doc:2 is '999"),
        ("0\n\x1c9\n", r"x.doc:2 starts a document at 9, but .*x.en has 3 lines"),  # int() refuses this blank
        ("1\n", "x.doc:1 is 1, but the first document starts at 0"),
        ("0\nzwei\n", "x.doc:2 is 'zwei'"),
        ("0\n2\n1\n", "x.doc:3 is 1, below the 2 before it"),
        ("0\n9\n", r"x.doc:2 starts a document at 9, but .*x.en has 3 lines"),
    ],
)
def test_bad_start_lines(tmp_path, starts, message):
    (tmp_path / "x.doc").write_text(starts)
    (tmp_path / "x.en").write_text("A.\nB.\nC.\n")
    with pytest.raises(InputError, match=message):
        list(read_documents(tmp_path / "x.en", "starts"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "a\tOne.\n", "x.tsv:1 has 2 of 3 columns"),
        ("x.jsonl", '{"sentences": ["A."]}\n', "x.jsonl:1 has no 'source' but 'sentences'"),
        (
            "x.jsonl",
            '{"id": "q", "source": ["A."], "target": []}\n',
            r"x.jsonl:1 document 1 \(id q\) has 1 source",
        ),
        ("x.xml", WMT.replace("ref", "hyp"), "x.xml:3 starts a document without <ref>"),
        ("x.en", "A.\n", "format blank contains one side only"),
    ],
)
def test_a_file_that_lacks_a_side(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_parallel(tmp_path / name))


def test_missing_files_folders_and_unknown_formats_are_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_documents(tmp_path / "none")
    with pytest.raises(InputError, match="there is no such file"):
        open_text(tmp_path / "none.xz")
    with pytest.raises(InputError, match="cannot be written"):
        open_text(tmp_path, "w")
    for reader in (read_documents, read_parallel):
        with pytest.raises(InputError, match="this is a folder"):
            reader(tmp_path)
    (tmp_path / "x").write_text("A.\n")
    with pytest.raises(InputError, match="did you mean jsonl"):
        read_documents(tmp_path / "x", "json")
    with pytest.raises(InputError, match="no document format 'q'"):
        write_documents(tmp_path / "x", [], "q")
