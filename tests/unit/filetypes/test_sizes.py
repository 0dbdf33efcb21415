"""Files that would take too much memory are refused in one sentence before they are read."""

import tracemalloc
from pathlib import Path

import pytest

from filetype_samples import PAGE, packed
from tram.errors import InputError
from tram.filetypes import open_file
from tram.filetypes.encoding import MAX_BYTES, MAX_MARKS
from tram.filetypes.registry import MAX_PACKAGE, read_bytes

STARTS = {
    "a.md": b"# Title\n\n",
    "a.html": b"<!DOCTYPE html><html><body>",
    "a.po": b'msgid ""\nmsgstr ""\n\n',
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\nText.\n\n",
    "a.vtt": b"WEBVTT\n\n",
    "a.xlf": b"<xliff version='1.2'><file>",
    "a.tmx": b"<tmx version='1.4'><body>",
    "a.docx": b"PK\x03\x04",
    "a.odt": b"PK\x03\x04",
    "a.epub": b"PK\x03\x04",
    "a.txt": b"Plain text.\n",
}


@pytest.mark.parametrize("name", STARTS)
def test_a_file_that_is_too_large_is_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    limit = MAX_PACKAGE if STARTS[name].startswith(b"PK") else MAX_BYTES
    with path.open("wb") as file:
        file.write(STARTS[name])
        file.truncate(limit + 1)  # a hole: it takes no place on the disk
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"{name}: is larger than {limit >> 20} MB; split it$"):
        open_file(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < limit / 30


@pytest.mark.parametrize(
    ("name", "unit"),
    [("a.md", "a\n\n"), ("a.html", "<p>a"), ("a.txt", "A.\n"), ("a.xlf", "<x/>"), ("a.srt", "\n")],
)
def test_a_small_file_with_too_many_pieces_is_refused(name: str, unit: str) -> None:
    content = STARTS[name] + unit.encode() * (MAX_MARKS + 1)
    with pytest.raises(InputError, match=rf"{name}: has [\d,]+ tags, lines and sentences, more than .*; split it$"):
        read_bytes(name, content)


def test_the_pages_of_a_book_are_counted_together() -> None:
    pages = {f"OPS/{i}.xhtml": PAGE.format("<p>a" * (MAX_MARKS // 3)) for i in range(4)}
    items = "".join(f'<item id="i{i}" href="{i}.xhtml" media-type="application/xhtml+xml"/>' for i in range(4))
    spine = "".join(f'<itemref idref="i{i}"/>' for i in range(4))
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OPS/b.opf"/></container>',
        "OPS/b.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    with pytest.raises(InputError, match=r"a\.epub: has [\d,]+ tags, lines and sentences, more than"):
        read_bytes("a.epub", packed(parts | pages, "mimetype"))
