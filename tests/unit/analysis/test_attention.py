"""Paths word → slot → word: effects, searches, attention maps, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import Done, made_up, refused, write_pair
from helpers import make_translator, shake
from tram.analysis.attention import attention, choose_maps
from tram.analysis.paths import (
    DocumentTrace,
    MemoryPath,
    WordSpan,
    best_per_word_pair,
    log_probabilities,
    masked_log_probabilities,
    search_by_effect,
    search_by_weight,
    sentence_words,
    trace_document,
    with_slot,
    word_effects,
)
from tram.errors import InputError
from tram.model.packing import Layout
from tram.model.state import State
from tram.text.pipeline import TextPipeline

UNITS = ["encoder.1.self", "decoder.1.self"]


@pytest.fixture(scope="module")
def trace(prepared: Path) -> DocumentTrace:
    return trace_document(make_translator(prepared), made_up([4], seed=9)[0])


def test_words_are_whole_and_without_punctuation(prepared: Path) -> None:
    text = TextPipeline.load(prepared)
    ids = [1, *text.encode(["My neighbour sings, on the bridge."], "source")[0], 2, 0, 0]
    found = sentence_words(text, torch.tensor(ids), "source")
    assert [word.text.lower() for word in found] == ["my", "neighbour", "sings", "on", "the", "bridge"]
    positions = [position for word in found for position in word.positions]
    assert positions == sorted(set(positions))
    assert all(ids[position] > 2 for position in positions)


def test_reading_sentence_by_sentence_equals_reading_at_once(trace: DocumentTrace) -> None:
    document = trace.document
    with torch.no_grad():
        whole = trace.model(document.source, document.decoder_input).log_softmax(-1)[0]
    for j in range(len(document)):
        labels = document.labels[0, j][document.labels[0, j] != 0]
        expected = whole[j, : len(labels)].gather(1, labels[:, None]).squeeze(1)
        torch.testing.assert_close(log_probabilities(trace, j, trace.states[j])[0], expected)


@pytest.mark.parametrize("unit", UNITS)
def test_hiding_nothing_changes_nothing(trace: DocumentTrace, unit: str) -> None:
    visible = torch.ones(2, 1, len(trace.update_inputs[0][unit]), dtype=torch.bool)
    expected = log_probabilities(trace, 3, trace.states[3])
    torch.testing.assert_close(masked_log_probabilities(trace, unit, 0, 3, visible), expected.expand(2, -1))


@pytest.mark.parametrize("unit", UNITS)
def test_hiding_a_word_equals_updating_without_its_states(trace: DocumentTrace, unit: str) -> None:
    """Compute the same in another way: remove the word's states and continue the memory with `advance`."""
    word = trace.update_words(unit, 1)[1]
    memory = trace.units[unit]
    state = trace.states[1][unit]
    with torch.inference_mode():
        for t in (1, 2):
            states = trace.update_inputs[t][unit]
            kept = [n for n in range(len(states)) if t != 1 or n not in word.positions]
            state = memory.advance(states[kept], Layout(torch.ones(1, 1, len(kept), dtype=torch.long)), state)
    expected = log_probabilities(trace, 3, trace.states[3] | State({unit: state}))
    lost = log_probabilities(trace, 3, trace.states[3]) - expected
    found = {(path.a.text, path.b.text): path.value for path in word_effects(trace, unit, 1, 3) if path.a == word}
    assert len(found) == len({b.text for b in trace.predicted_words(3)})
    for b in trace.predicted_words(3):
        assert found[word.text, b.text] == pytest.approx(float(lost[0, b.positions].sum()), abs=1e-9)


def test_the_only_slot_restores_the_whole_effect(prepared: Path) -> None:
    trace = trace_document(make_translator(prepared, slots=1), made_up([3], seed=9)[0])
    for path in word_effects(trace, UNITS[1], 0, 1)[:5]:
        found = with_slot(trace, path)
        assert found.slot == 0
        assert found.slot_value == pytest.approx(path.value, abs=1e-9)


def test_the_first_sentence_gains_nothing_from_the_memory(trace: DocumentTrace) -> None:
    assert float(trace.token_gains[0].abs().max()) == 0
    assert all(float(gain.abs().max()) > 0 for gain in trace.token_gains[1:])


def test_the_search_finds_the_largest_effect_within_reach(trace: DocumentTrace) -> None:
    found = search_by_effect(trace, UNITS, reach=2, limit=3)
    pairs = [(i, j) for j in (1, 2, 3) for i in range(max(0, j - 2), j)]
    every = [path for unit in UNITS for pair in pairs for path in word_effects(trace, unit, *pair)]
    assert found[0].value == max(path.value for path in every)
    assert [path.value for path in found] == sorted((path.value for path in found), reverse=True)
    assert all(1 <= path.j - path.i <= 2 for path in found)


def test_weights_are_products_of_the_two_maps(trace: DocumentTrace) -> None:
    best = search_by_weight(trace, UNITS, lift=False, limit=1)[0]
    maps = trace.model.memory_maps(trace.document.source, trace.document.decoder_input)[best.unit][0]
    update = maps[best.i].update.mean(0)[best.slot, best.a.positions].sum()
    output = maps[best.j].output.mean(0)[best.b.positions, best.slot].mean()
    assert best.value == pytest.approx(float(update * output))
    assert best.j == best.i + 1
    assert search_by_weight(trace, UNITS, lift=True, limit=1)[0].value > 1


