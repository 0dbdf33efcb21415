"""The layers of the Transformer: embeddings, feed-forward, attention sublayers, encoder and decoder layers.

States are (real tokens, d_model) without padding (see `packing`) where whole sentences are processed, and
(sentences, beam, d_model) where one token at a time is decoded (`step`, with a `DecodingCache`).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.contexts import Side
from tram.model.attention import Attention, KeyValues
from tram.model.cache import DecodingCache
from tram.model.contexts.base import (
    AttentionContext,
    Host,
    InnerContext,
    OwnInputs,
    OwnTokens,
    Passage,
    Result,
    SublayerContext,
)
from tram.model.document_rows import SourceRows
from tram.model.packing import Blocks, Layout
from tram.model.positions import fairseq_sinusoids, sinusoids, table
from tram.model.state import ContextState


class FeedForward(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, d_model: int, width: int, activation: str) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, width)
        self.outer = nn.Linear(width, d_model)
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
        self.activation = activations[activation]
        self.dropout = nn.Dropout(0.0)  # on the inner states
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        result: Tensor = self.outer(self.dropout(self.activation(self.inner(states))))
        return result


class Embeddings(nn.Module):
    """Token embedding plus position, for one side; the token table is usually shared by both sides and the output."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, side: Side) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        self.offset = config.position_offset
        rows = config.max_positions + config.position_offset
        self.positions: Tensor | None
        kind = "sentence" if config.context is None else config.context.token_positions(side)
        self.by_segment = kind == "segment"
        if kind == "none":
            self.positions = None  # the context module has positions of its own
        elif config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(rows, config.d_model))
            nn.init.normal_(self.positions, std=0.02)
        else:
            wave = sinusoids if config.positions == "sinusoidal" else fairseq_sinusoids
            if self.by_segment and config.context is not None and (rule := config.context.segment) is not None:
                rows = max(rows, 2 * (rule.tokens or 0) + config.position_offset)  # translations may be longer
            self.register_buffer("positions", table(wave, rows, config.d_model), persistent=False)
        self.norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(0.0)

    def places(self, layout: Layout) -> Tensor:
        """Return the positions of all tokens, in their sentences or in their segments."""
        return layout.segment_positions if self.by_segment else layout.positions

    def forward(self, ids: Tensor, positions: Tensor | int, segments: Tensor | None = None) -> Tensor:
        """Embed tokens: ids, positions of the same shape, or one position for all → (…, d_model).

        segments: (…, d_model), added to the token embeddings.
        """
        tokens = self.tokens(ids) if segments is None else self.tokens(ids) + segments
        embedded = tokens * self.scale
        if self.positions is not None:
            places = positions + self.offset
            if self.by_segment and isinstance(places, Tensor):  # all tokens beyond the last position share it
                places = places.clamp(max=len(self.positions) - 1)
            embedded = embedded + self.positions[places]
        states: Tensor = self.dropout(self.norm(embedded))
        return states


class Residual(nn.Module):
    """The residual connection of a sublayer f: LN(x + f(x)) (post-norm) or x + f(LN(x)) (pre-norm), dropout on f."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(0.0)
        self.pre = config.norm == "pre"

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        return self.add(states, sublayer(self.norm(states) if self.pre else states))

    def add(self, states: Tensor, result: Tensor) -> Tensor:
        """Return the sum of a sublayer's input and its result, normalised in a post-norm model."""
        if self.pre:
            return states + self.dropout(result)
        normed: Tensor = self.norm(states + self.dropout(result))
        return normed


