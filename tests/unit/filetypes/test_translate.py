"""The core that translates whole files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filetype_samples import SAMPLES
from served import quick_translator
from tram.errors import InputError
from tram.filetypes import Rendition, Segment, by_sentences, translate_document, translate_file
from tram.filetypes.base import is_placeholder, placeholder
from tram.filetypes.batch import files_as_finished, translate_opened
from tram.filetypes.registry import read_bytes
from tram.filetypes.translate import repair


def upper(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


def test_a_file_is_translated_into_another_one(tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "a.de.md"
    source.write_text("# Title\n\nSee https://a.b and `code`.\n", encoding="utf-8")
    report = translate_file(source, output, by_sentences(upper))
    assert output.read_text(encoding="utf-8") == "# TITLE\n\nSEE https://a.b AND `code`.\n"
    assert (report.documents, report.segments, report.translated, report.doubtful) == (1, 2, 2, 0)


def test_a_finished_file_does_not_wait_for_one_given_earlier(prepared: Path) -> None:
    translator = quick_translator(prepared)
    texts = ["The old miller waits.\n\n" * 5, "", "Tea!\n\nA small fox sings.\n", "Tea!"]
    files = [read_bytes("a.txt", text.encode()) for text in texts]
    finished = list(files_as_finished(translator, files))
    assert [files.index(file) for file, _ in finished] == [1, 3, 2, 0]
    in_order = list(translate_opened(translator, files))
    assert [file for file, _ in in_order] == files
    assert {id(file): rows for file, rows in finished} == {id(file): rows for file, rows in in_order}
    files[1].documents = []  # a file that has no document at all comes back, too
    assert [file for file, _ in translate_opened(translator, files)] == files
    (last,) = translate_opened(translator, files[3:])
    assert [row and row.text for row in last[1][0]] == [row and row.text for row in in_order[3][1][0]]


def test_the_original_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    source.write_text("Text.", encoding="utf-8")
    (tmp_path / "link.md").symlink_to(source)
    for output in (source, tmp_path / "link.md", tmp_path / "x" / ".." / "a.md"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(InputError, match="is the original"):
            translate_file(source, output, by_sentences(upper))
    assert source.read_text(encoding="utf-8") == "Text."


def test_a_failed_translation_leaves_no_file(tmp_path: Path) -> None:
    source, output = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("Text.", encoding="utf-8")

    def fail(texts: list[str]) -> list[str]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        translate_file(source, output, by_sentences(fail))
    assert not output.exists()


def test_existing_translations_reach_the_function_as_context_in_order() -> None:
    seen: list[tuple[str, str | None]] = []

    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        seen.extend((s.readable, s.target) for d in documents for s in d)
        return [[Rendition(s.text) if s.translate else None for s in d] for d in documents]

    _, report = translate_document(read_bytes("x.po", SAMPLES["po"]().content), translate)
    assert seen[0] == ("Open the file %s.", None)
    assert seen[1] == ("Already done.", "Schon fertig.")
    assert report.kept == 2


def test_what_a_model_must_not_write_never_reaches_a_file() -> None:
    document = read_bytes("x.html", b"<meta charset=utf-8><p>One <code>x</code> two</p>")
    wrong = " \0a\nb\u2028c\x07 \U0010ff03\U0010f005 "
    written, report = translate_document(document, lambda _: [[Rendition(wrong)]])
    assert written == b"<meta charset=utf-8><p>a b <code>x</code> c</p>"
    assert (report.repaired, report.doubtful) == (1, 1)


def test_segments_with_tags_but_no_alignment_are_counted() -> None:
    document = read_bytes("x.html", b"<p>One <b>two</b></p><p>Three</p>")
    _, report = translate_document(document, by_sentences(upper))
    assert report.placed_by_position == 1


texts = st.lists(st.sampled_from(["a", "bb", *map(placeholder, range(4))]), max_size=8).map(" ".join)


@given(texts, texts)
def test_a_repaired_translation_has_every_placeholder_once(source: str, target: str) -> None:
    source = "".join(dict.fromkeys(source)) if any(map(is_placeholder, source)) else source
    result, is_changed = repair(source, target)
    assert sorted(filter(is_placeholder, result)) == sorted(filter(is_placeholder, source))
    assert [w for w in result.split() if w.isalpha()] == [w for w in target.split() if w.isalpha()]
    assert is_changed == (sorted(filter(is_placeholder, target)) != sorted(filter(is_placeholder, source)))
