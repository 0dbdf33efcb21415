"""Contrastive scoring: what an item scores depends on its own context and on nothing else in the suite."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import pair_ids, shake, tiny_config
from tram.config import MemoryConfig
from tram.data.batches import decoder_input
from tram.errors import InputError
from tram.evaluation.accuracy import Accuracy, contrast_json, contrast_table, summarise
from tram.evaluation.contrast import ItemResult, score_suite
from tram.evaluation.suite import Item, exchange_contexts, read_suite
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.lockstep import History
from tram.translation.translator import Translator

ENGLISH = [
    "The kite is red.",
    "We saw a kettle.",
    "Who owns the lamp?",
    "It rained.",
    "My aunt laughed out loud at the dog.",
]
GERMAN = [
    "Der Drachen ist rot.",
    "Wir sahen einen Kessel.",
    "Wem gehört die Lampe?",
    "Es hat geregnet.",
    "Meine Tante lachte.",
]
LONGEST = 30  # ids of a sentence of the tiny models


def item(context: Sequence[int], source: str = "It fell.", reference: str = "Er fiel.",
         contrastive: Sequence[str] = ("Sie fiel.", "Es fiel."), **more: Any) -> Item:  # fmt: skip
    """An item after some of the sentences above."""
    return Item(source_context=tuple(ENGLISH[i] for i in context), target_context=tuple(GERMAN[i] for i in context),
                source=source, reference=reference, contrastive=tuple(contrastive), **more)  # fmt: skip


ITEMS = [
    item([0]),
    item([1, 0]),
    item([1, 0], "She owns it.", "Es gehört ihr.", ["Er gehört ihr."]),
    item([]),
    item([2, 3, 4, 1, 0, 2], "Is it old?", "Ist sie alt?", ["Ist er alt?", "Ist es alt?", "Ist das alt?"]),
    item([4], "It is.", "Sie ist es.", ["Er ist es."]),
    item([0], "Take it.", "Nimm ihn.", ["Nimm sie.", "Nimm es."]),
    item([0]).model_copy(update={"target_context": ("Das Fluggerät ist rot.",)}),  # half of its context is another's
]


@pytest.fixture(scope="module")
def text() -> TextPipeline:
    return TextPipeline.learn(ENGLISH * 3, GERMAN * 3, "en", "de", pipeline="raw", merges=120)


def make(text: TextPipeline, **changes: Any) -> Translator:
    """A translator with lively random weights in double precision."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = Transformer(tiny_config(**changes), text.vocabulary).double().eval()
    shake(model, 5)
    return Translator(model, text, beam=2)


@pytest.fixture(scope="module")
def translator(text: TextPipeline) -> Translator:
    return make(text, memory=MemoryConfig(slots=3))


@pytest.fixture(scope="module")
def sentence_model(text: TextPipeline) -> Translator:
    return make(text)


def scores(results: Sequence[ItemResult]) -> list[list[float]]:
    return [[result.reference, *result.variants] for result in results]


def close(found: Sequence[ItemResult], expected: Sequence[ItemResult]) -> bool:
    """Whether all scores agree, and with them all decisions."""
    pairs = zip(scores(found), scores(expected), strict=True)
    near = all(a == pytest.approx(b, rel=0, abs=1e-10) for a, b in pairs)
    return near and [result.right for result in found] == [result.right for result in expected]


def by_hand(translator: Translator, source: list[str], target: list[str]) -> float:
    """The log-probability of the last sentence of a document, from the logits of the whole document."""
    sources, targets = pair_ids(translator, source, target)
    with torch.no_grad():
        shares = translator.model(sources, decoder_input(targets))[0, -1].log_softmax(-1)
    labels = [label for label in targets[0, -1, 1:].tolist() if label]
    return math.fsum(shares[place, label].item() for place, label in enumerate(labels))


# Scores.


