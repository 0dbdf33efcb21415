"""Scores of documents: their values and units, and the bootstrap over documents."""

import json
import random

import numpy as np
import pytest
import sacrebleu
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tram.errors import InputError
from tram.evaluation.metrics import (
    AuthorsBleu,
    Documents,
    Score,
    SystemResult,
    check_aligned,
    compare,
    results_json,
    runs_below,
    score_documents,
    score_systems,
    scores_table,
    subword_costs,
)
from tram.evaluation.significance import Resampling, interval, p_value

VERSION = sacrebleu.__version__
WORDS = ["Der", "Zug", "fährt", "heute", "nicht", "nach", "Ulm", "."]

sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)


def documents_of(shape: list[int]) -> st.SearchStrategy[Documents]:
    return st.tuples(*(st.lists(sentences, min_size=n, max_size=n) for n in shape)).map(list)


@st.composite
def parallel(draw: st.DrawFn, sides: int) -> list[Documents]:
    shape = draw(shapes)
    return [draw(documents_of(shape)) for _ in range(sides)]


class WordCounter:
    """A text pipeline whose subwords are words."""

    fingerprint = "0123456789ab"

    def encode(self, sentences: list[str], side: str) -> list[list[int]]:
        return [[len(word) for word in sentence.split()] for sentence in sentences]


def by_name(scores: list[Score]) -> dict[str, Score]:
    return {score.name: score for score in scores}


def flat(documents: Documents) -> list[str]:
    return [sentence for document in documents for sentence in document]


def whole(documents: Documents) -> list[str]:
    return [" ".join(document) for document in documents]


def made_up(documents: int, length: int, seed: int) -> Documents:
    """Return documents of sentences of ten different words each."""
    draw = random.Random(seed)
    words = [f"w{i}" for i in range(200)]
    return [[" ".join(draw.sample(words, 10)) for _ in range(length)] for _ in range(documents)]


def damaged(documents: Documents, share: float, seed: int) -> Documents:
    """Replace a share of the words of the documents with one that is never correct."""
    draw = random.Random(seed)
    return [
        [" ".join("?" if draw.random() < share else word for word in sentence.split()) for sentence in document]
        for document in documents
    ]


# What the scores are


def test_bleu_and_chrf_by_hand():
    scores = by_name(score_documents([["the cat sat on the mat today"]], [[["the cat sat on the mat"]]]))
    # matches 6/7, 5/6, 4/5, 3/4: their product is 3/7
    assert scores["s-BLEU"].value == pytest.approx(100 * (3 / 7) ** 0.25)
    # one of two characters and no pair: precision and recall are both (1/2 + 0) / 2
    assert by_name(score_documents([["ab"]], [[["ac"]]]))["chrF2"].value == pytest.approx(25)


def test_ngrams_of_a_document_cross_sentences_but_not_documents():
    reference = [["a b", "c d"], ["e f", "g h"]]
    moved = [["a b c", "d"], ["e", "f g h"]]
    scores = by_name(score_documents(moved, [reference]))
    assert scores["d-BLEU/doc"].value == pytest.approx(100)
    assert scores["s-BLEU"].value < 100
    across = by_name(score_documents([["a b", "c d e"], ["f g", "h"]], [reference]))
    # the words are all there in one row, but "e" is in the wrong document
    assert across["d-BLEU/doc"].value < 100


@settings(max_examples=60, deadline=None)
@given(parallel(sides=3))
def test_scores_equal_sacrebleu_exactly(sides: list[Documents]):
    hypotheses, *references = sides
    scores = by_name(score_documents(hypotheses, references, bootstrap=0))
    by_sentence = [flat(reference) for reference in references]
    by_document = [whole(reference) for reference in references]
    assert scores["s-BLEU"].value == sacrebleu.corpus_bleu(flat(hypotheses), by_sentence).score
    assert scores["d-BLEU/doc"].value == sacrebleu.corpus_bleu(whole(hypotheses), by_document).score
    assert scores["chrF2"].value == sacrebleu.corpus_chrf(flat(hypotheses), by_sentence).score


