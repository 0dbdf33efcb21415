"""Form of address: the form of a sentence, and shares computed by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.evaluation.address import address_table, form_of, measure_address
from tram.evaluation.language import load_language

german, english = load_language("de"), load_language("en")


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("Kommst du?", "T"),
        ("Ich sehe dich.", "T"),
        ("Das ist dein Haus.", "T"),
        ("DU!", "T"),
        ("Ich liebe euch.", "T"),
        ("Habt ihr Hunger?", "T"),
        ("Ihr seid spät.", "T"),
        ("Seht Ihr, ich gehe.", None),  # an old plural of politeness
        ("Kommen Sie?", "V"),
        ("Ich danke Ihnen.", "V"),
        ("Ist das Ihr Haus?", "V"),
        ("Ist das Ihr neues Haus?", "V"),
        ("Nehmen Sie Ihre Tasche.", "V"),
        ("Nehmen Sie deine Tasche.", None),  # both
        ("Er kommt.", None),
        ("Sie kommt.", None),
        ("Sie kommen.", None),  # they, or you
        ("Gut. Sie kommen.", None),
        ("Deinstallieren ist leicht.", None),
        ("Euer Ehren, ich bin bereit.", None),
        ("", None),
    ],
)
def test_the_form_of_a_sentence_without_its_source(sentence: str, form: str | None) -> None:
    assert form_of(sentence, german) == form


@pytest.mark.parametrize(
    ("source", "sentence", "form"),
    [
        ("You are waiting.", "Sie warten.", "V"),
        ("They are waiting.", "Sie warten.", None),
        ("They know you.", "Sie kennen das.", None),
        ("Your house is big.", "Ihr Haus ist groß.", "V"),
        ("Her house is big.", "Ihr Haus ist groß.", None),
        ("I hope you come.", "Ich hoffe, dass ihr kommt.", "T"),
        ("I hope she trusts her.", "Ich hoffe, dass ihr das hilft.", None),
        ("Well, you know.", "„Sie wissen es.“", "V"),
    ],
)
def test_the_source_decides_what_a_first_word_means(source: str, sentence: str, form: str | None) -> None:
    assert form_of(sentence, german, source, english) == form


YOU = "Do you come?"
T, V, NEITHER = "Kommst du?", "Kommen Sie?", "Kommt er?"


def measured(references: list[list[str]], translations: list[list[str]]) -> dict[str, Any]:
    sources = [[YOU] * len(document) for document in references]
    return measure_address(sources, references, {"own": translations}, english, german)


def test_agreement_counts_sentences_that_are_marked_on_both_sides() -> None:
    found = measured([[T, T, V, NEITHER], [V, V, V]], [[T, V, V, V], [V, V, NEITHER]])["own"]
    assert found["both_marked"] == 5
    assert found["agreement"].value == 4 / 5
    assert found["recall"]["T"].value == 1 / 2
    assert found["recall"]["V"].value == 1
    assert found["balanced"].value == 3 / 4
    assert found["marked"] == {"T": 1, "V": 5}


def test_the_first_choice_of_a_document_is_counted_apart() -> None:
    found = measured([[NEITHER, T, T, V], [V, V]], [[T, V, T, V], [V, NEITHER]])["own"]
    assert found["first"].value == 1 / 2  # the second sentence of the first document, the first of the second
    assert found["later"].value == 1


def test_a_system_with_a_single_form_scores_one_half_when_balanced() -> None:
    found = measured([[T], [V], [V], [V]], [[V], [V], [V], [V]])["own"]
    assert found["agreement"].value == 3 / 4
    assert found["balanced"].value == 1 / 2


def test_consistency_is_the_share_of_a_documents_most_frequent_form() -> None:
    found = measured([[T] * 4, [T] * 2, [T]], [[T, T, V, NEITHER], [V, V], [V]])
    assert found["own"]["consistency"].value == (2 + 2) / (3 + 2)  # the third document has only one
    assert found["reference"]["consistency"].value == 1


def test_the_reference_has_its_own_numbers() -> None:
    reference = measured([[T, T, V, NEITHER, V], [V, V]], [[T] * 5, [V] * 2])["reference"]
    assert reference["marked"] == {"T": 2, "V": 4}
    assert reference["majority"].value == 4 / 6
    assert reference["previous"].value == 3 / 4  # T T, V V, V V; not T V
    assert reference["sentences"] == 7


def test_documents_without_any_form_have_no_shares() -> None:
    found = measured([[NEITHER], [NEITHER]], [[NEITHER], [NEITHER]])
    assert found["own"]["agreement"].value is None
    assert found["own"]["consistency"].value is None
    assert "-" in address_table(found)


def test_the_table_names_forms_and_contexts() -> None:
    table = address_table(measured([[T, V], [V, V]], [[T, V], [V, T]]))
    assert "own" in table
    assert "1 T, 3 V of 4 sentences" in table
    assert "75.0" in table


@given(st.lists(st.lists(st.sampled_from([T, V, NEITHER]), min_size=1, max_size=5), min_size=1, max_size=6))
def test_a_perfect_translation_has_nothing_wrong(documents: list[list[str]]) -> None:
    found = measured(documents, documents)["own"]
    assert found["agreement"].value in {None, 1.0}
    assert found["balanced"].value in {None, 1.0}