@pytest.mark.parametrize("memory", [None, MemoryConfig(slots=3), MemoryConfig(slots=2, side="source"),
                                    MemoryConfig(slots=2, side="target", layers=[0, 1])])  # fmt: skip
def test_a_score_is_the_probability_of_the_last_sentence_of_its_document(
    text: TextPipeline, memory: MemoryConfig | None
) -> None:
    translator = make(text, memory=memory)
    expected = [
        [by_hand(translator, [*each.source_context, each.source], [*each.target_context, target])
         for target in (each.reference, *each.contrastive)] for each in ITEMS
    ]  # fmt: skip
    for found, hand in zip(scores(score_suite(translator, ITEMS)), expected, strict=True):
        assert found == pytest.approx(hand, rel=0, abs=1e-10)


@pytest.fixture(scope="module")
def alone(translator: Translator) -> dict[History, list[ItemResult]]:
    """Every item in a suite of its own."""
    kinds: list[History] = ["gold", "generated", "none"]
    return {history: [score_suite(translator, [each], history)[0] for each in ITEMS] for history in kinds}


@settings(max_examples=12)
@given(st.permutations(range(len(ITEMS))), st.integers(1, 300), st.sampled_from(["gold", "generated", "none"]))
def test_order_neighbours_and_batches_do_not_change_a_score(
    translator: Translator, alone: dict[History, list[ItemResult]], order: list[int], tokens: int, history: History
) -> None:
    found = score_suite(translator, [ITEMS[i] for i in order], history, tokens)
    assert close(found, [alone[history][i] for i in order])


def test_every_history_gives_scores_of_its_own(alone: dict[History, list[ItemResult]]) -> None:
    """Otherwise the test above would show little."""
    firsts = {history: results[0].reference for history, results in alone.items()}
    assert len({round(value, 6) for value in firsts.values()}) == 3
    assert alone["gold"][3].reference == pytest.approx(alone["none"][3].reference), "it has no context"


def test_variants_do_not_know_of_each_other(translator: Translator) -> None:
    both = item([1, 0])
    single = [item([1, 0], contrastive=[variant]) for variant in both.contrastive]
    together = score_suite(translator, [both])[0]
    apart = score_suite(translator, single)
    assert together.variants == pytest.approx([result.variants[0] for result in apart], rel=0, abs=1e-10)


def test_reference_and_variant_change_places(translator: Translator) -> None:
    there, back = score_suite(translator, [item([0], contrastive=["Sie fiel."]),
                                           item([0], reference="Sie fiel.", contrastive=["Er fiel."])])  # fmt: skip
    assert (there.reference, *there.variants) == pytest.approx((*back.variants, back.reference), rel=0, abs=1e-10)
    assert there.right != back.right


def test_who_swaps_contexts_swaps_scores(translator: Translator) -> None:
    first, second = score_suite(translator, [item([0, 1]), item([4])])
    swapped = score_suite(translator, [item([4]), item([0, 1])])
    assert close(swapped, [second, first])
    assert abs(first.reference - second.reference) > 1e-6


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), max_size=30))
def test_exchanged_contexts_are_those_of_the_same_phenomenon_and_distance(cells: list[tuple[str, int]]) -> None:
    items = [item([0], phenomenon=name, distance=distance).model_copy(update={"source_context": (str(number),)})
             for number, (name, distance) in enumerate(cells)]  # fmt: skip
    exchanged = exchange_contexts(items)
    givers = [int(other.source_context[0]) for other in exchanged]
    assert sorted(givers) == list(range(len(items)))
    assert [cells[giver] for giver in givers] == cells
    assert [other.reference for other in exchanged] == [one.reference for one in items]


def test_exchanging_contexts_makes_the_suite_a_matter_of_chance() -> None:
    """Whoever answers by the context alone is right by chance once the contexts are another's."""
    answers = range(3)
    items = [item([answer], source=str(group), phenomenon="x", distance=1) for group in range(60) for answer in answers]
    right = sum(one.source_context == other.source_context
                for one, other in zip(items, exchange_contexts(items), strict=True))  # fmt: skip
    assert 0.2 < right / len(items) < 0.47


