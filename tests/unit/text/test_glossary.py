"""Glossary files: terms with a fixed translation, terms that stay, and entries that are refused with their line."""

from pathlib import Path

import pytest

from tram.errors import InputError
from tram.text.glossary import read_glossary
from tram.text.verbatim import find_spans


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "terms.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_terms_are_read_from_lines_with_one_or_two_columns(tmp_path: Path) -> None:
    rules = read_glossary(write(tmp_path, "\ufeff# comment\n\nmemory\tSpeicher\nAcme Tools\n memory  cell \tZelle\r\n"))
    assert rules.glossary == {"memory": "Speicher", "memory cell": "Zelle"}
    assert rules.keep == ("Acme Tools",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("memory\tSpeicher\ta noun\n", [":1: has 3 columns"]),
        ("# x\n\tSpeicher\n", [":2: an entry is empty"]),
        ("memory\t \n", [":1: an entry is empty"]),
        ("memory\tSpeicher\nmemory\n", [":2: 'memory' has another entry"]),
        (b"ok\tgut\nbad\t\xff\n", [":2: is not valid UTF-8"]),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as error:
        read_glossary(path)
    assert all(word in str(error.value) for word in [*words, "terms.tsv"])


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"terms\.tsv: cannot be read"):
        read_glossary(tmp_path / "terms.tsv")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("memory Memory MEMORY", ["speicher", "Speicher", "SPEICHER"]),
        ("memories and memory's", ["speicher"]),
        ("Tram, tram and TRAM", ["Bahn"]),  # an entry with a capital matches only as it is written
        ("a memory cell", ["zelle"]),  # the longest
        ("iOS and IOS", ["iOS"]),
        ("file File FILE", ["datei", "Akte", "DATEI"]),  # an entry that is written so goes before one that is cased
    ],
)
def test_terms_match_whole_words_and_their_case(tmp_path: Path, text: str, found: list[str]) -> None:
    rules = read_glossary(
        write(tmp_path, "memory\tspeicher\nmemory cell\tzelle\nTram\tBahn\niOS\nfile\tdatei\nFile\tAkte\n")
    )
    assert [span.content for span in find_spans(text, rules)] == found


@pytest.mark.parametrize("term", ["Müller", "Mu\u0308ller"])
def test_terms_match_however_accents_are_encoded(term: str, tmp_path: Path) -> None:
    rules = read_glossary(write(tmp_path, f"{term}\tMiller\n"))
    assert [span.content for span in find_spans("Müller, Mu\u0308ller", rules)] == ["Miller", "Miller"]