@settings(max_examples=30, deadline=None)
@given(parallel(sides=2), st.randoms(use_true_random=False))
def test_the_order_of_documents_does_not_change_a_score(sides: list[Documents], draw: random.Random):
    order = draw.sample(range(len(sides[0])), len(sides[0]))
    hypotheses, reference = sides
    shuffled = [[documents[i] for i in order] for documents in sides]
    before = score_documents(hypotheses, [reference], bootstrap=0)
    assert before == score_documents(shuffled[0], [shuffled[1]], bootstrap=0)


def test_signatures_name_the_unit():
    reference = [["Der Zug fährt nicht."], ["Er kommt."]]
    scores = by_name(score_documents(reference, [reference, reference], sources=reference, text=WordCounter()))
    bleu = f"nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:{VERSION}"
    assert {name: score.signature for name, score in scores.items()} == {
        "s-BLEU": f"{bleu}|unit:sentence",
        "d-BLEU/doc": f"{bleu}|unit:document",
        "d-BLEU/512": f"{bleu}|unit:512|text:0123456789ab",
        "chrF2": f"nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{VERSION}|unit:sentence",
    }


def test_an_empty_sentence_only_costs_brevity():
    reference = [["one two three four five", "six seven eight nine ten"]]
    scores = by_name(score_documents([["one two three four five", ""]], [reference]))
    # every n-gram is right and half of the words are missing: only the brevity penalty is left
    assert scores["s-BLEU"].value == pytest.approx(100 * np.exp(1 - 10 / 5))
    assert scores["d-BLEU/doc"].value == pytest.approx(100 * np.exp(1 - 10 / 5))


@pytest.mark.parametrize("compat", [None, AuthorsBleu()])
def test_empty_hypotheses_score_zero(compat: AuthorsBleu | None):
    reference = [["Der Zug fährt."], ["Er kommt.", "Bald."]]
    scores = score_documents([[""], ["", ""]], [reference], sources=reference, text=WordCounter(), compat=compat)
    assert [(score.value, score.low, score.high) for score in scores] == [(0, 0, 0)] * len(scores)


# d-BLEU/512


def test_runs_stay_below_the_limit():
    assert runs_below([255, 256, 1], 512) == [(0, 2), (2, 3)]
    assert runs_below([255, 257, 1], 512) == [(0, 1), (1, 3)]
    assert runs_below([100, 600, 100, 100], 512) == [(0, 1), (1, 2), (2, 4)]
    assert runs_below([600], 512) == [(0, 1)]
    assert runs_below([], 512) == []


@given(st.lists(st.integers(2, 40)), st.integers(5, 60))
def test_runs_hold_every_sentence_once_and_as_many_as_fit(costs: list[int], limit: int):
    runs = runs_below(costs, limit)
    assert [i for first, last in runs for i in range(first, last)] == list(range(len(costs)))
    assert all(sum(costs[first:last]) < limit for first, last in runs if last - first > 1)
    assert all(sum(costs[first : last + 1]) >= limit for first, last in runs if last < len(costs))


def test_a_sentence_costs_the_longest_of_its_versions_plus_two():
    sources = [["s s s", "s"], ["s"]]
    references = [[["a", "a a"], ["a"]], [["b", "b"], ["b b b b b"]]]
    assert subword_costs(references[:1], sources, WordCounter()) == [[5, 4], [3]]
    assert subword_costs(references, sources, WordCounter()) == [[5, 4], [7]]


def test_source_and_reference_are_counted_each_by_its_own_side():
    class Sided(WordCounter):
        def encode(self, sentences: list[str], side: str) -> list[list[int]]:
            return [ids * (2 if side == "target" else 1) for ids in super().encode(sentences, side)]

    assert subword_costs([[["a a"]]], [["s s s"]], Sided()) == [[2 * 2 + 2]]