def test_a_sentence_model_knows_no_context(sentence_model: Translator) -> None:
    assert close(score_suite(sentence_model, [item([0, 1]), item([4, 2])]), score_suite(sentence_model, [item([])] * 2))


def test_generated_history_takes_in_what_the_translator_says(translator: Translator) -> None:
    """An item is scored from the state that translating its context leaves."""
    state = translator.start()
    translator.translate(ENGLISH[:3], state)
    model = translator.model
    source, target = pair_ids(translator, ["It fell."], ["Er fiel."])
    with torch.inference_mode():
        shares = model.logits(model.forced_decode(source, decoder_input(target), state.state).states).log_softmax(-1)
    expected = shares.gather(-1, target[0, 0, 1:, None]).sum().item()
    found = score_suite(translator, [item([0, 1, 2])], "generated")
    assert found[0].reference == pytest.approx(expected, rel=0, abs=1e-10)


def test_generated_history_does_not_look_at_the_right_translations(translator: Translator) -> None:
    wrong = item([0, 1]).model_copy(update={"target_context": (GERMAN[4], GERMAN[2])})
    assert close(score_suite(translator, [wrong], "generated"), score_suite(translator, [item([0, 1])], "generated"))
    assert not close(score_suite(translator, [wrong], "gold"), score_suite(translator, [item([0, 1])], "gold"))


@pytest.mark.parametrize("empty", ["source_context", "target_context"])
def test_a_pair_with_an_empty_side_is_passed_over(translator: Translator, empty: str) -> None:
    full = item([1, 3, 0])
    holed = full.model_copy(update={empty: (getattr(full, empty)[0], " ", getattr(full, empty)[2])})
    assert close(score_suite(translator, [holed]), score_suite(translator, [item([1, 0])]))


def test_a_long_context_is_read_in_parts(translator: Translator) -> None:
    long = item([0, 1, 2, 3, 4] * 20)
    assert close(score_suite(translator, [long], tokens=40), score_suite(translator, [long], tokens=100_000))


def test_what_the_model_cannot_take_is_cut_and_said(translator: Translator) -> None:
    long = "Er fiel " + "ab " * LONGEST
    with pytest.warns(UserWarning, match="1 target sentences were truncated to the model's 30 subwords"):
        results = score_suite(translator, [item([0], reference=long + "um.", contrastive=["Es fiel."])])
    cut = translator.text.bpe.decode(translator.text.encode([long], "target")[0][:LONGEST])
    expected = by_hand(translator, [ENGLISH[0], "It fell."], [GERMAN[0], cut])
    assert results[0].reference == pytest.approx(expected, rel=0, abs=1e-10)


def test_what_is_cut_to_the_same_is_a_tie_and_wrong(translator: Translator) -> None:
    long = "Er fiel " + "ab " * LONGEST
    with pytest.warns(UserWarning, match="2 target"):
        result = score_suite(translator, [item([0], reference=long + "um.", contrastive=[long + "zu."])])[0]
    assert result.variants == (result.reference,)
    assert not result.right


def test_an_empty_suite_has_no_results(translator: Translator) -> None:
    assert score_suite(translator, []) == []


def test_progress_counts_every_item_once(translator: Translator) -> None:
    done: list[int] = []
    score_suite(translator, ITEMS, tokens=50, advance=done.append)
    assert sum(done) == len(ITEMS)


