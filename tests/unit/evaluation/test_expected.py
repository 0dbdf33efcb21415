"""Suites with an expected word: whole words, rules, and forms of address collapsed."""

import json

import pytest

from fake_translator import FakeTranslator
from tram.evaluation.expected import ExpectedItem, expected_json, expected_summary, expected_table, judge_expected


def item(expected: str, rule: str | None = None, context: tuple[str, ...] = ("a",)) -> ExpectedItem:
    return ExpectedItem(source_context=context, source="I see you.", expected=expected, rule=rule)


@pytest.mark.parametrize(
    ("expected", "translation", "right"),
    [
        ("dir", "Ich helfe dir.", True),
        ("dir", "Dir helfe ich.", True),
        ("dir", "Die direkte Hilfe.", False),
        ("weiß", "Sie WEISS es, ich Weiß es.", True),
        ("du", "Du, komm!", True),
        ("du", "", False),
        ("a.b", "axb", False),
        (" dir ", "Ich helfe dir.", True),
        ("fu\u0308r", "Für dich.", True),
        ("für", "Fu\u0308r dich.", True),
    ],
)
def test_the_expected_word_must_be_there_as_a_whole_word(expected: str, translation: str, right: bool) -> None:
    assert item(expected).right(translation) is right


def test_shares_by_rule_and_context() -> None:
    items = [item("dich", "T", ("familiar",)), item("sie", "V", ("polite",)), item("dich", "T", ("familiar",))]

    def rule(_: str, read: list[str]) -> str:
        return "Ich sehe dich." if read == ["familiar"] else "Ich sehe Sie."

    summary = expected_summary(judge_expected(FakeTranslator(rule), items))
    assert summary["all"]["items"] == {"count": 3}
    assert summary["all"]["own"]["share"].value == 1
    assert summary["all"]["other"]["share"].value == 0
    assert summary["T"]["none"]["share"].value == 0
    assert summary["V"]["none"]["share"].value == 1
    assert summary["form"]["none"]["share"].value == 1 / 3
    assert summary["form, balanced"]["none"]["share"].value == 1 / 2


def test_another_context_may_be_that_of_another_rule() -> None:
    """Within a rule all contexts decide for the same word: the control would not be one."""
    items = [item("dich", "T", (f"familiar {n}",)) for n in range(20)] + [
        item("sie", "V", (f"polite {n}",)) for n in range(20)
    ]
    translator = FakeTranslator(lambda _, read: "Ich sehe dich." if "familiar" in " ".join(read) else "Ich sehe Sie.")
    summary = expected_summary(judge_expected(translator, items))
    assert summary["all"]["own"]["share"].value == 1
    assert 0.2 < summary["all"]["other"]["share"].value < 0.8


def test_collapsed_forms_take_any_pronoun_of_the_form() -> None:
    answers = iter(["Ich helfe dir.", "Ich helfe Ihnen.", "Ich helfe gern."])
    items = [item("dich", context=(name,)) for name in "abc"]
    translator = FakeTranslator(lambda sentence, _: next(answers) if sentence == "I see you." else "x")
    summary = expected_summary(judge_expected(translator, items, ("own",)))
    assert summary["all"]["own"]["share"].value == 0
    assert summary["form"]["own"]["share"].value == 1 / 3
    assert summary["form if shown"]["own"]["share"].value == 1 / 2


def test_words_that_are_no_pronouns_of_address_have_no_forms() -> None:
    summary = expected_summary(judge_expected(FakeTranslator(lambda *_: "Er weiß es."), [item("weiß")], ("own",)))
    assert list(summary) == ["all"]
    assert summary["all"]["own"]["share"].value == 1


def test_a_language_without_rules_is_judged_by_the_word_alone() -> None:
    translator = FakeTranslator(lambda *_: "Je te vois.", languages=("en", "fr"))
    assert list(expected_summary(judge_expected(translator, [item("te")], ("own",)))) == ["all"]


def test_table_and_json() -> None:
    results = judge_expected(FakeTranslator(lambda *_: "Ich sehe dich."), [item("dich", "ACC"), item("dir", "DAT")])
    assert "form, balanced" in expected_table(results)
    value = json.loads(json.dumps(expected_json(results)))
    assert value["shares"]["all"]["own"]["share"]["value"] == 0.5
    assert value["items"][0]["right"]["own"] is True
    assert value["items"][0]["forms"]["own"] == value["items"][0]["expected_form"] == "T"
