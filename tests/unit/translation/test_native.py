"""The native engine: its kernels against numpy in every instruction set, its searches against torch's."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tram.config import MemoryConfig, ModelConfig
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.packing import Layout
from tram.model.quantised import quantised
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Decoding
from tram.translation.engines.native import NativeEngine, library, why_unavailable, why_unsupported
from tram.translation.engines.native.engine import NativeDecoding
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import search

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=f"no native engine: {why_unavailable()}")

KERNELS = ["portable", "avx2", "avx512"]
SPECIAL = SpecialIds()
VOCABULARY = 67
MEMORY = MemoryConfig(slots=3, read="add")
SETTINGS: dict[str, dict[str, Any]] = {
    "sentence": {"norm": "post", "activation": "relu"},
    "memory": {"norm": "pre", "activation": "relu", "positions": "learned", "context": MEMORY, "embedding_norm": True},
    "paper": {"norm": "post", "activation": "gelu", "context": MemoryConfig(slots=5, layers=(0, 1)), "heads": 4},
    "learned slots": {
        "norm": "post",
        "activation": "relu",
        "context": MemoryConfig(slots=2, side="source", positions="learned", read="scaled"),
        "output_bias": True,
        "embedding_scale": False,
    },
    "two vocabularies": {
        "norm": "pre",
        "activation": "swish",
        "positions": "sinusoidal-fairseq",
        "position_offset": 2,
        "source_vocabulary": 41,
        "tied_output": False,
        "context": MemoryConfig(slots=2, side="target", layers=(0,), read="scaled"),
    },
}


@pytest.fixture(params=KERNELS)
def kernels(request: pytest.FixtureRequest) -> str:
    if library.kernels(request.param) is None:
        pytest.skip(f"this processor has no {request.param}")
    return request.param


def random_model(name: str, d_model: int = 24, seed: int = 1) -> Transformer:
    """Return a model whose weights are all random, biases and norms too."""
    torch.manual_seed(seed)
    sizes = {"d_model": d_model, "heads": 2, "feed_forward": 40, "encoder_layers": 2, "decoder_layers": 2}
    sizes |= {"max_positions": 64, "max_length": 60}
    model = Transformer(ModelConfig(**(sizes | SETTINGS[name])), VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def sentences(model: Transformer, lengths: list[list[int]], seed: int = 2) -> torch.Tensor:
    """Return ids of sentences with so many tokens: (documents, sentences, tokens)."""
    torch.manual_seed(seed)
    most = model.encoder.embeddings.tokens.num_embeddings
    return document_ids([[torch.randint(3, most, (n,)).tolist() for n in document] for document in lengths])


def searched(engine: Any, ids: torch.Tensor, beam: int, whole: bool = True) -> Any:
    """Return the hypotheses of a batch; whole: by the engine's own search, if it has one."""
    encoded = engine.encode(ids)
    limits = [int(n) + 6 for n in encoded.layout.counts]
    with pytest.MonkeyPatch.context() as patch:
        if not whole:
            patch.setattr(NativeDecoding, "run", Decoding.run)
        return search(engine, encoded, limits, SPECIAL, beam, 1.0, encoded.state)


# Kernels.


def product(kernels: str, x: Any, weight: Any, scales: Any, bias: Any, then: int, y: Any, digits: int = 1) -> Any:
    address = library.address
    arrays = (address(x), *x.shape, address(weight), address(scales), address(bias))
    call = (*arrays, len(weight), then, digits, address(y))
    assert library.load_library().tram_probe_linear(kernels.encode(), *call) == 0
    return y


sizes = st.tuples(st.integers(1, 20), st.integers(1, 150), st.integers(1, 200))


