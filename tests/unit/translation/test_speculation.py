"""Speculative decoding finds what greedy search finds, sentence by sentence: ids, states, to the last bit."""

import copy
import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import END, tiny_config, tiny_model
from tram.config import MemoryConfig
from tram.errors import InputError
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.document_state import DocumentState
from tram.translation.engines.native import NativeEngine, library, why_unavailable
from tram.translation.engines.torch import TorchEngine
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.search import Hypothesis
from tram.translation.speculation import SpeculativeLockstep
from tram.translation.translator import Translator

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason="no native engine")
KERNELS = ["portable", "avx2", "avx512"]
SPECIAL = SpecialIds()
PREFIXED = SpecialIds(start=4, end=END, target_prefix=(7, 5), banned=(PAD, 4, 6))
MODELS: dict[str, dict[str, Any]] = {
    "sentence model": {},
    "memory": {"norm": "pre", "context": MemoryConfig(slots=3, read="add")},
    "two memories": {"context": MemoryConfig(slots=2, layers=(0, 1), side="both")},
    "memory of the source": {"context": MemoryConfig(slots=2, side="source")},
}


@functools.cache
def model_of(name: str, strength: float) -> Transformer:
    """Return a model whose memory has so strong an effect; of 0.1 some drafts differ and some do not."""
    model = tiny_model(tiny_config(output_bias=True, **MODELS[name]), 1).float()
    with torch.no_grad():
        model.output_weight.mul_(2)
        assert model.bias is not None
        model.bias[END] += 5
        model.decoder.embeddings.positions.mul_(5)  # translations differ in length
        for context in model.contexts().values():
            context.output_attention.output.weight.mul_(strength)
            context.output_attention.output.bias.mul_(strength)
    return model


def cursors(model: Transformer, lengths: list[list[int]], seed: int) -> list[Cursor]:
    draw = torch.Generator().manual_seed(seed)
    documents = [[torch.randint(8, 20, (n,), generator=draw).tolist() for n in document] for document in lengths]
    with torch.inference_mode():
        return [Cursor(i, document, model.initial_state(1)) for i, document in enumerate(documents)]


def run(lockstep: Lockstep, documents: list[Cursor]) -> list[list[Hypothesis]]:
    found: list[list[Hypothesis]] = [[] for _ in documents]
    for cursor, hypotheses in lockstep.run(documents):
        found[cursor.number].append(hypotheses[0])
    return found


def assert_same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert [[each.ids for each in document] for document in found] == [[each.ids for each in d] for d in wanted]
    scores = [each.score for document in found for each in document]
    assert scores == pytest.approx([each.score for document in wanted for each in document], abs=1e-5)


def assert_equal_states(found: State, wanted: State) -> None:
    assert found.units.keys() == wanted.units.keys()
    for name, values in wanted.units.items():
        assert torch.equal(found[name]["M"], values["M"])


lengths = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(MODELS)),
    strength=st.sampled_from([0.1, 1.0]),
    lengths=lengths,
    sentences=st.integers(2, 7),
    precision=st.sampled_from(["float32", "int8"]),
    kernels=st.sampled_from([each for each in KERNELS if not why_unavailable() and library.kernels(each)]),
    special=st.sampled_from([SPECIAL, PREFIXED]),
    block=st.sampled_from([16, 512]),
    seed=st.integers(0, 99),
)
def test_translations_and_states_are_those_of_greedy_search(
    name: str,
    strength: float,
    lengths: list[list[int]],
    sentences: int,
    precision: str,
    kernels: str,
    special: SpecialIds,
    block: int,
    seed: int,
) -> None:
    model = model_of(name, strength)
    engine = NativeEngine(model, precision, 1, kernels)
    plain, ahead = (cursors(model, lengths, seed) for _ in range(2))
    wanted = run(Lockstep(engine, special, 1, block=block), plain)
    assert_same(run(SpeculativeLockstep(engine, special, 1, block=block, sentences=sentences), ahead), wanted)
    for found, expected in zip(ahead, plain, strict=True):
        assert_equal_states(found.state, expected.state)