def test_a_pair_of_words_has_one_path() -> None:
    def path(a: str, b: str, value: float) -> MemoryPath:
        return MemoryPath("decoder.0.self", 0, 1, WordSpan(a, [1]), WordSpan(b, [1]), value)

    found = best_per_word_pair([path("Frau", "sie", 1.0), path("frau", "Sie", 3.0), path("Uhr", "sie", 2.0)])
    assert [(each.a.text, each.value) for each in found] == [("frau", 3.0), ("Uhr", 2.0)]


def test_the_maps_shown_are_those_of_the_best_path(trace: DocumentTrace) -> None:
    paths = search_by_effect(trace, UNITS, reach=1, limit=1)
    shown = choose_maps({1: trace}, UNITS, paths, None)
    assert (shown.unit, shown.i, shown.j) == (paths[0].unit, paths[0].i, paths[0].j)
    assert shown.update.shape == (2, 4, len(shown.update_tokens))
    assert shown.output.shape == (2, 4, len(shown.output_tokens))
    assert shown.update.sum(axis=2) == pytest.approx(1)  # a slot's attention to the tokens
    assert shown.output.sum(axis=1) == pytest.approx(1)  # a token's attention to the slots


@pytest.mark.parametrize(("side", "norm"), [("source", "pre"), ("target", "post")])
def test_a_memory_on_one_side(prepared: Path, tmp_path: Path, side: str, norm: str) -> None:
    translator = make_translator(prepared, side, norm)
    if norm == "pre":
        shake(translator.model, seed=3)  # `read: add` starts at zero
    report = attention("m", translator, {1: made_up([3], seed=9)[0]})
    assert all(
        path["unit"].startswith("encoder" if side == "source" else "decoder") for path in report.numbers["paths"]
    )
    assert report.numbers["paths"][0]["value"] > 0
    assert f"→ slot {report.numbers['paths'][0]['slot']} →" in report.text


def test_a_given_pair_of_sentences_and_tokens_with_dollar_signs(prepared: Path, tmp_path: Path) -> None:
    translator = make_translator(prepared)
    document = made_up([4], seed=9)[0]
    document.target[0] = "Der $Müller$ _^ wartet."
    report = attention("m", translator, {1: document}, sentences=(1, 4))
    assert {(p["from_sentence"], p["to_sentence"]) for p in report.numbers["paths"]} == {(1, 4)}
    report.write(tmp_path)
    assert "<svg" in (tmp_path / "attention.svg").read_text()
    far = attention("m", translator, {1: document}, sentences=(1, 4), rank="weight")
    assert far.numbers["paths"] == []
    assert "No path was found" in far.text


def test_missing_units_sentences_and_documents_are_refused(prepared: Path) -> None:
    translator = make_translator(prepared)
    document = made_up([3], seed=9)[0]
    with pytest.raises(InputError, match=r"decoder\.9\.self.*it has encoder\.1\.self"):
        attention("m", translator, {1: document}, unit="decoder.9.self")
    with pytest.raises(InputError, match="no sentence 7; give two from 1 to 3"):
        attention("m", translator, {1: document}, sentences=(1, 7))
    with pytest.raises(InputError, match="after the first"):
        attention("m", translator, {1: document}, sentences=(3, 2))
    with pytest.raises(InputError, match="only one sentence"):
        attention("m", translator, {1: made_up([1], seed=9)[0]})
    with pytest.raises(InputError, match="choose one with --document"):
        attention("m", translator, {1: document, 2: document}, sentences=(1, 2))


def test_the_strongest_paths_of_several_documents(prepared: Path) -> None:
    translator = make_translator(prepared)
    shake(translator.model, seed=3)
    documents = dict(enumerate(made_up([3, 1, 4], seed=9), start=5))
    report = attention("m", translator, documents)
    alone = [attention("m", translator, {number: documents[number]}) for number in (5, 7)]
    assert report.numbers["documents"] == {5: 3, 7: 4}  # a document of one sentence has no earlier sentence
    best = max((each.numbers["paths"][0] for each in alone), key=lambda path: path["value"])
    assert report.numbers["paths"][0] == best
    assert report.numbers["shown"]["document"] == best["document"]
    assert {path["document"] for path in report.numbers["paths"]} == {5, 7}


def test_the_command(prepared: Path, run: Path, tmp_path: Path, tram: Callable[..., Done]) -> None:
    make_translator(prepared).save(tmp_path / "model")
    pair = write_pair(tmp_path, "test", made_up([3, 2], seed=9))
    arguments = ("analyze", "attention", *pair, "--output", tmp_path / "out")
    done = tram(*arguments, "--model", tmp_path / "model", "--document", 2, "--rank", "weight")
    assert done.code == 0, done.err
    numbers = json.loads((tmp_path / "out" / "attention.json").read_text())
    assert (numbers["documents"], numbers["rank"]) == ({"2": 2}, "weight")
    refused(tram(*arguments, "--model", tmp_path / "model", "--document", 3), "from 1 to 2")
    refused(tram(*arguments, "--model", run), "has no memory")
