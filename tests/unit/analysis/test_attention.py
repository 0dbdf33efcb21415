"""Paths word → slot → word: what withholding means, what is searched, how attention is shown, what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import Done, made_up, refused, write_pair
from helpers import make_translator, shake
from tram.analysis.attention import attention, choose
from tram.analysis.paths import (
    Path as WordPath,
)
from tram.analysis.paths import (
    Reading,
    Word,
    best_of_pairs,
    log_probabilities,
    read_document,
    search_effects,
    search_weights,
    with_slot,
    without,
    word_effects,
    words,
)
from tram.errors import InputError
from tram.model.packing import Layout
from tram.model.state import State
from tram.text.pipeline import TextPipeline

UNITS = ["encoder.1.self", "decoder.1.self"]


@pytest.fixture(scope="module")
def reading(prepared: Path) -> Reading:
    return read_document(make_translator(prepared), made_up([4], seed=9)[0])


def test_words_are_whole_and_without_punctuation(prepared: Path) -> None:
    text = TextPipeline.load(prepared)
    ids = [1, *text.encode(["My neighbour sings, on the bridge."], "source")[0], 2, 0, 0]
    found = words(text, torch.tensor(ids))
    assert [word.text.lower() for word in found] == ["my", "neighbour", "sings", "on", "the", "bridge"]
    places = [place for word in found for place in word.places]
    assert places == sorted(set(places))
    assert all(ids[place] > 2 for place in places)


def test_reading_sentence_by_sentence_is_reading_at_once(reading: Reading) -> None:
    document = reading.document
    with torch.no_grad():
        whole = reading.model(document.source, document.decoder_input).log_softmax(-1)[0]
    for j in range(len(document)):
        labels = document.labels[0, j][document.labels[0, j] != 0]
        expected = whole[j, : len(labels)].gather(1, labels[:, None]).squeeze(1)
        torch.testing.assert_close(log_probabilities(reading, j, reading.before[j])[0], expected)


@pytest.mark.parametrize("unit", UNITS)
def test_withholding_nothing_changes_nothing(reading: Reading, unit: str) -> None:
    seen = torch.ones(2, 1, len(reading.taken[0][unit]), dtype=torch.bool)
    expected = log_probabilities(reading, 3, reading.before[3])
    torch.testing.assert_close(without(reading, unit, 0, 3, seen), expected.expand(2, -1))


@pytest.mark.parametrize("unit", UNITS)
def test_withholding_a_word_is_updating_without_its_states(reading: Reading, unit: str) -> None:
    """The same by another way: the word's states are cut out and the memory goes on by `advance`."""
    word = reading.written(unit, 1)[1]
    memory = reading.units[unit]
    state = reading.before[1][unit]
    with torch.inference_mode():
        for t in (1, 2):
            states = reading.taken[t][unit]
            kept = [n for n in range(len(states)) if t != 1 or n not in word.places]
            state = memory.advance(states[kept], Layout(torch.ones(1, 1, len(kept), dtype=torch.long)), state)
    expected = log_probabilities(reading, 3, reading.before[3] | State({unit: state}))
    lost = log_probabilities(reading, 3, reading.before[3]) - expected
    found = {(path.a.text, path.b.text): path.value for path in word_effects(reading, unit, 1, 3) if path.a == word}
    assert len(found) == len({b.text for b in reading.predicted(3)})
    for b in reading.predicted(3):
        assert found[word.text, b.text] == pytest.approx(float(lost[0, b.places].sum()), abs=1e-9)


def test_one_slot_alone_gives_the_whole_effect_back(prepared: Path) -> None:
    reading = read_document(make_translator(prepared, slots=1), made_up([3], seed=9)[0])
    for path in word_effects(reading, UNITS[1], 0, 1)[:5]:
        found = with_slot(reading, path)
        assert found.slot == 0
        assert found.slot_value == pytest.approx(path.value, abs=1e-9)


def test_memory_is_worth_nothing_to_the_first_sentence(reading: Reading) -> None:
    assert float(reading.gains[0].abs().max()) == 0
    assert all(float(gain.abs().max()) > 0 for gain in reading.gains[1:])


