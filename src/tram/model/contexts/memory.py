"""The recurrent memory of the paper (section 3): a few vectors that a layer reads and updates, sentence by sentence.

With h^t the layer's states of sentence t after self-attention, and M^t a memory of d_M vectors ("slots"):

    M^0     = LN(table)                                              first memory, a trainable table
    M       = M^t + PE                                               positions tell the slots apart
    M̃       = LN(M + MHA(M, h^t, h^t))                               update attention
    M^{t+1} = LN(M̃ + FFN(M̃))
    h̃^t     = LN(h^t + MHA(h^t, M^t, M^t))                           output attention, `read: norm`
    h̃^t     = h^t + MHA(h^t, M^t, M^t)                               output attention, `read: add`
    h̃^t     = h^t + |h^t| MHA(h^t, M^t, M^t)                         output attention, `read: scaled`

Sentence t reads M^t, which knows the sentences before it; then the memory is updated from it. h^t does not depend on
the layer's own M^t, so all h are known before the first update: only M is computed step by step, then all sentences
read at once.

|h| is the root mean square of a state. After the last layers of a pre-norm model it is 20 to 80, while LN makes it 1
before every sublayer: there, the result of the output attention must be as large to have an effect.

Gradient depth k: M^t is k updates unrolled from a detached M^{t−k}. The paper's is 1; full: nothing is detached.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tram.config import MemoryConfig, ModelConfig
from tram.model.attention import Attention
from tram.model.contexts.base import Result, SublayerContext
from tram.model.layers import FeedForward
from tram.model.packing import Layout
from tram.model.state import ContextState, tensor


class Memory(SublayerContext):
    """One memory unit, behind the self-attention of one layer. State: `M`, (documents, slots, d_model)."""

    def __init__(self, config: ModelConfig, memory: MemoryConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.depth = memory.depth
        self.pre = config.norm == "pre"
        self.table = nn.Parameter(torch.randn(memory.slots, d_model))
        self.first_norm = nn.LayerNorm(d_model)
        self.positions = SlotPositions(memory, d_model)
        self.update_attention = Attention(d_model, config.heads)
        self.update_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, config.feed_forward, config.activation)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.output_attention = Attention(d_model, config.heads)
        self.input_norm = nn.LayerNorm(d_model) if self.pre else nn.Identity()
        self.output_norm = nn.LayerNorm(d_model) if memory.read == "norm" else nn.Identity()
        self.scaled = memory.read == "scaled"
        if memory.read != "norm":  # finetuning starts exactly at the sentence model
            nn.init.zeros_(self.output_attention.output.weight)
            nn.init.zeros_(self.output_attention.output.bias)

    def initial_state(self, documents: int) -> ContextState:
        """Return M^0 for every document."""
        return {"M": self.first_norm(self.table).expand(documents, -1, -1)}

    def forward(self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState) -> Result:
        """Update M sentence by sentence, then let all sentences read at once. local: (real tokens, d_model)."""
        h = self.input_norm(local)
        memories = self.walk(h, layout, tensor(state["M"]))
        read = torch.stack(memories[:-1], dim=1).flatten(0, 1)  # (documents · sentences, slots, d_model)
        blocks = layout.own_blocks
        after: ContextState = {"M": memories[-1 - layout.reread]}
        if not blocks.blocks:
            return Result(local, after)
        queries = blocks.into_queries.pad(self.output_attention.query(h))
        keys_values = self.output_attention.key_value(read)
        results = []
        for block, query in zip(blocks.blocks, queries, strict=True):
            seen = keys_values.index_select(0, block.sentences)
            results.append(self.attend_output(query.unflatten(0, (len(block.sentences), -1)), seen).flatten(0, 1))
        attended = self.output_attention.output(blocks.into_queries.unpad(results))
        return Result(self.fuse(local, attended), after)

    def step(self, inputs: Tensor, local: Tensor, precomputed: ContextState) -> Tensor:
        """Let tokens of the current sentence read the memory. local: (documents, tokens, d_model)."""
        query = self.output_attention.query(self.input_norm(local))
        attended = self.output_attention.output(self.attend_output(query, tensor(precomputed["keys_values"])))
        return self.fuse(local, attended)

    def fuse(self, local: Tensor, attended: Tensor) -> Tensor:
        """Return h̃ of h and the result of the output attention, (…, d_model) each."""
        attended = self.dropout(attended)
        if self.scaled:
            attended = attended * local.square().mean(-1, keepdim=True).sqrt()
        return self.output_norm(local + attended)

    def precompute(self, state: ContextState) -> ContextState:
        """Return keys and values of the memory, which stay the same throughout a sentence."""
        return {"keys_values": self.output_attention.key_value(tensor(state["M"]))}

    def update_input(self, inputs: Tensor, local: Tensor) -> Tensor:
        """Return the states that the update attention reads: h."""
        return self.input_norm(local)

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the memory after one complete sentence of each document. update_inputs: (real tokens, d_model)."""
        return {"M": self.walk(update_inputs, layout, tensor(state["M"]))[-1]}

    def attend_output(self, query: Tensor, keys_values: Tensor) -> Tensor:
        """Return MHA(h, M, M) before W^o. query: (n, tokens, d_model); keys_values: (n, slots, 2 · d_model)."""
        attention = self.output_attention
        keys, values = keys_values.chunk(2, -1)
        return attention.attend(attention.split(query), attention.split(keys), attention.split(values), None)

    def walk(self, h: Tensor, layout: Layout, memory: Tensor) -> list[Tensor]:
        """Return M^0 … M^S: what each sentence reads, and what the one after the last would."""
        keys_values = self.update_attention.key_value(h)
        if self.depth == "full" or not torch.is_grad_enabled():
            return self._step_by_step(keys_values, layout, memory, layout.shape[1])
        return self._unrolled(keys_values, layout, memory, self.depth)

    def _step_by_step(self, keys_values: Tensor, layout: Layout, memory: Tensor, updates: int) -> list[Tensor]:
        """Return M^0 … M^updates, each made of the one before. keys_values: h projected, (real tokens, 2 · d)."""
        memories = [memory]
        steps = layout.steps
        for step, own in zip(steps.blocks[:updates], steps.pad(keys_values), strict=False):
            rows = len(step.sentences)
            own = own.unflatten(0, (rows, len(own) // max(rows, 1)))
            memories.append(step.put(memories[-1], self.update(step.take(memories[-1]), own, step.mask)))
        return memories

    def _unrolled(self, keys_values: Tensor, layout: Layout, memory: Tensor, depth: int) -> list[Tensor]:
        """Return M^0 … M^S, each `depth` updates away from one that is detached.

        The values come first, step by step and without gradients. Given those, the k-th updates of all sentences do
        not need each other: M^t is k updates unrolled from M^{t−k} for all t at once.
        """
        documents, sentences = layout.shape[:2]
        with torch.no_grad():
            values = self._step_by_step(keys_values.detach(), layout, memory.detach(), sentences - 1)
        before = torch.stack(values[:sentences], dim=1)  # (documents, sentences, slots, d_model)
        after = before  # of every sentence: unrolled from the memory one, two, … k updates ago
        for k in range(min(depth, sentences)):
            start = before if k == 0 else torch.cat([before[:, :1], after[:, :-1]], dim=1)
            updated = self._update_all(start.flatten(0, 1), keys_values, layout).unflatten(0, (documents, sentences))
            after = torch.cat([after[:, :k], updated[:, k:]], dim=1)  # the first k have no memory before M^0
        return [memory, *after.unbind(1)]

    def _update_all(self, M: Tensor, keys_values: Tensor, layout: Layout) -> Tensor:
        """Return the memories after every sentence, given those before it: (documents · sentences, slots, d_model)."""
        blocks = layout.own_blocks
        for block, own in zip(blocks.blocks, blocks.into_queries.pad(keys_values), strict=True):
            rows = len(block.sentences)
            own = own.unflatten(0, (rows, -1))
            if rows == len(M):  # all of them, in order
                return self.update(M, own, block.mask)
            M = M.index_copy(0, block.sentences, self.update(M.index_select(0, block.sentences), own, block.mask))
        return M  # an empty sentence changes nothing

    def maps(self, local: Tensor, layout: Layout, state: ContextState) -> list[list["Maps"]]:
        """Return the attention weights of every sentence of every document; none for an empty sentence."""
        h = self.input_norm(local)
        memories = self.walk(h, layout, tensor(state["M"]))
        sentences = iter(h.split(layout.counts.tolist()))
        documents, length = layout.shape[:2]
        found: list[list[Maps]] = []
        for document in range(documents):
            maps = []
            for t in range(length):
                tokens, M = next(sentences), memories[t][document]
                if len(tokens):
                    update = self.update_attention.weights(self.positions(M), tokens)
                    maps.append(Maps(t, update, self.output_attention.weights(tokens, M)))
            found.append(maps)
        return found

    def update(self, M: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
        """Return M^{t+1}. M: M^t, (documents, slots, d); keys_values: h^t projected, (documents, tokens, 2 · d)."""
        attention = self.update_attention
        M = self.dropout(self.positions(M))
        keys, values = keys_values.chunk(2, -1)
        query = attention.split(attention.query(M))
        attended = attention.attend(query, attention.split(keys), attention.split(values), mask)
        M = self.update_norm(M + self.dropout(attention.output(attended)))
        return self.feed_forward_norm(M + self.dropout(self.feed_forward(M)))


@dataclass(frozen=True)
class Maps:
    """Attention weights of one sentence: update (heads, slots, tokens) and output (heads, tokens, slots)."""

    sentence: int
    update: Tensor
    output: Tensor


class SlotPositions(nn.Module):
    """Positions of the slots: M + sinusoids, or LN(M + trainable table)."""

    def __init__(self, memory: MemoryConfig, d_model: int) -> None:
        super().__init__()
        self.norm: nn.Module = nn.Identity()
        if memory.positions == "sinusoidal":
            self.register_buffer("positions", slot_sinusoids(memory.slots, d_model), persistent=False)
        else:
            self.positions = nn.Parameter(torch.empty(memory.slots, d_model))
            nn.init.normal_(self.positions, std=0.02)
            self.norm = nn.LayerNorm(d_model)

    def forward(self, M: Tensor) -> Tensor:
        """Add positions to M: (documents, slots, d_model) → the same shape."""
        return self.norm(M + self.positions)


def slot_sinusoids(slots: int, d_model: int) -> Tensor:
    """Return sines in the first half of the columns, cosines in the second; the last wave length is 10000 · 2π."""
    half = d_model // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10_000) / max(half - 1, 1)))
    angles = torch.arange(slots, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())