def test_some_drafts_are_kept_and_some_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("memory", 0.1)
    drafted, checked = [], []

    def counted(name: str, calls: list[int]) -> None:
        method = getattr(SpeculativeLockstep, name)

        def count(self: SpeculativeLockstep, given: Any) -> None:
            method(self, given)
            cursor = given[0] if isinstance(given, list) else given
            calls.append(len(cursor.exact))

        monkeypatch.setattr(SpeculativeLockstep, name, count)

    counted("_draft", drafted)
    counted("_verify", checked)
    run(SpeculativeLockstep(NativeEngine(model), SPECIAL, 1, sentences=4), cursors(model, [[5] * 40], 1))
    assert 10 < len(drafted) < 40  # 10: no draft differs; 40: all do
    assert 0 in checked
    assert max(checked) == 3


@pytest.mark.parametrize("strength", [0.1, 1.0])
def test_a_translation_that_is_replaced_counts_for_the_sentences_after_it(strength: float) -> None:
    model = model_of("memory", strength)
    engine = NativeEngine(model)

    def choose(cursor: Cursor, hypotheses: list[Hypothesis]) -> Hypothesis:
        if cursor.done % 3 == 1:
            return Hypothesis([9, 10, 11], 0.0)
        return replace(hypotheses[0], text="as it is") if cursor.done % 3 == 2 else hypotheses[0]

    plain, ahead = (cursors(model, [[3, 5, 2, 7, 4, 6, 1, 5, 5, 3]], 2) for _ in range(2))
    wanted = run(Lockstep(engine, SPECIAL, 1, choose=choose, alignment=True), plain)
    found = run(SpeculativeLockstep(engine, SPECIAL, 1, choose=choose, alignment=True, sentences=4), ahead)
    assert_same(found, wanted)
    assert_equal_states(ahead[0].state, plain[0].state)
    for one, other in zip(found[0], wanted[0], strict=True):
        torch.testing.assert_close(one.attention, other.attention)


def test_weights_that_are_no_numbers_are_an_error_as_without() -> None:
    model = copy.deepcopy(model_of("memory", 1.0))
    with torch.no_grad():
        model.decoder.layers[-1].feed_forward.outer.weight[0, 0] = torch.nan
    lockstep = SpeculativeLockstep(NativeEngine(model), SPECIAL, 1, sentences=4)
    with pytest.raises(InputError, match="probabilities are not numbers"):
        run(lockstep, cursors(model, [[3, 3, 3]], 1))


def test_it_is_for_greedy_search_with_the_native_engine() -> None:
    model = model_of("memory", 1.0)
    native = NativeEngine(model)
    assert isinstance(Translator(model, beam=1, engine=native, speculate=4).lockstep(), SpeculativeLockstep)
    assert not isinstance(Translator(model, beam=1, engine=native).lockstep(), SpeculativeLockstep)
    assert not isinstance(Translator(model, beam=1, engine=native, speculate=4).lockstep("none"), SpeculativeLockstep)
    for wrong, reason in (
        ({"beam": 5, "engine": native, "speculate": 4}, "speculate 4: this is for greedy search; give beam 1"),
        ({"beam": 1, "engine": TorchEngine(model), "speculate": 2}, "speculate 2: the engine torch does not have it"),
        ({"beam": 1, "engine": native, "speculate": 0}, "speculate 0: give a whole number from 1 to 64"),
    ):
        with pytest.raises(InputError, match=reason):
            Translator(model, **wrong)  # type: ignore[arg-type]


def test_a_document_may_stop_anywhere_and_continue_without_it(tmp_path: Path) -> None:
    """The shipped model, empty sentences and spans included: what is saved is what greedy search saves."""
    text = ["The key is on the table.", "", "It is old.", "See https://example.org for more.", "It does not fit."]
    plain, ahead = (Translator.load(beam=1, engine="native", speculate=number) for number in (1, 3))
    states = [plain.start(), ahead.start()]
    first = [each.translate(text, state) for each, state in zip((plain, ahead), states, strict=True)]
    assert first[0] == first[1]
    states[1].save(tmp_path / "state")
    saved = DocumentState.load(tmp_path / "state")
    assert saved.sentences == states[0].sentences
    assert_equal_states(saved.state, states[0].state)
    assert plain.translate(["She lost it."], saved) == plain.translate(["She lost it."], states[0])
