"""Gradients by distance: finite differences, scores computed by hand, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import TINY, Done, made_up, refused, write_pair
from helpers import START, random_ids, tiny_config, tiny_model
from tram.analysis.attribution import (
    OWN,
    DistanceRange,
    GradientSums,
    PackedTokens,
    attribution,
    distance_ranges,
    distance_scores,
    document_sums,
    full_depth,
    token_gradients,
)
from tram.analysis.encoded import EncodedDocument
from tram.config import MemoryConfig
from tram.errors import InputError
from tram.model.contexts.memory import Memory
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SpecialIds
from tram.translation.translator import Translator

CONTROL = SpecialIds().control
LENGTHS = [4, 3, 5, 4]


def a_document() -> EncodedDocument:
    ids = random_ids([LENGTHS], seed=3, first=START)
    return EncodedDocument([1, 2, 3, 4], random_ids([LENGTHS], seed=2), ids, random_ids([LENGTHS], seed=4), CONTROL)


def a_model(norm: str, side: Any, depth: Any = 1) -> Transformer:
    read = "norm" if norm == "post" else "add"
    return tiny_model(tiny_config(norm=norm, memory=MemoryConfig(slots=3, side=side, read=read, depth=depth)))


@torch.no_grad()
def losses(model: Transformer, document: EncodedDocument, shifts: dict[str, Tensor]) -> Tensor:
    """Return the loss of every sentence if embedded tokens are shifted: (sentences,)."""
    handles = [
        side.embeddings.register_forward_hook(lambda module, given, out, name=name: out + shifts[name])
        for name, side in (("source", model.encoder), ("target", model.decoder))
        if name in shifts
    ]
    logits = model(document.source, document.decoder_input).log_softmax(-1)
    for handle in handles:
        handle.remove()
    real = document.labels != 0
    return -(logits.gather(3, document.labels[..., None]).squeeze(3) * real).sum(-1)[0]


@pytest.mark.parametrize(("norm", "side"), [("post", "both"), ("pre", "both"), ("post", "source"), ("pre", "target")])
def test_gradients_equal_finite_differences(norm: str, side: str) -> None:
    model, document = a_model(norm, side), a_document()
    found = list(token_gradients(model, document))
    draw = torch.Generator().manual_seed(1)
    for name in ("source", "target"):
        direction = torch.randn(sum(LENGTHS), 16, generator=draw, dtype=torch.float64)
        step = 1e-5
        ahead, behind = (losses(model, document, {name: sign * step * direction}) for sign in (1, -1))
        measured = (ahead - behind) / (2 * step)
        computed = torch.stack([(getattr(each, name) * direction).sum() for each in found])
        torch.testing.assert_close(computed, measured, rtol=1e-5, atol=1e-7)


def test_a_loss_depends_on_all_earlier_sentences_and_on_no_later_one() -> None:
    model = a_model("post", "both", depth=1)
    for each in token_gradients(model, a_document()):
        for gradient in (each.source, each.target):
            strengths = [part.abs().max() > 0 for part in gradient.split(LENGTHS)]
            assert strengths == [i <= each.sentence for i in range(len(LENGTHS))]


def test_the_gradient_depth_is_restored() -> None:
    model = a_model("post", "both", depth=2)
    units = [module for module in model.modules() if isinstance(module, Memory)]
    with full_depth(model):
        assert {unit.depth for unit in units} == {"full"}
    assert {unit.depth for unit in units} == {2}


def test_a_token_type_counts_once_at_its_first_occurrence() -> None:
    #                       sentence 0          sentence 1       sentence 2
    ids = torch.tensor([[[1, 7, 8, 7, 2], [1, 8, 9, 2, 0], [1, 7, 9, 2, 0]]])
    tokens = PackedTokens.of(ids, CONTROL)
    assert tokens.sentences.tolist() == [0] * 5 + [1] * 4 + [2] * 4
    assert sorted(tokens.first_occurrences(2, OWN)) == [10, 11]
    assert sorted(tokens.first_occurrences(2, DistanceRange(1, 1))) == [6, 7]
    assert sorted(tokens.first_occurrences(2, DistanceRange(1, 2))) == [
        1,
        2,
        7,
    ]  # 7, 8: sentence 0; 9: sentence 1
    assert sorted(tokens.first_occurrences(2, DistanceRange(2, None))) == [1, 2]
    assert len(tokens.first_occurrences(0, DistanceRange(1, None))) == 0


def test_sums_are_means_over_the_tokens_that_count() -> None:
    model, document = a_model("post", "both"), a_document()
    sums = document_sums(model, document, [DistanceRange(1, 1), DistanceRange(2, None)])
    assert sums.sentences.tolist() == [3, 2]
    last = list(token_gradients(model, document))[3]
    words: dict[int, float] = {}
    for number, gradient in zip(document.source[0, 3].tolist(), last.source[sum(LENGTHS[:3]) :], strict=False):
        words.setdefault(number, float(gradient.norm()))
    only = document_sums(model, document, [DistanceRange(3, 3)])  # only sentence 3 has a sentence that far back
    assert only.own[1, 0] == pytest.approx(np.mean(list(words.values())))


def test_scores_equal_a_computation_by_hand() -> None:
    one = GradientSums(np.array([[2.0], [1.0], [3.0]]), np.array([[4.0], [4.0], [4.0]]), np.array([2]))
    two = GradientSums(np.array([[1.0], [1.0], [1.0]]), np.array([[2.0], [4.0], [1.0]]), np.array([1]))
    (score,) = distance_scores([one, two], [DistanceRange(1, 10)])
    assert (score.score, score.source, score.target) == pytest.approx((3 / 6, 2 / 8, 4 / 5))
    assert (score.low, score.high) == pytest.approx((0.5, 0.5))  # both documents have the same share
    assert score.sentences == 3
    (alone,) = distance_scores([one], [DistanceRange(1, 10)])
    assert (alone.low, alone.high) == (None, None)


def test_ranges_reach_as_far_as_the_documents() -> None:
    assert [r.label for r in distance_ranges([26, 12], 10, 100)] == ["1–10", "11–20", "21–30"]
    assert [r.label for r in distance_ranges([4], 1, 2)] == ["1", "2", "3+"]
    assert [r.label for r in distance_ranges([130], 50, 100)] == ["1–50", "51–100", "101+"]
    with pytest.raises(InputError, match="smaller --bin"):
        distance_ranges([11, 3], 10, 100)


@pytest.fixture(scope="module")
def memory_model(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = TextPipeline.load(prepared)
    torch.manual_seed(1)
    config = TINY.model_copy(update={"context": MemoryConfig(slots=4)})
    folder = tmp_path_factory.mktemp("model")
    Translator(Transformer(config, text.vocabulary), text).save(folder)
    return folder


def test_the_report_compares_models(memory_model: Path) -> None:
    documents = made_up([4, 3], seed=5)
    translator = Translator.load(memory_model)
    report = attribution([("a", translator), ("b", translator)], documents, size=1, longest=2)
    a, b = report.numbers["models"]
    assert a["scores"] == b["scores"]
    assert [score["distance"] for score in a["scores"]] == ["1", "2", "3+"]
    assert all(score["score"] > 0 for score in a["scores"])
    assert a["scores"][2]["low"] is None  # only one document is that long


def test_an_empty_sentence_changes_nothing(memory_model: Path) -> None:
    (document,) = made_up([4], seed=5)
    translator = Translator.load(memory_model)
    whole = attribution([("a", translator)], [document], size=1).numbers["models"]
    document.source.insert(2, "")
    document.target.insert(2, "")
    assert attribution([("a", translator)], [document], size=1).numbers["models"] == whole


def test_the_command(tmp_path: Path, memory_model: Path, run: Path, tram: Callable[..., Done]) -> None:
    pair = write_pair(tmp_path, "test", made_up([4, 3], seed=5))
    out = tmp_path / "out"
    arguments = ("analyze", "attribution", *pair, "--output", out)
    done = tram(*arguments, "--model", memory_model, "--bin", 1)
    assert done.code == 0, done.err
    assert "whatever depth" in (out / "attribution.md").read_text()
    refused(tram(*arguments, "--model", run, "--bin", 1), "has no memory", "finetuned")
    refused(tram(*arguments, "--model", memory_model), "smaller --bin")
