"""The parts of a Transformer layer: attention, feed-forward, embeddings, and the seam where context enters.

States are (real tokens, d_model) without padding (see `layout`), or (…, d_model) where one token at a time is
decoded. Attention runs on `torch.nn.functional.scaled_dot_product_attention`.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig


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
