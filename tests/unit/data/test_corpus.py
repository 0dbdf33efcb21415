"""Documents are read as they were written, both sides stay aligned, and bad files are named."""

import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tram.data.corpus import (
    FORMATS,
    Document,
    ParallelDocument,
    detect_format,
    read_documents,
    read_parallel,
    write_documents,
    write_parallel,
)
from tram.errors import InputError

ONE_FILE = ("tsv", "bars", "jsonl", "wmtxml")
WITHOUT_IDS = ("blank", "d", "starts")

# Strings with a meaning in some format, or that careless code takes for a line end.
PIECES = [
    *(
        "<d>",
        "\t",
        " ||| ",
        "|||",
        "&",
        "&amp;",
        "&#10;",
        "<",
        ">",
        '"',
        "</seg>",
        "<seg id='1'>",
        "<doc",
        "</doc>",
    ),
    *(
        " ",
        "\u2028",
        "\u2029",
        "\x85",
        "\x0b",
        "\x0c",
        "\r",
        "\n",
        "\u00a0",
        "\x00",
        "{",
        "[]",
        "<title>",
        "]]>",
    ),
    *("0", "7", "word", "Straße", "日本語", "\U0001f68b"),
]
nasty = st.lists(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"))
nasty_text = nasty.map("".join)
plain_text = st.lists(st.sampled_from(["Wir", "fahren", "&", "a\u2028b", "1<2", '"so"', "x\x85y"]), min_size=1).map(
    " ".join
)
suffixes = st.sampled_from(["", ".gz", ".xz"])


def documents_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[ParallelDocument]]:
    pairs = st.lists(st.tuples(text, text), min_size=1, max_size=4)
    lists = st.lists(st.tuples(pairs, text), min_size=1, max_size=3, unique_by=lambda item: item[1])
    return lists.map(lambda items: [ParallelDocument([s for s, _ in p], [t for _, t in p], id) for p, id in items])


def same(format: str, expected: list[ParallelDocument]) -> list[ParallelDocument]:
    if format in WITHOUT_IDS:
        return [ParallelDocument(document.source, document.target) for document in expected]
    return expected


def check_round_trip(folder: Path, format: str, suffix: str, documents: list[ParallelDocument]) -> None:
    names = [folder / f"text.{side}{suffix}" for side in ("en", "de")]
    source, target = (names[0], None) if format in ONE_FILE else names
    assert write_parallel(source, target, documents, format) == len(documents)
    assert list(read_parallel(source, target, format)) == same(format, documents)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=60, deadline=None)
@given(documents=documents_of(nasty_text), suffix=suffixes)
def test_any_text_is_read_back_unchanged_or_refused(format, documents, suffix):
    with tempfile.TemporaryDirectory() as name:
        try:
            check_round_trip(Path(name), format, suffix, documents)
        except InputError:
            assert not list(Path(name).iterdir())


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25, deadline=None)
@given(documents=documents_of(plain_text), suffix=suffixes)
def test_ordinary_text_is_never_refused_and_its_format_is_recognised(format, documents, suffix):
    with tempfile.TemporaryDirectory() as name:
        check_round_trip(Path(name), format, suffix, documents)
        written = Path(name) / f"text.en{suffix}"
        assert detect_format(written) == format
        assert [d.sentences for d in read_documents(written)] == [d.source for d in documents]


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=15, deadline=None)
@given(documents=documents_of(plain_text))
def test_one_side_alone_is_read_back(format, documents):
    one_sided = [Document(d.source, None if format in WITHOUT_IDS else d.id) for d in documents]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "text.en"
        assert write_documents(path, one_sided, format) == len(one_sided)
        assert list(read_documents(path, format)) == one_sided


@pytest.mark.parametrize("format", ONE_FILE)
def test_formats_for_one_file_can_also_be_split_over_two(tmp_path, format):
    documents = [ParallelDocument(["One.", "Two."], ["Eins.", "Zwei."], "a")]
    write_parallel(tmp_path / "x.en", tmp_path / "x.de", documents, format)
    assert list(read_parallel(tmp_path / "x.en", tmp_path / "x.de")) == documents


@pytest.mark.parametrize("format", ONE_FILE)
def test_either_side_of_one_file_can_be_read_alone(tmp_path, format):
    write_parallel(tmp_path / "x", None, [ParallelDocument(["One."], ["Eins."], "a")], format)
    assert list(read_documents(tmp_path / "x", side="source")) == [Document(["One."], "a")]
    assert list(read_documents(tmp_path / "x", side="target")) == [Document(["Eins."], "a")]


