"""The native engine with drawn shapes, settings and weights: it does what torch does, in every instruction set."""

import gc
import itertools
import os
import signal
import warnings
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tram.config import MemoryConfig, ModelConfig
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.packing import Layout
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Engine
from tram.translation.engines.native import NativeEngine, library, why_unavailable
from tram.translation.engines.native.weights import NativeModel
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import Hypothesis, search

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=f"no native engine: {why_unavailable()}")

KERNELS = ["portable", "avx2", "avx512"]
SPECIAL = SpecialIds()


@st.composite
def memories(draw: st.DrawFn, norm: str, layers: int) -> MemoryConfig | None:
    if not draw(st.booleans()):
        return None
    return MemoryConfig(
        slots=draw(st.integers(1, 9)),
        side=draw(st.sampled_from(["source", "target", "both"])),
        layers=draw(st.sampled_from([(-1,), (0,), tuple(range(layers))])),
        positions=draw(st.sampled_from(["sinusoidal", "learned"])),
        read=draw(st.sampled_from(["add", "scaled"] if norm == "pre" else ["norm", "add", "scaled"])),
    )


@st.composite
def models(draw: st.DrawFn) -> Transformer:
    """A model of any sizes and settings, all weights random; widths are seldom multiples of a vector or a panel."""
    heads, norm = draw(st.integers(1, 5)), draw(st.sampled_from(["post", "pre"]))
    width = draw(st.integers(1, 21)) * (2 if heads % 2 else 1)
    layers = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    config = ModelConfig(
        d_model=heads * width,
        heads=heads,
        feed_forward=draw(st.integers(1, 150)),
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        norm=norm,
        activation=draw(st.sampled_from(["relu", "gelu", "swish"])),
        positions=draw(st.sampled_from(["learned", "sinusoidal", "sinusoidal-fairseq"])),
        position_offset=draw(st.sampled_from([0, 2])),
        max_positions=40,
        max_length=30,
        embedding_norm=draw(st.booleans()),
        embedding_scale=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        tied_output=draw(st.booleans()),
        source_vocabulary=draw(st.none() | st.integers(10, 140)),
        context=draw(memories(norm, min(layers))),
    )
    torch.manual_seed(draw(st.integers(0, 10**6)))
    model = Transformer(config, draw(st.integers(10, 300) | st.integers(1_024, 1_300))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


documents = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=3), min_size=1, max_size=5)
beams = st.integers(1, 6)


def sentences(model: Transformer, lengths: list[list[int]]) -> torch.Tensor:
    """Ids of sentences with so many tokens: (documents, sentences, tokens)."""
    most = model.encoder.embeddings.tokens.num_embeddings
    return document_ids([[torch.randint(3, most, (n,)).tolist() for n in document] for document in lengths])


def translated(engine: Engine, ids: torch.Tensor, beam: int, state: Any) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        encoded = engine.encode(ids, state)
    return search(engine, encoded, [int(n) + 5 for n in encoded.layout.counts], SPECIAL, beam, 1.0, state)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=models(), lengths=documents, beam=beams)
