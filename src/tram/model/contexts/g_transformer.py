"""G-Transformer (Bao et al. 2021): in some layers, a gate between attention to the sentence and to its segment.

In the top layers of the encoder's self-attention, the decoder's self-attention and its attention to the source, with x
the inputs of the attention and L what it finds in the sentence:

    G = MHA_global(x; all of the segment)              the decoder's self-attention: only to the left
    g = σ(W [L; G] + b)
    out = g ∘ L + (1 − g) ∘ G                           into the residual connection

The encoder and the attention to the source see all sentences of the segment, also those that follow. Positions run over
the segment, on both sides. Nothing is detached. L is the attention of the sentence model; MHA_global and the gate are
new. What is carried is, for each such layer, the keys and values of all tokens of the segment so far.

Differences to the original. Its target is one sequence per segment with a language tag in front, in which the end of
each sentence is an input, too; here the decoder's input of a sentence is start … y_n, and every sentence has a search
of its own, so that there is always one translation for each. The segments of training count the longer side of each
pair, as the original's do; decoding can only count the source. Faults that are not here: the original's search leaves
out the first token that it was trained with, so that all target positions are one lower; its hidden words are not
reproducible from the seed.
"""

import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.model.attention import Attention
from tram.model.contexts.base import InnerContext, OwnInputs, Result
from tram.model.document_rows import SourceRows, padded
from tram.model.packing import Layout
from tram.model.segments import SegmentReading, SegmentRows
from tram.model.state import ContextState, Ragged, ragged, tensor


class GatedAttention(InnerContext):
    """Attention to all of the segment, and the gate between it and the attention to the sentence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(config.d_model, config.heads)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def mix(self, local: Tensor, found: Tensor) -> Tensor:
        """Return g ∘ L + (1 − g) ∘ G."""
        gate = torch.sigmoid(self.gate(torch.cat([local, found], dim=-1)))
        return gate * local + (1 - gate) * found

    def attend(self, inputs: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return G of the next token of every hypothesis, (sentences, beam, d_model)."""
        query = self.attention.split(self.attention.query(inputs))
        found: Tensor = self.attention.output(self.attention.attend(query, keys, values, mask))
        return found


class SegmentSelfAttention(GatedAttention):
    """Self-attention to the segment. State: `keys_values` of its tokens so far."""

    def __init__(self, config: ModelConfig, causal: bool) -> None:
        super().__init__(config)
        self.causal = causal

    def initial_state(self, documents: int) -> ContextState:
        """Return an empty segment."""
        return {"keys_values": Ragged.empty(documents, self.attention.key_value.bias[None])}

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState, source: SourceRows | None = None
    ) -> Result:
        """Attend from all sentences at once. inputs, local: (real tokens, d_model)."""
        carried = ragged(state["keys_values"])
        rows = layout.memo(
            ("segment rows", tuple(carried.lengths.tolist())), lambda: SegmentRows(layout, carried.lengths)
        )
        keys_values = rows.join(carried.values, self.attention.key_value(inputs))
        after: ContextState = {"keys_values": rows.kept(keys_values)}
        if not layout.tokens:
            return Result(local, after)
        reading = layout.memo(
            ("segment", self.causal, tuple(rows.carried.tolist())),
            lambda: SegmentReading(layout, rows.segment_first, rows.segment_stop, rows.starts if self.causal else None),
        )
        found = reading.read(self.attention, self.attention.query(inputs), keys_values)
        return Result(self.mix(local, found), after)

    def precompute(self, state: ContextState, source: SourceRows) -> ContextState:
        """Return the keys and values of the sentences before."""
        rows = SourceRows.of_documents(ragged(state["keys_values"]))
        return padded(self.attention, rows.states, (rows.first, rows.stop))

    def update_input(self, inputs: Tensor) -> Tensor:
        """Return keys and values, which the sentences that follow read."""
        keys_values: Tensor = self.attention.key_value(inputs)
        return keys_values

    def step(self, inputs: Tensor, local: Tensor, own: OwnInputs | None, precomputed: ContextState) -> Tensor:
        """Let the next token of every hypothesis read the sentences before and its own ancestors."""
        assert own is not None
        keys, values = (self.attention.split(part) for part in own.values.chunk(2, -1))
        before = tensor(precomputed["mask"])  # (sentences, 1, 1, keys)
        mask = own.mask
        if mask is None:
            mask = before.new_ones(1, 1, 1, 1).expand(len(inputs), 1, 1, keys.shape[2])
        mask = torch.cat([before.expand(-1, -1, mask.shape[2], -1), mask], dim=-1)
        keys = torch.cat([tensor(precomputed["keys"]), keys], dim=2)
        values = torch.cat([tensor(precomputed["values"]), values], dim=2)
        return self.mix(local, self.attend(inputs, keys, values, mask))

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the segment with one more sentence of each document. update_inputs: (real tokens, 2 · d_model)."""
        carried = ragged(state["keys_values"])
        lengths = torch.as_tensor(layout.counts, device=carried.lengths.device).view(layout.shape[:2]).sum(1)
        parts = zip(carried.documents(), update_inputs.split(lengths.tolist()), strict=True)
        return {"keys_values": Ragged.of([torch.cat(each) for each in parts])}


class SegmentCrossAttention(GatedAttention):
    """Attention to the source of the segment. It carries nothing of its own."""

    def initial_state(self, documents: int) -> ContextState:
        """Return nothing."""
        return {}

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState, source: SourceRows | None
    ) -> Result:
        """Attend from all sentences at once. inputs, local: (real tokens, d_model)."""
        assert source is not None
        if not layout.tokens:
            return Result(local, {})
        reading = layout.memo(("segment source", id(source)), lambda: SegmentReading(layout, source.first, source.stop))
        keys_values = self.attention.key_value(source.states)
        found = reading.read(self.attention, self.attention.query(inputs), keys_values)
        return Result(self.mix(local, found), {})

    def precompute(self, state: ContextState, source: SourceRows) -> ContextState:
        """Return the keys and values of the source."""
        return padded(self.attention, self.attention.key_value(source.states), (source.first, source.stop))

    def update_input(self, inputs: Tensor) -> None:
        """Return nothing: the encoder carries the source."""
        return

    def step(self, inputs: Tensor, local: Tensor, own: OwnInputs | None, precomputed: ContextState) -> Tensor:
        """Let the next token of every hypothesis read the source of the segment."""
        keys, values, mask = (tensor(precomputed[name]) for name in ("keys", "values", "mask"))
        return self.mix(local, self.attend(inputs, keys, values, mask))
