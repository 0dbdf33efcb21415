"""Plain text: the layout stays, and sentences over several lines are translated as one."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tram.filetypes.plain_text import split_document

WRAPPED = """\
  A Title

This paragraph is wrapped by hand after some seventy signs, and Dr.
Miller wrote it. It has a second sentence which goes over the end of
the line. A third.
 \t
1. First item. With two sentences.
2. Second item
- a dash
  that goes on
***
    deeper line

"""


def test_layout_stays_and_wrapped_sentences_are_whole() -> None:
    layout = split_document(WRAPPED, "en")
    assert layout.sentences == [
        "A Title",
        "This paragraph is wrapped by hand after some seventy signs, and Dr. Miller wrote it.",
        "It has a second sentence which goes over the end of the line.",
        "A third.",
        "First item.",
        "With two sentences.",
        "Second item",
        "a dash that goes on",
        "deeper line",
    ]
    numbers = [str(number) for number in range(9)]
    assert layout.join(numbers) == "  0\n\n1 2 3\n \t\n1. 4 5\n2. 6\n- 7\n***\n    8\n\n"


def test_short_lines_are_not_joined() -> None:
    poem = "Roses are red\nViolets are blue\n\n    and that\n    is it\n"
    assert split_document(poem, "en").sentences == ["Roses are red", "Violets are blue", "and that", "is it"]


def test_an_ordinal_at_the_start_of_a_wrapped_line_is_no_list_item() -> None:
    text = "Die Sitzung, von der hier in aller Ausführlichkeit die Rede ist, war am\n3. Mai des Jahres.\n"
    assert len(split_document(text, "de").sentences) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "  \t\r\n", "---\n"])
def test_text_without_words_has_no_sentences(text: str) -> None:
    layout = split_document(text, "en")
    assert layout.sentences == []
    assert layout.join([]) == text


def test_line_ends_of_windows_stay() -> None:
    layout = split_document("One. Two.\r\n\r\nThree.\r\n", "en")
    assert layout.join(["1", "2", "3"]) == "1 2\r\n\r\n3\r\n"


LINES = st.lists(st.text("aB.!? -*1\t\u2028", max_size=70).map(lambda line: line * 2), max_size=8)


@settings(max_examples=200)
@given(LINES, st.sampled_from(["", "\n"]))
def test_joining_the_sentences_restores_the_text_except_for_wrapping(lines: list[str], end: str) -> None:
    text = "\n".join(lines) + end
    layout = split_document(text, "en")
    joined = layout.join(layout.sentences)
    assert joined.split() == text.split()
    blank_lines = re.compile(r"^[^\S\n]*$", re.MULTILINE)
    assert len(blank_lines.findall(joined)) == len(blank_lines.findall(text))


def test_one_translation_for_each_sentence() -> None:
    with pytest.raises(ValueError, match="1 translations for 2 sentences"):
        split_document("One. Two.", "en").join(["eins"])
