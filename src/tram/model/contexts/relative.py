"""Self-attention that also reads rows from before the sentence and knows the distance to each of them.

With q, k, v the host's projections, dist the number of rows between a query a and a key b, and R the vector of a
distance:

    score_ab = ((q_a + u_w) · k_b + (q_a + u_r) · R(dist_ab)) / √e

Subclasses say which rows are read, what R is, and what is kept for the sentences that follow.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tram.model.attention import Attention
from tram.model.contexts.base import AttentionContext, Host, OwnTokens
from tram.model.document_rows import Numbers, padded, ranges
from tram.model.packing import Layout, Rectangles, by_length
from tram.model.state import ContextState, tensor


class QueryBiases(nn.Module):
    """u_w and u_r, (heads, head width) each: what every query has for content and for distance. Layers share them."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.content = nn.Parameter(torch.zeros(heads, d_model // heads))
        self.distance = nn.Parameter(torch.zeros(heads, d_model // heads))


@dataclass(frozen=True)
class ReadingBlock:
    """Sentences of similar length with the rows they read: `past` rows, then their own `queries` tokens.

    slots: (sentences, past + queries), indices of the rows; mask: (sentences, 1, 1 or queries, past + queries), True
    where a token may look; distances: (queries, past + queries).
    """

    sentences: int
    slots: Tensor
    mask: Tensor
    distances: Tensor


class Reading:
    """All sentences of a batch as rectangles of queries, and the rows that each of them reads."""

    def __init__(self, layout: Layout, past: list[tuple[Numbers, Numbers]], own: Numbers, causal: bool) -> None:
        """past: ranges of rows before each sentence, see `ranges`; own: the row of each sentence's first token."""
        device = layout.device
        totals = layout.counts + np.sum([stop - first for first, stop in past], axis=0)
        groups = by_length(layout.counts, totals)
        self.into_queries = Rectangles(layout, groups)
        self.blocks = []
        for group, queries in zip(groups, self.into_queries.widths, strict=True):
            rows, real = ranges(*((first[group], stop[group]) for first, stop in past))
            places = np.arange(queries)
            inside = places < layout.counts[group][:, None]
            rows = np.concatenate([rows, np.where(inside, own[group][:, None] + places, 0)], axis=1)
            visible = np.concatenate([real, inside], axis=1)[:, None, None]
            earlier = real.shape[1]
            distances = earlier + places[:, None] - np.arange(earlier + queries)
            if causal:  # also hides the padding behind a sentence from its real tokens
                visible = np.where(np.arange(earlier + queries) < earlier, visible, distances >= 0)
            self.blocks.append(
                ReadingBlock(
                    len(group),
                    torch.as_tensor(rows, device=device),
                    torch.as_tensor(visible, device=device),
                    torch.as_tensor(distances, device=device),
                )
            )


class RelativeAttention(AttentionContext):
    """Self-attention over earlier rows and the own sentence, with distances in place of positions."""

    def __init__(self, biases: QueryBiases | None) -> None:
        super().__init__()
        self.biases = biases

    def distance_keys(self, distances: Tensor) -> Tensor:
        """Return R: (distances) → (distances, heads, head width). Distances into the future are negative."""
        raise NotImplementedError

    def read(self, attention: Attention, reading: Reading, queries: Tensor, keys_values: Tensor) -> Tensor:
        """Attend from all tokens. queries: (real tokens, d_model); keys_values: (rows, 2 · d_model), projected."""
        results = []
        for block, query in zip(reading.blocks, reading.into_queries.pad(queries), strict=True):
            seen = keys_values.index_select(0, block.slots.flatten()).unflatten(0, block.slots.shape)
            keys, values = (attention.split(part) for part in seen.chunk(2, -1))
            query = query.unflatten(0, (block.sentences, -1))
            results.append(self.attend(attention, query, keys, values, block.distances, block.mask).flatten(0, 1))
        output: Tensor = attention.output(reading.into_queries.unpad(results))
        return output

    def attend(
        self, attention: Attention, query: Tensor, keys: Tensor, values: Tensor, distances: Tensor, mask: Tensor
    ) -> Tensor:
        """Return the heads' results side by side, (sentences, queries, d_model).

        query: (sentences, queries, d_model); keys, values: (sentences, heads, keys, head width); distances: (queries or
        1, keys); mask: (sentences, 1, queries or 1, keys), True where a query may look.
        """
        q = attention.split(query)
        by_content = by_distance = q
        if self.biases is not None:
            by_content = q + self.biases.content[:, None]
            by_distance = q + self.biases.distance[:, None]
        lowest = int(distances.min())
        known = torch.arange(lowest, int(distances.max()) + 1, device=distances.device)
        table = self.distance_keys(known).permute(1, 2, 0)  # (heads, head width, distances)
        scores = by_distance @ table / math.sqrt(q.shape[-1])
        places = (distances - lowest).expand(*scores.shape[:-1], distances.shape[-1])
        bias = scores.gather(-1, places).masked_fill(~mask, -torch.inf)
        return attention.attend(by_content, keys, values, bias)

    def step(self, inputs: Tensor, host: Host, own: OwnTokens, precomputed: ContextState) -> Tensor:
        """Let the next token of every hypothesis read the rows before the sentence and its own ancestors."""
        attention = host.attention
        past_mask = tensor(precomputed["mask"])  # (sentences, 1, 1, past)
        past = past_mask.shape[-1]
        distances = torch.cat([torch.arange(past, 0, -1, device=own.ages.device) + own.ages.max(), own.ages])
        own_mask = own.mask
        if own_mask is None:
            own_mask = past_mask.new_ones(1, 1, 1, 1).expand(len(inputs), 1, 1, len(own.ages))
        mask = torch.cat([past_mask.expand(-1, -1, own_mask.shape[2], -1), own_mask], dim=-1)
        keys = torch.cat([tensor(precomputed["keys"]), own.keys], dim=2)
        values = torch.cat([tensor(precomputed["values"]), own.values], dim=2)
        query = attention.query(host.norm(inputs))
        attended = self.attend(attention, query, keys, values, distances[None], mask)
        output: Tensor = attention.output(attended)
        return output

    @staticmethod
    def padded_keys(attention: Attention, keys_values: Tensor, parts: list[Tensor]) -> ContextState:
        """Return what `step` needs of the rows before a sentence.

        keys_values: (rows, 2 · d_model), projected: the rows of all documents, part by part; parts: (documents) each,
        how many rows a document has in this part.
        """
        offset, places = 0, []
        for lengths in (part.cpu().numpy() for part in parts):
            stops = offset + np.cumsum(lengths)
            places.append((stops - lengths, stops))
            offset += int(lengths.sum())
        return padded(attention, keys_values, *places)
