"""The memory unit: training on whole documents at once is exactly training sentence by sentence.

`Reference` below is the paper's section 3 written out a second time, plainly and slowly: one document, one sentence,
one head after the other, no padding. It takes the weights of the model under test, so that outputs and the gradients of
every parameter can be compared.
"""

import itertools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from helpers import FIRST_WORD, START, VOCABULARY, few, random_ids, shake, tiny_config, tiny_model
from tram.config import MemoryConfig, ModelConfig, checked
from tram.errors import InputError
from tram.model.contexts.memory import Memory
from tram.model.packing import Layout
from tram.model.positions import slot_sinusoids
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD

# Documents of uneven length, sentences long and short; empty ones on both sides and on the target side only.
SOURCE = [[4, 13, 0, 1, 6, 2], [3, 3], [0, 12, 5, 1]]
TARGET = [[5, 14, 0, 2, 1, 3], [1, 8], [0, 11, 4, 0]]
SIDES = ("source", "target", "both")
DEPTHS = (1, 2, 3, "full")


def batch(padding: int = 2) -> tuple[Tensor, Tensor]:
    return random_ids(SOURCE, 1, padding=padding), random_ids(TARGET, 2, first=START, padding=padding)


def memory_model(norm: str = "post", **memory: Any) -> Transformer:
    """A float64 model with a memory of three slots; all its weights, the first zeros of `add` too, are random."""
    config = tiny_config(norm=norm, encoder_layers=3, decoder_layers=3, memory={"slots": 3, **memory})
    return tiny_model(config, seed=4)


def units(model: nn.Module) -> list[Memory]:
    return [module for module in model.modules() if isinstance(module, Memory)]


def close(one: Tensor, other: Tensor, tolerance: float = 1e-10) -> None:
    scale = max(1.0, float(other.detach().abs().max()))
    torch.testing.assert_close(one, other, rtol=0, atol=tolerance * scale)


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


