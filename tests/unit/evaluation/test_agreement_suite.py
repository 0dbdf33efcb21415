"""Making agreement probes: suitable sentences, balance, and separation from training."""

from collections import Counter

import pytest

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.agreement_suite import collect, is_referential, make_agreement, subject_noun
from tram.evaluation.language import GENDERS, load_language
from tram.text.held_out import held_out_noun, held_out_sentence

german, english = load_language("de"), load_language("en")
NOUNS = {
    "m": {"letter": "Brief", "table": "Tisch", "tree": "Baum", "garden": "Garten", "key": "Schlüssel", "train": "Zug"},
    "f": {"lamp": "Lampe", "door": "Tür", "bag": "Tasche", "bridge": "Brücke", "clock": "Uhr", "street": "Straße"},
    "n": {"parcel": "Paket", "house": "Haus", "book": "Buch", "car": "Auto", "window": "Fenster", "bed": "Bett"},
}
ARTICLES = {"m": "Der", "f": "Die", "n": "Das"}
PAIRS = [
    (f"The {noun} is very old.", f"{ARTICLES[gender]} {translation} ist sehr alt.")
    for gender, nouns in NOUNS.items()
    for noun, translation in nouns.items()
]
PAIRS += [(f"It stands in room {number}.", f"Sie steht in Zimmer {number}.") for number in range(30)]
PAIRS += [(f"We have waited {number} hours.", f"Wir haben {number} Stunden gewartet.") for number in range(9)]
DOCUMENTS = [ParallelDocument([a for a, _ in PAIRS], [b for _, b in PAIRS])]


@pytest.mark.parametrize(
    ("sentence", "noun"),
    [
        ("The parcel is very heavy.", "parcel"),
        ("This small parcel was sent today.", "parcel"),
        ("The head of the house is old.", None),
        ("The parcel weighs two pounds.", None),  # the verb is not known
        ("The Commission is here now.", None),  # a name
        ("Parcels are heavy.", None),
        ("The is.", None),
        ("", None),
    ],
)
def test_the_noun_that_is_the_subject(sentence: str, noun: str | None) -> None:
    assert subject_noun(sentence, english) == noun


@pytest.mark.parametrize(
    ("source", "target", "serves"),
    [
        ("It stands in the hall.", "Sie steht in der Halle.", True),
        ("It stands in the hall.", "Dort steht er.", True),
        ("It stands in the hall.", "Es steht in der Halle.", False),  # may refer to nothing
        ("It is a small house.", "Sie ist ein kleines Haus.", False),
        ("It is easy to see.", "Sie ist leicht zu sehen.", False),
        ("We know that it stands there.", "Sie steht dort.", False),  # not the first word
        ("It stands there and it falls.", "Sie steht dort und fällt.", False),
    ],
)
def test_suitable_sentences_with_it(source: str, target: str, serves: bool) -> None:
    assert is_referential(source, target, english, german) is serves


def test_items_are_balanced_over_the_genders_and_distances() -> None:
    items = make_agreement(DOCUMENTS, english, german, distances=(1, 3), items=12, words="all")
    assert Counter(item.distance for item in items) == {1: 12, 3: 12}
    genders = {noun: gender for gender, nouns in NOUNS.items() for noun in nouns}
    for distance in (1, 3):
        found = Counter(genders[item.antecedent] for item in items if item.distance == distance)
        assert found == dict.fromkeys(GENDERS, 4)
    for item in items:
        assert item.source.startswith("It")
        assert item.source_context[0] == f"The {item.antecedent} is very old."
        assert all(filler.startswith("We") for filler in item.source_context[1:])


def test_a_passage_of_real_text_comes_before_the_noun() -> None:
    items = make_agreement(DOCUMENTS, english, german, distances=(1, 3), items=12, words="all", before=4)
    assert Counter(item.distance for item in items) == {1: 12, 3: 12}
    for item in items:
        assert item.source_context[:4] == tuple(DOCUMENTS[0].source[:4])
        assert item.source_context[item.before] == f"The {item.antecedent} is very old."


def test_documents_shorter_than_the_passage_are_refused() -> None:
    with pytest.raises(InputError, match="no document begins with 1000 sentences"):
        make_agreement(DOCUMENTS, english, german, words="all", before=1000)


def test_the_same_seed_makes_the_same_items() -> None:
    first, again, other = (
        make_agreement(DOCUMENTS, english, german, items=12, seed=seed, words="all") for seed in (1, 1, 2)
    )
    assert first == again != other


def test_only_what_training_leaves_out_is_used() -> None:
    found, every = collect(DOCUMENTS, english, german), collect(DOCUMENTS, english, german, "all")
    nouns = [entry[2] for gender in GENDERS for entry in found.nouns[gender]]
    assert 0 < len(nouns) < 18
    assert all(held_out_noun(noun) for noun in nouns)
    assert all(held_out_sentence(sentence) for sentence in found.its)
    assert len(every.its) == 30
    assert sum(map(len, every.nouns.values())) == 18


def test_the_halves_share_nothing_and_are_all_of_it() -> None:
    whole = set(collect(DOCUMENTS, english, german).its)
    first, second = (set(collect(DOCUMENTS, english, german, half).its) for half in ("first-half", "second-half"))
    assert first | second == whole
    assert not first & second


def test_too_few_sentences_are_refused_with_their_number() -> None:
    with pytest.raises(InputError, match=r"0 sentences with a noun .* give more documents"):
        make_agreement([ParallelDocument(["Hello."], ["Hallo."])], english, german)
