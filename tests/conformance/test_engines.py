"""What every engine must do: the laws of search, and states that go from one engine to another at any sentence.

Another engine joins by one line in `ENGINES`. Models are float32, as engines need them; the slow second writing of the
search works on the same weights in float64.
"""

import copy
import functools
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from context_kinds import CONTEXTS
from helpers import END, START, VOCABULARY, random_ids, tiny_config, tiny_model
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.constraints import Choice, Constraint
from tram.translation.engines import choice
from tram.translation.engines.base import Decoding, Engine
from tram.translation.engines.choice import NATIVE, load_engine
from tram.translation.engines.native import NativeEngine, why_unavailable, why_unsupported
from tram.translation.engines.packed import top
from tram.translation.engines.torch import ModuleDecoding, TorchEngine
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.search import Hypothesis, search


class ModuleEngine(TorchEngine):
    """The torch engine as it is on other devices and with layers that cannot be packed."""

    def start(self, encoded: Encoded, state: State | None, special: SpecialIds, beam: int) -> Decoding:
        return ModuleDecoding(self.model, encoded, state, special, beam)


def native(kernels: str = "") -> Callable[[Transformer], Engine]:
    """Return what makes native engines, or skips the test where there is none; kernels: of an instruction set."""

    def make(model: Transformer) -> Engine:
        if reason := why_unavailable() or why_unsupported(model):
            pytest.skip(f"no native engine: {reason}")
        return NativeEngine(model, threads=1, kernels=kernels)

    return make


ENGINES: dict[str, Callable[[Transformer], Engine]] = {
    "torch": TorchEngine,
    "torch, modules": ModuleEngine,
    "native": native(),
    "native, portable kernels": native("portable"),
}
SPECIAL = SpecialIds()
PREFIXED = SpecialIds(start=4, end=END, target_prefix=(7, 5), banned=(PAD, 4, 6))
MEMORIES = [name for name in CONTEXTS if name.startswith("memory")]
MODELS: dict[str, dict[str, Any]] = {
    "sentences, post-norm": {},
    "sentences, pre-norm, learned positions": {"norm": "pre", "positions": "learned", "activation": "relu"},
    "sentences, sinusoidal, bias": {"positions": "sinusoidal", "embedding_scale": True, "output_bias": True},
    "sentences, own tables": {"tied_output": False, "source_vocabulary": VOCABULARY, "activation": "swish"},
    "sentences, offset, no norm": {"position_offset": 2, "embedding_norm": False, "positions": "sinusoidal-fairseq"},
    **{name: CONTEXTS[name] for name in MEMORIES},
    "HAN, decoder": CONTEXTS["HAN, decoder"],
    "Transformer-XL, both sides": CONTEXTS["Transformer-XL, both sides"],
}
engines = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
models = pytest.mark.parametrize("name", MODELS)
beams = pytest.mark.parametrize("beam", [1, 3])
LENGTHS, LIMITS = [5, 3, 9, 1], [9, 12, 7, 1]


@functools.cache
def double_model(name: str) -> Transformer:
    """The first model whose translations of the sentences below differ in length; weights as float32 has them."""
    for seed in range(100):
        model = tiny_model(tiny_config(**{"output_bias": True, **MODELS[name]}), seed)
        with torch.no_grad():
            model.output_weight.mul_(2)
            if model.decoder.embeddings.positions is not None:
                model.decoder.embeddings.positions.mul_(5)
            assert model.bias is not None
            model.bias[END] += 2.5
        model = model.float().double()
        found = translate(ModuleEngine(model), source_ids(), LIMITS, 1, state_of(model))
        if len({len(hypotheses[0].ids) for hypotheses in found}) > 2:
            return model
    raise AssertionError(f"{name}: no such model")


@functools.cache
def single_model(name: str) -> Transformer:
    return copy.deepcopy(double_model(name)).float()


def source_ids(seed: int = 3) -> Tensor:
    return random_ids([[n] for n in LENGTHS], seed)


def state_of(model: Transformer, documents: int = len(LENGTHS)) -> State:
    """A state after some sentences, of another document each."""
    ids = random_ids([[4, 3]] * documents, 6)
    inputs = random_ids([[3, 5]] * documents, 7, first=START)
    with torch.no_grad():
        return model.forced_decode(ids, inputs).state if model.has_context else State.empty()


def translate(
    engine: Engine, source: Tensor, limits: list[int], beam: int, state: State, special: SpecialIds = SPECIAL
) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        encoded = engine.encode(source, state)
    return search(engine, encoded, limits, special, beam, state=state)


