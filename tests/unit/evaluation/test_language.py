"""Language rules: genders, subjects and forms of German, and files that are refused."""

from pathlib import Path

import pytest

from tram.errors import InputError
from tram.evaluation import language as module
from tram.evaluation.language import Subject, find_language, load_language

german, english = load_language("de"), load_language("en")


@pytest.mark.parametrize(
    ("sentence", "subject"),
    [
        ("Der kleine Schlüssel ist weg.", Subject("Schlüssel", "m")),
        ("Die Tür fehlt.", Subject("Tür", "f")),
        ("Das Paket ist schwer.", Subject("Paket", "n")),
        ("„Eine Lampe brennt.“", Subject("Lampe", "f")),
        ("Ein neues Auto kam.", Subject("Auto", "n")),
        ("Ein neuer Wagen kam.", Subject("Wagen", "m")),
        ("Unser Garten ist schön.", Subject("Garten", None)),  # m or n
        ("Ein Paket kam.", Subject("Paket", None)),
        ("Die Schlüssel sind weg.", Subject("Schlüssel", None)),  # a plural
        ("Das ist Peter.", None),
        ("Paris ist schön.", None),
        ("Auf dem Tisch liegt der Brief.", None),
        ("Der", None),
        ("", None),
    ],
)
def test_the_noun_phrase_that_opens_a_sentence(sentence: str, subject: Subject | None) -> None:
    assert german.subject(sentence) == subject


@pytest.mark.parametrize(
    ("sentence", "gender"),
    [
        ("Er liegt auf der Treppe.", "m"),
        ("Sie liegt auf der Treppe.", "f"),
        ("Es liegt auf der Treppe.", "n"),
        ("Heute liegt sie dort.", "f"),
        ("Wir haben ihn gesehen.", "m"),
        ("Dort liegt er, und sie schläft.", "m"),
        ("Das sehen Sie dort.", None),  # the polite form
        ("Der Brief liegt dort.", None),
        ("Ich gebe ihm recht.", None),  # m or n
        ("", None),
    ],
)
def test_the_first_pronoun_shows_its_gender(sentence: str, gender: str | None) -> None:
    assert german.first_pronoun(sentence) == gender


@pytest.mark.parametrize(
    ("one", "other"), [("Datei", "Dateien"), ("System", "Systeme"), ("Baum", "Bäumen"), ("Nutzer", "Nutzers")]
)
def test_inflected_forms_have_one_stem(one: str, other: str) -> None:
    assert german.stem_of(one) == german.stem_of(other)


@pytest.mark.parametrize("pair", [("Datei", "Daten"), ("Link", "Liste"), ("Nutzer", "Netz")])
def test_other_words_have_other_stems(pair: tuple[str, str]) -> None:
    assert german.stem_of(pair[0]) != german.stem_of(pair[1])


@pytest.mark.parametrize(
    "sentence",
    [
        "It is important that we go.",
        "It was easy to see.",
        "It has not been difficult to find it.",
        "It rained.",
        "It seems fine.",
        "It takes time to learn.",
        "It is late.",
    ],
)
def test_expletive_it_is_known(sentence: str) -> None:
    assert english.expletive is not None
    assert english.expletive.search(sentence)


@pytest.mark.parametrize("sentence", ["It contains spaces.", "It is on the stairs.", "We sold it.", "It was adopted."])
def test_it_that_is_a_thing_is_not_expletive(sentence: str) -> None:
    assert english.expletive is not None
    assert not english.expletive.search(sentence)


def test_an_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"no rules for the language 'xx', only for de, en"):
        load_language("xx")
    assert find_language("xx") is None


def test_a_section_that_is_missing_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"en\.yaml: has no 'address'"):
        english.need("address")
    with pytest.raises(InputError, match="has no words 'colours'"):
        english.group("colours")


@pytest.mark.parametrize("text", ["name: [", "name: X\nadress: {}", "- a", "name: X\nnoun: '['"])
def test_a_damaged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "zz.yaml").write_text(text)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(InputError, match=r"zz\.yaml: is not a file of language rules"):
        load_language("zz")