@settings(max_examples=40, deadline=None)
@given(sizes=sizes, then=st.integers(0, 2), scale=st.sampled_from([0.0, 1e-6, 1.0, 1e6]), seed=st.integers(0, 99))
def test_float_products_are_those_of_numpy(sizes: tuple[int, int, int], then: int, scale: float, seed: int) -> None:
    rows, width, out = sizes
    random = np.random.default_rng(seed)
    x = (scale * random.standard_normal((rows, width))).astype(np.float32)
    weight = random.standard_normal((out, width)).astype(np.float32)
    bias = random.standard_normal(out).astype(np.float32)
    before = random.standard_normal((rows, out)).astype(np.float32)
    plain = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    wanted = [plain, np.maximum(plain, 0), before + plain][then]
    for kernels in filter(library.kernels, KERNELS):
        found = product(kernels, x, weight, None, bias, then, before.copy())
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * max(scale, 1) * width**0.5)


@settings(max_examples=40, deadline=None)
@given(
    sizes=sizes,
    scale=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e30]),
    seed=st.integers(0, 99),
    extreme=st.booleans(),
    digits=st.sampled_from([1, 2]),
)
def test_int8_products_are_the_same_whole_numbers_everywhere(
    sizes: tuple[int, int, int], scale: float, seed: int, extreme: bool, digits: int
) -> None:
    rows, width, out = sizes
    random = np.random.default_rng(seed)
    x = (scale * random.standard_normal((rows, width))).astype(np.float32)
    weight = random.integers(-127, 128, (out, width)).astype(np.int8)
    if extreme:  # the largest sums: nothing may saturate
        x, weight = np.full_like(x, scale), np.full_like(weight, -127)
    # One unit is 1: what comes out is a whole number times the unit of the row
    unit = np.ones(out, dtype=np.float32)
    most = np.float32(127 if digits == 1 else 127 * 254)
    largest = np.maximum(np.abs(x).max(1, keepdims=True), np.float32(1e-20))
    with np.errstate(over="ignore", under="ignore"):
        whole = np.rint(x * (most / largest)).astype(np.int64)
        wanted = (whole @ weight.T.astype(np.int64)).astype(np.float32) * (largest / most)
    for kernels in filter(library.kernels, KERNELS):
        room = np.empty((rows, out), np.float32)
        found = product(kernels, x, weight, unit, np.zeros(out, dtype=np.float32), 0, room, digits)
        if digits == 1:
            np.testing.assert_array_equal(found, wanted)
        else:  # sums of the two digits are added in float32
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=float(largest.max()) * width * 1e-5)


def test_a_second_digit_makes_int8_products_nearly_exact(kernels: str) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((7, 300)).astype(np.float32)
    weight, bias = random.integers(-127, 128, (90, 300)).astype(np.int8), np.zeros(90, np.float32)
    unit, exact = np.ones(90, np.float32), x @ weight.T.astype(np.float32)
    errors = [
        np.abs(product(kernels, x, weight, unit, bias, 0, np.empty((7, 90), np.float32), digits) - exact).max()
        for digits in (1, 2)
    ]
    assert errors[1] < errors[0] / 100


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 300), wanted=st.integers(1, 12), levels=st.integers(1, 1000), seed=st.integers(0, 99))
def test_the_scan_finds_the_best_and_the_normaliser(n: int, wanted: int, levels: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    logits = (random.integers(0, levels, n) / levels * 30 - 15).astype(np.float32)  # few levels: many equal ones
    order = np.argsort(-logits, kind="stable")[:wanted]
    for kernels in filter(library.kernels, KERNELS):
        values, ids = np.empty(wanted, np.float32), np.empty(wanted, np.int32)
        normaliser, damaged = np.empty(1, np.float32), np.empty(1, np.int32)
        outputs = map(library.address, (values, ids, normaliser, damaged))
        call = (kernels.encode(), library.address(logits), n, wanted, *outputs)
        assert library.load_library().tram_probe_scan(*call) == 0
        found = min(wanted, n)
        np.testing.assert_array_equal(ids[:found], order)
        np.testing.assert_array_equal(values[:found], logits[order])
        assert normaliser[0] == pytest.approx(float(np.logaddexp.reduce(logits.astype(np.float64))), abs=1e-5)
        assert not damaged[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 37])