def test_the_search_finds_the_largest_effect_within_reach(reading: Reading) -> None:
    found = search_effects(reading, UNITS, reach=2, most=3)
    every = [p for unit in UNITS for j in (1, 2, 3) for i in range(max(0, j - 2), j)
             for p in word_effects(reading, unit, i, j)]  # fmt: skip
    assert found[0].value == max(path.value for path in every)
    assert [path.value for path in found] == sorted((path.value for path in found), reverse=True)
    assert all(1 <= path.j - path.i <= 2 for path in found)


def test_weights_are_products_of_the_two_maps(reading: Reading) -> None:
    best = search_weights(reading, UNITS, lift=False, most=1)[0]
    maps = reading.model.memory_maps(reading.document.source, reading.document.decoder_input)[best.unit][0]
    update = maps[best.i].update.mean(0)[best.slot, best.a.places].sum()
    output = maps[best.j].output.mean(0)[best.b.places, best.slot].mean()
    assert best.value == pytest.approx(float(update * output))
    assert best.j == best.i + 1
    assert search_weights(reading, UNITS, lift=True, most=1)[0].value > 1


def test_one_entry_for_a_pair_of_words() -> None:
    def path(a: str, b: str, value: float) -> WordPath:
        return WordPath("decoder.0.self", 0, 1, Word(a, [1]), Word(b, [1]), value)

    found = best_of_pairs([path("Frau", "sie", 1.0), path("frau", "Sie", 3.0), path("Uhr", "sie", 2.0)])
    assert [(each.a.text, each.value) for each in found] == [("frau", 3.0), ("Uhr", 2.0)]


def test_the_maps_shown_are_those_of_the_best_path(reading: Reading) -> None:
    paths = search_effects(reading, UNITS, reach=1, most=1)
    shown = choose({1: reading}, UNITS, paths, None)
    assert (shown.unit, shown.i, shown.j) == (paths[0].unit, paths[0].i, paths[0].j)
    assert shown.update.shape == (2, 4, len(shown.update_tokens))
    assert shown.output.shape == (2, 4, len(shown.output_tokens))
    assert shown.update.sum(axis=2) == pytest.approx(1)  # a slot's attention to the tokens
    assert shown.output.sum(axis=1) == pytest.approx(1)  # a token's attention to the slots


@pytest.mark.parametrize(("side", "norm"), [("source", "pre"), ("target", "post")])
def test_one_side_alone(prepared: Path, tmp_path: Path, side: str, norm: str) -> None:
    translator = make_translator(prepared, side, norm)
    if norm == "pre":
        shake(translator.model, seed=3)  # `read: add` begins at zero
    report = attention("m", translator, {1: made_up([3], seed=9)[0]})
    assert all(
        path["unit"].startswith("encoder" if side == "source" else "decoder") for path in report.numbers["paths"]
    )
    assert report.numbers["paths"][0]["value"] > 0
    assert f"→ slot {report.numbers['paths'][0]['slot']} →" in report.text


def test_a_chosen_pair_and_tokens_with_dollars(prepared: Path, tmp_path: Path) -> None:
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


def test_what_is_not_there_is_refused(prepared: Path) -> None:
    translator = make_translator(prepared)
    document = made_up([3], seed=9)[0]
    with pytest.raises(InputError, match=r"decoder\.9\.self.*it has encoder\.1\.self"):
        attention("m", translator, {1: document}, unit="decoder.9.self")
    with pytest.raises(InputError, match="no sentence 7; give two from 1 to 3"):
        attention("m", translator, {1: document}, sentences=(1, 7))
    with pytest.raises(InputError, match="after the first"):
        attention("m", translator, {1: document}, sentences=(3, 2))
    with pytest.raises(InputError, match="one sentence only"):
        attention("m", translator, {1: made_up([1], seed=9)[0]})
    with pytest.raises(InputError, match="say of which document"):
        attention("m", translator, {1: document, 2: document}, sentences=(1, 2))


def test_the_strongest_paths_of_several_documents(prepared: Path) -> None:
    translator = make_translator(prepared)
    shake(translator.model, seed=3)
    documents = dict(enumerate(made_up([3, 1, 4], seed=9), start=5))
    report = attention("m", translator, documents)
    alone = [attention("m", translator, {number: documents[number]}) for number in (5, 7)]
    assert report.numbers["documents"] == {5: 3, 7: 4}  # one sentence has no past
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
