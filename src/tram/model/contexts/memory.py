"""The recurrent memory of the paper (section 3): a few vectors that a layer reads and writes, sentence after sentence.

With h^t the layer's states of sentence t after self-attention, and M^t a memory of d_M vectors ("slots"):

    M^0     = LN(table)                                              first memory, a trainable table
    M       = M^t + PE                                               positions tell the slots apart
    M̃       = LN(M + MHA(M, h^t, h^t))                               update attention
    M^{t+1} = LN(M̃ + FFN(M̃))
    h̃^t     = LN(h^t + MHA(h^t, M^t, M^t))                           output attention, `read: norm`
    h̃^t     = h^t + MHA(h^t, M^t, M^t)                               output attention, `read: add`
    h̃^t     = h^t + |h^t| MHA(h^t, M^t, M^t)                         output attention, `read: scaled`

Sentence t reads M^t, which knows the sentences before it, and is then taken in. h^t does not depend on the layer's own
M^t, so all h are known before the first update: only M walks through time, then all sentences read at once.

|h| is the root mean square of a state. Behind the last layers of a pre-norm model it is 20 to 80, where LN makes it 1
before every sublayer: there, what is read must be as large to be heard.

Foretelling (ours): what a reader that looks at all slots alike would be given, W^o mean(M W^v), is taken as a state
of the output layer, and the words of sentence t must be likely there, before a word of it is known:

    loss^t  = −Σ_{w ∈ y^t} ln softmax(E W^o mean(M^t W^v) + ln p)_w       E: the embedding, p: how frequent words are

Gradient depth k: M^t is k updates unrolled from a detached M^{t−k}. The paper's is 1; full: nothing is detached.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tram.config import MemoryConfig, ModelConfig
from tram.model.attention import Attention
from tram.model.contexts.base import Context, ContextState
from tram.model.layers import FeedForward
from tram.model.packing import Layout


class Memory(Context):
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
        self.dropout = nn.Dropout(0.0)
        self.scaled = memory.read == "scaled"
        self.tells = False  # what each sentence read is given back beside the state, as `before`, to train on
        if memory.read != "norm":  # finetuning starts exactly at the sentence model
            nn.init.zeros_(self.output_attention.output.weight)
            nn.init.zeros_(self.output_attention.output.bias)

    def start(self, documents: int) -> ContextState:
        """M^0 for every document."""
        return {"M": self.first_norm(self.table).expand(documents, -1, -1)}

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState
    ) -> tuple[Tensor, ContextState]:
        """M walks through all sentences, then all of them read at once. local: (real tokens, d_model)."""
        h = self.input_norm(local)
        memories = self.walk(h, layout, state["M"])
        read = torch.stack(memories[:-1], dim=1).flatten(0, 1)  # (documents · sentences, slots, d_model)
        blocks = layout.own_blocks
        state = {"M": memories[-1 - layout.edge]}
        if self.tells and torch.is_grad_enabled():
            state["before"] = read
        if not blocks.blocks:
            return local, state
        queries = blocks.into_queries.pad(self.output_attention.query(h))
        keys_values = self.output_attention.key_value(read)
        results = []
        for block, query in zip(blocks.blocks, queries, strict=True):
            seen = keys_values.index_select(0, block.sentences)
            results.append(self.attend_output(query.unflatten(0, (len(block.sentences), -1)), seen).flatten(0, 1))
        attended = self.output_attention.output(blocks.into_queries.unpad(results))
        return self.join(local, attended), state

    def read(self, inputs: Tensor, local: Tensor, ready: ContextState) -> Tensor:
        """Tokens of the sentence at hand read the memory. local: (documents, tokens, d_model)."""
        query = self.output_attention.query(self.input_norm(local))
        attended = self.output_attention.output(self.attend_output(query, ready["read"]))
        return self.join(local, attended)

    def join(self, local: Tensor, attended: Tensor) -> Tensor:
        """h̃ of h and what it has read, (…, d_model) each."""
        attended = self.dropout(attended)
        if self.scaled:
            attended = attended * local.square().mean(-1, keepdim=True).sqrt()
        return self.output_norm(local + attended)

    def foretell(self, M: Tensor) -> Tensor:
        """What a reader that looks at all slots alike is given: (n, slots, d_model) → (n, d_model)."""
        values = self.output_attention.key_value(M).chunk(2, -1)[1]
        return self.output_attention.output(values.mean(-2))

    def ready(self, state: ContextState) -> ContextState:
        """Keys and values of the memory, which stay the same throughout a sentence."""
        return {"read": self.output_attention.key_value(state["M"])}

    def keep(self, inputs: Tensor, local: Tensor) -> Tensor:
        """The states that the update attention takes in: h."""
        return self.input_norm(local)

    def advance(self, kept: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """The memory after one complete sentence in each document. kept: (real tokens, d_model)."""
        return {"M": self.walk(kept, layout, state["M"])[-1]}

    def attend_output(self, query: Tensor, keys_values: Tensor) -> Tensor:
        """MHA(h, M, M) before W^o. query: (n, tokens, d_model); keys_values: (n, slots, 2 · d_model)."""
        attention = self.output_attention
        keys, values = keys_values.chunk(2, -1)
        return attention.attend(attention.split(query), attention.split(keys), attention.split(values), None)

    def walk(self, h: Tensor, layout: Layout, memory: Tensor) -> list[Tensor]:
        """M^0 … M^S: what each sentence reads, and what is left for the one after the last.

        `live` are unrollings of the same memory that were detached 1, 2, … k updates ago; the oldest is M^t.
        """
        memories = [memory]
        live: list[Tensor] = []
        depth = self.depth if torch.is_grad_enabled() else "full"
        steps = layout.steps
        for step, keys_values in zip(steps.blocks, steps.pad(self.update_attention.key_value(h)), strict=True):
            younger = live[1:] if len(live) == depth else live
            live = [memory] if depth == "full" else [*younger, memory.detach()]
            rows = len(step.sentences)
            keys_values = keys_values.unflatten(0, (rows, len(keys_values) // max(rows, 1)))
            live = [step.put(M, self.update(step.take(M), keys_values, step.mask)) for M in live]
            memory = live[0]
            memories.append(memory)
        return memories

    def maps(self, local: Tensor, layout: Layout, state: ContextState) -> list[list["Maps"]]:
        """The attention weights of every sentence of every document; none for an empty sentence."""
        h = self.input_norm(local)
        memories = self.walk(h, layout, state["M"])
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
        """M^{t+1} of M^t and the projected h^t. M: (documents, slots, d); keys_values: (documents, tokens, 2 · d)."""
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
    """What tells the slots apart: M + sinusoids, or LN(M + trainable table)."""

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
        """(documents, slots, d_model) → the same shape."""
        return self.norm(M + self.positions)


def slot_sinusoids(slots: int, d_model: int) -> Tensor:
    """Sines in the first half of the columns, cosines in the second; the last wave length is exactly 10000 · 2π."""
    half = d_model // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10_000) / max(half - 1, 1)))
    angles = torch.arange(slots, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())