def test_the_scan_notices_what_is_no_number(kernels: str, bad: float, place: int) -> None:
    logits = np.zeros(38, np.float32)
    logits[place] = bad
    outputs = np.empty(4, np.float32), np.empty(4, np.int32), np.empty(1, np.float32), np.zeros(1, np.int32)
    call = (kernels.encode(), library.address(logits), 38, 4, *map(library.address, outputs))
    assert library.load_library().tram_probe_scan(*call) == 0
    assert outputs[-1][0]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 40), heads=st.integers(1, 4), width=st.integers(1, 80), seed=st.integers(0, 99))
def test_attention_is_that_of_numpy(n: int, heads: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    query = (3 * random.standard_normal(heads * width)).astype(np.float32)
    keys, values = (random.standard_normal((50, heads * width)).astype(np.float32) for _ in range(2))
    slots = random.integers(0, 50, n).astype(np.int32)
    for kernels in filter(library.kernels, KERNELS):
        out = np.empty(heads * width, np.float32)
        arrays = map(library.address, (query, keys, values, slots))
        call = (kernels.encode(), *arrays, n, heads, width, library.address(out))
        assert library.load_library().tram_probe_attend(*call) == 0
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = keys[slots, part].astype(np.float64) @ query[part] / width**0.5
            weights = np.exp(scores - scores.max())
            np.testing.assert_allclose(out[part], weights / weights.sum() @ values[slots, part], atol=1e-5)


@pytest.mark.parametrize("activation", [0, 1, 2])
def test_activations_are_those_of_torch(kernels: str, activation: int) -> None:
    values = np.concatenate([np.linspace(-12, 12, 4_001), [-1e30, 1e30, -88.5, 88.5, 0.0]]).astype(np.float32)
    function = (torch.nn.functional.relu, torch.nn.functional.gelu, torch.nn.functional.silu)[activation]
    wanted = function(torch.from_numpy(values)).numpy()
    found = values.copy()
    assert (
        library.load_library().tram_probe_activate(kernels.encode(), library.address(found), len(found), activation)
        == 0
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


# Models.


@pytest.mark.parametrize("name", SETTINGS)
def test_states_memories_and_translations_are_those_of_torch(name: str, kernels: str) -> None:
    model = random_model(name)
    native, reference = NativeEngine(model, kernels=kernels, threads=1), TorchEngine(model)
    ids = sentences(model, [[5, 1, 9], [7, 3], [2]])
    with torch.inference_mode():
        found, wanted = native.encode(ids), reference.encode(ids)
        torch.testing.assert_close(found.states, wanted.states, atol=1e-4, rtol=0)
        assert found.state.units.keys() == wanted.state.units.keys()
        for unit in wanted.state.units:
            torch.testing.assert_close(found.state[unit]["M"], wanted.state[unit]["M"], atol=1e-4, rtol=0)
        for beam in (1, 4):
            batch = ids[:, :1]
            results = [searched(native, batch, beam), searched(native, batch, beam, whole=False)]
            expected = searched(reference, batch, beam)
            for result in results:
                for own, other in zip(result, expected, strict=True):
                    assert [h.ids for h in own] == [h.ids for h in other]
                    assert [h.score for h in own] == pytest.approx([h.score for h in other], abs=1e-4)
                    for mine, theirs in zip(own, other, strict=True):
                        assert mine.update_inputs.keys() == theirs.update_inputs.keys()
                        for seat, inputs in theirs.update_inputs.items():
                            torch.testing.assert_close(mine.update_inputs[seat], inputs, atol=1e-4, rtol=0)
            if model.decoder.contexts():
                best = [hypotheses[0] for hypotheses in expected]
                inputs = {seat: torch.cat([h.update_inputs[seat] for h in best]) for seat in best[0].update_inputs}
                layout = Layout(document_ids([[SPECIAL.decoder_input(h.ids)] for h in best]))
                before = model.initial_state(3)
                after = [engine.advance(inputs, layout, before) for engine in (native, reference)]
                for seat in inputs:
                    torch.testing.assert_close(after[0][seat]["M"], after[1][seat]["M"], atol=1e-4, rtol=0)


def test_int8_translates_the_same_with_all_kernels() -> None:
    model = random_model("memory", d_model=32)
    ids = sentences(model, [[9], [4], [12], [1]])
    with torch.inference_mode():
        found = [
            searched(NativeEngine(model, "int8", 1, kernels), ids, 4) for kernels in filter(library.kernels, KERNELS)
        ]
        exact = NativeEngine(model, threads=1).encode(ids).states
        close = NativeEngine(model, "int8", 1).encode(ids).states
    for other in found[1:]:
        assert [[h.ids for h in each] for each in other] == [[h.ids for h in each] for each in found[0]]
    assert 0 < (close - exact).abs().mean() < 0.05 * exact.abs().mean()


def test_quantised_weights_are_within_half_a_unit() -> None:
    weight = torch.randn(9, 30) * torch.logspace(-6, 6, 9)[:, None]
    weight[3] = 0
    small, scales = quantised(weight)
    assert small.dtype == torch.int8
    assert small.abs().max() == 127
    assert bool(((small * scales[:, None] - weight).abs() <= 0.5001 * scales[:, None]).all())


def test_threads_share_one_engine() -> None:
    model = random_model("memory", d_model=32)
    engine = NativeEngine(model, threads=2)
    batches = [sentences(model, [[5], [9]], seed) for seed in range(6)]
    alone = [[h[0].ids for h in searched(engine, batch, 3)] for batch in batches]
    together: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(3):
            together[number] = [h[0].ids for h in searched(engine, batches[number], 3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[number] for number in range(len(batches))] == alone


def test_threads_compute_what_one_computes() -> None:
    model = Transformer(ModelConfig(d_model=256, heads=4, feed_forward=512, encoder_layers=1, decoder_layers=1), 3_000)
    ids = sentences(model.eval(), [[30], [20], [25]])
    found = [NativeEngine(model, threads=threads).encode(ids).states for threads in (1, 3)]
    assert torch.equal(*found)


def test_trained_weights_are_used() -> None:
    model = random_model("memory")
    engine = NativeEngine(model, threads=1)
    ids = sentences(model, [[6]])
    before = engine.encode(ids).states
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.inner.weight.mul_(2)
    torch.testing.assert_close(engine.encode(ids).states, model.encode(ids).states, atol=1e-4, rtol=0)
    assert not torch.equal(engine.encode(ids).states, before)


def test_an_id_beyond_the_vocabulary_is_refused() -> None:
    engine = NativeEngine(random_model("memory"), threads=1)
    with pytest.raises(library.NativeError, match="vocabulary"):
        engine.encode(torch.tensor([[[1, VOCABULARY, 2]]]))


def test_unknown_models_are_named() -> None:
    assert why_unsupported(random_model("paper")) is None
    model = Transformer(ModelConfig(context={"kind": "transformer_xl"}, d_model=16, heads=2, feed_forward=16), 50)
    assert "transformer_xl" in (why_unsupported(model) or "")
    assert "float32" in (why_unsupported(random_model("paper").double()) or "")


def test_the_environment_may_choose_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "KERNELS", "portable")
    assert library.kernels() == "portable"
    assert NativeEngine(random_model("memory"), threads=1).kernels == "portable"
    monkeypatch.setattr(library, "KERNELS", "avx9000")
    assert "TRAM_NATIVE_KERNELS is 'avx9000'" in (why_unavailable() or "")


def test_layers_too_wide_for_int8_sums_are_left_to_torch() -> None:
    model = Transformer(ModelConfig(d_model=2, heads=1, feed_forward=2**17, encoder_layers=1, decoder_layers=1), 9)
    assert "wider than 65,536" in (why_unsupported(model) or "")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_that_gets_another_data_type_is_refused(dtype: torch.dtype) -> None:
    model = random_model("memory")
    engine = NativeEngine(model)
    model.to(dtype)
    with pytest.raises(InputError, match="the model was changed, and it runs float32"):
        engine.encode(sentences(model, [[5]]))