@pytest.mark.parametrize(("name", "format"), [("x.tsv", "tsv"), ("x.jsonl.gz", "jsonl"), ("x.xml.xz", "wmtxml")])
def test_writers_choose_the_format_by_suffix(tmp_path, name, format):
    write_parallel(tmp_path / name, None, [ParallelDocument(["One."], ["Eins."], "a")])
    assert detect_format(tmp_path / name) == format


@pytest.mark.parametrize("format", sorted(set(FORMATS) - set(WITHOUT_IDS) - {"jsonl"}))
def test_a_document_without_an_id_is_given_its_number(tmp_path, format):
    write_documents(tmp_path / "x", [Document(["A."]), Document(["B."])], format)
    assert [document.id for document in read_documents(tmp_path / "x")] == ["1", "2"]


def test_empty_documents_are_not_written(tmp_path):
    assert write_documents(tmp_path / "x", [Document([]), Document(["A."]), Document([])], "d") == 1
    assert (tmp_path / "x").read_text() == "<d>\nA.\n"


def test_compressed_bytes_do_not_depend_on_the_time(tmp_path, monkeypatch):
    for name, now in (("x.gz", 1e9), ("y.gz", 2e9)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        write_documents(tmp_path / name, [Document(["A."])], "blank")
    assert (tmp_path / "x.gz").read_bytes() == (tmp_path / "y.gz").read_bytes()


# Memory.


def many_documents() -> Iterator[ParallelDocument]:
    for number in range(1500):
        sentences = [f"{number} {i} " + "word " * 20 for i in range(10)]
        yield ParallelDocument(sentences, sentences, str(number))


@pytest.mark.parametrize("format", FORMATS)
def test_memory_does_not_grow_with_the_corpus(tmp_path, format):
    source, target = tmp_path / "x.en", None if format in ONE_FILE else tmp_path / "x.de"
    tracemalloc.start()
    try:
        write_parallel(source, target, many_documents(), format)
        assert sum(len(d.source) for d in read_parallel(source, target, format)) == 15_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert source.stat().st_size > 1_500_000
    assert peak < 700_000


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_of_a_hundred_thousand_sentences(tmp_path, format):
    document = Document([f"Sentence {i}." for i in range(100_000)])
    write_documents(tmp_path / "x.en", [document], format)
    assert [d.sentences for d in read_documents(tmp_path / "x.en", format)] == [document.sentences]


# Sides that do not match.


def parallel(tmp_path: Path, source: str, target: str, format: str | None = None) -> list[ParallelDocument]:
    (tmp_path / "a.en").write_text(source)
    (tmp_path / "a.de").write_text(target)
    return list(read_parallel(tmp_path / "a.en", tmp_path / "a.de", format))


def problem(tmp_path: Path, source: str, target: str, format: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        parallel(tmp_path, source, target, format)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_document_that_ends_earlier_on_one_side_is_named_with_both_lines(tmp_path):
    message = problem(tmp_path, "A\nB\n\nC\nD\n\nE\n", "a\nb\n\nc\nd\ne\n\nf\n")
    assert message == (
        "a.en and a.de differ in document 2: a.en:6 ends the document after 2 sentences, "
        "a.de:6 continues; align both sides line by line"
    )
    assert "a.de:2 ends the document after 1 sentence, a.en:2 continues" in problem(tmp_path, "A\nB\n", "a\n\nb\n")


def test_an_extra_document_on_one_side_is_named(tmp_path):
    message = problem(tmp_path, "A\n\nB\n", "a\n\nb\n\nc\n")
    assert "a.en ends after 2, a.de:5 continues" in message
    assert "a.de ends after 1, a.en:3 continues" in problem(tmp_path, "A\n\nB\n", "a\n")


def test_an_empty_document_on_one_side_does_not_shift_the_others(tmp_path):
    message = problem(tmp_path, "<d>\n<d>\nA\n<d>\nB\n", "<d>\nx\n<d>\na\n<d>\n")
    assert "document 1: a.en:2 ends the document after 0 sentences, a.de:2 continues" in message


def test_documents_empty_on_both_sides_are_dropped(tmp_path):
    read_back = parallel(tmp_path, "<d>\n<d>\nA\n<d>\n", "<d>\n<d>\na\n")
    assert read_back == [ParallelDocument(["A"], ["a"])]
    assert parallel(tmp_path, "\nA\n\n\nB\n\n\n", "\na\n\n\nb") == [
        ParallelDocument(["A"], ["a"]),
        ParallelDocument(["B"], ["b"]),
    ]


def test_marks_on_one_side_only(tmp_path):
    message = problem(tmp_path, "<d>\nA\n", "a\n")
    assert "a.en looks like format d and a.de like blank" in message
    assert "a.de:1 comes before the first <d>" in problem(tmp_path, "<d>\nA\n", "a\n", "d")


def test_ids_must_agree(tmp_path):
    text = '<doc docid="{}">\n<seg id="1">A</seg>\n</doc>\n'
    message = problem(tmp_path, text.format("x"), text.format("y"), "sgml")
    assert "differ in document 1: their ids are 'x' and 'y'" in message


def test_documents_before_the_difference_are_returned(tmp_path):
    (tmp_path / "a.en").write_text("A\n\nB\n")
    (tmp_path / "a.de").write_text("a\n\nb\nc\n")
    documents = read_parallel(tmp_path / "a.en", tmp_path / "a.de")
    assert next(documents) == ParallelDocument(["A"], ["a"])
    with pytest.raises(InputError, match="document 2"):
        next(documents)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    cut=st.integers(0, 20),
    format=st.sampled_from(["blank", "d", "sgml", "iwslt"]),
)
def test_a_lost_sentence_is_always_noticed(shape, cut, format):
    source = [Document([f"s{i}.{j}" for j in range(n)]) for i, n in enumerate(shape)]
    target = [list(document.sentences) for document in source]
    del target[cut % len(target)][-1]
    with tempfile.TemporaryDirectory() as name:
        left, right = Path(name) / "a.en", Path(name) / "a.de"
        write_documents(left, source, format)
        write_documents(right, [Document(sentences) for sentences in target], format)
        with pytest.raises(InputError):
            list(read_parallel(left, right, format))


# Documents that writers refuse.


@pytest.mark.parametrize(
    ("format", "sentence"),
    [
        *((format, "two\nlines") for format in FORMATS if format != "jsonl"),
        *((format, "ends in\r") for format in FORMATS if format != "jsonl"),
        ("blank", ""),
        ("blank", " "),
        ("d", "<d>"),
        ("tsv", "a\tb"),
        ("bars", "a ||| b"),
        ("wmtxml", "bell \x07"),
    ],
)
def test_a_writer_refuses_what_it_could_not_read_and_leaves_the_old_file(tmp_path, format, sentence):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with pytest.raises(InputError, match=r"x.txt: cannot store sentence 2 of document 2 \(id b\)"):
        write_documents(path, [Document(["A."], "a"), Document(["B.", sentence], "b")], format)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_refuses_lone_surrogates_and_ids_that_would_merge(tmp_path):
    with pytest.raises(InputError, match="document 1: it contains a lone surrogate"):
        write_documents(tmp_path / "x", [Document(["\ud800"])], "jsonl")
    with pytest.raises(InputError, match="documents 1 and 2 have the same id 'a'"):
        write_documents(tmp_path / "x", [Document(["A."], "a"), Document(["B."], "a")], "tsv")
    with pytest.raises(InputError, match="cannot store the id"):
        write_documents(tmp_path / "x", [Document(["A."], "a\nb")], "sgml")
    assert not list(tmp_path.iterdir())


def test_parallel_writers_need_two_equal_sides_and_a_place_for_both(tmp_path):
    with pytest.raises(InputError, match=r"document 1 \(id a\) has 1 source and 2 target"):
        write_parallel(tmp_path / "x.jsonl", None, [ParallelDocument(["A."], ["B.", "C."], "a")])
    with pytest.raises(InputError, match="contains one side only"):
        write_parallel(tmp_path / "x.en", None, [ParallelDocument(["A."], ["B."])])
    with pytest.raises(InputError, match="name of the file with the start lines"):
        write_documents(tmp_path / "x.doc", [Document(["A."])], "starts")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_fails_leaves_no_half_written_file(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"sentences": ["A."]}) + "\n{\n")
    with pytest.raises(InputError, match="is not JSON"):
        write_documents(tmp_path / "y.en", read_documents(tmp_path / "x.jsonl"))
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


def test_start_lines_are_written_beside_both_sides(tmp_path):
    documents = [ParallelDocument(["A.", ""], ["a.", "b."]), ParallelDocument(["C."], ["c."])]
    write_parallel(tmp_path / "x.en.gz", tmp_path / "x.de.gz", documents, "starts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.de.gz", "x.doc", "x.en.gz"]
    assert (tmp_path / "x.doc").read_text() == "0\n2\n"
