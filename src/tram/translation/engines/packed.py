"""The torch engine's fast way to decode one token at a time on a CPU: weights packed once, few and large operators.

    weights = PackedDecoder.of(model)                # None: this model needs its modules
    decoding = PackedDecoding(weights, encoded, state, special, beam)

For a few rows the time of a step goes into reading the weights and into calling operators. So query, key and value come
from one product, products read a transposed or packed copy of their weight, keys and values of the memory are made once
per sentence, and the caches have room to grow. The copies are made of the modules, and only of plain ones: a quantised
or adapted layer, another kind of context, or another device keeps its modules (`engines.torch`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.model.attention import Attention
from tram.model.contexts.memory import Memory
from tram.model.layers import AttentionSublayer, DecoderLayer
from tram.model.stacks import Encoded
from tram.model.state import State, tensor
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Candidates, Decoding, Step, merge

MANY_ROWS, MIN_PACKED_WIDTH = 4, 1024  # from here on oneDNN's packed product is faster than a transposed copy
CHUNK = 128  # tokens whose maximum is taken first when the best of a vocabulary are looked for
ROOM = 32  # steps that the caches have room for at first


class Product:
    """x W^T + b, of weights that do not change.

    There are two copies of a large weight: packed by oneDNN for many rows, transposed for one or two; each is made when
    it is first needed, because most users need only one.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight.detach()
        self._bias = None if bias is None else bias.detach()
        self._large = max(weight.shape) >= MIN_PACKED_WIDTH and _has_packed(weight)

    @classmethod
    def of(cls, *linears: nn.Linear) -> "Product":
        """Return the products of one input with several weights, side by side."""
        weight = torch.cat([linear.weight for linear in linears])
        return cls(weight, torch.cat([linear.bias for linear in linears]))

    @cached_property
    def _transposed(self) -> Tensor:
        return self._weight.t().contiguous()

    @cached_property
    def _packed(self) -> Tensor:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)
        return packed

    def __call__(self, x: Tensor, many: bool) -> Tensor:
        """(rows, columns of W) → (rows, rows of W). many: whether most calls of this search have many rows."""
        if many and self._large:
            product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, self._packed, self._bias, "none", [], "")
            return product
        if self._bias is None:
            return torch.mm(x, self._transposed)
        return torch.addmm(self._bias, x, self._transposed)


def _has_packed(weight: Tensor) -> bool:
    """Return whether this torch has a packed product for such a weight: oneDNN's."""
    known = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return known and weight.dtype == torch.float32


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer norm."""

    width: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "Norm":
        """Return the layer norm of a module."""
        return cls(tuple(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps)

    @classmethod
    def or_none(cls, norm: nn.Module) -> "Norm | None":
        """Return the layer norm of a module; None for the identity."""
        return cls.of(norm) if isinstance(norm, nn.LayerNorm) else None

    def __call__(self, x: Tensor) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        return torch.layer_norm(x, self.width, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True)
class PackedMemory:
    """What a token needs of the memory behind a self-attention, and a sentence's start of it."""

    name: str
    module: Memory
    input_norm: Norm | None
    query: Product
    output: Product
    output_norm: Norm | None
    scaled: bool


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """One decoder layer."""

    self_norm: Norm
    query_key_value: Product
    self_output: Product
    memory: PackedMemory | None
    cross_norm: Norm
    cross: Attention
    cross_query: Product
    cross_output: Product
    norm: Norm
    inner: Product
    outer: Product
    activation: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, layer: DecoderLayer) -> "PackedLayer":
        """Pack a layer."""
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        return cls(
            self_norm=Norm.of(own.residual.norm),
            query_key_value=Product.of(own.attention.query, own.attention.key_value),
            self_output=Product.of(own.attention.output),
            memory=_pack_memory(own),
            cross_norm=Norm.of(cross.residual.norm),
            cross=cross.attention,
            cross_query=Product.of(cross.attention.query),
            cross_output=Product.of(cross.attention.output),
            norm=Norm.of(layer.residual.norm),
            inner=Product.of(feed_forward.inner),
            outer=Product.of(feed_forward.outer),
            activation=feed_forward.activation,
        )


def _pack_memory(sublayer: AttentionSublayer) -> PackedMemory | None:
    memory = sublayer.context
    if memory is None:
        return None
    assert isinstance(memory, Memory)
    attention = memory.output_attention
    return PackedMemory(
        name=sublayer.name,
        module=memory,
        input_norm=Norm.or_none(memory.input_norm),
        query=Product.of(attention.query),
        output=Product.of(attention.output),
        output_norm=Norm.or_none(memory.output_norm),
        scaled=memory.scaled,
    )


