"""The parts of a Transformer layer: attention, feed-forward, embeddings, and the seam where context enters.

States are (real tokens, d_model) without padding (see `layout`), or (…, d_model) where one token at a time is
decoded. Attention runs on `torch.nn.functional.scaled_dot_product_attention`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.layout import Blocks, Layout

ContextState = dict[str, Tensor]  # what a context module carries from sentence to sentence: (documents, …) each


class Attention(nn.Module):
    """Multi-head attention: MHA(Q, K, V) = Concat(head_1 … head_n) W^o. One matrix holds W^q, W^k and W^v."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.0)  # on the attention weights
        for matrix in (*self.projection.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.projection.bias)
        nn.init.zeros_(self.output.bias)

    def forward(self, queries: Tensor, keys: Tensor | None, blocks: Blocks, causal: bool = False) -> Tensor:
        """Attend from the tokens of every sentence to the tokens of the same sentence in `keys`.

        queries: (real tokens, d_model); keys: (real tokens of the other side, d_model), or None for self-attention.
        """
        if not blocks.blocks:
            return queries  # no sentence, no token
        into, out_of = blocks.into_queries, blocks.into_keys
        results = []
        if keys is None:
            parts = [part.chunk(3, -1) for part in into.pad(self.projection(queries))]
        else:
            pairs = zip(into.pad(self.query(queries)), out_of.pad(self.key_value(keys)), strict=True)
            parts = [(query, *key_value.chunk(2, -1)) for query, key_value in pairs]
        for block, (q, k, v) in zip(blocks.blocks, parts, strict=True):
            n = len(block.sentences)
            q, k, v = (self.split(x.unflatten(0, (n, -1))) for x in (q, k, v))
            # Under a causal mask no real token sees the padding behind it.
            attended = self.attend(q, k, v, None if causal else block.mask, causal)
            results.append(attended.flatten(0, 1))
        output: Tensor = self.output(into.unpad(results))
        return output

    def query(self, states: Tensor) -> Tensor:
        """Q W^q."""
        d_model = states.shape[-1]
        return F.linear(states, self.projection.weight[:d_model], self.projection.bias[:d_model])

    def key_value(self, states: Tensor) -> Tensor:
        """K W^k and V W^v side by side, for K = V."""
        d_model = states.shape[-1]
        return F.linear(states, self.projection.weight[d_model:], self.projection.bias[d_model:])

    def split(self, states: Tensor) -> Tensor:
        """(…, tokens, d_model) → (…, heads, tokens, width of a head)."""
        return states.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The attention weights, to look at: (queries, d_model), (keys, d_model) → (heads, queries, keys)."""
        q, k = self.split(self.query(queries)), self.split(self.key_value(keys).chunk(2, -1)[0])
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attention of all heads, joined: (…, heads, tokens, width of a head) → (…, tokens, d_model)."""
        dropout = self.dropout.p if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return attended.transpose(-2, -3).flatten(-2)


class Context(nn.Module):
    """What an attention sublayer learns of the other sentences of its document: the one seam where context enters.

    A context module wraps a sublayer. It gets the sublayer's `inputs`, its `local` result and what it carried so
    far, and gives the result to go on with. It has two faces that must agree: whole documents at once (`forward`),
    and the next sentence with a carried state: `read` for each of its tokens, with what `ready` made of the state once
    for all of them, and `advance` when it is complete, with what `keep` kept of each token.
    """

    scope: Literal["past", "source"] = "past"  # looks at earlier sentences only, or at the whole source

    def start(self, documents: int) -> ContextState:
        """State before the first sentence."""
        raise NotImplementedError

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState
    ) -> tuple[Tensor, ContextState]:
        """All sentences of all documents. inputs, local: (real tokens, d_model)."""
        raise NotImplementedError

    def ready(self, state: ContextState) -> ContextState:
        """What `read` needs of a state."""
        raise NotImplementedError

    def read(self, inputs: Tensor, local: Tensor, ready: ContextState) -> Tensor:
        """Tokens of the sentence at hand. inputs, local: (documents, tokens, d_model)."""
        raise NotImplementedError

    def keep(self, inputs: Tensor, local: Tensor) -> Tensor:
        """What `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def advance(self, kept: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """State after a complete sentence. kept: (real tokens, any width) of one sentence a document."""
        raise NotImplementedError


@dataclass
class KeyValues:
    """Projected keys and values of one attention: (sentences, heads, keys, width of a head) each."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None = None  # True at real keys, (sentences, 1, 1, keys)

    def select(self, sentences: Tensor) -> "KeyValues":
        """Keep only these sentences."""
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return KeyValues(self.keys.index_select(0, sentences), self.values.index_select(0, sentences), mask)


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
    """Token embedding plus position, for one side; the token table is shared by both sides and the output."""

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
            self.register_buffer("positions", sinusoids(rows, config.d_model), persistent=False)
        self.norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(0.0)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids, positions: same shape, or `positions` one number for all. → (…, d_model)."""
        embedded = self.tokens(ids) * self.scale + self.positions[positions + self.offset]
        states: Tensor = self.dropout(self.norm(embedded))
        return states


def sinusoids(rows: int, width: int) -> Tensor:
    """Sine in the first half of the columns and cosine in the second, with wave lengths from 2π to 10000 · 2π."""
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000) / width))
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())