def test_512_scores_runs_of_sentences_of_one_document():
    # costs 255 + 256 stay below 512; then a source of 600 words is alone; the last two are joined
    sources = [["s " * 253, "s", "s " * 600, "s", "s"], ["s"]]
    reference = [["a b", "c " * 254, "d e", "f g", "h i"], ["j k"]]
    hypotheses = [["a b c", "c " * 250, "d", "e f g", "h i"], ["j k"]]
    score = by_name(score_documents(hypotheses, [reference], sources=sources, text=WordCounter()))["d-BLEU/512"]

    def runs(documents: Documents) -> list[str]:
        long, short = documents
        return [" ".join(long[:2]), long[2], " ".join(long[3:]), short[0]]

    assert score.value == sacrebleu.corpus_bleu(runs(hypotheses), [runs(reference)]).score


def test_512_segments_are_the_same_for_all_systems():
    reference = [[f"{c} " * 200 for c in "abcd"]]
    rambling = [[f"{c} " * 700 for c in "abcd"]]
    scores = by_name(score_documents(rambling, [reference], sources=reference, text=WordCounter()))
    # segmented by the reference: two sentences per run; by its own length every sentence would be a run
    pairs = [[" ".join(side[0][:2]), " ".join(side[0][2:])] for side in (rambling, reference)]
    assert scores["d-BLEU/512"].value == sacrebleu.corpus_bleu(pairs[0], [pairs[1]]).score
    assert scores["d-BLEU/512"].value != scores["s-BLEU"].value


# The authors' BLEU


def test_authors_scores_are_unsmoothed_and_not_tokenised_again():
    reference = [["der zug fährt nicht ."], ["er kommt bald an ."]]
    s, d = score_documents(reference, [reference], compat=AuthorsBleu())
    assert (s.name, d.name) == ("s-BLEU/authors", "d-BLEU/authors")
    signature = f"nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:{VERSION}"
    assert s.signature == f"{signature}|unit:sentence|compat:authors"
    assert d.signature == f"{signature}|unit:document|compat:authors"
    assert (s.value, d.value) == (pytest.approx(100), pytest.approx(100))
    no_four = [["der zug fährt ."], ["er kommt an ."]]
    assert [score.value for score in score_documents(no_four, [reference], compat=AuthorsBleu())] == [0, 0]
    assert by_name(score_documents(no_four, [reference]))["s-BLEU"].value > 0
    # sacreBLEU's own tokeniser would separate the stop from the word
    glued = [["der zug fährt nicht."], ["er kommt bald an."]]
    assert score_documents(glued, [reference], compat=AuthorsBleu())[0].value < 80


def test_authors_tokenisation_applies_to_both_sides():
    def tokens(sentence: str) -> str:
        return sentence.replace(".", " .").lower()

    hypotheses, reference = [["der Zug fährt nicht."]], [["Der Zug fährt nicht ."]]
    s, d = score_documents(hypotheses, [reference], compat=AuthorsBleu(tokens, "feed"))
    assert (s.value, d.value) == (pytest.approx(100), pytest.approx(100))
    assert s.signature.endswith("|unit:sentence|compat:authors|text:feed")


def test_authors_document_score_joins_the_sentences():
    _, d = score_documents([["a b", "c d"]], [[["a", "b c d"]]], compat=AuthorsBleu())
    assert d.value == pytest.approx(100)


# Significance


def test_identical_systems_do_not_differ():
    reference = made_up(documents=6, length=2, seed=1)
    system = damaged(reference, 0.3, seed=2)
    differences = compare(system, system, [reference], sources=reference, text=WordCounter())
    assert len(differences) == 4
    assert {(d.difference, d.low, d.high, d.p) for d in differences} == {(0, 0, 0, 1)}


def test_systems_are_compared_on_the_same_draws():
    # The same words are wrong, in another way: both have the same score in every draw, though draws differ much.
    reference = made_up(documents=6, length=2, seed=1)
    baseline = [damaged([document], 0.1 * i, seed=i)[0] for i, document in enumerate(reference)]
    system = [[sentence.replace("?", "!") for sentence in document] for document in baseline]
    scores = score_documents(system, [reference])
    assert all(score.high - score.low > 5 for score in scores)
    assert {(d.low, d.high, d.p) for d in compare(baseline, system, [reference])} == {(0, 0, 1)}


