"""The Compressive Transformer (Rae et al. 2020): what leaves the memory of Transformer-XL is kept in compressed form.

With y = LN(x) the layer's normalised inputs, m the last ones of the sentences before, c what older ones were
compressed to, both detached, and P a trained table of distances:

    q from y;  k, v from [c; m; y]
    score_ab = (q_a · k_b + q_a · P[dist_ab]) / √e          a compressed row counts as one
    m ← [m; y];  its first rows beyond `memory_length`, in groups of `ratio`, → convolution → c ← the last of [c; …]

The convolution learns only from an extra loss: attention to the compressed rows should find what attention to the rows
themselves found, |MHA(q; old) − MHA(q; compressed)|², everything but the convolution detached.

The authors published no code. The port that the golden numbers come from is built on segments of one length; for
sentences, only complete groups are compressed, and the rest stays in m until its group is complete. Faults of the port
that are not here: from the first compression on its key and value projections never train; padding enters the memory;
of what does not divide by the ratio, rows are lost; the vector of a distance changes while the memories fill. Its
default shifts memories by one layer and gates residuals with a GRU; neither is built.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from tram.config import ModelConfig
from tram.config.contexts import CompressiveConfig
from tram.errors import InputError
from tram.model.attention import Attention
from tram.model.contexts.base import Host, Result
from tram.model.contexts.relative import Reading, RelativeAttention
from tram.model.document_rows import CarriedAndNew, DocumentRows, Numbers, ranges
from tram.model.packing import Layout, Rectangles, by_length
from tram.model.state import DAMAGED, ContextState, Ragged, ragged


class DistanceTable(nn.Module):
    """P: a trained vector for every distance and head, zeros at first. Layers share it."""

    def __init__(self, config: ModelConfig, settings: CompressiveConfig) -> None:
        super().__init__()
        self.future = config.max_positions  # in the encoder, tokens behind a query have negative distances
        longest = settings.memory_length + settings.ratio + settings.compressed_length + config.max_positions
        shape = config.heads, self.future + longest, config.d_model // config.heads
        self.table = nn.Parameter(torch.zeros(shape))

    def forward(self, distances: Tensor) -> Tensor:
        """(distances) → (distances, heads, head width)."""
        return self.table.index_select(1, distances + self.future).transpose(0, 1)


class Plan:
    """Which rows each sentence finds in the memory, and what is compressed behind it.

    rows: the memory that is carried, then all tokens; compressed: what is carried, then what the pass adds. leaves,
    left: (documents · sentences), the first row that is in the memory at a sentence and behind it, counted from the
    document's first row: multiples of `ratio`. kept: (documents), the same behind the sentences whose state is wanted.
    """

    def __init__(self, layout: Layout, memory: Tensor, compressed: Tensor, length: int, ratio: int) -> None:
        self.rows = rows = DocumentRows(layout, memory)
        first = rows.first[rows.document]
        self.leaves, self.left, self.kept = (
            ratio * ((end - start - length).clip(min=0) // ratio)
            for start, end in ((first, rows.starts), (first, rows.stops), (rows.first, rows.ends))
        )
        behind_all = self.left.reshape(layout.shape[:2])[:, -1]
        self.compressed = CarriedAndNew(compressed.cpu().numpy(), behind_all // ratio, layout.device)
        groups = [start + ratio * np.arange(n) for start, n in zip(rows.first, behind_all // ratio, strict=True)]
        self.groups = torch.as_tensor(np.concatenate(groups)[:, None] + np.arange(ratio), device=layout.device)


class Compressive(RelativeAttention):
    """Self-attention of one layer over the sentence, a memory and a compressed one. State: `memory`, `compressed`."""

    def __init__(self, config: ModelConfig, settings: CompressiveConfig, table: DistanceTable, layers: int) -> None:
        super().__init__(None)
        self.memory_length, self.compressed_length = settings.memory_length, settings.compressed_length
        self.ratio = settings.ratio
        self.loss_weight = settings.reconstruction / layers  # the mean over layers counts
        self.table = table
        self.compress = nn.Conv1d(config.d_model, config.d_model, settings.ratio, settings.ratio)

    def initial_state(self, documents: int) -> ContextState:
        """Return two empty memories."""
        like = self.compress.weight[..., 0]
        return {"memory": Ragged.empty(documents, like), "compressed": Ragged.empty(documents, like)}

    def forward(self, inputs: Tensor, host: Host, layout: Layout, state: ContextState) -> Result:
        """Attend from all sentences at once. inputs: (real tokens, d_model)."""
        attention, normed = host.attention, host.norm(inputs)
        plan, memory, fresh = self.compressed_behind(normed, layout, state)
        compressed = plan.compressed.join(ragged(state["compressed"]).values, fresh.detach())
        after = self.kept(plan, memory, compressed)
        if not layout.tokens:
            return Result(inputs, after)
        past = torch.cat([memory, compressed])
        lengths = (tuple(each.carried.tolist()) for each in (plan.rows, plan.compressed))
        reading = layout.memo(
            ("compressive", self.memory_length, host.causal, *lengths),
            lambda: Reading(layout, self.past(plan, len(memory)), len(past) + layout.starts, host.causal),
        )
        queries, keys_values = attention.query(normed), attention.key_value(torch.cat([past, normed]))
        result = self.read(attention, reading, queries, keys_values)
        loss = None
        if torch.is_grad_enabled() and len(fresh):
            loss = self.loss_weight * self.reconstruction_loss(attention, layout, plan, queries, keys_values, fresh)
        return Result(result, after, loss)

    def carried(self, state: ContextState) -> tuple[Ragged, Ragged]:
        """Return both memories of a state; refuse any that is longer than a pass leaves it."""
        memory, compressed = ragged(state["memory"]), ragged(state["compressed"])
        longest = self.memory_length + self.ratio - 1
        if bool((memory.lengths > longest).any() | (compressed.lengths > self.compressed_length).any()):
            raise InputError(DAMAGED)
        return memory, compressed

    def compressed_behind(self, normed: Tensor, layout: Layout, state: ContextState) -> tuple[Plan, Tensor, Tensor]:
        """Return the plan of a pass, all rows of the memory, and what is compressed during it."""
        carried, compressed = self.carried(state)
        plan = Plan(layout, carried.lengths, compressed.lengths, self.memory_length, self.ratio)
        memory = plan.rows.join(carried.values, normed.detach())
        groups = memory.index_select(0, plan.groups.flatten()).unflatten(0, plan.groups.shape)
        if not len(groups):
            return plan, memory, memory[:0]
        return plan, memory, self.compress(groups.transpose(1, 2)).squeeze(-1)

    def past(self, plan: Plan, offset: int) -> list[tuple[Numbers, Numbers]]:
        """Return the rows that each sentence reads: compressed ones, which begin at `offset`, and the memory."""
        rows, document = plan.rows, plan.rows.document
        stop = plan.compressed.carried[document] + plan.leaves // self.ratio
        first = offset + plan.compressed.first[document]
        return [
            (first + (stop - self.compressed_length).clip(min=0), first + stop),
            (rows.first[document] + plan.leaves, rows.starts),
        ]

    def kept(self, plan: Plan, memory: Tensor, compressed: Tensor) -> ContextState:
        """Return the state after a pass."""
        stop = plan.compressed.carried + plan.kept // self.ratio
        first = plan.compressed.first
        old, old_lengths = plan.compressed.indices(first + (stop - self.compressed_length).clip(min=0), first + stop)
        new, new_lengths = plan.rows.indices(plan.rows.first + plan.kept, plan.rows.ends)
        return {
            "memory": Ragged(memory.index_select(0, new), new_lengths),
            "compressed": Ragged(compressed.index_select(0, old), old_lengths),
        }

    def distance_keys(self, distances: Tensor) -> Tensor:
        """Return P[distance]: (distances, heads, head width)."""
        keys: Tensor = self.table(distances)
        return keys

    def reconstruction_loss(
        self, attention: Attention, layout: Layout, plan: Plan, queries: Tensor, keys_values: Tensor, fresh: Tensor
    ) -> Tensor:
        """Return what is lost by compression, (real tokens): only the convolution learns from it.

        queries, keys_values: projected, of the tokens and of all rows; fresh: what was compressed in this pass.
        """
        frozen = {name: value.detach() for name, value in attention.key_value.named_parameters()}
        compressed = functional_call(attention.key_value, frozen, (fresh,))
        begin = np.concatenate([[0], np.cumsum(plan.compressed.new)[:-1]])[plan.rows.document]
        first = plan.rows.first[plan.rows.document]
        counts = np.where(plan.left > plan.leaves, layout.counts, 0)
        groups = by_length(counts, counts)
        rectangles = Rectangles(layout, groups)
        losses = []
        for group, query in zip(groups, rectangles.pad(queries.detach()), strict=True):
            leaves, left = plan.leaves[group], plan.left[group]
            query = query.unflatten(0, (len(group), -1))
            old = _attended(attention, query, keys_values.detach(), first[group] + leaves, first[group] + left)
            places = begin[group] + leaves // self.ratio, begin[group] + left // self.ratio
            losses.append((old - _attended(attention, query, compressed, *places)).square().mean(-1).flatten()[:, None])
        counted = torch.as_tensor(np.repeat(counts > 0, layout.counts), device=layout.device)
        return torch.where(counted, rectangles.unpad(losses).squeeze(-1), 0.0)

    def precompute(self, state: ContextState, host: Host) -> ContextState:
        """Return the keys and values of both memories."""
        parts = self.carried(state)[::-1]
        keys_values = host.attention.key_value(torch.cat([part.values for part in parts]))
        return self.padded_keys(host.attention, keys_values, [part.lengths for part in parts])

    def update_input(self, inputs: Tensor, host: Host) -> Tensor:
        """Return the layer's normalised input, which the sentences that follow read."""
        normed: Tensor = host.norm(inputs)
        return normed

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return both memories after one complete sentence of each document. update_inputs: (real tokens, d_model)."""
        plan, memory, fresh = self.compressed_behind(update_inputs, layout, state)
        return self.kept(plan, memory, plan.compressed.join(ragged(state["compressed"]).values, fresh))


def _attended(attention: Attention, query: Tensor, keys_values: Tensor, first: Numbers, stop: Numbers) -> Tensor:
    """Return attention without positions to one range of rows per sentence, (sentences, tokens, d_model)."""
    rows, real = ranges((first, stop))
    slots = torch.as_tensor(rows, device=query.device)
    seen = keys_values.index_select(0, slots.flatten()).unflatten(0, slots.shape)
    q, keys, values = (attention.split(each) for each in (query, *seen.chunk(2, -1)))
    mask = torch.as_tensor(real, device=query.device)[:, None, None]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask).transpose(1, 2).flatten(-2)
