"""Time grows with the length of a file, not with its square: four times the input takes less than ten times as long."""

import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from growth import growth
from tram.data.corpus import detect_format, read_documents
from tram.data.text_files import MAX_LINE, Lines
from tram.data.xml_formats import escape
from tram.errors import InputError
from tram.filetypes.plain_text import split_document
from tram.text.sentences import split_sentences
from tram.translation.parts import split_ids

SGML = '<srcset setid="x" srclang="any">\n'


def reading(folder: Path, format: str, text: Callable[[int], str]) -> Callable[[int], Callable[[], object]]:
    def work(size: int) -> Callable[[], object]:
        path = folder / f"{size}.txt"
        path.write_text(text(size))

        def read() -> None:
            detect_format(path)
            with suppress(InputError):
                list(read_documents(path, format))

        return read

    return work


FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    "tags that never end": ("sgml", lambda n: SGML + "<doc " * n),
    "talks of tags that never end": ("iwslt", lambda n: "<url>\n" + "<doc " * n),
    "a talk id of tags that never end": ("iwslt", lambda n: "<url>\n<talkid>" + "<" * n),
    "segments that never end": ("sgml", lambda n: SGML + '<doc docid="1">' + "<seg>" * n + "</seg"),
    "a segment of many lines": ("sgml", lambda n: f'{SGML}<doc docid="1">\n<seg>' + "word\n" * n + "</seg>\n</doc>"),
    "blanks in a segment": ("sgml", lambda n: f'{SGML}<doc docid="1">\n<seg>a' + " " * n + "b</seg>\n</doc>"),
    "an attribute of many lines": ("wmtxml", lambda n: '<dataset id="' + "word\n" * n + '">\n</dataset>'),
    "a comment of many lines": ("wmtxml", lambda n: "<dataset><!-- " + "word\n" * n + "-->\n</dataset>"),
    "blanks in XML": (
        "wmtxml",
        lambda n: "<dataset><doc><src><p><seg>a" + " " * n + "b</seg></p></src></doc></dataset>",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_reading_takes_linear_time(name: str, tmp_path: Path) -> None:
    format, text = FILES[name]
    assert growth(reading(tmp_path, format, text), 5000) < 10


@pytest.mark.parametrize(
    "text",
    [
        lambda n: "a" + " " * n + "b",
        lambda n: "Nr. 1. A" * n,
        lambda n: "x 1. A " * n,
        lambda n: "." * n,
        lambda n: "A. " * n,
        lambda n: "”" * n + " A",
    ],
)
def test_splitting_sentences_takes_linear_time(text: Callable[[int], str]) -> None:
    assert growth(lambda n: lambda: split_sentences(text(n), "de"), 5000) < 10


DOCUMENTS: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: "a" + " " * n + "b",
    "blanks between sentences": lambda n: "A b." + " " * n + "C.\n",
    "blanks at the end of a line": lambda n: "word " * 15 + " " * n + "\nword\n",
    "indented": lambda n: " " * n + "- a\n",
    "empty lines": lambda n: "a" + "\n" * n + "b",
    "lines of blanks": lambda n: "a" + "\n " * n + "b",
    "wrapped lines": lambda n: ("word " * 15 + "\n") * (n // 10),
    "digits": lambda n: "1" * n + ". a\n",
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_splitting_documents_takes_linear_time(text: Callable[[int], str]) -> None:
    assert growth(lambda n: lambda: split_document(text(n), "de"), 5000) < 10


def test_escaping_takes_linear_time() -> None:
    assert growth(lambda n: lambda: escape("a" + " " * n + "b"), 5000) < 10


def test_splitting_ids_takes_linear_time() -> None:
    def work(n: int) -> Callable[[], object]:
        ids, pieces = [5] * n, ["▁a" if i % 7 == 0 else "b" for i in range(n)]
        return lambda: split_ids(ids, 100, pieces)

    assert growth(work, 5000) < 10


def test_packed_zeros_are_refused_at_once(tmp_path: Path) -> None:
    """They would be an endless number of empty files in the format before .xz."""
    (tmp_path / "zeros.xz").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"is truncated or not a \.xz file"):
        list(Lines(tmp_path / "zeros.xz"))


def test_a_packed_line_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.xz"
    with lzma.open(path, "wb", preset=0) as file:
        file.write(b"two\n")
        for _ in range(2 * MAX_LINE >> 20):
            file.write(b"a" * (1 << 20))
    with pytest.raises(InputError, match=r"bomb\.xz:2 is longer than"):
        list(Lines(path))