def test_a_clearly_better_system_differs_significantly_and_the_sign_says_which():
    reference = made_up(documents=12, length=3, seed=1)
    good, bad = damaged(reference, 0.1, seed=2), damaged(reference, 0.3, seed=3)
    up, down = compare(bad, good, [reference]), compare(good, bad, [reference])
    assert all(d.p < 0.05 and 0 < d.low < d.difference < d.high for d in up)
    assert [(d.difference, d.low, d.high, d.p) for d in down] == [(-d.difference, -d.high, -d.low, d.p) for d in up]


def test_equally_good_systems_rarely_differ_significantly():
    reference = made_up(documents=30, length=1, seed=1)
    found = 0
    for trial in range(40):
        pair = [damaged(reference, 0.3, seed=2 * trial + side) for side in range(2)]
        found += compare(pair[0], pair[1], [reference], bootstrap=200)[0].p <= 0.05
    # binomial with 40 trials: more than 7 would have a chance below 1 in 500 at the stated level of 0.05
    assert found <= 7


def test_documents_are_drawn_and_not_sentences():
    # Two documents, one correct and one partly wrong: a draw has both, or one of them twice. If forty sentences were
    # drawn one by one, nearly every draw would be near the middle.
    reference = made_up(documents=2, length=20, seed=1)
    hypotheses = [reference[0], damaged(reference[1:], 0.3, seed=2)[0]]
    worse = score_documents(hypotheses[1:], [reference[1:]])
    scores = score_documents(hypotheses, [reference])
    assert [(score.low, score.high) for score in scores] == [
        (pytest.approx(alone.value), pytest.approx(100)) for alone in worse
    ]


def test_the_same_seed_has_the_same_numbers_and_another_seed_others():
    reference = made_up(documents=12, length=2, seed=1)
    systems = [("a", damaged(reference, 0.2, seed=2)), ("b", damaged(reference, 0.2, seed=3))]
    first, again, other = (score_systems(systems, [reference], seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert first[1].scores[0].low != other[1].scores[0].low
    assert first[1].scores[0].value == other[1].scores[0].value


def test_one_document_has_a_score_and_no_interval():
    reference = [["Der Zug fährt nicht.", "Er kommt."]]
    (score, *_), (difference, *_) = (
        score_documents(reference, [reference]),
        compare([["", ""]], reference, [reference]),
    )
    assert (score.low, score.high, score.resampling) == (None, None, None)
    assert (difference.low, difference.high, difference.p) == (None, None, None)
    assert difference.difference == score.value


def test_a_document_without_sentences_is_not_drawn():
    reference = made_up(documents=3, length=1, seed=1)
    system = damaged(reference, 0.3, seed=2)
    with_empty = score_documents([system[0], [], *system[1:]], [[reference[0], [], *reference[1:]]])
    assert with_empty == score_documents(system, [reference])


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 99))
def test_a_draw_has_as_many_documents_as_the_set(documents: int, samples: int, seed: int):
    drawn = Resampling(documents, samples, seed).sums(np.eye(documents, dtype=np.int64))
    assert drawn.shape == (samples, documents)
    assert (drawn >= 0).all()
    assert (drawn.sum(axis=1) == documents).all()


def test_p_values_of_known_cases():
    assert p_value(np.ones(99)) == pytest.approx(2 / 100)
    assert p_value(np.array([-1.0] * 4 + [1.0] * 95)) == pytest.approx(10 / 100)
    assert p_value(np.array([0.0] * 4 + [1.0] * 95)) == pytest.approx(10 / 100)
    assert p_value(np.array([-1.0, 1.0])) == 1


def test_intervals_of_known_cases():
    assert interval(np.arange(1.0, 80.0)) == (2, 78)
    assert interval(np.array([3.0, 1.0, 2.0])) == (1, 3)


@given(st.integers(39, 400), st.integers(0, 999), st.floats(-3, 3))
def test_p_and_interval_agree_at_five_percent(samples: int, seed: int, shift: float):
    differences = np.random.default_rng(seed).normal(shift, 1, samples).round(1)
    low, high = interval(differences)
    assert (p_value(differences) <= 0.05) == (low > 0 or high < 0)