@torch.no_grad()
def slow_search(
    model: Transformer, source: Tensor, limit: int, beam: int, state: State, special: SpecialIds
) -> list[tuple[list[int], float]]:
    """Beam search for one sentence (1, 1, tokens) without a cache, written for its rule."""
    encoded = model.encode(source, state)
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[list[int], float]] = []
    for length in range(1, limit + 1):
        candidates = []
        for total, ids in alive:
            done = model.forced_decode(encoded, torch.tensor([[special.decoder_input(ids)]]), state)
            logits = model.logits(done.states[-1])
            logits[list(special.banned)] = -torch.inf
            for token, value in enumerate(logits.log_softmax(-1).tolist()):
                if token not in special.banned and (length < limit or token == special.end):
                    candidates.append((total + value, [*ids, token]))
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * beam]
        ended += [(ids[:-1], total / length) for total, ids in candidates[:beam] if ids[-1] == special.end]
        ended = sorted(ended, key=lambda hypothesis: -hypothesis[1])[:beam]
        alive = [(total, ids) for total, ids in candidates if ids[-1] != special.end][:beam]
        if len(ended) == beam and alive and ended[-1][1] >= alive[0][0] / length:
            break
    return ended


def one(source: Tensor, row: int) -> Tensor:
    """One sentence without padding, (1, 1, tokens)."""
    return source[row : row + 1, :, : LENGTHS[row]]