@pytest.mark.parametrize("tokens", [30, 10_000])
def test_a_shared_context_is_computed_once(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    """However many items stand behind it; and a source is encoded once for all its variants."""
    questions = [item([1, 0, 2], source, contrastive=["Sie fiel.", "Es fiel.", "Das fiel."]) for source in ENGLISH]
    encoded, decoded = [], []
    encode, decode = translator.model.encode, translator.model.decode

    def spy_encode(source: torch.Tensor, *rest: Any) -> Any:
        encoded.append(int((source != 0).any(-1).sum()))
        return encode(source, *rest)

    def spy_decode(target: torch.Tensor, *rest: Any) -> Any:
        decoded.append(int((target != 0).any(-1).sum()))
        return decode(target, *rest)

    monkeypatch.setattr(translator.model, "encode", spy_encode)
    monkeypatch.setattr(translator.model, "decode", spy_decode)
    score_suite(translator, questions, tokens=tokens)
    assert sum(encoded) == 3 + len(questions)
    assert sum(decoded) == 3 + 4 * len(questions)
    if tokens == 10_000:
        assert len(encoded) == 2, "one pass for the context and one for all questions"


@settings(max_examples=10)
@given(st.integers(1, 40), st.integers(1, 50))
def test_logits_in_chunks_are_logits_at_once(sentence_model: Translator, tokens: int, chunk: int) -> None:
    model = sentence_model.model
    draw = torch.Generator().manual_seed(tokens)
    states = torch.randn(tokens, model.config.d_model, generator=draw, dtype=torch.float64)
    labels = torch.randint(model.vocabulary, (tokens,), generator=draw)
    with torch.no_grad():
        whole = model.logits(states).log_softmax(-1)[torch.arange(tokens), labels]
        assert torch.allclose(model.token_log_probs(states, labels, chunk), whole, rtol=0, atol=1e-12)


# Decisions and accuracies.


@pytest.mark.parametrize(
    ("reference", "variants", "right"),
    [(-1.0, (-2.0, -1.5), True), (-1.0, (-2.0, -0.5), False), (-1.0, (-1.0,), False), (-1.0, (-3.0, -1.0), False),
     (math.nan, (-1.0,), False), (-1.0, (math.nan,), False)],
)  # fmt: skip
def test_right_only_if_the_reference_beats_all(reference: float, variants: tuple[float, ...], right: bool) -> None:
    assert ItemResult(ITEMS[0], reference, variants).right is right


@pytest.mark.parametrize(
    ("right", "items", "low", "high"),
    [(0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (1, 2, 0.09453, 0.90547), (81, 263, 0.25527, 0.36621),
     (0, 1, 0.0, 0.79345)],
)  # fmt: skip
def test_wilson_of_hand_cases(right: int, items: int, low: float, high: float) -> None:
    assert Accuracy(right, items, 0.5).interval == pytest.approx((low, high), abs=2e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(counts: tuple[int, int]) -> None:
    right, items = counts
    accuracy, mirror = Accuracy(right, items, 0.5), Accuracy(items - right, items, 0.5)
    low, high = accuracy.interval
    assert 0 <= low <= accuracy.value <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx(mirror.interval)
    assert Accuracy(10 * right, 10 * items, 0.5).interval[0] >= low - 1e-12, "more items, narrower"


def outcome(right: bool, variants: int = 1, **more: Any) -> ItemResult:
    wrong = ["Sie fiel.", "Es fiel.", "Das fiel."][:variants]
    return ItemResult(item([], contrastive=wrong, **more), -1.0, (-2.0 if right else -0.5,) * variants)


def test_accuracies_by_phenomenon_and_distance() -> None:
    results = [
        outcome(True, phenomenon="tense", distance=3),
        outcome(False, phenomenon="tense", distance=1),
        outcome(True, phenomenon="tense", distance=1),
        outcome(True, variants=3, phenomenon="name", distance=1),
    ]
    summary = summarise(results)
    assert summary.overall == Accuracy(3, 4, 0.4375)
    assert summary.by_phenomenon == {"tense": Accuracy(2, 3, 0.5), "name": Accuracy(1, 1, 0.25)}
    assert list(summary.by_distance.items()) == [
        ("1", Accuracy(2, 3, pytest.approx(1.25 / 3))),
        ("3", Accuracy(1, 1, 0.5)),
    ]
    assert summary.by_phenomenon_and_distance == {
        "tense": {"1": Accuracy(1, 2, 0.5), "3": Accuracy(1, 1, 0.5)},
        "name": {"1": Accuracy(1, 1, 0.25)},
    }
    assert summary.by_pronoun == {}


def test_many_distances_share_bins() -> None:
    distances = [0, 1, 2, 3, 4, 5, 6, 10, 11, 50, 51, 100, 101, 4000]
    summary = summarise([outcome(True, phenomenon="tense", distance=distance) for distance in distances])
    sizes = {name: accuracy.items for name, accuracy in summary.by_distance.items()}
    assert sizes == {
        "0": 1,
        "1": 1,
        "2": 1,
        "3": 1,
        "4-5": 2,
        "6-10": 2,
        "11-20": 1,
        "21-50": 1,
        "51-100": 2,
        ">100": 2,
    }
    assert list(sizes) == ["0", "1", "2", "3", "4-5", "6-10", "11-20", "21-50", "51-100", ">100"]


@pytest.mark.parametrize(
    ("reference", "contrastive", "pronoun"),
    [
        ("Er fiel.", ["Sie fiel.", "Es fiel."], "er"),
        ("Dann fiel SIE um.", ["Dann fiel er um."], "sie"),
        ("Ich nehme es und putze es.", ["Ich nehme es und putze ihn.", "Ich nehme sie und putze sie."], "es"),
        ("„Es“, sagte sie.", ["„Er“, sagte sie."], "es"),
        ("Nimm ihn.", ["Nimm sie."], "other"),
        ("Da ist er", ["Da ist er ja"], "other"),
        ("Da ist er!", ["Da ist er."], "other"),
        ("Da ist es ja", ["Da ist"], "es"),
    ],
)
def test_the_pronoun_in_question_is_the_first_word_that_differs(
    reference: str, contrastive: list[str], pronoun: str
) -> None:
    assert item([], reference=reference, contrastive=contrastive).pronoun == pronoun


def test_items_without_a_phenomenon_are_counted_by_pronoun() -> None:
    sie = ItemResult(item([], reference="Sie fiel.", contrastive=["Er fiel."]), -2.0, (-1.0,))
    summary = summarise([outcome(True), sie, outcome(False), outcome(True, phenomenon="tense")])
    assert list(summary.by_pronoun.items()) == [("er", Accuracy(1, 2, 0.5)), ("sie", Accuracy(0, 1, 0.5))]
    assert summary.by_phenomenon == {"tense": Accuracy(1, 1, 0.5)}


def test_another_language_has_no_german_pronouns() -> None:
    french = ItemResult(item([], reference="Elle tombe.", contrastive=["Il tombe."]), -2.0, (-1.0,))
    assert summarise([french]).by_pronoun == {}


# What a user sees.


def test_the_table_has_a_line_for_each_phenomenon_and_a_column_for_each_distance() -> None:
    results = [outcome(right, phenomenon="tense", distance=1) for right in (True, True, True, False)]
    results.append(outcome(True, variants=3, phenomenon="name", distance=20))
    head, _, names, *lines = contrast_table(summarise(results)).splitlines()
    assert "Wilson" in head
    assert names.split() == ["items", "chance", "1", "20", "all"]
    assert [line.split() for line in lines] == [
        ["tense", "4", "50.0", "75.0", "75.0"], ["30-95", "30-95"],
        ["name", "1", "25.0", "100.0", "100.0"], ["21-100", "21-100"],
        ["all", "5", "45.0", "75.0", "100.0", "80.0"], ["30-95", "21-100", "38-96"],
    ]  # fmt: skip
    column = names.index("20") + 2
    assert lines[2].index("100.0") + 5 == column, "an accuracy ends where the name of its column does"


def test_the_table_of_pronouns_has_no_distances() -> None:
    table = contrast_table(summarise([outcome(True, variants=2), outcome(False, variants=2)]))
    assert [line.split()[0] for line in table.splitlines()[3::2]] == ["er", "all"]
    assert "back" not in table


def test_json_holds_the_summary_and_every_item(translator: Translator) -> None:
    results = score_suite(translator, [item([0], phenomenon="tense", distance=1), *ITEMS])
    found = json.loads(json.dumps(contrast_json(results, {"history": "gold"})))
    assert found["history"] == "gold"
    assert found["overall"]["items"] == len(results)
    assert found["overall"]["right"] == sum(each["right"] for each in found["items"])
    assert set(found["by_phenomenon_and_distance"]["tense"]["1"]) == {
        "right",
        "items",
        "accuracy",
        "low",
        "high",
        "chance",
    }
    assert found["by_pronoun"].keys() == {"er", "sie", "es", "other"}
    assert [[each["reference"], *each["variants"]] for each in found["items"]] == scores(results)


# Files.


GOOD = {"source_context": ["A."], "target_context": ["B."], "source": "It fell.", "reference": "Er fiel.",
        "contrastive": ["Sie fiel."]}  # fmt: skip


LABELS = st.fixed_dictionaries({}, optional={"distance": st.integers(0, 99), "phenomenon": st.text()})
CONTEXTS = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.builds(lambda context, labels: item(context, **labels), CONTEXTS, LABELS), min_size=1, max_size=4))
def test_a_suite_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, items: list[Item]) -> None:
    path = tmp_path_factory.mktemp("suite") / "suite.jsonl"
    path.write_text("\n\n".join(each.model_dump_json() for each in items) + "\n", encoding="utf-8")
    assert read_suite(path) == items