class PackedDecoder:
    """The decoder of a model, packed for one token at a time."""

    def __init__(self, model: Transformer) -> None:
        decoder = model.decoder
        embeddings = decoder.embeddings
        self.model = model
        self.pre = model.config.norm == "pre"
        self.heads = model.config.heads
        self.tokens = embeddings.tokens.weight.detach()
        self.scale = embeddings.scale
        self.offset = embeddings.offset
        self.positions = None if embeddings.positions is None else embeddings.positions.detach()
        self.embedding_norm = Norm.or_none(embeddings.norm)
        self.layers = [PackedLayer.of(layer) for layer in decoder.layers]
        self.norm = Norm.or_none(decoder.norm)
        self.output = Product(model.output_weight, model.bias)

    @classmethod
    def of(cls, model: Transformer) -> "PackedDecoder | None":
        """Pack the decoder of a model; None if its modules are needed."""
        weight = model.tokens.weight
        wide = weight.dtype in (torch.float32, torch.float64)
        return cls(model) if weight.device.type == "cpu" and wide and _is_plain(model) else None


def _is_plain(model: Transformer) -> bool:
    """Return whether the decoder is made of the layers that are packed here, and has no context but the memory."""
    dtype = model.tokens.weight.dtype
    decoder = model.decoder
    contexts = decoder.contexts()
    own = {layer.self_attention.name for layer in decoder.layers}
    if not all(type(each) is Memory and name in own for name, each in contexts.items()):
        return False
    linears = [model.output] if model.output is not None else []
    for module in decoder.modules():
        if isinstance(module, Attention):
            linears += [module.query, module.key_value, module.output]
        elif isinstance(module, DecoderLayer):
            linears += [module.feed_forward.inner, module.feed_forward.outer]
    plain = all(type(each) is nn.Linear for each in linears) and type(model.tokens) is nn.Embedding
    return plain and all(each.dtype == dtype for each in decoder.parameters())


