"""Genders of nouns from the articles before them."""

import pytest

from tram.evaluation.language import Gender, load_language
from tram.evaluation.noun_genders import NounGenders

TEXT = [
    "Der Schlüssel liegt neben dem Fenster.",
    "Ich nehme den Schlüssel und öffne das Fenster.",
    "Ein kleiner Schlüssel passt in ein altes Fenster.",
    "Die Datei ist groß, und eine Datei ist klein.",
    "In der Datei stehen die Dateien.",
    "Ich lese die Dateien und den Inhalt der Dateien.",
    "Der See ist tief, die See ist rau.",
    "Die Hose hängt dort.",
]


@pytest.mark.parametrize(
    ("noun", "gender"),
    [
        ("Schlüssel", "m"),
        ("Fenster", "n"),
        ("Datei", "f"),
        ("Dateien", None),  # a plural
        ("See", None),  # both
        ("Hose", None),  # seen once
        ("Hauptfenster", "n"),  # a compound
        ("Quelltextdatei", "f"),
        ("Wort", None),
    ],
)
def test_what_the_articles_say_together(noun: str, gender: str | None) -> None:
    assert NounGenders(load_language("de")).learn(TEXT)[noun] == gender


@pytest.mark.parametrize(
    ("noun", "gender", "possible"),
    [
        ("Schlüssel", "m", True),
        ("Schlüssel", "n", False),
        ("Dateien", "n", False),  # its articles are those of a plural, and of a feminine
        ("Dateien", "f", True),
        ("Wort", "m", True),  # nothing is known
    ],
)
def test_a_noun_may_have_each_gender_that_its_articles_do_not_exclude(
    noun: str, gender: Gender, possible: bool
) -> None:
    assert NounGenders(load_language("de")).learn(TEXT).may_be(noun, {gender}) is possible


def test_more_text_changes_what_is_known() -> None:
    genders = NounGenders(load_language("de")).learn(TEXT)
    assert genders["Hose"] is None
    assert genders.learn(["Eine Hose, an der Hose, einer Hose."])["Hose"] == "f"
