"""Alignments of white-space words survive spans that become several words."""

from hypothesis import given
from hypothesis import strategies as st

from tram.text.words import filled_alignment, pharaoh, words_by_blanks

WORDS = st.lists(st.sampled_from(["one", "two,", "A", "(A)", "B."]), min_size=1, max_size=6)
CONTENTS = {"A": "5 kg of x", "B": "y"}


def filled(text: str) -> str:
    return "".join(CONTENTS.get(character, character) for character in text)


def test_words_of_a_span_are_linked_in_order() -> None:
    assert filled_alignment([(0, 1), (1, 0)], "A one", {"A": "5 kg"}, "eins A", {"A": "5 kg"}) == [
        (0, 1),
        (1, 2),
        (2, 0),
    ]
    assert filled_alignment([(0, 0)], "A", {"A": "memory cell"}, "A", {"A": "Zelle"}) == [(0, 0)]


def test_pharaoh_lines() -> None:
    assert pharaoh([(0, 0), (1, 2)]) == "0-0 1-2"
    assert pharaoh([]) == ""


@given(WORDS, WORDS, st.data())
def test_links_stay_within_both_sentences_and_reach_every_word(
    source: list[str], target: list[str], data: st.DataObject
) -> None:
    links = [(data.draw(st.integers(0, len(source) - 1)), word) for word in range(len(target))]
    sides = " ".join(source), " ".join(target)
    found = filled_alignment(links, sides[0], CONTENTS, sides[1], CONTENTS)
    sizes = [len(words_by_blanks(filled(side))) for side in sides]
    assert [word for _, word in found] == list(range(sizes[1]))
    assert all(0 <= word < sizes[0] for word, _ in found)
