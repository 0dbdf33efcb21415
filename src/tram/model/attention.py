"""The parts of a Transformer layer: attention, feed-forward, embeddings, and the seam where context enters.

States are (real tokens, d_model) without padding (see `layout`), or (…, d_model) where one token at a time is
decoded. Attention runs on `torch.nn.functional.scaled_dot_product_attention`.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.model.packing import Blocks


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
