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
from tram.model.attention import Attention, KeyValues
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context
from tram.model.packing import Blocks, Layout
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

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
        self.offset = config.position_offset
        rows = config.max_positions + config.position_offset
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(rows, config.d_model))
            nn.init.normal_(self.positions, std=0.02)
        else:
            table = sinusoids if config.positions == "sinusoidal" else fairseq_sinusoids
            self.register_buffer("positions", table(rows, config.d_model), persistent=False)
        self.norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(0.0)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens: ids, positions of the same shape, or one position for all → (…, d_model)."""
        embedded = self.tokens(ids) * self.scale + self.positions[positions + self.offset]
        states: Tensor = self.dropout(self.norm(embedded))
        return states


def sinusoids(rows: int, width: int) -> Tensor:
    """Return sines in the first half of the columns and cosines in the second, wave lengths from 2π to 10000 · 2π."""
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000) / width))
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())


def fairseq_sinusoids(rows: int, width: int) -> Tensor:
    """Return the sinusoids of M2M100 and NLLB: as `sinusoids`, but the last wave length is exactly 10000 · 2π.

    In float32 throughout, as these models were trained: far positions differ visibly from more accurate ones.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000) / max(half - 1, 1)))
    angles = torch.arange(rows, dtype=torch.float32)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())


class Residual(nn.Module):
    """The residual connection of a sublayer f: LN(x + f(x)) (post-norm) or x + f(LN(x)) (pre-norm), dropout on f."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(0.0)
        self.pre = config.norm == "pre"

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        if self.pre:
            return states + self.dropout(sublayer(self.norm(states)))
        result: Tensor = self.norm(states + self.dropout(sublayer(states)))
        return result


class AttentionSublayer(nn.Module):
    """Attention with its residual connection, and the context module behind it, if there is one."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.name = name  # of its state
        self.attention = Attention(config.d_model, config.heads)
        self.residual = Residual(config)
        self.context: Context | None = None

    def forward(
        self,
        states: Tensor,
        keys: Tensor | None,
        blocks: Blocks,
        layout: Layout,
        causal: bool,
        state: dict[str, ContextState],
    ) -> Tensor:
        """Process all sentences at once; the context module's new state replaces the old one in `state`."""
        local = self.residual(states, lambda x: self.attention(x, keys, blocks, causal))
        if self.context is None:
            return local
        before = state.get(self.name) or self.context.initial_state(layout.shape[0])
        result, state[self.name] = self.context(states, local, layout, before)
        return result

    def step(self, states: Tensor, past: KeyValues, mask: Tensor | None, cache: DecodingCache) -> Tensor:
        """Process the next token of every hypothesis against known keys. states: (sentences, beam, d_model)."""

        def attend(x: Tensor) -> Tensor:
            query = self.attention.split(self.attention.query(x))
            result: Tensor = self.attention.output(self.attention.attend(query, past.keys, past.values, mask))
            return result

        local: Tensor = self.residual(states, attend)
        if self.context is None:
            return local
        cache.record(self.name, self.context.update_input(states, local))
        return self.context.step(states, local, cache.precomputed[self.name])

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

    def forward(self, states: Tensor, blocks: Blocks, layout: Layout, state: dict[str, ContextState]) -> Tensor:
        """(real tokens, d_model) → (real tokens, d_model)."""
        states = self.self_attention(states, None, blocks, layout, False, state)
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
        state: dict[str, ContextState],
    ) -> Tensor:
        """(real tokens, d_model) → (real tokens, d_model). source: (real tokens of the source, d_model)."""
        states = self.self_attention(states, None, blocks, layout, True, state)
        states = self.cross_attention(states, source, cross, layout, False, state)
        return self.residual(states, self.feed_forward)

    def step(
        self, states: Tensor, past: KeyValues, source: KeyValues, cache: DecodingCache, mask: Tensor | None
    ) -> Tensor:
        """Process the next token of every hypothesis. states: (sentences, beam, d_model)."""
        self.self_attention.append_keys(states, past, cache.slots)
        end = cache.slots + states.shape[1]
        seen = KeyValues(past.keys[:, :, :end], past.values[:, :, :end])
        states = self.self_attention.step(states, seen, mask, cache)
        states = self.cross_attention.step(states, source, source.mask, cache)
        return self.residual(states, self.feed_forward)
