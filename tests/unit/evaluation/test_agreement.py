"""The agreement probe: the model's own article decides which pronoun is right."""

import json

import pytest

from fake_translator import FakeTranslator
from tram.evaluation.agreement import (
    AgreementItem,
    agreement_json,
    agreement_summary,
    agreement_table,
    judge_agreement,
    judged,
)
from tram.evaluation.language import load_language

german = load_language("de")
GENDERS = {"parcel": "n", "letter": "m", "lamp": "f"}
ARTICLES = {"m": "Der", "f": "Die", "n": "Das"}
PRONOUNS = {"m": "Er", "f": "Sie", "n": "Es"}


def item(noun: str, between: int = 0) -> AgreementItem:
    opening = f"The {noun} is heavy."
    return AgreementItem(source_context=(opening, *["I see."] * between), source="It is here.", antecedent=noun)


def remembers(sentence: str, read: list[str]) -> str:
    """Translate as a perfect model would: "it" has the gender of the last noun, the neuter without one."""
    if sentence.startswith("The"):
        noun = sentence.split()[1]
        return f"{ARTICLES[GENDERS[noun]]} {noun.capitalize()} ist schwer."
    nouns = [GENDERS[each.split()[1]] for each in read if each.startswith("The")]
    return f"{PRONOUNS[nouns[-1] if nouns else 'n']} ist hier."


def test_a_model_that_remembers_agrees_with_its_own_context_only() -> None:
    items = [item(noun, between) for between in (0, 2) for noun in GENDERS]
    summary = agreement_summary(judge_agreement(FakeTranslator(remembers), items))
    assert list(summary) == ["1", "3"]
    for cells in summary.values():
        assert cells["own"]["shares"]["mean"].value == 1
        assert cells["other"]["shares"]["mean"].value == 0  # three genders, and never its own
        assert cells["none"]["shares"]["mean"].value == 1 / 3
        assert cells["none"]["shares"]["n"].value == 1
        assert cells["items"] == cells["own"]["judged"] == 3


def test_the_article_of_the_noun_counts_also_behind_other_text() -> None:
    before = ("The lamp is heavy.", "The letter is heavy.")
    items = [
        AgreementItem(
            source_context=(*before, f"The {noun} is heavy."), source="It is here.", antecedent=noun, before=2
        )
        for noun in GENDERS
    ]
    cells = agreement_summary(judge_agreement(FakeTranslator(remembers), items))["1"]
    assert cells["own"]["shares"]["mean"].value == 1
    assert cells["articles"] == {"n": 1, "m": 1, "f": 1}


def test_an_item_has_a_sentence_for_its_noun() -> None:
    with pytest.raises(ValueError, match="below the 1 sentences"):
        AgreementItem(source_context=("The lamp is heavy.",), source="It is here.", antecedent="lamp", before=1)


def test_the_mean_over_genders_is_not_the_mean_over_items() -> None:
    items = [item("letter")] * 8 + [item("lamp"), item("parcel")]
    results = judge_agreement(FakeTranslator(lambda s, r: "Er ist hier." if s[0] == "I" else remembers(s, r)), items)
    shares = agreement_summary(results)["1"]["own"]["shares"]
    assert (shares["m"].value, shares["f"].value, shares["n"].value) == (1, 0, 0)
    assert shares["mean"].value == 1 / 3


def test_what_shows_no_gender_is_counted_and_not_judged() -> None:
    def result(opening: str, last: str) -> bool | None:
        return judged(german, item("parcel"), opening, {"own": last}).agrees("own")

    assert result("Das Paket ist schwer.", "Es ist da.") is True
    assert result("Das Paket ist schwer.", "Sie ist da.") is False
    assert result("Ein Paket ist schwer.", "Es ist da.") is None
    assert result("Schwer ist das Paket.", "Es ist da.") is None
    assert result("Das Paket ist schwer.", "Das ist da.") is None
    results = [judged(german, item("parcel"), opening, {"own": "Es ist da."}) for opening in ("Das Paket.", "Paket.")]
    cells = agreement_summary(results)["1"]
    assert (cells["items"], cells["own"]["judged"], cells["articles"]["?"]) == (2, 1, 1)


def test_the_judge_goes_by_the_article_that_the_model_chose() -> None:
    """A parcel is a Paket (n) or a Sendung (f): either is right if the pronoun agrees."""
    for opening, last in (("Das Paket ist da.", "Es ist da."), ("Die Sendung ist da.", "Sie ist da.")):
        assert judged(german, item("parcel"), opening, {"own": last}).agrees("own")


def test_table_and_json_have_all_of_it() -> None:
    results = judge_agreement(FakeTranslator(remembers), [item(noun) for noun in GENDERS])
    table = agreement_table(results)
    assert "own" in table
    assert "mean" in table
    assert "100.0 [100.0, 100.0]" in table
    value = json.loads(json.dumps(agreement_json(results)))
    assert value["by_distance"]["1"]["own"]["shares"]["mean"]["value"] == 1
    assert value["items"][0]["right"] == {"own": True, "other": False, "none": True}


def test_only_the_contexts_asked_for_are_translated() -> None:
    results = judge_agreement(FakeTranslator(remembers), [item("lamp"), item("parcel")], ("own",))
    assert list(results[0].translations) == ["own"]