def assert_same(found: Sequence[Hypothesis], expected: Sequence[tuple[list[int], float]]) -> None:
    assert [each.ids for each in found] == [ids for ids, _ in expected]
    assert [each.score for each in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def assert_states(one: State, other: State, atol: float = 1e-4) -> None:
    expected = other.tensors()
    assert one.tensors().keys() == expected.keys()
    for name, value in one.tensors().items():
        torch.testing.assert_close(value.double(), expected[name].double(), rtol=1e-4, atol=atol)


# The laws of search.


@engines
@models
@beams
def test_the_cached_search_finds_what_teacher_forcing_finds(
    make: Callable[[Transformer], Engine], name: str, beam: int
) -> None:
    """Also beam 1 is greedy search: the slow search takes the best token each time."""
    model, exact, source = single_model(name), double_model(name), source_ids()
    state, exact_state = state_of(model), state_of(exact)
    found = translate(make(model), source, LIMITS, beam, state)
    for row, hypotheses in enumerate(found):
        own = exact_state.select(torch.tensor([row]))
        assert_same(hypotheses, slow_search(exact, one(source, row), LIMITS[row], beam, own, SPECIAL))


@engines
@models
@beams
def test_neighbours_and_their_order_change_nothing(make: Callable[[Transformer], Engine], name: str, beam: int) -> None:
    model, source = single_model(name), source_ids()
    engine, state = make(model), state_of(model)
    order = [2, 0, 3, 1]
    found = translate(engine, source[order], [LIMITS[i] for i in order], beam, state.select(torch.tensor(order)))
    for i, hypotheses in zip(order, found, strict=True):
        own = state.select(torch.tensor([i]))
        alone = translate(engine, one(source, i), [LIMITS[i]], beam, own)[0]
        assert_same(hypotheses, [(each.ids, each.score) for each in alone])


@engines
@beams
@pytest.mark.parametrize("name", ["sentences, post-norm", "memory, pre-norm, add"])
def test_a_forced_prefix_precedes_the_translation(make: Callable[[Transformer], Engine], name: str, beam: int) -> None:
    model, exact, source = single_model(name), double_model(name), source_ids()
    found = translate(make(model), source, LIMITS, beam, state_of(model), PREFIXED)
    for row, hypotheses in enumerate(found):
        own = state_of(exact).select(torch.tensor([row]))
        assert_same(hypotheses, slow_search(exact, one(source, row), LIMITS[row], beam, own, PREFIXED))


class Anything(Constraint):
    """Forbids nothing: all logits are asked for, and the result is the same."""

    def choice(self) -> Choice:
        return Choice()

    def after(self, token: int) -> "Anything":
        return self


@engines
@beams
@pytest.mark.parametrize("name", ["sentences, own tables", "memory, both sides"])
def test_all_logits_lead_to_the_same_hypotheses_as_the_best_ones(
    make: Callable[[Transformer], Engine], name: str, beam: int
) -> None:
    model, source = single_model(name), source_ids()
    engine, state = make(model), state_of(model)
    with torch.inference_mode():
        encoded = engine.encode(source, state)
    plain = search(engine, encoded, LIMITS, SPECIAL, beam, state=state)
    slow = search(engine, encoded, LIMITS, SPECIAL, beam, state=state, constraints=[Anything()] * len(LIMITS))
    for one_way, other_way in zip(plain, slow, strict=True):
        assert_same(one_way, [(each.ids, each.score) for each in other_way])


@engines
def test_caches_grow_with_the_longest_sentence(make: Callable[[Transformer], Engine]) -> None:
    """A model that never wants to end, up to the end of its position table."""
    model = tiny_model(tiny_config(output_bias=True, max_positions=150, memory={"slots": 3}), seed=2).float()
    with torch.no_grad():
        assert model.bias is not None
        model.bias[END] -= 1000
    limits = [150, 40, 90]
    found = search(make(model), model.encode(random_ids([[3], [5], [4]], 2)), limits, SPECIAL, 2)
    assert [len(hypotheses[0].ids) + 1 for hypotheses in found] == limits
    for row, hypotheses in enumerate(found):
        given_ids = torch.tensor([[SPECIAL.decoder_input(hypotheses[0].ids)]])
        source = random_ids([[3], [5], [4]], 2)[row : row + 1, :, : [3, 5, 4][row]]
        with torch.no_grad():
            state = model.forced_decode(source, given_ids).state
            after = make(model).advance(hypotheses[0].update_inputs, Layout(given_ids), model.initial_state(1))
        assert_states(after.only(model.decoder.contexts()), state.only(model.decoder.contexts()), 1e-3)


@engines
def test_weights_that_are_not_numbers_are_one_sentence(make: Callable[[Transformer], Engine]) -> None:
    model = tiny_model(tiny_config(), seed=2).float()
    with torch.no_grad():
        model.output_weight.fill_(torch.nan)
    with pytest.raises(InputError, match="not numbers"):
        translate(make(model), source_ids(), LIMITS, 2, State.empty())


# Documents: encode, advance and what is carried.


@engines
@models
def test_states_of_source_and_target_are_those_of_the_model(make: Callable[[Transformer], Engine], name: str) -> None:
    model = single_model(name)
    engine, source = make(model), random_ids([[3, 4], [6, 2]], 4)
    state = state_of(model, 2)
    with torch.inference_mode():
        found, expected = engine.encode(source, state), model.encode(source, state)
    torch.testing.assert_close(found.states, expected.states, rtol=1e-4, atol=1e-5)
    assert found.layout.shape == expected.layout.shape
    assert_states(found.state, expected.state)
    hypotheses = [each[0] for each in translate(engine, source[:, :1], [7, 9], 3, state)]
    given_ids = document_ids([[SPECIAL.decoder_input(each.ids)] for each in hypotheses])
    with torch.inference_mode():
        forced = model.forced_decode(source[:, :1], given_ids, state).state.only(model.decoder.contexts())
        if forced:
            inputs = {key: torch.cat([each.update_inputs[key] for each in hypotheses]) for key in forced.units}
            after = engine.advance(inputs, Layout(given_ids), state).only(forced.units)
            assert_states(after, forced)


DOCUMENTS = [[[3, 9, 4], [20, 7], [5, 5, 11, 8], [14], [6, 3]], [[6, 21], [17, 3, 12], [9]], [[10], [4, 19, 9]]]


def run(engine: Engine, documents: Sequence[Sequence[list[int]]], states: Sequence[State], beam: int) -> Any:
    """Translations of documents that begin with these states, and the states after them."""
    cursors = [Cursor(i, given, state) for i, (given, state) in enumerate(zip(documents, states, strict=True))]
    found: list[list[list[int]]] = [[] for _ in documents]
    for cursor, hypotheses in Lockstep(engine, SPECIAL, beam, documents=2, block=20).run(cursors):
        found[cursor.number].append(hypotheses[0].ids)
    return found, [cursor.state for cursor in cursors]


@engines
@beams
@pytest.mark.parametrize("name", [name for name in MODELS if "sentences" not in name])
def test_a_state_saved_by_one_engine_goes_on_in_another(
    make: Callable[[Transformer], Engine], name: str, beam: int
) -> None:
    model = single_model(name)
    fresh = [model.initial_state(1).detach() for _ in DOCUMENTS]
    whole, _ = run(ModuleEngine(model), DOCUMENTS, fresh, beam)
    assert len({tuple(ids) for document in whole for ids in document}) > 3
    own, other = make(model), ModuleEngine(model)
    for first, second in ((own, other), (other, own)):
        begun, states = run(first, [document[:2] for document in DOCUMENTS], fresh, beam)
        states = [State.from_tensors({key: value.clone() for key, value in s.tensors().items()}) for s in states]
        rest, _ = run(second, [document[2:] for document in DOCUMENTS], states, beam)
        assert [a + b for a, b in zip(begun, rest, strict=True)] == whole


@engines
def test_a_model_that_is_trained_between_two_translations(make: Callable[[Transformer], Engine]) -> None:
    model = copy.deepcopy(single_model("memory, both sides"))
    engine, state = make(model), state_of(model)
    before = translate(engine, source_ids(), LIMITS, 2, state)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.outer.weight.mul_(-3)
    changed = translate(engine, source_ids(), LIMITS, 2, state)
    model.decoder.layers[1].cross_attention.attention.query.weight = torch.nn.Parameter(torch.randn(16, 16))
    replaced = translate(engine, source_ids(), LIMITS, 2, state)
    assert before != changed != replaced
    assert replaced == translate(make(model), source_ids(), LIMITS, 2, state)


# Which engine.


class Adapted(torch.nn.Linear):
    """A layer with something added to its product, as an adapter has it."""

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(given) + given.flip(-1)


def test_a_layer_that_is_not_plain_is_never_packed() -> None:
    model = copy.deepcopy(single_model("sentences, post-norm"))
    before = translate(TorchEngine(model), source_ids(), LIMITS, 2, State.empty())
    attention = model.decoder.layers[0].self_attention.attention
    adapted = Adapted(16, 16)
    adapted.load_state_dict(attention.query.state_dict())
    attention.query = adapted
    found = translate(TorchEngine(model), source_ids(), LIMITS, 2, State.empty())
    assert found != before
    assert found == translate(ModuleEngine(model), source_ids(), LIMITS, 2, State.empty())


@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 9000), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_best_of_a_large_vocabulary_are_found_in_its_chunks(k: int, rows: int, vocabulary: int, seed: int) -> None:
    logits = torch.randn(rows, max(vocabulary, k), generator=torch.Generator().manual_seed(seed))
    values, ids = top(logits, k)
    assert torch.equal(values, logits.topk(k).values)
    assert torch.equal(logits.gather(1, ids), values)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": "cuda"}, "engine 'cuda': give one of auto, torch, native"),
        ({"precision": "int4"}, "precision 'int4': give one of float32, int8"),
        ({"engine": "torch", "precision": "int8"}, "precision int8: the torch engine does not have it"),
        ({"threads": 0}, "threads 0: give a whole number from 1 to 1,024"),
    ],
)
def test_what_no_engine_has_is_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_engine(single_model("sentences, post-norm"), **settings)