class PackedDecoding(Decoding):
    """A search with packed weights.

    Keys and values are (2, sentences, heads, room, head width) per layer. Every step of a search with `width`
    hypotheses fills `width` slots; a mask says which of them hold the ancestors of a hypothesis.
    """

    def __init__(
        self, packed: PackedDecoder, encoded: Encoded, state: State | None, special: SpecialIds, beam: int
    ) -> None:
        model = packed.model
        self._weights = packed
        self._special = special
        self._steps = 0
        self._slots = 0
        n = encoded.layout.lengths.numel()
        like = packed.tokens
        self._room = ROOM * beam
        self._many = n * beam >= MANY_ROWS
        self._source = [_split(layer.cross, encoded) for layer in packed.layers]
        self._source_mask = _padding_mask(encoded, like.dtype)
        shape = (2, n, packed.heads, self._room, like.shape[1] // packed.heads)
        self._past = [like.new_empty(shape) for _ in packed.layers]
        # 0 where a slot holds an ancestor, else −∞: (sentences, width, room); None in greedy search, where all do
        self._mask = like.new_full((n, 1, self._room), -torch.inf) if beam > 1 else None
        self._memories: dict[str, Tensor] = {}
        self._inputs: dict[str, Tensor] = {}
        state = model.initial_state(n) | (state or State.empty()) if model.decoder.contexts() else State.empty()
        for layer in packed.layers:
            if (memory := layer.memory) is not None:
                attention = memory.module.output_attention
                keys_values = attention.key_value(tensor(state[memory.name]["M"]))
                halves = keys_values.unflatten(-1, (2, packed.heads, -1)).permute(2, 0, 3, 1, 4)
                self._memories[memory.name] = halves.contiguous()
                self._inputs[memory.name] = like.new_empty(n, self._room, like.shape[1])

    def step(self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]] | None = None) -> Step:
        """Process one more token of every hypothesis."""
        ids = torch.tensor(tokens)
        n, width = ids.shape
        end = self._slots + width
        if end > self._room:
            self._grow(end)
        mask = None if self._mask is None else self._ancestors(self._mask, parents, n, width, end)
        states = self._run(ids.view(-1), n, width, mask)
        self._steps += 1
        self._slots = end
        return PackedStep(self, states, n, self._special)

    def _ancestors(self, mask: Tensor, parents: Sequence[Sequence[int]] | None, n: int, width: int, end: int) -> Tensor:
        """Return the mask of the step to come, (sentences, 1, width, slots), and keep it."""
        if parents is not None:
            before = mask.shape[1]
            rows = torch.tensor(parents)
            if before > 1:
                rows += torch.arange(0, n * before, before)[:, None]
                mask = mask.flatten(0, 1).index_select(0, rows.view(-1)).view(n, width, -1)
            else:
                mask = mask.repeat(1, width, 1)
            self._mask = mask
        mask[:, :, self._slots : end].diagonal(dim1=1, dim2=2).zero_()
        return mask[:, None, :, :end]

    def _run(self, ids: Tensor, n: int, width: int, mask: Tensor | None) -> Tensor:
        """Return the decoder's states of the last tokens, (sentences · width, d_model)."""
        weights = self._weights
        pre, many = weights.pre, self._many
        x = weights.tokens.index_select(0, ids)
        if weights.scale != 1.0:
            x = x * weights.scale
        if weights.positions is not None:
            x = x + weights.positions[self._steps + weights.offset]
        if weights.embedding_norm is not None:
            x = weights.embedding_norm(x)
        for layer, past, (keys, values) in zip(weights.layers, self._past, self._source, strict=True):
            found = self._attend_self(layer, layer.self_norm(x) if pre else x, past, n, width, mask)
            x = x + found if pre else layer.self_norm(x + found)
            if layer.memory is not None:
                x = self._read_memory(layer.memory, x, n, width)
            query = layer.cross_query(layer.cross_norm(x) if pre else x, many)
            found = layer.cross_output(_attend(query, keys, values, n, width, self._source_mask), many)
            x = x + found if pre else layer.cross_norm(x + found)
            found = layer.outer(layer.activation(layer.inner(layer.norm(x) if pre else x, many)), many)
            x = x + found if pre else layer.norm(x + found)
        return x if weights.norm is None else weights.norm(x)

    def _attend_self(
        self, layer: PackedLayer, x: Tensor, past: Tensor, n: int, width: int, mask: Tensor | None
    ) -> Tensor:
        """Return the result of the self-attention, (rows, d_model); the new keys and values join the cache."""
        end = self._slots + width
        heads = self._weights.heads
        query, *keys_values = (
            layer.query_key_value(x, self._many).view(n, width, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        )
        keys, values = past[0, :, :, :end], past[1, :, :, :end]
        keys[:, :, self._slots :], values[:, :, self._slots :] = keys_values
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return layer.self_output(attended.transpose(1, 2).reshape(n * width, -1), self._many)

    def _read_memory(self, memory: PackedMemory, local: Tensor, n: int, width: int) -> Tensor:
        """Return h̃ of h, (rows, d_model); what the update will read is recorded."""
        h = local if memory.input_norm is None else memory.input_norm(local)
        self._inputs[memory.name][:, self._slots : self._slots + width] = h.view(n, width, -1)
        keys, values = self._memories[memory.name]
        query = memory.query(h, self._many)
        attended = memory.output(_attend(query, keys, values, n, width, None), self._many)
        if memory.scaled:
            attended = attended * local.square().mean(-1, keepdim=True).sqrt()
        fused = local + attended
        return fused if memory.output_norm is None else memory.output_norm(fused)

    def output(self, states: Tensor) -> Tensor:
        """Return the logits of states, (rows, vocabulary)."""
        return self._weights.output(states, self._many)

    def _grow(self, needed: int) -> None:
        """Double the room."""
        more = max(needed, 2 * self._room) - self._room
        self._room += more
        self._past = [F.pad(past, (0, 0, 0, more)) for past in self._past]
        self._inputs = {name: F.pad(inputs, (0, 0, 0, more)) for name, inputs in self._inputs.items()}
        if self._mask is not None:
            self._mask = F.pad(self._mask, (0, more), value=-math.inf)

    def update_inputs(self, row: int, hypothesis: int) -> dict[str, Tensor]:
        """Return what the context modules read of a hypothesis."""
        if not self._inputs:
            return {}
        if self._mask is None:
            return {name: inputs[row, : self._slots].clone() for name, inputs in self._inputs.items()}
        line = (self._mask[row, hypothesis, : self._slots] == 0).nonzero().squeeze(1)
        return {name: inputs[row].index_select(0, line) for name, inputs in self._inputs.items()}

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these sentences."""
        kept = torch.tensor(rows)
        self._source = [(keys.index_select(0, kept), values.index_select(0, kept)) for keys, values in self._source]
        if self._source_mask is not None:
            self._source_mask = self._source_mask.index_select(0, kept)
        self._past = [past.index_select(1, kept) for past in self._past]
        self._memories = {name: memory.index_select(1, kept) for name, memory in self._memories.items()}
        self._inputs = {name: inputs.index_select(0, kept) for name, inputs in self._inputs.items()}
        if self._mask is not None:
            self._mask = self._mask.index_select(0, kept)


def _attend(query: Tensor, keys: Tensor, values: Tensor, n: int, width: int, mask: Tensor | None) -> Tensor:
    """Attend from (sentences · width, d_model) to (sentences, heads, keys, head width) each → like the queries."""
    query = query.view(n, width, keys.shape[1], -1).transpose(1, 2)
    attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    return attended.transpose(1, 2).reshape(n * width, -1)


def _split(attention: Attention, encoded: Encoded) -> tuple[Tensor, Tensor]:
    """Return keys and values of the source sentences: (sentences, heads, tokens, head width) each."""
    layout = encoded.layout
    keys_values = attention.key_value(encoded.states)
    full = layout.tokens == math.prod(layout.shape)
    grid = keys_values.view(*layout.shape, -1) if full else layout.grid(keys_values)
    keys, values = grid.flatten(0, 1).unflatten(-1, (2, attention.heads, -1)).permute(2, 0, 3, 1, 4).contiguous()
    return keys, values


def _padding_mask(encoded: Encoded, dtype: torch.dtype) -> Tensor | None:
    """Return −∞ where a source sentence has no token, (sentences, 1, 1, tokens); None if all are equally long."""
    lengths, tokens = encoded.layout.lengths.flatten(), encoded.layout.shape[2]
    if encoded.layout.counts.min(initial=tokens) == tokens:
        return None
    padding = torch.arange(tokens) >= lengths[:, None]
    return torch.zeros(padding.shape, dtype=dtype).masked_fill_(padding, -torch.inf)[:, None, None]


class PackedStep(Step):
    """A step whose logits are computed when they are asked for. states: (sentences · width, d_model)."""

    def __init__(self, decoding: PackedDecoding, states: Tensor, n: int, special: SpecialIds) -> None:
        self._decoding = decoding
        self._states = states
        self._n = n
        self._special = special

    def logits(self) -> Tensor:
        """Return the logits of all tokens."""
        return self._decoding.output(self._states).unflatten(0, (self._n, -1))

    def best(
        self, scores: Sequence[Sequence[float]], wanted: int, must_end: Sequence[bool] | None = None
    ) -> Candidates:
        """Return the best continuations of every sentence."""
        logits, end = self._decoding.output(self._states), self._special.end
        for token in self._special.banned:
            logits[:, token] = -torch.inf
        base = torch.tensor(scores, dtype=logits.dtype) - logits.logsumexp(-1).view(self._n, -1)
        if must_end is not None:
            rows = torch.tensor(must_end).repeat_interleave(base.shape[1]).nonzero().squeeze(1)
            ends = logits[rows, end]
            logits[rows] = -torch.inf
            logits[rows, end] = ends
        values, ids = top(logits, min(wanted, logits.shape[-1]))
        return merge(values.view(*base.shape, -1), ids.view(*base.shape, -1), base, wanted)


def top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of every row, (rows, vocabulary), and where they are; the largest first.

    Of a large vocabulary the k best chunks are found first: none of the k largest can be in another one.
    """
    if k == 1:
        values, ids = logits.max(-1, keepdim=True)
        return values, ids
    chunks = logits.shape[-1] // CHUNK
    if chunks < 4 * k:
        return logits.topk(k, dim=-1)
    body = logits[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    best = body.amax(-1).topk(k, dim=-1, sorted=False).indices
    few = body.gather(1, best[..., None].expand(-1, -1, CHUNK)).flatten(1)
    values, places = torch.cat([few, logits[:, chunks * CHUNK :]], dim=1).topk(k, dim=-1)
    inside = best.gather(1, (places // CHUNK).clamp(max=k - 1)) * CHUNK + places % CHUNK
    return values, torch.where(places < k * CHUNK, inside, places + (chunks - k) * CHUNK)
