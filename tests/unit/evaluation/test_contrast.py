"""Contrastive scoring: the scores of an item depend on its own context and on nothing else in the suite."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import pair_ids, shake, tiny_config
from tram.config import MemoryConfig
from tram.data.batches import decoder_input
from tram.evaluation.accuracy import contrast_json
from tram.evaluation.contrast import ItemResult, score_suite
from tram.evaluation.suite import ContrastiveItem
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


def item(
    context: Sequence[int],
    source: str = "It fell.",
    reference: str = "Er fiel.",
    contrastive: Sequence[str] = ("Sie fiel.", "Es fiel."),
    **more: Any,
) -> ContrastiveItem:
    """Return an item with some of the sentences above as context."""
    contexts = {"source_context": [ENGLISH[i] for i in context], "target_context": [GERMAN[i] for i in context]}
    return ContrastiveItem(**contexts, source=source, reference=reference, contrastive=contrastive, **more)


ITEMS = [
    item([0]),
    item([1, 0]),
    item([1, 0], "She owns it.", "Es gehört ihr.", ["Er gehört ihr."]),
    item([]),
    item([2, 3, 4, 1, 0, 2], "Is it old?", "Ist sie alt?", ["Ist er alt?", "Ist es alt?", "Ist das alt?"]),
    item([4], "It is.", "Sie ist es.", ["Er ist es."]),
    item([0], "Take it.", "Nimm ihn.", ["Nimm sie.", "Nimm es."]),
    item([0]).model_copy(
        update={"target_context": ("Das Fluggerät ist rot.",)}
    ),  # shares the source context of the first
]


@pytest.fixture(scope="module")
def text() -> TextPipeline:
    return TextPipeline.learn(ENGLISH * 3, GERMAN * 3, "en", "de", pipeline="raw", merges=120)


def make(text: TextPipeline, **changes: Any) -> Translator:
    """Return a translator with random weights in double precision."""
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
    """Return whether all scores and decisions agree."""
    pairs = zip(scores(found), scores(expected), strict=True)
    near = all(a == pytest.approx(b, rel=0, abs=1e-10) for a, b in pairs)
    return near and [result.right for result in found] == [result.right for result in expected]


def by_hand(translator: Translator, source: list[str], target: list[str]) -> float:
    """Return the log-probability of the last sentence of a document, from the logits of the whole document."""
    sources, targets = pair_ids(translator, source, target)
    with torch.no_grad():
        log_probs = translator.model(sources, decoder_input(targets))[0, -1].log_softmax(-1)
    labels = [label for label in targets[0, -1, 1:].tolist() if label]
    return math.fsum(log_probs[position, label].item() for position, label in enumerate(labels))


# Scores.


@pytest.mark.parametrize(
    "memory",
    [
        None,
        MemoryConfig(slots=3),
        MemoryConfig(slots=2, side="source"),
        MemoryConfig(slots=2, side="target", layers=[0, 1]),
    ],
)
def test_a_score_is_the_probability_of_the_last_sentence_of_its_document(
    text: TextPipeline, memory: MemoryConfig | None
) -> None:
    translator = make(text, memory=memory)
    for each, found in zip(ITEMS, scores(score_suite(translator, ITEMS)), strict=True):
        source = [*each.source_context, each.source]
        targets = [[*each.target_context, target] for target in (each.reference, *each.contrastive)]
        expected = [by_hand(translator, source, target) for target in targets]
        assert found == pytest.approx(expected, rel=0, abs=1e-10)


@pytest.fixture(scope="module")
def alone(translator: Translator) -> dict[History, list[ItemResult]]:
    """Score every item in a suite of its own."""
    kinds: list[History] = ["gold", "generated", "none"]
    return {history: [score_suite(translator, [each], history)[0] for each in ITEMS] for history in kinds}


@settings(max_examples=12)
@given(st.permutations(range(len(ITEMS))), st.integers(1, 300), st.sampled_from(["gold", "generated", "none"]))
def test_order_neighbours_and_batches_do_not_change_a_score(
    translator: Translator, alone: dict[History, list[ItemResult]], order: list[int], tokens: int, history: History
) -> None:
    found = score_suite(translator, [ITEMS[i] for i in order], history, tokens)
    assert close(found, [alone[history][i] for i in order])


def test_every_history_has_different_scores(alone: dict[History, list[ItemResult]]) -> None:
    """Check that the test above can fail."""
    firsts = {history: results[0].reference for history, results in alone.items()}
    assert len({round(value, 6) for value in firsts.values()}) == 3
    assert alone["gold"][3].reference == pytest.approx(alone["none"][3].reference), "it has no context"


def test_variants_do_not_affect_each_other(translator: Translator) -> None:
    both = item([1, 0])
    single = [item([1, 0], contrastive=[variant]) for variant in both.contrastive]
    together = score_suite(translator, [both])[0]
    apart = score_suite(translator, single)
    assert together.variants == pytest.approx([result.variants[0] for result in apart], rel=0, abs=1e-10)


def test_swapping_reference_and_variant_swaps_their_scores(translator: Translator) -> None:
    one, swapped = item([0], contrastive=["Sie fiel."]), item([0], reference="Sie fiel.", contrastive=["Er fiel."])
    first, second = score_suite(translator, [one, swapped])
    assert (first.reference, *first.variants) == pytest.approx((*second.variants, second.reference), rel=0, abs=1e-10)
    assert first.right != second.right


def test_swapping_contexts_swaps_scores(translator: Translator) -> None:
    first, second = score_suite(translator, [item([0, 1]), item([4])])
    swapped = score_suite(translator, [item([4]), item([0, 1])])
    assert close(swapped, [second, first])
    assert abs(first.reference - second.reference) > 1e-6


def test_a_sentence_model_ignores_the_context(sentence_model: Translator) -> None:
    assert close(score_suite(sentence_model, [item([0, 1]), item([4, 2])]), score_suite(sentence_model, [item([])] * 2))


def test_generated_history_is_the_translation_of_the_context(translator: Translator) -> None:
    """Check that an item is scored from the state after translating its context."""
    state = translator.start()
    translator.translate(ENGLISH[:3], state)
    model = translator.model
    source, target = pair_ids(translator, ["It fell."], ["Er fiel."])
    with torch.inference_mode():
        log_probs = model.logits(model.forced_decode(source, decoder_input(target), state.state).states).log_softmax(-1)
    expected = log_probs.gather(-1, target[0, 0, 1:, None]).sum().item()
    found = score_suite(translator, [item([0, 1, 2])], "generated")
    assert found[0].reference == pytest.approx(expected, rel=0, abs=1e-10)


def test_generated_history_does_not_use_the_reference_translations(translator: Translator) -> None:
    wrong = item([0, 1]).model_copy(update={"target_context": (GERMAN[4], GERMAN[2])})
    assert close(score_suite(translator, [wrong], "generated"), score_suite(translator, [item([0, 1])], "generated"))
    assert not close(score_suite(translator, [wrong], "gold"), score_suite(translator, [item([0, 1])], "gold"))


@pytest.mark.parametrize("empty", ["source_context", "target_context"])
def test_a_pair_with_an_empty_side_is_skipped(translator: Translator, empty: str) -> None:
    full = item([1, 3, 0])
    with_gap = full.model_copy(update={empty: (getattr(full, empty)[0], " ", getattr(full, empty)[2])})
    assert close(score_suite(translator, [with_gap]), score_suite(translator, [item([1, 0])]))


def test_a_long_context_is_read_in_parts(translator: Translator) -> None:
    long = item([0, 1, 2, 3, 4] * 20)
    assert close(score_suite(translator, [long], tokens=40), score_suite(translator, [long], tokens=100_000))


def test_long_sentences_are_truncated_with_a_warning(translator: Translator) -> None:
    long = "Er fiel " + "ab " * LONGEST
    with pytest.warns(UserWarning, match="1 target sentences were truncated to the model's 30 subwords"):
        results = score_suite(translator, [item([0], reference=long + "um.", contrastive=["Es fiel."])])
    truncated = translator.text.bpe.decode(translator.text.encode([long], "target")[0][:LONGEST])
    expected = by_hand(translator, [ENGLISH[0], "It fell."], [GERMAN[0], truncated])
    assert results[0].reference == pytest.approx(expected, rel=0, abs=1e-10)


def test_translations_that_are_equal_after_truncation_are_a_tie_and_wrong(translator: Translator) -> None:
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
    """Check that a context is read once for all its items, and a source encoded once for all its variants."""
    questions = [item([1, 0, 2], source, contrastive=["Sie fiel.", "Es fiel.", "Das fiel."]) for source in ENGLISH]
    encoded, decoded = [], []
    encode, decode = translator.model.encode, translator.model.decode

    def spy_encode(source: torch.Tensor, *rest: Any, **named: Any) -> Any:
        encoded.append(int((source != 0).any(-1).sum()))
        return encode(source, *rest, **named)

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
def test_log_probabilities_in_chunks_equal_those_at_once(sentence_model: Translator, tokens: int, chunk: int) -> None:
    model = sentence_model.model
    draw = torch.Generator().manual_seed(tokens)
    states = torch.randn(tokens, model.config.d_model, generator=draw, dtype=torch.float64)
    labels = torch.randint(model.vocabulary, (tokens,), generator=draw)
    with torch.no_grad():
        whole = model.logits(states).log_softmax(-1)[torch.arange(tokens), labels]
        assert torch.allclose(model.token_log_probs(states, labels, chunk), whole, rtol=0, atol=1e-12)


# Decisions.


@pytest.mark.parametrize(
    ("reference", "variants", "right"),
    [
        (-1.0, (-2.0, -1.5), True),
        (-1.0, (-2.0, -0.5), False),
        (-1.0, (-1.0,), False),
        (-1.0, (-3.0, -1.0), False),
        (math.nan, (-1.0,), False),
        (-1.0, (math.nan,), False),
    ],
)
def test_an_item_is_right_only_if_the_reference_beats_all_variants(
    reference: float, variants: tuple[float, ...], right: bool
) -> None:
    assert ItemResult(ITEMS[0], reference, variants).right is right


def test_json_has_the_summary_and_every_item(translator: Translator) -> None:
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