def close_gradients(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        scale = max(1.0, float(other[name].abs().max()))
        difference = float((gradient - other[name]).abs().max())
        assert difference <= tolerance * scale, f"gradients of {name} differ by {difference}"


def weighted(outputs: Tensor, seed: int = 3) -> Tensor:
    """A loss in which every number counts differently."""
    draw = torch.Generator().manual_seed(seed)
    return (outputs * torch.randn(outputs.shape, generator=draw, dtype=torch.float64).to(outputs.dtype)).sum()


# The reference


def linear(x: Tensor, layer: Any) -> Tensor:
    return x @ layer.weight.T + layer.bias


def norm(x: Tensor, layer: Any) -> Tensor:
    if isinstance(layer, nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    return centred / deviation * layer.weight + layer.bias


def attend(attention: Any, queries: Tensor, keys: Tensor, causal: bool = False) -> Tensor:
    """MHA(Q, K, K), head after head. queries: (n, d_model); keys: (m, d_model)."""
    weights = attention.query.weight, *attention.key_value.weight.chunk(2)
    biases = attention.query.bias, *attention.key_value.bias.chunk(2)
    q, k, v = (x @ w.T + b for x, w, b in zip((queries, keys, keys), weights, biases, strict=True))
    heads = []
    for q_i, k_i, v_i in zip(*(x.chunk(attention.heads, -1) for x in (q, k, v)), strict=True):
        scores = q_i @ k_i.T / math.sqrt(q_i.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ v_i)
    return linear(torch.cat(heads, -1), attention.output)


def feed_forward(module: Any, x: Tensor) -> Tensor:
    return linear(F.gelu(linear(x, module.inner)), module.outer)


class Reference:
    """One document, sentence after sentence. `past` holds what every unit has seen of it: h^0 … h^{t−1}."""

    def __init__(self, model: Transformer) -> None:
        self.model: Any = model
        self.pre = model.config.norm == "pre"
        self.past: dict[nn.Module, list[Tensor | None]] = {unit: [] for unit in units(model)}

    def document(self, source: Tensor, target: Tensor) -> list[Tensor]:
        """Logits (tokens, vocabulary) of every sentence. source, target: (sentences, tokens), padded."""
        return [self.sentence(x[x != PAD], y[y != PAD]) for x, y in zip(source, target, strict=True)]

    def sentence(self, source: Tensor, target: Tensor) -> Tensor:
        encoded = self.stack(self.model.encoder, source, None)
        return self.stack(self.model.decoder, target, encoded) @ self.model.tokens.weight.T

    def stack(self, side: Any, ids: Tensor, encoded: Tensor | None) -> Tensor:
        """All layers of one side for one sentence."""
        states = norm(self.model.tokens.weight[ids] + side.embeddings.positions[: len(ids)], side.embeddings.norm)
        for layer in side.layers:
            attention = layer.self_attention
            states = self.sublayer(attention, states, lambda x, a=attention: self.self_attend(a, x, side))
            if attention.context is not None:
                states = self.use_memory(attention.context, states)
            if encoded is not None and len(ids):
                cross = layer.cross_attention
                states = self.sublayer(cross, states, lambda x, a=cross: attend(a.attention, x, encoded))
            states = self.sublayer(layer, states, lambda x, f=layer.feed_forward: feed_forward(f, x))
        return norm(states, side.norm)

    def self_attend(self, sublayer: Any, x: Tensor, side: Any) -> Tensor:
        return attend(sublayer.attention, x, x, causal=side is self.model.decoder)

    def sublayer(self, module: Any, x: Tensor, f: Any) -> Tensor:
        return x + f(norm(x, module.residual.norm)) if self.pre else norm(x + f(x), module.residual.norm)

    def use_memory(self, unit: Any, states: Tensor) -> Tensor:
        """Read M^t, then remember h^t for the sentences to come."""
        past = self.past[unit]
        if not len(states):
            past.append(None)
            return states
        h = norm(states, unit.input_norm) if self.pre else states
        size = states.square().mean(-1, keepdim=True).sqrt() if unit.scaled else 1
        read = states + size * attend(unit.output_attention, h, self.memory(unit, past))
        past.append(h)
        return norm(read, unit.output_norm)

    def memory(self, unit: Any, past: list[Tensor | None]) -> Tensor:
        """M^t from the first memory on, cut from its past k sentences ago. An empty sentence changes nothing."""
        M = norm(unit.table, unit.first_norm)
        for s, h in enumerate(past):
            if unit.depth != "full" and s == max(len(past) - unit.depth, 0):
                M = M.detach()
            M = M if h is None else self.update(unit, M, h)
        return M

    def update(self, unit: Any, M: Tensor, h: Tensor) -> Tensor:
        M = norm(M + unit.positions.positions, unit.positions.norm)
        M = norm(M + attend(unit.update_attention, M, h), unit.update_norm)
        return norm(M + feed_forward(unit.feed_forward, M), unit.feed_forward_norm)


def by_reference(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Logits as `model(source, target)` gives them, but from the reference."""
    logits = model.tokens.weight.new_zeros(*target.shape, VOCABULARY)
    for i in range(len(source)):
        for t, own in enumerate(Reference(model).document(source[i], target[i])):
            logits[i, t, : len(own)] = own
    return logits


# Exactness of parallel training

READS = (("post", "norm"), ("post", "add"), ("pre", "add"), ("pre", "scaled"))
VARIANTS = list(itertools.product(("sinusoidal", "learned"), READS))
# Every side with all layers and all depths; positions and reads take turns, so that each meets each of the others.
SETTINGS: list[dict[str, Any]] = [
    {"side": side, "layers": layers, "depth": depth, "positions": positions, "norm": norm, "read": read}
    for i, (side, layers, depth) in enumerate(itertools.product(SIDES, ((0,), (-1,), (0, 2)), DEPTHS))
    for positions, (norm, read) in [VARIANTS[(i + i // 12) % len(VARIANTS)]]
]


def name(settings: Any) -> str:
    return "-".join(str(value) for value in settings.values())


@pytest.mark.parametrize("settings", SETTINGS, ids=name)
def test_whole_documents_give_the_outputs_and_gradients_of_sentence_by_sentence(settings: dict[str, Any]) -> None:
    model = memory_model(**settings)
    source, target = batch()
    logits, expected = model(source, target), by_reference(model, source, target)
    close(logits, expected)
    reference = gradients(weighted(expected), model)
    close_gradients(gradients(weighted(logits), model), reference)
    for key, gradient in reference.items():
        assert "context" not in key or gradient.abs().max() > 1e-4, f"{key} should matter here"


@pytest.mark.parametrize("settings", SETTINGS[::5], ids=name)
def test_single_precision_keeps_to_the_same_outputs_and_gradients(settings: dict[str, Any]) -> None:
    model = memory_model(**settings).float()
    source, target = batch()
    logits, expected = model(source, target), by_reference(model, source, target)
    close(logits, expected, 1e-5)
    close_gradients(gradients(weighted(logits), model), gradients(weighted(expected), model), 1e-4)


def in_pieces(model: Transformer, source: Tensor, target: Tensor, *cuts: int) -> tuple[Tensor, Tensor]:
    """Logits from one call for each piece between the cuts, and the memories (units, documents, …) at the end."""
    state = State.empty()
    logits = []
    for start, end in itertools.pairwise([0, *cuts, source.shape[1]]):
        done = model.forced_decode(source[:, start:end], target[:, start:end], state)
        state = done.state
        logits.append(done.layout.grid(model.logits(done.states)))
    return torch.cat(logits, 1), memories(state)


def memories(state: State) -> Tensor:
    return torch.stack([state[key]["M"] for key in sorted(state.units)])


@pytest.mark.parametrize("settings", SETTINGS[::3], ids=name)
def test_a_call_for_each_sentence_with_the_carried_memory_is_the_same(settings: dict[str, Any]) -> None:
    model = memory_model(**settings)
    source, target = batch()
    expected = model(source, target)
    logits, _ = in_pieces(model, source, target, *range(1, source.shape[1]))
    close(logits, expected)
    if settings["depth"] in (1, "full"):  # a call detaches what it is given, before its own update
        close_gradients(gradients(weighted(logits), model), gradients(weighted(expected), model))


@pytest.mark.parametrize("settings", SETTINGS[::7], ids=name)
def test_without_gradients_the_outputs_are_the_same(settings: dict[str, Any]) -> None:
    model = memory_model(**settings)
    source, target = batch()
    expected = model(source, target).detach()
    with torch.no_grad():
        close(model(source, target), expected)


# How far gradients reach

STORY = 6  # sentences
WORDS = 3  # tokens of a sentence, none of which any other sentence has


def distinct_ids() -> tuple[Tensor, Tensor]:
    ids = torch.arange(FIRST_WORD, FIRST_WORD + 2 * STORY * WORDS).view(2, 1, STORY, WORDS)
    target = F.pad(ids[1], (1, 0), value=START)
    return ids[0], target


def states_of(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Decoder states (documents, sentences, tokens, d_model): the tied output embedding has no part in them."""
    done = model.forced_decode(source, target)
    return done.layout.grid(done.states)


def reached(model: Transformer, ids: Tensor, loss: Tensor) -> set[int]:
    """The sentences whose own tokens get a gradient from `loss`. ids: (1, sentences, tokens)."""
    (gradient,) = torch.autograd.grad(loss, model.tokens.weight, retain_graph=True)
    return {t for t, words in enumerate(ids[0]) if gradient[words[words != START]].abs().max() > 1e-12}


def since(t: int, look: int) -> set[int]:
    return set(range(max(t - look, 0), t + 1))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_loss_reaches_back_as_many_sentences_as_the_depth_says_and_no_further(side: str, depth: int | str) -> None:
    config = tiny_config(memory={"slots": 3, "side": side, "depth": depth})
    model = Transformer(config, FIRST_WORD + 2 * STORY * WORDS).double()
    shake(model, seed=4)
    source, target = distinct_ids()
    look = depth if isinstance(depth, int) else STORY
    in_encoder, in_decoder = (0 if side == other else look for other in ("target", "source"))
    losses = [weighted(states) for states in states_of(model, source, target)[0]]
    for t, loss in enumerate(losses):
        # The decoder's memory holds what the decoder saw of earlier sources, each of which looks back itself.
        assert reached(model, source, loss) == since(t, in_encoder + in_decoder)
        assert reached(model, target, loss) == since(t, in_decoder)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_first_memory_learns_from_the_first_sentence_or_with_full_depth_from_all(depth: int | str) -> None:
    model = memory_model(side="target", depth=depth)
    (unit,) = units(model)
    source, target = random_ids([[4, 5, 3, 2]], 1), random_ids([[3, 4, 2, 5]], 2, first=START)
    for t, states in enumerate(states_of(model, source, target)[0]):
        found = torch.autograd.grad(weighted(states), unit.table, retain_graph=True, materialize_grads=True)
        assert bool(found[0].abs().max() > 1e-9) == (t == 0 or depth == "full")


# side, layers, depth, and how many updates there are on the longest way from unit to unit
EDGES = [
    ("source", (-1,), 1, 1),
    ("target", (0,), 2, 1),
    ("target", (-1,), 3, 1),
    ("source", (0, 2), 2, 2),
    ("both", (-1,), 1, 2),
    ("both", (-1,), 2, 2),
    ("both", (0, 2), 1, 3),
]


@pytest.mark.parametrize(("side", "layers", "depth", "chain"), EDGES)
def test_a_piece_that_recomputes_the_last_sentences_before_its_edge_has_the_gradients_of_the_unbroken_run(
    side: str, layers: tuple[int, ...], depth: int, chain: int
) -> None:
    model = memory_model(side=side, layers=layers, depth=depth)
    source = random_ids([[4, 3, 6, 1, 5, 2, 9], [2, 5, 1, 4, 3, 3, 6]], 1)
    target = random_ids([[3, 5, 2, 4, 1, 6, 2], [1, 4, 7, 3, 2, 5, 3]], 2, first=START)
    edge = 5
    expected = gradients(weighted(states_of(model, source, target)[:, edge:]), model)

    def of_piece(again: int) -> dict[str, Tensor]:
        start = edge - again
        with torch.no_grad():
            before = model.forced_decode(source[:, :edge], target[:, :edge], reread=again)
        done = model.forced_decode(source[:, start:], target[:, start:], before.state)
        return gradients(weighted(done.layout.grid(done.states)[:, again:]), model)

    close_gradients(of_piece(depth * chain), expected)
    with pytest.raises(AssertionError, match="differ"):
        close_gradients(of_piece(depth * chain - 1), expected)


# Padding, neighbours and the order of things


@st.composite
def grids(draw: st.DrawFn) -> list[list[int]]:
    """Lengths of the sentences of a few documents; each has a token somewhere."""
    documents = draw(st.lists(st.lists(st.integers(0, 14), min_size=1, max_size=5), min_size=1, max_size=4))
    return [[*document, draw(st.integers(1, 9))] if not any(document) else document for document in documents]


@given(grids(), st.integers(0, 99))
@few
@torch.no_grad()
def test_a_document_ends_with_the_memory_and_the_outputs_it_has_alone(lengths: list[list[int]], seed: int) -> None:
    model = memory_model()
    source, target = random_ids(lengths, seed, padding=1), random_ids(lengths, seed + 1, first=START)
    logits, M = in_pieces(model, source, target)
    for i, document in enumerate(lengths):
        rows, width = len(document), max(document)
        own_logits, own_M = in_pieces(model, source[i : i + 1, :rows], target[i : i + 1, :rows, :width])
        close(logits[i, :rows, :width], own_logits[0])
        close(M[:, i], own_M[:, 0])


@given(grids(), st.data())
@few
@torch.no_grad()
def test_wherever_documents_are_cut_into_calls_the_result_is_the_same(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    model = memory_model()
    lengths = [*lengths, [2] * (max(map(len, lengths)) + 1)]  # no call without any token
    source, target = random_ids(lengths, 1), random_ids(lengths, 2, first=START)
    cuts = data.draw(st.sets(st.integers(1, source.shape[1] - 1)))
    logits, M = in_pieces(model, source, target, *sorted(cuts))
    logits_at_once, M_at_once = in_pieces(model, source, target)
    close(logits, logits_at_once)
    close(M, M_at_once)


@given(grids(), st.data())
@few
@torch.no_grad()
def test_the_memory_before_an_edge_is_that_after_a_shorter_document(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    model = memory_model(side="source", layers=(0, -1))
    source = random_ids([[5, *document] for document in lengths])
    edge = data.draw(st.integers(0, source.shape[1] - 1))
    shorter = model.encode(source[:, : source.shape[1] - edge])
    close(memories(model.encode(source, reread=edge).state), memories(shorter.state))


@torch.no_grad()
def test_the_order_of_documents_in_a_batch_is_the_order_of_their_outputs() -> None:
    model = memory_model()
    source, target = batch()
    logits = model(source, target)
    for order in ([1, 0, 2], [2, 0, 1]):
        close(model(source[order], target[order]), logits[order])


@torch.no_grad()
def test_columns_rows_and_documents_of_padding_change_nothing() -> None:
    model = memory_model()
    source, target = batch(padding=0)
    documents, sentences, tokens = target.shape
    room = (0, 3, 0, 2, 0, 1)
    logits, M = in_pieces(model, source, target)
    padded_logits, padded_M = in_pieces(model, F.pad(source, room), F.pad(target, room))
    close(padded_logits[:documents, :sentences, :tokens], logits)
    assert padded_logits.count_nonzero() == logits.count_nonzero()
    close(padded_M[:, :documents], M)


@torch.no_grad()
def test_sentences_that_are_empty_in_all_documents_leave_the_memory_as_it_is() -> None:
    model = memory_model()
    full = random_ids([[3, 4], [5, 2]], 1, first=START)
    with_gap = torch.cat([full[:, :1], torch.zeros_like(full[:, :1]), full[:, 1:]], 1)
    logits, M = in_pieces(model, full, full)
    logits_with_gap, M_over_gap = in_pieces(model, with_gap, with_gap)
    close(logits_with_gap[:, [0, 2]], logits)
    close(M_over_gap, M)


@torch.no_grad()
def test_a_call_with_only_empty_sentences_returns_the_memory_unchanged() -> None:
    model = memory_model()
    encoded = model.encode(random_ids([[3, 4], [5, 2]], 1))
    after = model.encode(torch.zeros(2, 3, 4, dtype=torch.long), encoded.state)
    assert torch.equal(memories(after.state), memories(encoded.state))


@torch.no_grad()
def test_values_at_the_padding_are_never_read() -> None:
    model = memory_model()
    source, target = batch()
    expected = states_of(model, source, target)
    model.tokens.weight[PAD] = math.nan
    assert torch.equal(states_of(model, source, target), expected)


@torch.no_grad()
def test_a_huge_state_in_one_document_does_not_leak_into_another_through_the_padding() -> None:
    settings = {"slots": 3, "layers": (0, -1)}
    model = tiny_model(tiny_config(embedding_norm=False, memory=settings), seed=4)
    source, target = batch()
    for ids in (source, target):
        ids[ids == VOCABULARY - 1] = FIRST_WORD
    expected = states_of(model, source, target)
    source[0, 0, 0] = VOCABULARY - 1
    target[0, 0, 1] = VOCABULARY - 1
    model.tokens.weight[VOCABULARY - 1] = 1e30
    states = states_of(model, source, target)
    assert (states[0] - expected[0]).abs().max() > 1e-3
    assert torch.equal(states[1:], expected[1:])


@torch.no_grad()
@pytest.mark.parametrize("side", SIDES)
def test_a_sentence_changes_all_later_ones_of_its_document_and_no_other(side: str) -> None:
    model = memory_model(side=side)
    source, target = random_ids([[4, 3, 6, 2, 5], [2, 5, 3, 4, 1]], 1), random_ids([[3] * 5, [5] * 5], 2, first=START)
    states = states_of(model, source, target)
    for j in range(5):
        changed = source.clone()
        changed[0, j, 1] = source[0, j, 1] % (VOCABULARY - 1) + 1
        differs = (states_of(model, changed, target) - states).abs().amax((-1, -2)) > 1e-12
        assert differs.tolist() == [[False] * j + [True] * (5 - j), [False] * 5]


@torch.no_grad()
@pytest.mark.parametrize("sentences", [1, 2, 17])
def test_the_memory_stays_as_large_as_it_is_however_long_the_document(sentences: int) -> None:
    model = memory_model(slots=5, layers=(0, -1))
    ids = random_ids([[2] * sentences] * 2, first=START)
    done = model.forced_decode(ids, ids)
    assert done.source.state.units.keys() == {"encoder.0.self", "encoder.2.self"}
    assert done.state.units.keys() - done.source.state.units.keys() == {"decoder.0.self", "decoder.2.self"}
    for state in done.state.units.values():
        assert {key: tuple(value.shape) for key, value in state.items()} == {"M": (2, 5, model.config.d_model)}


# The two faces: whole documents at once, and the next sentence with a carried state


@torch.no_grad()
@pytest.mark.parametrize(("norm", "read"), READS)
def test_reading_token_by_token_equals_whole_documents(norm: str, read: str) -> None:
    model = memory_model(norm, side="target", layers=(0, -1), read=read)
    source = random_ids([[4, 6, 3], [5, 2, 7]], 1)
    target = random_ids([[6, 6, 6], [6, 6, 6]], 2, first=START)
    expected = model(source, target)
    state = State.empty()
    for t in range(3):
        encoded = model.encode(source[:, t : t + 1])
        cache = model.start_decoding(encoded, state)
        for j in range(target.shape[2]):
            close(model.step(target[:, t, j : j + 1], cache)[:, 0], expected[:, t, j])
        state = model.forced_decode(encoded, target[:, t : t + 1], state).state


@given(grids(), st.sampled_from(READS))
@few
@torch.no_grad()
def test_the_faces_of_a_unit_agree(lengths: list[list[int]], kind: tuple[str, str]) -> None:
    config = tiny_config(norm=kind[0], memory={"slots": 3, "read": kind[1]})
    assert config.memory is not None
    unit = Memory(config, config.memory).double()
    shake(unit, seed=6)
    ids = random_ids(lengths)
    layout = Layout(ids)
    local = torch.randn(layout.tokens, config.d_model, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    result, last, _ = unit(local, local, layout, unit.initial_state(len(ids)))
    expected, grid = layout.grid(result), layout.grid(local)
    state = unit.initial_state(len(ids))
    for t in range(ids.shape[1]):
        real = ids[:, t] != PAD
        read = unit.step(grid[:, t], grid[:, t], unit.precompute(state))
        close(read * real[..., None], expected[:, t])
        if real.any():
            inputs = unit.update_input(grid[:, t], grid[:, t])[real]
            state = unit.advance(inputs, Layout(ids[:, t : t + 1]), state)
    close(state["M"], last["M"])


# Where finetuning starts


@pytest.mark.parametrize(("norm", "read"), READS[1:])
def test_a_memory_that_is_added_starts_exactly_at_the_sentence_model(norm: str, read: str) -> None:
    sentence_model = tiny_model(tiny_config(norm=norm), seed=4).float()
    config = tiny_config(norm=norm, memory={"slots": 3, "read": read, "layers": (0, -1)})
    model = Transformer(config, VOCABULARY).eval()
    missing = model.load_state_dict(sentence_model.state_dict(), strict=False)
    assert not missing.unexpected_keys
    assert all(".context." in key for key in missing.missing_keys)
    source, target = batch()
    logits = model(source, target)
    assert torch.equal(logits, sentence_model(source, target))
    for unit in units(model):  # and can leave it
        (gradient,) = torch.autograd.grad(weighted(logits), unit.output_attention.output.weight, retain_graph=True)
        assert gradient.abs().max() > 1e-4


@pytest.mark.parametrize(("norm", "read"), READS[1:])
def test_without_its_memory_a_model_is_what_it_is_when_nothing_is_read(norm: str, read: str) -> None:
    model = memory_model(norm, read=read, side="both")
    alone = model.without_context()
    assert not alone.has_context
    assert not torch.equal(model(*batch()), alone(*batch()))
    with torch.no_grad():
        for unit in units(model):
            unit.output_attention.output.weight.zero_()
            unit.output_attention.output.bias.zero_()
    close(model(*batch()), alone(*batch()))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["residual", "attention", "activation"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_each_dropout_acts_inside_the_memory_too(side: str, kind: str) -> None:
    model = memory_model(side=side)
    (unit,) = units(model)
    source, target = batch()
    expected = states_of(model, source, target)
    model.set_dropout(**{"residual": 0.0, kind: 0.5})
    unit.train()
    assert (states_of(model, source, target) - expected).abs().max() > 1e-3
    unit.eval()
    assert torch.equal(states_of(model, source, target), expected)


@pytest.mark.parametrize(("slots", "d_model"), [(1, 2), (3, 4), (16, 10)])
def test_positions_of_slots_are_sines_then_cosines(slots: int, d_model: int) -> None:
    table = slot_sinusoids(torch.arange(slots), d_model)
    assert table.shape == (slots, d_model)
    half = d_model // 2
    for slot in range(slots):
        for i in range(half):
            angle = slot * 10_000 ** (-i / max(half - 1, 1))
            assert table[slot, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[slot, half + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


# Settings that cannot be

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"memory": {"slots": 0}}, "`context.slots`"),
    ({"memory": {"depth": 0}}, "`context.depth`.*no gradient would ever reach the update attention"),
    ({"memory": {"depth": -1}}, "`context.depth"),
    ({"memory": {"depth": "deep"}}, "`context.depth"),
    ({"memory": {"layers": []}}, "`context.layers`"),
    ({"memory": {"layers": [6]}}, "context.layers: there is no layer 6"),
    ({"memory": {"layers": [-7]}}, "context.layers: there is no layer -7"),
    ({"memory": {"side": "left"}}, "`context.side`"),
    ({"norm": "pre", "memory": {"read": "norm"}}, "context.read"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_a_memory_that_cannot_be_is_refused_by_its_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(ModelConfig, values, "run.yaml")


def test_a_layer_must_exist_only_on_the_sides_that_have_a_memory() -> None:
    values = {"encoder_layers": 4, "decoder_layers": 2}
    config = checked(ModelConfig, {**values, "memory": {"side": "source", "layers": [3]}}, "run.yaml")
    assert config.memory == MemoryConfig(side="source", layers=(3,))
    for side in ("target", "both"):
        with pytest.raises(InputError, match="there is no layer 3, the model has 0 to 1"):
            checked(ModelConfig, {**values, "memory": {"side": side, "layers": [3]}}, "run.yaml")
