"""Measures of context for `tram evaluate`: which are available, and translations after each kind of context."""

import json
from types import SimpleNamespace

import pytest

from fake_translator import FakeTranslator
from tram.errors import InputError
from tram.evaluation.measures import available, chosen, measure, translations_by_context

TEXT = SimpleNamespace(source_language="en", target_language="de")
SOURCES = [["Do you come?", "Do you go?"], ["Do you sing?", "Do you run?"]]
T, V = "Kommst du?", "Kommen Sie?"


def test_measures_are_available_where_there_are_rules() -> None:
    assert available("en", "de") == ("address", "terms")
    assert available("de", "en") == ("terms",)  # English has one form of address
    assert available("en", "xx") == available("xx", "de") == ()


def test_measures_are_chosen_by_name() -> None:
    assert chosen(None, TEXT) == ("address", "terms")
    assert chosen("none", TEXT) == ()
    assert chosen("terms", TEXT) == ("terms",)
    with pytest.raises(InputError, match="--measures adress: is not a measure; choose from address, terms"):
        chosen("adress", TEXT)
    with pytest.raises(InputError, match="no rules for the language 'xx'"):
        chosen("address", SimpleNamespace(source_language="en", target_language="xx"))


def test_a_model_that_copies_what_it_read_shows_it_with_its_own_context_only() -> None:
    """The first document is familiar, the second polite; the first sentence of each cannot know."""

    def rule(sentence: str, read: list[str]) -> str:
        return T if {"Do you come?"} & {sentence, *read} else V

    translator = FakeTranslator(rule)
    own = list(translator.translate_documents(SOURCES))
    assert own == [[T, T], [V, V]]
    found = translations_by_context(translator, SOURCES, own, ("own", "other", "none"))
    assert found == {"own": own, "other": [[T, V], [V, T]], "none": [[T, V], [V, V]]}
    measured = measure("address", SOURCES, [[T, T], [V, V]], found, TEXT)
    shares = {kind: measured.value[kind]["agreement"]["value"] for kind in found}
    assert shares == {"own": 1.0, "other": 0.5, "none": 0.75}
    json.dumps(measured.value)
    assert "agreement" in measured.table


def test_a_model_without_memory_is_translated_once() -> None:
    translator = FakeTranslator(lambda *_: T, has_context=False)
    own = [[T, T], [T, T]]
    found = translations_by_context(translator, SOURCES, own, ("own", "other", "none"))
    assert found == {"own": own, "other": own, "none": own}
    assert translator.seen == []