class AttentionSublayer(nn.Module):
    """Attention with its residual connection, and the context module inside or after it, if there is one."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.name = name  # of its state
        self.attention = Attention(config.d_model, config.heads)
        self.residual = Residual(config)
        self.context: SublayerContext | AttentionContext | InnerContext | None = None

    def forward(
        self, states: Tensor, keys: Tensor | None, blocks: Blocks, layout: Layout, causal: bool, passage: Passage
    ) -> Tensor:
        """Process all sentences at once; the state of the context module is read from and written to `passage`."""
        context = self.context
        if isinstance(context, AttentionContext):
            result: Result = context(states, self.host(causal), layout, passage.before(self.name, context))
            return self.residual.add(states, passage.after(self.name, result))

        def attend(x: Tensor) -> Tensor:
            attended: Tensor = self.attention(x, keys, blocks, causal)
            if not isinstance(context, InnerContext):
                return attended
            before = passage.before(self.name, context)
            return passage.after(self.name, context(x, attended, layout, before, passage.source))

        local: Tensor = self.residual(states, attend)
        if not isinstance(context, SublayerContext):
            return local
        return passage.after(self.name, context(states, local, layout, passage.before(self.name, context)))

    def precompute(self, state: ContextState, source: SourceRows) -> ContextState:
        """Return what the context module reads of its state and the source while a sentence is decoded."""
        if isinstance(self.context, AttentionContext):
            return self.context.precompute(state, self.host(causal=True))
        if isinstance(self.context, InnerContext):
            return self.context.precompute(state, source)
        assert self.context is not None
        return self.context.precompute(state)

    def host(self, causal: bool) -> Host:
        """Return the parts of this sublayer that a context module which replaces the attention uses."""
        return Host(self.attention, self.residual.norm if self.residual.pre else nn.Identity(), causal)

    def step(self, states: Tensor, past: KeyValues, mask: Tensor | None, cache: DecodingCache) -> Tensor:
        """Process the next token of every hypothesis against known keys. states: (sentences, beam, d_model)."""
        context = self.context
        if isinstance(context, AttentionContext):
            host = self.host(causal=True)
            cache.record(self.name, context.update_input(states, host))
            own = OwnTokens(past.keys, past.values, mask, cache.ages(states.shape[1]))
            return self.residual.add(states, context.step(states, host, own, cache.precomputed[self.name]))

        def attend(x: Tensor) -> Tensor:
            query = self.attention.split(self.attention.query(x))
            result: Tensor = self.attention.output(self.attention.attend(query, past.keys, past.values, mask))
            if not isinstance(context, InnerContext):
                return result
            own = None
            if (update_input := context.update_input(x)) is not None:
                cache.record(self.name, update_input)
                own = OwnInputs(cache.recorded(self.name, x.shape[1]), mask)
            return context.step(x, result, own, cache.precomputed[self.name])

        local: Tensor = self.residual(states, attend)
        if not isinstance(context, SublayerContext):
            return local
        cache.record(self.name, context.update_input(states, local))
        return context.step(states, local, cache.precomputed[self.name])

    def append_keys(self, states: Tensor, past: KeyValues, used: int) -> None:
        """Add the keys and values of new tokens, (sentences, beam, d_model), to the `used` ones of `past`."""
        if self.residual.pre:
            states = self.residual.norm(states)
        keys, values = self.attention.key_value(states).chunk(2, -1)
        past.append(self.attention.split(keys), self.attention.split(values), used)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.self_attention = AttentionSublayer(config, f"{name}.self")
        self.feed_forward = FeedForward(config.d_model, config.feed_forward, config.activation)
        self.residual = Residual(config)

    def forward(self, states: Tensor, blocks: Blocks, layout: Layout, passage: Passage) -> Tensor:
        """(real tokens, d_model) → (real tokens, d_model)."""
        states = self.self_attention(states, None, blocks, layout, False, passage)
        return self.residual(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.self_attention = AttentionSublayer(config, f"{name}.self")
        self.cross_attention = AttentionSublayer(config, f"{name}.cross")
        self.feed_forward = FeedForward(config.d_model, config.feed_forward, config.activation)
        self.residual = Residual(config)

    def forward(
        self,
        states: Tensor,
        source: Tensor,
        blocks: Blocks,
        cross: Blocks,
        layout: Layout,
        passage: Passage,
    ) -> Tensor:
        """(real tokens, d_model) → (real tokens, d_model). source: (real tokens of the source, d_model)."""
        return self.residual(self.attended(states, source, blocks, cross, layout, passage), self.feed_forward)

    def attended(
        self, states: Tensor, source: Tensor, blocks: Blocks, cross: Blocks, layout: Layout, passage: Passage
    ) -> Tensor:
        """Return the states after the attention to the source, before the feed-forward sublayer."""
        states = self.self_attention(states, None, blocks, layout, True, passage)
        attended: Tensor = self.cross_attention(states, source, cross, layout, False, passage)
        return attended

    def step(
        self, states: Tensor, past: KeyValues, source: KeyValues, cache: DecodingCache, mask: Tensor | None
    ) -> Tensor:
        """Process the next token of every hypothesis. states: (sentences, beam, d_model)."""
        return self.residual(self.attended_step(states, past, source, cache, mask), self.feed_forward)

    def attended_step(
        self, states: Tensor, past: KeyValues, source: KeyValues, cache: DecodingCache, mask: Tensor | None
    ) -> Tensor:
        """Return the states after the attention to the source, before the feed-forward sublayer."""
        self.self_attention.append_keys(states, past, cache.slots)
        end = cache.slots + states.shape[1]
        seen = KeyValues(past.keys[:, :, :end], past.values[:, :, :end])
        states = self.self_attention.step(states, seen, mask, cache)
        return self.cross_attention.step(states, source, source.mask, cache)