def test_any_model_and_any_documents(model: Transformer, lengths: list[list[int]], beam: int) -> None:
    """Encoder states, memories of both sides and hypotheses; where two of these are as good, either may be the best."""
    reference = TorchEngine(model)
    ids = sentences(model, lengths)
    with torch.inference_mode():
        wanted = reference.encode(ids)
        before = model.initial_state(len(lengths)) | wanted.state
    expected = translated(reference, ids[:, :1], beam, before)
    scale = max(1.0, float(wanted.states.abs().max()))
    for kernels in filter(library.kernels, KERNELS):
        engine = NativeEngine(model, threads=1, kernels=kernels)
        found = engine.encode(ids)
        torch.testing.assert_close(found.states, wanted.states, atol=1e-4 * scale, rtol=1e-3)
        for unit in wanted.state.units:
            torch.testing.assert_close(found.state[unit]["M"], wanted.state[unit]["M"], atol=1e-3, rtol=1e-3)
        for own, other in zip(translated(engine, ids[:, :1], beam, before), expected, strict=True):
            assert own[0].score == pytest.approx(other[0].score, abs=2e-3)
            if len(other) == 1 or other[0].score - other[1].score > 4e-3:
                assert own[0].ids == other[0].ids
        best = [hypotheses[0] for hypotheses in expected]
        if best[0].update_inputs:
            inputs = {seat: torch.cat([each.update_inputs[seat] for each in best]) for seat in best[0].update_inputs}
            layout = Layout(document_ids([[SPECIAL.decoder_input(each.ids)] for each in best]))
            with torch.inference_mode():
                after = [each.advance(inputs, layout, before) for each in (engine, reference)]
            for seat in inputs:
                torch.testing.assert_close(after[0][seat]["M"], after[1][seat]["M"], atol=1e-3, rtol=1e-3)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=models(),
    lengths=documents,
    beam=beams,
    factors=st.lists(st.sampled_from([0.0, 1e-42, 1e-20, 1.0, 1e10, 1e25, 1e38, float("nan")]), min_size=1, max_size=3),
    precision=st.sampled_from(["float32", "int8"]),
)
def test_any_weights_give_a_translation_or_one_sentence(
    model: Transformer, lengths: list[list[int]], beam: int, factors: list[float], precision: str
) -> None:
    """Zero, denormal, huge weights and NaN: what is no number is never taken for a translation."""
    parameters = list(model.parameters())
    with torch.no_grad():
        for factor in factors:
            parameters[int(torch.randint(len(parameters), ()))].mul_(factor)
    ids = sentences(model, [document[:1] for document in lengths])
    state = model.initial_state(len(lengths)).detach()
    damaged = any(  # a memory's update is not part of the first sentence
        not bool(each.isfinite().all())
        for name, each in model.decoder.layers.named_parameters()
        if ".context." not in name
    )
    results = []
    for kernels in filter(library.kernels, KERNELS):
        engine = NativeEngine(model, precision, 1, kernels)
        try:
            results.append([[each.ids for each in own] for own in translated(engine, ids, beam, state)])
        except InputError:  # its probabilities are not numbers
            results.append(None)
    if damaged:
        assert not any(results)


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 12), seed=st.integers(0, 10**6), peak=st.sampled_from([0.0, 0.05, 0.5, 3.0]), beam=beams)
def test_rescored_tokens_are_those_of_all_float32_products(rows: int, seed: int, peak: float, beam: int) -> None:
    """One step over a large vocabulary; if the distribution is flat, all tokens are computed again."""
    torch.manual_seed(seed)
    config = ModelConfig(d_model=24, heads=2, feed_forward=8, encoder_layers=1, decoder_layers=1, output_bias=True)
    model = Transformer(config, 2_000).eval()
    with torch.no_grad():
        assert model.bias is not None
        model.tokens.weight.copy_(torch.randn_like(model.tokens.weight) * peak)
        model.tokens.weight[::7] *= 1e-3  # tokens of very different sizes
        model.bias.copy_(torch.randn_like(model.bias))
    ids = sentences(model, [[3]] * rows)
    found = []
    for rescoring in (False, True):
        engine = NativeEngine(model, threads=1, rescoring=rescoring)
        step = engine.start(engine.encode(ids), None, SPECIAL, 1).step([[SPECIAL.start]] * rows)
        found.append(step.best([[0.0]] * rows, 2 * beam))
    plain, rescored = found
    for row in range(rows):
        (first, *rest), (exact_first, *exact_rest) = rescored.totals[row], plain.totals[row]
        assert first == pytest.approx(exact_first, abs=2e-3)  # the sum of all exponentials
        assert [each - first for each in rest] == pytest.approx([each - exact_first for each in exact_rest], abs=1e-4)
        gaps = [a - b for a, b in itertools.pairwise(plain.totals[row])]
        if min(gaps, default=1) > 1e-4:
            assert rescored.ids[row] == plain.ids[row]


# What the library refuses, and what it survives.


def small_model() -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=8, heads=2, feed_forward=8, encoder_layers=1, decoder_layers=1, context=MemoryConfig(slots=2)
    )
    return Transformer(config, 20).eval()


@pytest.mark.parametrize("name", ["encoder.0.qkv", "decoder.0.cross_key_value", "decoder.0.memory.inner", "output"])
def test_weights_of_another_shape_are_refused(name: str) -> None:
    native = NativeModel(small_model())
    for shape in ((7, 8), (8, 9)):
        with pytest.raises(library.NativeError, match=f"wrong shape of {name}"):
            native._linear(name, torch.zeros(shape), None, None)
    with pytest.raises(library.NativeError, match="there is no linear map"):
        native._linear("decoder.1.qkv", torch.zeros(24, 8), None, None)


def test_hypotheses_that_do_not_exist_are_refused() -> None:
    model = small_model()
    engine = NativeEngine(model, threads=1)
    decoding = engine.start(engine.encode(torch.tensor([[[4, 5]]])), None, SPECIAL, 3)
    decoding.step([[1]])
    with pytest.raises(library.NativeError, match="parent"):
        decoding.step([[4, 5]], [[0, 1]])
    with pytest.raises(library.NativeError, match="vocabulary"):
        decoding.step([[20]], [[0]])
    for row, hypothesis in ((1, 0), (0, 1), (-1, 0)):
        with pytest.raises(library.NativeError, match="hypothesis"):
            decoding.update_inputs(row, hypothesis)
    with pytest.raises(library.NativeError, match="sentence"):
        decoding.select([1])


def test_states_of_another_shape_are_refused() -> None:
    model = small_model()
    engine, ids = NativeEngine(model, threads=1), torch.tensor([[[4, 5]]])
    for shape in ((1, 1, 8), (1, 2, 6), (2, 2, 8)):
        state = State({name: {"M": torch.zeros(shape)} for name in model.contexts()})
        with pytest.raises(library.NativeError, match="shape"):
            engine.encode(ids, state)
    double = State({name: {"M": torch.ones(1, 2, 8, dtype=torch.float64)} for name in model.contexts()})
    single = State({name: {"M": torch.ones(1, 2, 8)} for name in model.contexts()})
    assert torch.equal(engine.encode(ids, double).states, engine.encode(ids, single).states)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_translates_and_ends() -> None:
    """The threads of an engine are not in the child, which must neither wait for them nor hang when it frees them."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(d_model=256, heads=4, feed_forward=512, encoder_layers=1, decoder_layers=1), 3_000)
    ids = sentences(model.eval(), [[30], [20], [25]])
    engine = NativeEngine(model, threads=3)
    expected = engine.encode(ids).states
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: what is tested
        child = os.fork()
    if not child:
        signal.alarm(20)
        same = torch.equal(engine.encode(ids).states, expected)
        del engine
        gc.collect()
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