def test_a_suite_may_hold_more_than_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(json.dumps(GOOD | {"note": 1, "phenomenon": None}))
    assert read_suite(path) == [Item(**GOOD)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON", "whole object"]),
        ("[1]", ["no object"]),
        (json.dumps({key: value for key, value in GOOD.items() if key != "reference"}), ["no 'reference'"]),
        (json.dumps(GOOD | {"target_context": []}), ["1 sentences in 'source_context' and 0", "its translation"]),
        (json.dumps(GOOD | {"contrastive": []}), ["'contrastive'", "at least one wrong translation"]),
        (json.dumps(GOOD | {"contrastive": ["Sie fiel.", " "]}), ["empty 'contrastive.1'"]),
        (json.dumps(GOOD | {"contrastive": ["Er fiel."]}), ["its reference among 'contrastive'"]),
        (json.dumps(GOOD | {"contrastive": "Sie fiel."}), ["wrong 'contrastive'"]),
        (json.dumps(GOOD | {"source_context": [3]}), ["wrong 'source_context.0'"]),
        (json.dumps(GOOD | {"reference": ""}), ["empty 'reference'", "fill it in"]),
        (json.dumps(GOOD | {"source": "\t"}), ["empty 'source'"]),
        (json.dumps(GOOD | {"distance": -1}), ["wrong 'distance'"]),
        (json.dumps(GOOD | {"distance": "1"}), ["wrong 'distance'"]),
        (json.dumps(GOOD | {"reference": "\ud800"}), ["not JSON"]),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: list[str]) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_suite(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3 has" if "JSON" not in message else f"{path}:3 is")
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_text("\n \n"), "no items"),
        (lambda path: path.write_bytes(b"\xff"), "UTF-8"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_suite_is_refused(tmp_path: Path, write: Callable[[Path], object], word: str) -> None:
    path = tmp_path / "suite.jsonl"
    write(path)
    with pytest.raises(InputError, match=word) as caught:
        read_suite(path)
    assert str(caught.value).startswith(str(path))
