"""Gradient and effect of planted sentences: definitions computed in another way, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import Done, refused
from helpers import make_translator, shake
from tram.analysis.attribution import DistanceRange, PackedTokens, token_gradients
from tram.analysis.encoded import encode_document
from tram.analysis.planted import (
    MeanInterval,
    Profile,
    gradient_shares,
    mean_intervals,
    neighbour_gradient,
    peak_distance,
    planted,
    sample_items,
    sentence_effects,
    without_sentence,
)
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.contrast import score_suite
from tram.evaluation.suite import ContrastiveItem
from tram.translation.translator import Translator


def an_item(distance: int | None, context: int = 5) -> ContrastiveItem:
    lines = tuple(f"The cat waits {number}." for number in range(context))
    return ContrastiveItem(
        source_context=lines,
        target_context=lines,
        source="It waits.",
        reference="Sie wartet.",
        contrastive=("Er wartet.",),
        distance=distance,
    )


def the_document(item: ContrastiveItem, answer: str) -> ParallelDocument:
    return ParallelDocument([*item.source_context, item.source], [*item.target_context, answer])


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    made = make_translator(prepared)
    shake(made.model, seed=3)
    return made


def test_gradients_of_one_sentence_equal_those_of_all(translator: Translator) -> None:
    document = encode_document(translator, the_document(an_item(2), "Sie wartet."))
    (last,) = token_gradients(translator.model, document, {5})
    *_, of_all = token_gradients(translator.model, document)
    assert last.sentence == 5
    torch.testing.assert_close(last.source, of_all.source)


def test_shares_are_gradients_of_the_log_odds(translator: Translator) -> None:
    item = an_item(1)
    answers = (item.reference, item.contrastive[0])
    right, wrong = (encode_document(translator, the_document(item, answer)) for answer in answers)
    (a,), (b,) = (list(token_gradients(translator.model, each, {5})) for each in (right, wrong))
    expected = []
    for k in (1, 2, 3, 4):
        source, target = (
            PackedTokens.of(ids, right.special).first_occurrences(5, DistanceRange(k, k))
            for ids in (right.source, right.decoder_input)
        )
        norms = [*(a.source - b.source)[source].norm(dim=1), *(a.target[target] - b.target[target]).norm(dim=1)]
        expected.append(float(torch.stack(norms).mean()))
    assert gradient_shares(translator, item, 4) == pytest.approx(np.array(expected) / sum(expected))


def test_the_effect_is_what_is_lost_without_a_sentence(translator: Translator) -> None:
    item = an_item(2)
    sources, targets = (lines[:3] + lines[4:] for lines in (item.source_context, item.target_context))
    shorter = item.model_copy(update={"source_context": sources, "target_context": targets})
    assert without_sentence(item, 2) == shorter
    assert without_sentence(item, 5).source_context == item.source_context[1:]
    whole, less = (result.reference - result.variants[0] for result in score_suite(translator, [item, shorter]))
    assert sentence_effects(translator, [item, item], 5)[1, 1] == pytest.approx(whole - less, abs=1e-5)


def test_means_and_peak() -> None:
    found = mean_intervals(np.array([[0.1, 0.2, 0.6, 0.1], [0.2, 0.1, 0.5, 0.2]]))
    assert [each.mean for each in found] == pytest.approx([0.15, 0.15, 0.55, 0.15])
    assert (found[2].low, found[2].high) == pytest.approx((0.5, 0.6))
    assert peak_distance(found) == 3
    found[1] = MeanInterval(0.25, 0, 1)
    assert neighbour_gradient(Profile(3, 2, found, [])) == pytest.approx(0.2)
    assert neighbour_gradient(Profile(1, 2, found, [])) == pytest.approx(0.25)


def test_every_distance_has_a_profile(translator: Translator) -> None:
    items = [an_item(2), an_item(1), an_item(None), an_item(1), an_item(3), an_item(30, context=40)]
    report = planted("m", translator, items)
    # The context must have three sentences before the one that decides.
    assert [(each["distance"], each["items"]) for each in report.numbers["profiles"]] == [(1, 2), (2, 1)]
    assert [(len(each["gradient"]), len(each["effect"])) for each in report.numbers["profiles"]] == [(4, 4), (5, 5)]
    assert "of 2 planted distances" in report.text


def test_of_many_items_a_sample_is_used() -> None:
    groups = sample_items([an_item(1, context=5 + n) for n in range(9)], most=4, longest=20)
    assert len(groups[1]) == 4
    assert groups == sample_items([an_item(1, context=5 + n) for n in range(9)], most=4, longest=20)


def test_suites_without_distances_or_context_are_refused(translator: Translator) -> None:
    with pytest.raises(InputError, match="no item has a distance"):
        planted("m", translator, [an_item(None)])
    with pytest.raises(InputError, match="and 3 more sentences of context"):
        planted("m", translator, [an_item(4)])


def test_the_command(translator: Translator, run: Path, tmp_path: Path, tram: Callable[..., Done]) -> None:
    translator.save(tmp_path / "model")
    suite = tmp_path / "suite.jsonl"
    suite.write_text("".join(an_item(d).model_dump_json() + "\n" for d in (1, 2)))
    arguments = ("analyze", "planted", suite, "--output", tmp_path / "out")
    done = tram(*arguments, "--model", tmp_path / "model")
    assert done.code == 0, done.err
    assert len(json.loads((tmp_path / "out" / "planted.json").read_text())["profiles"]) == 2
    assert "<svg" in (tmp_path / "out" / "planted.svg").read_text()
    refused(tram(*arguments, "--model", run), "has no memory")