# Bad input


def test_aligned_sides_are_accepted():
    check_aligned("a.txt", [["x"], [], ["y", "z"]], "b.txt", [["1"], [], ["2", "3"]])


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([["a"], ["b", "c"]], "document 2: 2 sentences in hyp.txt but 1 sentence in ref.txt"),
        ([["a"]], "document 2: missing in hyp.txt but 1 sentence in ref.txt"),
        ([["a"], ["b"], ["c", "d"]], "document 3: 2 sentences in hyp.txt but missing in ref.txt"),
        ([["a", "b"]], "document 1: 2 sentences in hyp.txt but 1 sentence in ref.txt"),
    ],
)
def test_the_error_names_the_document_that_is_not_aligned(documents: Documents, words: str):
    with pytest.raises(InputError, match=words):
        check_aligned("hyp.txt", documents, "ref.txt", [["1"], ["2"]])


@settings(max_examples=30, deadline=None)
@given(shapes, shapes)
def test_every_side_must_be_aligned_with_the_reference(shape: list[int], other: list[int]):
    assume(shape != other)
    right, wrong = ([["x"] * count for count in counts] for counts in (shape, other))
    with pytest.raises(InputError, match=r"in memory\.txt but"):
        score_systems([("base.txt", right), ("memory.txt", wrong)], [right])
    with pytest.raises(InputError, match="in reference 2 but"):
        score_documents(right, [right, wrong])
    with pytest.raises(InputError, match="in source but"):
        score_documents(right, [right], sources=wrong)


def test_input_that_cannot_be_scored_is_refused():
    reference = [["a"]]
    with pytest.raises(InputError, match="at least one reference"):
        score_documents(reference, [])
    with pytest.raises(InputError, match="no sentence"):
        score_documents([[]], [[[]]])
    with pytest.raises(InputError, match="give the source"):
        score_documents(reference, [reference], text=WordCounter())
    with pytest.raises(InputError, match="bootstrap: -1"):
        score_documents(reference, [reference], bootstrap=-1)
    with pytest.raises(InputError, match="seed: -1"):
        score_documents(reference, [reference], seed=-1)


# How results are shown


def results_of(documents: int, systems: int) -> list[SystemResult]:
    reference = made_up(documents, length=1, seed=1)
    named = [(f"system{i}.txt", damaged(reference, 0.1 * i, seed=i)) for i in range(systems)]
    return score_systems(named, [reference], bootstrap=50)


def test_the_table_has_a_line_for_each_score_and_its_signature():
    results = results_of(documents=30, systems=2)
    lines = scores_table(results).splitlines()
    assert " ".join(lines[0].split()) == "metric system score 95% interval difference 95% interval p"
    assert lines[1].split()[:3] == ["s-BLEU", "system0.txt", "100.00"]
    change = results[1].differences[0]
    assert lines[2].split()[0] == "system1.txt"
    assert f"{change.difference:+.2f}" in lines[2]
    assert lines[2].endswith(f"{change.p:.3f}")
    assert all(f"{score.name}: {score.signature}" in lines for score in results[0].scores)
    assert lines[-1].endswith("bootstrap over 30 documents, 50 resamples, seed 12345.")


def test_the_table_of_one_system_has_no_differences():
    assert "difference" not in scores_table(results_of(documents=10, systems=1))


def test_the_table_says_when_significance_is_missing_or_unreliable():
    assert "need at least two documents" in scores_table(results_of(documents=1, systems=2))
    assert "Fewer than 30 documents" in scores_table(results_of(documents=29, systems=2))


@pytest.mark.parametrize("documents", [1, 3])
def test_results_can_be_written_as_json(documents: int):
    results = results_of(documents, systems=2)
    base, other = json.loads(json.dumps(results_json(results)))
    assert base["differences"] == []
    assert other["scores"][0]["value"] == results[1].scores[0].value
    assert other["differences"][0]["p"] == results[1].differences[0].p
