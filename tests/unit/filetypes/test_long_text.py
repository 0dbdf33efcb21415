"""Long plain texts are read in pieces that say the same as the whole, in memory that does not grow with the file."""

import io
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from fake_translator import FakeState, FakeTranslator
from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, Translation
from tram.filetypes import long_text as module
from tram.filetypes.batch import FileSettings, translate_pieces
from tram.filetypes.long_text import LongText
from tram.filetypes.registry import is_long_text, read_bytes
from tram.filetypes.translate import FileReport, finish
from tram.translation.parts import Translation as Done

SENTENCE = "The house number {} is old, and nobody has lived there since the winter. "


def wrapped(count: int) -> str:
    """Lines of one width without a blank line, in which sentences run over the ends of lines."""
    words = "".join(SENTENCE.format(i) for i in range(count)).split()
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 70:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return "\n".join(lines)


TEXTS: dict[str, Callable[[], str]] = {
    "paragraphs": lambda: "".join(f"{SENTENCE.format(i)}{SENTENCE.format(-i)}\n\n" for i in range(60)),
    "Windows": lambda: "".join(f"- {SENTENCE.format(i)}\r\n \t\r\n\r\n" for i in range(60)),
    "lines": lambda: "".join(f"{i}. Item {i}\n" for i in range(400)),
    "wrapped": lambda: wrapped(90),
    "one line": lambda: "".join(SENTENCE.format(i) for i in range(90)),
    "no sentence": lambda: "word " * 1500,
    "no blank": lambda: "x" * 6000,
    "no word": lambda: "-" * 6000,
    "blank lines": lambda: "\n" * 3000 + "The end" + "\n \n" * 1000,
}


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 500)
    monkeypatch.setattr(module, "READ", 64)


def long_text(content: bytes) -> LongText:
    return LongText("a.txt", io.BytesIO(content), ReadOptions())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("name", TEXTS)
def test_pieces_are_the_file(name: str, encoding: str) -> None:
    content = f"Ä{TEXTS[name]()}".encode(encoding)
    text = long_text(content)
    text.check()
    pieces = list(text.pieces())
    assert len(pieces) > 3
    identity = [[[Translation(s.text, s.tags) for s in d] for d in piece.documents] for piece in pieces]
    assert b"".join(piece.write(rows) for piece, rows in zip(pieces, identity, strict=True)) == content
    assert max(len(piece.write(rows)) for piece, rows in zip(pieces, identity, strict=True)) < 4 * 1200


@pytest.mark.parametrize("name", ["paragraphs", "Windows", "lines", "wrapped", "one line"])
def test_no_sentence_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 1200)
    content = TEXTS[name]().encode()
    whole = [segment.text for segment in read_bytes("a.txt", content).documents[0]]
    pieces = [segment.text for piece in long_text(content).pieces() for segment in piece.documents[0]]
    assert pieces == whole


class Counting(FakeTranslator):
    """Adds to each sentence how many sentences were read before it."""

    def __init__(self) -> None:
        super().__init__(lambda sentence, read: f"{sentence} {len(read)}")

    def detailed(
        self, documents: list[list[str]], *_: object, states: list[FakeState], **__: object
    ) -> Iterator[list[Done]]:
        for row in self.translate_documents(documents, states=states):
            yield [Done(text, 0.0) for text in row]

    def align(self, *_: object) -> list[object]:
        return []


def test_the_memory_of_the_model_continues_from_piece_to_piece() -> None:
    content = TEXTS["paragraphs"]().encode()
    translator = Counting()
    total, written = FileReport(), b""
    pieces = long_text(content).pieces()
    for piece, rows in translate_pieces(translator, pieces, FileSettings()):  # type: ignore[arg-type]
        part, report = finish(piece, rows, sentences=False)
        written += part
        total.add(report)
    numbers = [int(line.split()[-1]) for line in written.decode().splitlines() if line]
    assert numbers == list(range(1, 121, 2)), "the second sentence of each paragraph has read all before it"
    assert (total.documents, total.segments, total.translated, total.sentences) == (1, 120, 120, [])


def test_what_is_not_text_is_refused_with_its_line_before_anything_is_translated() -> None:
    lines = b"".join(b"Line %d.\n" % i for i in range(100))
    with pytest.raises(InputError, match=r"a\.txt:101: is not valid UTF-8; convert"):
        long_text(lines + b"caf\xe9\n" + lines).check()
    with pytest.raises(InputError, match=r"a\.txt:\d+: is not text in UTF-8"):
        long_text(lines + b"a\0b\n").check()


def test_only_long_plain_text_is_read_in_pieces() -> None:
    content = b"The house. " * (module.LONG // 11 + 1)
    assert is_long_text("a.txt", io.BytesIO(content))
    assert is_long_text("standard input", io.BytesIO(content))
    assert is_long_text("a.md", io.BytesIO(content), "text")
    assert not is_long_text("a.txt", io.BytesIO(content[: module.LONG]))
    assert not is_long_text("a.md", io.BytesIO(content))
    assert not is_long_text("a.txt", io.BytesIO(b"<!DOCTYPE html><html>" + content))


class Repeated(io.RawIOBase):
    """A file that repeats a text so many times, and is not in memory."""

    def __init__(self, text: bytes, times: int) -> None:
        self.text, self.size, self.position = text, len(text) * times, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset if whence == 0 else self.size + offset
        return self.position

    def read(self, size: int = -1) -> bytes:
        start = self.position % len(self.text)
        found = self.text[start : start + min(size, self.size - self.position)]
        self.position += len(found)
        return found


def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 4_000)
    monkeypatch.setattr(module, "READ", 4_000)

    def peak(times: int) -> int:
        text = LongText("a.txt", Repeated(TEXTS["paragraphs"]().encode(), times), ReadOptions())  # type: ignore[arg-type]
        tracemalloc.start()
        text.check()
        for piece in text.pieces():
            finish(piece, [[Rendition(s.text.upper()) for s in d] for d in piece.documents], sentences=False)
        _, result = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return result

    peak(2)  # caches are filled
    assert peak(40) < 2 * peak(5), "eight times the text"