class NativeLike(TorchEngine):
    """Stands in for the native engine, which an installation may lack."""

    def __init__(self, model: Transformer, precision: str, threads: int | None) -> None:
        super().__init__(model)
        self.settings = precision, threads


def native_module(unavailable: str | None, unsupported: str | None) -> types.ModuleType:
    module = types.ModuleType(NATIVE)
    module.why_unavailable = lambda: unavailable  # type: ignore[attr-defined]
    module.why_unsupported = lambda model: unsupported  # type: ignore[attr-defined]
    module.NativeEngine = NativeLike  # type: ignore[attr-defined]
    return module


def test_auto_is_native_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    model = single_model("sentences, post-norm")
    monkeypatch.setitem(sys.modules, NATIVE, native_module(None, None))
    for name in ("auto", "native"):
        engine = load_engine(model, name, "int8", 3)
        assert isinstance(engine, NativeLike)
        assert engine.settings == ("int8", 3)
    assert not isinstance(load_engine(model, "torch"), NativeLike)


def test_a_model_that_native_does_not_know_is_translated_by_torch_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = single_model("HAN, decoder")
    monkeypatch.setitem(sys.modules, NATIVE, native_module(None, "it does not know the context han"))
    with pytest.warns(UserWarning, match="native engine is not used: it does not know the context han") as caught:
        assert not isinstance(load_engine(model, "native"), NativeLike)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not isinstance(load_engine(model), NativeLike)
    with pytest.raises(InputError, match="int8: only the native engine has it, and it does not know the context han"):
        load_engine(model, "auto", "int8")
    with pytest.raises(InputError, match="engine native: it does not know the context han; use torch"):
        load_engine(model, "native", "int8")


def test_an_installation_without_native_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    model = single_model("sentences, post-norm")
    monkeypatch.setitem(sys.modules, NATIVE, native_module("there was no compiler", None))
    assert not isinstance(load_engine(model), NativeLike)
    with pytest.raises(InputError, match="engine native: there was no compiler; use torch"):
        load_engine(model, "native")
    with pytest.raises(InputError, match="int8: only the native engine has it, and there was no compiler"):
        load_engine(model, "auto", "int8")


def test_the_names_of_engines_are_those_of_the_command_line() -> None:
    from typing import get_args

    from tram.cli.options import EngineKind, PrecisionKind

    assert [*EngineKind] == [*get_args(choice.EngineName)]
    assert [*PrecisionKind] == [*get_args(choice.Precision)]
