"""Doubtful sentences of a corpus: rare words, and pairs of words that no other sentence has."""

from pathlib import Path

import pytest

from tram.data.corpus import ParallelDocument, write_parallel
from tram.evaluation.language import Gender
from tram.splice import spelling as module
from tram.splice.anaphors import Anaphor, Slot
from tram.splice.antecedents import Antecedent
from tram.splice.bystanders import Bystanders
from tram.splice.genders import NounCounts
from tram.splice.mining import read_pairs
from tram.splice.pronouns import LEAST_ANAPHORS, PronounDocuments, PronounSentences
from tram.splice.rules import load_rules
from tram.splice.spelling import Spelling
from tram.splice.words import Pair

SENTENCES = ["Wie konntet ihr entkommen?", "Wie konntet ihr gehen?", "Wir gehen.", "Wollt ihr entkommen?"]


@pytest.fixture
def spelling(monkeypatch: pytest.MonkeyPatch) -> Spelling:
    """A corpus that counts as large, in which all of SENTENCES occur twice."""
    monkeypatch.setattr(module, "LEAST_VOCABULARY", 1)
    counted = Spelling()
    for sentence in 2 * SENTENCES:
        counted.add(sentence)
    return counted


def test_a_pair_of_words_needs_another_sentence_as_evidence(spelling: Spelling) -> None:
    assert not spelling.has_lone_pair("Wie konntet ihr entkommen?")
    assert spelling.has_lone_pair("Wir konntet ihr entkommen?")  # no sentence has "wir konntet"
    assert spelling.has_lone_pair("Wie konntet Ihr entkommen?")  # capitals count, but for the first word
    assert spelling.has_lone_pair("Wir gehen.")  # a sentence that occurs twice is no evidence for itself


def test_words_are_counted_in_repeated_sentences_too(spelling: Spelling) -> None:
    assert not spelling.has_rare_word("konntet")
    assert spelling.has_rare_word("konntest")


def test_pairs_with_a_noun_can_be_left_aside(spelling: Spelling) -> None:
    assert spelling.has_lone_pair("Wie konntet ihr entkommen, Freunde?")
    assert not spelling.has_lone_pair("Wie konntet ihr Freunde entkommen?", of_nouns=False)
    assert spelling.has_lone_pair("Wir konntet ihr Freunde entkommen?", of_nouns=False)


def test_a_rare_noun_that_differs_in_a_letter_from_a_frequent_one_is_misspelt(spelling: Spelling) -> None:
    for _ in range(module.FREQUENT):
        spelling.add("Der Schraubenschlüssel liegt dort.")
    assert spelling.has_misspelt_noun("Ein Schraubenschüssel fehlt.")  # a letter is missing
    assert spelling.has_misspelt_noun("Ein Schraubbenschlüssel fehlt.")  # one too many
    assert spelling.has_misspelt_noun("Ein Schreubenschlüssel fehlt.")  # another one
    assert not spelling.has_misspelt_noun("Ein Schraubenschlüssel fehlt.")
    assert not spelling.has_misspelt_noun("Die Schraubenschlüsseln fehlen.")  # an ending
    assert not spelling.has_misspelt_noun("Ein Schraubenzieher fehlt.")


def test_a_translation_that_lacks_half_of_the_sentence_is_left_out(tmp_path: Path) -> None:
    source, target = tmp_path / "text.en", tmp_path / "text.de"
    sentences = ["Vater!", "Vater, ich bin jetzt volljährig."]
    write_parallel(source, target, [ParallelDocument(["Father, I am of age now."] * 2, sentences)])
    rules = load_rules("en", "de")
    pairs = read_pairs([(source, target)], NounCounts(rules), Spelling(), 75, None, lambda _: None)
    assert [pair.target for pair in pairs] == sentences[1:]


def test_in_a_small_corpus_nothing_is_doubtful() -> None:
    assert not Spelling().has_lone_pair("Wir konntet.")
    assert not Spelling().has_rare_word("Wir konntet.")
    assert not Spelling().has_misspelt_noun("Der Schraubenschüssel fehlt.")


def test_two_sentences_without_a_blank_are_left_out(tmp_path: Path) -> None:
    source, target = tmp_path / "text.en", tmp_path / "text.de"
    sentences = ["Hallo, Kleiner.Was willst du?", "Hallo, Kleiner. Was willst du?"]
    write_parallel(source, target, [ParallelDocument(["Hi again, kid. What do you want?"] * 2, sentences)])
    rules = load_rules("en", "de")
    pairs = read_pairs([(source, target)], NounCounts(rules), Spelling(), 75, None, lambda _: None)
    assert [pair.target for pair in pairs] == sentences[1:]


def test_one_sentence_of_a_small_corpus_does_not_follow_every_noun() -> None:
    """The antecedents are from corpus 0, which has one sentence with "it"; corpus 1 has many."""
    rules = load_rules("en", "de")
    nouns: list[tuple[str, Gender, str]] = [("Tisch", "m", "Der"), ("Lampe", "f", "Die"), ("Haus", "n", "Das")]
    antecedents = [
        Antecedent(
            Pair(f"The {noun} is old.", f"{article} {noun} ist alt.", 0),
            noun,
            noun,
            gender,
            (0, 2),
            (0, 2),
            None,
            True,
            1,
        )
        for noun, gender, article in nouns
        for pair in [Pair(f"The {noun} is old.", f"{article} {noun} ist alt.", 0)]
    ]
    cooing = Pair("Its cooing is soft.", "Sein Gurren ist sanft.", 0)
    others = [Pair(f"It has {n} parts.", f"Er hat {n} Teile.", 1) for n in range(2 * LEAST_ANAPHORS)]
    real = [Anaphor(pair, (Slot(0, "nominative"),), pair) for pair in [cooing, *others]]
    maker = PronounDocuments(PronounSentences(antecedents, real), Bystanders(), rules, lambda _: None, 0)
    drawn = [sentence for document in maker.make(300, seed=1) for sentence in document.source]
    assert drawn.count(cooing.source) < 20
