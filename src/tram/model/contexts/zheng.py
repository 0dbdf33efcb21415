"""Zheng et al. 2020 ("Towards making the most of context"): a global encoder layer, and a decoder that looks back once.

Encoder. The tokens of sentence j of the segment have an embedding of j beside their word's. With h the states of the
last layer, before the final layer norm, r_ab the number of sentences from the token a to the token b of the segment,
and A_k, A_v trained tables of it that all heads share:

    q, k, v from LN(h);   score_ab = q_a · (k_b + A_k[r_ab]) / √e;   o_a = Σ_b α_ab (v_b + A_v[r_ab])
    u = h + W_o o;   z = u + FFN(LN(u))
    g = σ(W [h; z] + b);   out = g ∘ h + (1 − g) ∘ z                 then the final layer norm

The decoder of a sentence sees only its own source. Its self-attention is that of Transformer-XL with the one sentence
before as memory: the layer's inputs of that sentence, detached.

In the original, attention to the source continues from the normalised state, LN(x) + MHA(LN(x)), and there is no layer
norm on top of the decoder. Both would discard what a sentence model has learned; here these are the host's. Faults of
the original that are not here: in a batch, distances depend on the padding of other sentences; what the decoder
remembers after a beam search may belong to another hypothesis than the one that was chosen.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.contexts import ZhengConfig
from tram.model.attention import Attention
from tram.model.contexts.base import Result, StackContext
from tram.model.contexts.relative import QueryBiases
from tram.model.contexts.transformer_xl import TransformerXL
from tram.model.document_rows import DocumentRows, Numbers
from tram.model.layers import FeedForward
from tram.model.packing import Layout
from tram.model.segments import SegmentReading, SegmentRows
from tram.model.state import ContextState, Ragged, ragged


class GlobalLayer(StackContext):
    """A layer on top of the encoder that reads the whole segment. State: its `keys_values`, and `numbers` of sentences.

    Before the final layer norm.
    """

    before_norm = True

    def __init__(self, config: ModelConfig, settings: ZhengConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.sentences = settings.sentences
        # Zero, so that finetuning starts at the sentence model's embeddings
        self.sentence_embeddings = nn.Parameter(torch.zeros(settings.sentences, d_model))
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, config.heads)
        shape = 2 * settings.sentences + 1, d_model // config.heads
        self.relative_keys, self.relative_values = (nn.Parameter(torch.empty(shape)) for _ in range(2))  # A_k, A_v
        for table in (self.relative_keys, self.relative_values):
            nn.init.uniform_(table, -0.1, 0.1)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, config.feed_forward, config.activation)
        self.gate = nn.Linear(2 * d_model, d_model)

    def initial_state(self, documents: int) -> ContextState:
        """Return an empty segment."""
        like = self.attention.key_value.bias[None]
        return {"keys_values": Ragged.empty(documents, like), "numbers": Ragged.empty(documents, like[:, :1])}

    def embedding(self, layout: Layout) -> Tensor:
        """Return the embedding of the sentence's number in the segment, for every token."""
        return self.sentence_embeddings[self._numbers(layout)]

    def forward(self, states: Tensor, layout: Layout, state: ContextState, middle: Tensor | None = None) -> Result:
        """Let all sentences read their segments. states: (real tokens, d_model)."""
        carried, earlier = ragged(state["keys_values"]), ragged(state["numbers"])
        rows = SegmentRows(layout, carried.lengths)
        normed = self.norm(states)
        keys_values = rows.join(carried.values, self.attention.key_value(normed))
        own = self._numbers(layout)[:, None].to(states.dtype)
        numbers = rows.join(earlier.values, own)
        after: ContextState = {"keys_values": rows.kept(keys_values), "numbers": rows.kept(numbers)}
        if not layout.tokens:
            return Result(states, after)
        reading = SegmentReading(layout, rows.segment_first, rows.segment_stop)
        queries = reading.into_queries.pad(self.attention.query(normed))
        results = []
        for block, query, query_numbers in zip(reading.blocks, queries, reading.into_queries.pad(own), strict=True):
            shape = len(block.slots), -1
            seen = keys_values.index_select(0, block.slots.flatten()).unflatten(0, block.slots.shape)
            parts = (query.unflatten(0, shape), *seen.chunk(2, -1))
            q, keys, values = (self.attention.split(each) for each in parts)
            distance = numbers[block.slots][:, None, :, 0] - query_numbers.unflatten(0, shape)
            places = distance.long().clamp(-self.sentences, self.sentences) + self.sentences
            results.append(self.attend(q, keys, values, places, block.mask).flatten(0, 1))
        found = self.attention.output(reading.into_queries.unpad(results))
        whole = states + self.dropout(found)
        whole = whole + self.dropout(self.feed_forward(self.feed_forward_norm(whole)))
        gate = torch.sigmoid(self.gate(torch.cat([states, whole], dim=-1)))
        return Result(gate * states + (1 - gate) * whole, after)

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        """Return the heads' results side by side, (segments, queries, d_model).

        q, keys, values: (segments, heads, queries or keys, head width); places: (segments, queries, keys), the rows of
        A_k and A_v; mask: True where a query may look.
        """
        places = places[:, None].expand(-1, q.shape[1], -1, -1)
        by_distance = (q @ self.relative_keys.T).gather(-1, places)
        scores = (q @ keys.transpose(-1, -2) + by_distance) / math.sqrt(q.shape[-1])
        weights = self.attention.dropout(scores.masked_fill(~mask, -torch.inf).softmax(-1))
        summed = weights.new_zeros(*weights.shape[:-1], len(self.relative_values)).scatter_add(-1, places, weights)
        return (weights @ values + summed @ self.relative_values).transpose(-2, -3).flatten(-2)

    @staticmethod
    def _numbers(layout: Layout) -> Tensor:
        """Return the number of its sentence in the segment, for every token."""
        assert layout.segments is not None
        return torch.as_tensor(np.repeat(layout.segments.places, layout.counts), device=layout.device)


