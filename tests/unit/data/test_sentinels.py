"""Training pairs for the reserved characters."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.data.corpus import ParallelDocument
from tram.data.sentinels import augmented, copied_spans, joined, masked, with_sentinels
from tram.text.special_ids import MASK, SENTINELS, SEPARATOR

WORDS = "the Das file.txt https://a.org/x 12.5 --width 2024 Linux Berlin foo_bar ~/.config/app a b"
words = st.sampled_from(WORDS.split(" "))
sentences = st.lists(words, min_size=1, max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("source", "target", "spans"),
    [
        ("Open notes.txt with --width=3.", "Öffne notes.txt mit --width=3.", ["notes.txt", "--width=3"]),
        ("See https://a.org/x, please.", "Siehe https://a.org/x, bitte.", ["https://a.org/x"]),
        ("In 1999 it was 12.5.", "1999 war es 12.5.", ["1999", "12.5"]),
        ("In 1999 and 1999.", "1999 und 1999.", []),  # twice: which one is which?
        ("It costs 12.50 today.", "Heute kostet es 12,50.", []),
        ("We met Weber in Berlin.", "Wir trafen Weber in Berlin.", ["Weber", "Berlin"]),
        ("Berlin is large.", "Berlin ist groß.", []),  # at the start of a sentence any word is written so
        ("The set has 15 items.", "Das Set hat 150 Teile.", []),
    ],
)
def test_spans_that_occur_once_on_both_sides(source: str, target: str, spans: list[str]) -> None:
    assert [source[slice(*span)] for span in copied_spans(source, target)] == spans


@given(sentences, sentences, st.integers(0, 1000))
def test_putting_the_spans_back_restores_both_sides(source: str, target: str, seed: int) -> None:
    found = with_sentinels((source, target), Random(seed))
    if found is None:
        return
    used = [character for character in found[0] if character in SENTINELS]
    assert used == sorted(used), "in the order of the source"
    assert sorted(character for character in found[1] if character in SENTINELS) == used
    first, *rest = SENTINELS.index(used[0]), *map(SENTINELS.index, used)
    assert rest == list(range(first, first + len(used))), "neighbours"
    spans = [source[slice(*span)] for span in copied_spans(source, target)]
    sides = list(found)
    for character in used:
        at = sides[0].index(character)
        content = next(span for span in spans if sides[0][:at] + span in source[: at + len(span)])
        sides = [side.replace(character, content) for side in sides]
    assert sides == [source, target]


def test_joined_pairs_have_a_separator_on_both_sides_and_are_not_too_long() -> None:
    assert joined(("A.", "B."), ("C.", "D.")) == (f"A. {SEPARATOR} C.", f"B. {SEPARATOR} D.")
    assert joined(("A " * 150, "B."), ("C " * 150, "D.")) is None


def test_one_source_word_is_masked() -> None:
    assert masked(("The old miller waits", "x"), Random(1)) in [
        (f"The old {MASK} waits", "x"),
        (f"The old miller {MASK}", "x"),
    ]
    assert masked(("An old man", "x"), Random(1)) is None


def test_a_document_keeps_its_pairs_and_gets_more_behind_them() -> None:
    pairs = [(f"The number {n}77 is here.", f"Die Nummer {n}77 ist hier.") for n in range(1, 2000)]
    document = ParallelDocument([source for source, _ in pairs], [target for _, target in pairs])
    found = augmented(document, Random(3))
    assert found.source[1999:]
    same = sum(a == b for a, b in zip(found.source, document.source, strict=False))
    assert 0.03 < 1 - same / 1999 < 0.05
    assert augmented(document, Random(3)) == found
