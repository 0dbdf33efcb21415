"""What a model is given of a sentence, and what comes back."""

import pytest

from tram.text.verbatim import VerbatimRules
from tram.translation.parts import Translation
from tram.translation.spanned import SpannedDocument


def translated(sentence: str, new: dict[str, str]) -> str:
    document = SpannedDocument([sentence], VerbatimRules(), sentinels=False)
    (result,) = document.join([Translation(new[text], 0.0) for text in document.texts])
    return result.text


@pytest.mark.parametrize(
    ("sentence", "given", "answer", "expected"),
    [
        ("THE OLD HOUSE", "The old house", "Das alte Haus", "DAS ALTE HAUS"),
        ("THE STREET AND I", "The street and I", "Die Straße und ich", "DIE STRASSE UND ICH"),
        ("DELETE %s NOW!", "Delete X1 now!", "X1 jetzt löschen!", "%s JETZT LÖSCHEN!"),
        ("SEE https://a.b/c NOW", "See X1 now", "Siehe jetzt X1", "SIEHE JETZT https://a.b/c"),
        ("NASA", "NASA", "NASA", "NASA"),
        ("(SIGHS)", "(Sighs)", "(Seufzer)", "(SEUFZER)"),
        ("A NASA probe", "A NASA probe", "Eine NASA-Sonde", "Eine NASA-Sonde"),
    ],
)
def test_words_in_capitals_are_translated_in_small_letters(
    sentence: str, given: str, answer: str, expected: str
) -> None:
    assert translated(sentence, {given: answer}) == expected


def test_a_tag_of_a_template_is_no_part_of_a_compound() -> None:
    assert translated("You have {% n %} messages.", {"You have X1 messages.": "Sie haben X1-Nachrichten."}) == (
        "Sie haben {% n %} Nachrichten."
    )
