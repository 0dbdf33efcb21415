"""The split between training and probes never changes."""

from hypothesis import given
from hypothesis import strategies as st

from tram.text.held_out import SHARE, held_out_noun, held_out_sentence


def test_the_split_is_what_it_was_when_the_shipped_model_was_trained() -> None:
    nouns = ["Paket", "Schlüssel", "Lampe", "Brief", "Fenster", "Kommission", "Tür", "Brücke", "Bericht", "Haus"]
    sentences = [
        "It is on the stairs.",
        "It was expensive.",
        "We need it.",
        "It works.",
        "It is broken.",
        "It belongs to us.",
    ]
    assert [noun for noun in nouns if held_out_noun(noun)] == ["Paket", "Schlüssel", "Fenster"]
    assert [sentence for sentence in sentences if held_out_sentence(sentence)] == []


def test_about_a_fifth_is_held_out() -> None:
    nouns = sum(held_out_noun(f"Ding{number}") for number in range(5000)) / 5000
    sentences = sum(held_out_sentence(f"It has {number} parts.") for number in range(5000)) / 5000
    assert abs(nouns - SHARE) < 0.03
    assert abs(sentences - SHARE) < 0.03


@given(st.text(min_size=1))
def test_case_and_punctuation_do_not_matter(text: str) -> None:
    lowered = text.lower()
    assert held_out_noun(text) == held_out_noun(lowered)
    assert held_out_sentence(text) == held_out_sentence(f"  {lowered} !")


@given(st.text(min_size=1))
def test_the_halves_part_what_is_held_out(text: str) -> None:
    for held_out in (held_out_noun, held_out_sentence):
        assert held_out(text, half=1) + held_out(text, half=2) == held_out(text)