class SentenceBefore(TransformerXL):
    """Self-attention of one decoder layer over the sentence and the one before it in the segment."""

    reach = 1

    def __init__(self, config: ModelConfig, biases: QueryBiases) -> None:
        super().__init__(config, 0, biases)

    def past(self, layout: Layout, rows: DocumentRows) -> tuple[Numbers, Numbers]:
        """Return the rows of the sentence before each."""
        (first, stop), _ = self._sentences_before(layout, rows)
        return first, stop

    def kept_rows(self, layout: Layout, rows: DocumentRows) -> tuple[Numbers, Numbers]:
        """Return the rows of the last sentence of each document."""
        return self._sentences_before(layout, rows)[1]

    @staticmethod
    def _sentences_before(
        layout: Layout, rows: DocumentRows
    ) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
        """Return the ranges of rows that each sentence reads, and that each document keeps."""
        documents, sentences, _ = layout.shape
        numbers = np.zeros_like(layout.counts) if layout.segments is None else layout.segments.numbers
        read, kept = np.zeros((2, documents * sentences), dtype=np.int64), np.zeros((2, documents), dtype=np.int64)
        for document in range(documents):
            first = int(rows.first[document])
            last, segment = (first, first + int(rows.carried[document])), 0
            kept[:, document] = last
            for place in range(sentences):
                sentence = document * sentences + place
                start, stop = int(rows.starts[sentence]), int(rows.stops[sentence])
                if numbers[sentence] != segment:
                    last, segment = (start, start), int(numbers[sentence])
                read[:, sentence] = last
                if stop > start:
                    last = start, stop
                if place < sentences - layout.reread:
                    kept[:, document] = last
        return (read[0], read[1]), (kept[0], kept[1])
