"""Consistency of terms, on a corpus small enough to count."""

from tram.evaluation.language import load_language
from tram.evaluation.terms import measure_terms, term_variants, terms_of, terms_table, variant_used

german, english = load_language("de"), load_language("en")
BUTTON = "Press the button."
KNOPF, TASTE, NEITHER = "Drücken Sie den Knopf.", "Drücken Sie die Taste.", "Drücken Sie."
# Sentences about other things, so that what they share is no association.
OTHERS = [("The weather is nice.", "Das Wetter ist schön."), ("We saw a house.", "Wir sahen ein Haus.")] * 6


def corpus(*documents: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    """Return documents about buttons with these reference translations, and one about other things."""
    sources = [[BUTTON] * len(document) for document in documents]
    return [*sources, [a for a, _ in OTHERS]], [*documents, [b for _, b in OTHERS]]


def test_terms_are_content_words_and_pairs_of_them_without_endings() -> None:
    assert terms_of("The template managers have a list.", english) == {
        "template",
        "manager",
        "template manager",
        "list",
    }


def test_variants_replace_each_other() -> None:
    sources, references = corpus([KNOPF, KNOPF, TASTE], [TASTE, KNOPF])
    assert set(term_variants(sources, references, english, german)["button"]) == {"knopf", "tast"}


def test_a_companion_is_no_variant() -> None:
    both = "Drücken Sie den Knopf an der Wand."
    sources, references = corpus([both, both, KNOPF], [TASTE, TASTE])
    variants = term_variants(sources, references, english, german)["button"]
    assert set(variants) == {"knopf", "tast"}
    assert variant_used("button", {"wand"}, {"button": variants}) is None


def test_the_share_of_equal_pairs_weighs_by_occurrences() -> None:
    sources, references = corpus([KNOPF, KNOPF, TASTE], [TASTE, TASTE])
    found = measure_terms(sources, references, {"own": references}, english, german)
    # "Press" is a content word as well and comes with the same nouns: both terms have the same share.
    assert found["reference"]["consistency"].value == (3 * (1 / 3) + 2) / 5
    assert found["own"] == found["reference"]


def test_translations_are_judged_by_the_variants_of_the_references() -> None:
    sources, references = corpus([KNOPF, KNOPF, TASTE], [TASTE, TASTE])
    translations = [[KNOPF, KNOPF, KNOPF], [KNOPF, NEITHER], references[-1]]
    found = measure_terms(sources, references, {"own": translations}, english, german)["own"]
    assert found["consistency"].value == 1
    assert found["terms"] == 4  # two in each document
    assert found["counted"] == 2 * 3  # the second document has one occurrence left, and no pair


def test_terms_with_one_translation_are_left_out() -> None:
    sources, references = corpus([KNOPF, KNOPF], [KNOPF, KNOPF])
    found = measure_terms(sources, references, {}, english, german)["reference"]
    assert found["terms"] == 0
    assert found["consistency"].value is None


def test_the_table_has_the_reference_beside_the_translations() -> None:
    sources, references = corpus([KNOPF, KNOPF, TASTE], [TASTE, TASTE])
    table = terms_table(measure_terms(sources, references, {"own": references}, english, german))
    assert "reference" in table
    assert "60.0" in table
