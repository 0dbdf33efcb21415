"""Multi-head attention on packed sentences, and the keys and values that are cached in decoding.

States are (real tokens, d_model) without padding (see `packing`), or (…, d_model) where one token at a time is
decoded. All weights are in `nn.Linear` modules, so that a quantised or adapted layer can replace any of them.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.model.packing import Blocks
from tram.model.tensors import product_dtype


class Attention(nn.Module):
    """Multi-head attention: MHA(Q, K, V) = Concat(head_1 … head_n) W^o.

    `query` holds W^q; `key_value` holds W^k and W^v stacked, because keys and values are always computed from the same
    states here.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.0)  # on the attention weights
        for matrix in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.query, self.key_value, self.output):
            nn.init.zeros_(linear.bias)

    def forward(self, queries: Tensor, keys: Tensor | None, blocks: Blocks, causal: bool = False) -> Tensor:
        """Attend from the tokens of every sentence to the tokens of the same sentence in `keys`.

        queries: (real tokens, d_model); keys: (real tokens of the other side, d_model), or None for self-attention.
        """
        if not blocks.blocks:
            return queries  # no sentence has a token
        into, out_of = blocks.into_queries, blocks.into_keys
        query_parts = into.pad(self.query(queries))
        key_value_parts = out_of.pad(self.key_value(queries if keys is None else keys))
        results = []
        for block, query, key_value in zip(blocks.blocks, query_parts, key_value_parts, strict=True):
            n = len(block.sentences)
            q, k, v = (self.split(x.unflatten(0, (n, -1))) for x in (query, *key_value.chunk(2, -1)))
            # With a causal mask, no real token sees the padding after it.
            attended = self.attend(q, k, v, None if causal else block.mask, causal)
            results.append(attended.flatten(0, 1))
        output: Tensor = self.output(into.unpad(results))
        return output

    def split(self, states: Tensor) -> Tensor:
        """(…, tokens, d_model) → (…, heads, tokens, head width)."""
        return states.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the attention weights: (queries, d_model), (keys, d_model) → (heads, queries, keys)."""
        q, k = self.split(self.query(queries)), self.split(self.key_value(keys).chunk(2, -1)[0])
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attend with all heads and join them: (…, heads, tokens, head width) → (…, tokens, d_model)."""
        dropout = self.dropout.p if self.training else 0.0
        # The fused kernel's backward pass takes five times as long as plain products in bfloat16 on a CPU
        slow = q.device.type == "cpu" and product_dtype(q) == torch.bfloat16 and torch.is_grad_enabled()
        function = unfused_attention if slow else F.scaled_dot_product_attention
        attended = function(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return attended.transpose(-2, -3).flatten(-2)


def unfused_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False
) -> Tensor:
    """Return what `F.scaled_dot_product_attention` returns, by two products and a softmax in float32."""
    scores = ((q / math.sqrt(q.shape[-1])) @ k.mT).float()
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = torch.softmax(scores, dim=-1).to(v.dtype)
    return F.dropout(weights, dropout_p) @ v


@dataclass
class KeyValues:
    """Projected keys and values of one attention: (sentences, heads, keys, head width) each."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None = None  # True at real keys, (sentences, 1, 1, keys)

    def select(self, sentences: Tensor) -> "KeyValues":
        """Return the keys and values of only these sentences."""
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return KeyValues(self.keys.index_select(0, sentences), self.values.index_select(0, sentences), mask)

    def append(self, keys: Tensor, values: Tensor, used: int) -> None:
        """Append keys and values of new tokens after the first `used` ones; the capacity doubles when it is full."""
        end = used + keys.shape[2]
        if end > self.keys.shape[2]:
            padding = (0, 0, 0, end)
            self.keys, self.values = F.pad(self.keys, padding), F.pad(self.values, padding)
        self.keys[:, :, used:end] = keys
        self.values[:, :, used:end] = values
