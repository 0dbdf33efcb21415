"""Segments: runs of sentences of a document whose source is read as a whole, before the first of them is translated.

A document is split greedily (`SegmentRule`, `segment_numbers`), and segments are independent of each other. Within one
pass, each sentence sees all others of its segment. It also sees the sentences of the segment from earlier passes, but
encoded as they were then, without what came later. Several passes over whole segments therefore equal one pass over
the document, but a segment that is continued in a later call differs from one that is read at once.

- `OpenSegment`, `SourceSegment`: the state that each side keeps of its current segment;
- `SegmentRows`: the rows, carried and new, of the segment that each sentence is in;
- `SegmentReading`: attention from all tokens of a segment at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tram.config.contexts import SegmentRule
from tram.errors import InputError
from tram.model.attention import Attention
from tram.model.contexts.base import Context
from tram.model.document_rows import DocumentRows, Numbers, SourceRows, ranges
from tram.model.packing import Layout, Rectangles, Segments, by_length
from tram.model.state import DIGIT, ContextState, Ragged, number_of, ragged


class OpenSegment(Context):
    """The segment that a document is in. State: `lengths`, the tokens of each of its sentences so far (two digits)."""

    def __init__(self) -> None:
        super().__init__()
        self.like: Tensor
        self.register_buffer("like", torch.zeros(1, 2), persistent=False)

    def initial_state(self, documents: int) -> ContextState:
        """Return segments without a sentence."""
        return {"lengths": Ragged.empty(documents, self.like)}

    def carried(self, state: ContextState) -> list[list[int]]:
        """Return the lengths of the sentences in the open segment of each document."""
        digits = [rows.tolist() for rows in ragged(state["lengths"]).documents()]
        return [[number_of(high, low) for high, low in rows] for rows in digits]

    def follow(self, layout: Layout, state: ContextState, numbers: Numbers) -> tuple[Segments, ContextState]:
        """Return the position of the sentences in their segments, and the state after them."""
        documents, sentences, _ = layout.shape
        places, offsets = (np.zeros((documents, sentences), dtype=np.int64) for _ in range(2))
        counts = layout.counts.reshape(documents, sentences).tolist()
        after = []
        for document, lengths in enumerate(self.carried(state)):
            segment = 0
            for place, count in enumerate(counts[document]):
                if (number := int(numbers[document * sentences + place])) != segment:
                    segment, lengths = number, []
                places[document, place], offsets[document, place] = len(lengths), sum(lengths)
                if count:
                    lengths = [*lengths, count]
            after.append(self._rows(lengths))
        return Segments(numbers, places.ravel(), offsets.ravel()), {"lengths": Ragged.of(after)}

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the open segment after one more sentence of each document."""
        return self.follow(layout, state, np.zeros(len(layout.counts), dtype=np.int64))[1]

    def _rows(self, lengths: Sequence[int]) -> Tensor:
        return self.like.new_tensor([divmod(length, DIGIT) for length in lengths]).view(-1, 2)


class SourceSegment(OpenSegment):
    """The segment that the source of a document is in. State: also its encoded `rows`, if the decoder reads them."""

    def __init__(self, rule: SegmentRule, d_model: int, keeps_rows: bool) -> None:
        super().__init__()
        self.rule = rule
        self.d_model = d_model
        self.keeps_rows = keeps_rows

    def initial_state(self, documents: int) -> ContextState:
        """Return segments without a sentence."""
        state = super().initial_state(documents)
        if self.keeps_rows:
            state["rows"] = Ragged.empty(documents, self.like.new_empty(1, self.d_model))
        return state

    def cut(self, layout: Layout, state: ContextState) -> Numbers:
        """Return the segment that each sentence is in, (documents · sentences): see `Segments.numbers`."""
        documents, sentences, _ = layout.shape
        counts = layout.counts.reshape(documents, sentences).tolist()
        carried = self.carried(state)
        rows = [segment_numbers(self.rule, own, given) for own, given in zip(counts, carried, strict=True)]
        numbers = np.array(rows, dtype=np.int64).ravel()
        if self.rule.refuses and numbers.any():
            sizes = [len(given) + sum(map(bool, own)) for own, given in zip(counts, carried, strict=True)]
            raise InputError(f"a document {self.rule.beyond(max(sizes))}")
        return numbers

    def rows_after(self, states: Tensor, layout: Layout, state: ContextState) -> tuple[SourceRows | None, ContextState]:
        """Return the source rows that the decoder may read, and the part of the state that stores them."""
        if not self.keeps_rows:
            return None, {}
        carried = ragged(state["rows"])
        rows = SegmentRows(layout, carried.lengths)
        joined = rows.join(carried.values, states)
        return SourceRows(joined, rows.segment_first, rows.segment_stop), {"rows": rows.kept(joined)}


def segment_numbers(rule: SegmentRule, counts: Sequence[int], carried: Sequence[int] = ()) -> list[int]:
    """Return the segment that each sentence of a document is in; 0 is the one that was open before.

    counts: tokens of the sentences; an empty one is in the segment of the one before it. carried: tokens of the
    sentences that are already in the open segment.
    """
    numbers = []
    number, sentences, tokens = 0, len(carried), sum(carried)
    for count in counts:
        if count and not rule.joins(sentences, tokens, count):
            number, sentences, tokens = number + 1, 0, 0
        sentences, tokens = sentences + bool(count), tokens + count
        numbers.append(number)
    return numbers


class SegmentRows(DocumentRows):
    """Rows carried into a pass, which belong to the open segment, then the tokens of all its sentences.

    segment_first, segment_stop: (documents · sentences), the rows of the segment that each sentence is in; kept_first:
    (documents), where the last segment of each document begins.
    """

    def __init__(self, layout: Layout, carried: Tensor) -> None:
        super().__init__(layout, carried)
        assert layout.segments is not None
        documents, sentences, _ = layout.shape
        numbers = layout.segments.numbers
        self.segment: Numbers = self.document * (sentences + 1) + numbers  # unique in the batch
        firsts = np.full(documents * (sentences + 1), np.iinfo(np.int64).max)
        stops = np.zeros_like(firsts)
        np.minimum.at(firsts, self.segment, np.where(numbers == 0, self.first[self.document], self.starts))
        np.maximum.at(stops, self.segment, self.stops)
        self.segment_first: Numbers = firsts[self.segment]
        self.segment_stop: Numbers = stops[self.segment]
        self.kept_first: Numbers = self.segment_first.reshape(documents, sentences)[:, -1]

    def kept(self, rows: Tensor) -> Ragged:
        """Return the rows of the segment that each document is in after the pass."""
        places, lengths = self.indices(self.kept_first, self.ends)
        return Ragged(rows.index_select(0, places), lengths)


class Spans:
    """The tokens of each segment in a pass, which are contiguous; `Rectangles` treats them like sentences.

    starts, counts: (segments); sentence: the first sentence of each.
    """

    def __init__(self, layout: Layout) -> None:
        assert layout.segments is not None
        sentences = layout.shape[1]
        documents = np.repeat(np.arange(layout.shape[0]), sentences)
        segment = documents * (sentences + 1) + layout.segments.numbers
        full = np.flatnonzero(layout.counts)
        _, first, inverse = np.unique(segment[full], return_index=True, return_inverse=True)
        self.tokens, self.device = layout.tokens, layout.device
        self.sentence: Numbers = full[first]
        self.starts: Numbers = layout.starts[self.sentence]
        self.counts: Numbers = np.bincount(inverse, weights=layout.counts[full], minlength=len(first)).astype(np.int64)


@dataclass(frozen=True)
class SegmentBlock:
    """Segments of similar length with the rows they read.

    slots: (segments, keys), indices of the rows; mask: (segments, 1, 1 or queries, keys), True where a token may look.
    """

    slots: Tensor
    mask: Tensor


class SegmentReading:
    """All segments of a pass as rectangles of queries, and the rows that each of them reads."""

    def __init__(self, layout: Layout, first: Numbers, stop: Numbers, own: Numbers | None = None) -> None:
        """first, stop: (documents · sentences), the rows of each one's segment.

        own: (documents · sentences), the row of each sentence's first token, for causal attention; None: no mask.
        """
        spans = Spans(layout)
        first, stop = first[spans.sentence], stop[spans.sentence]
        groups = by_length(spans.counts, stop - first)
        self.into_queries = Rectangles(spans, groups)
        self.sentences = [spans.sentence[group] for group in groups]
        self.blocks = []
        for group, queries in zip(groups, self.into_queries.widths, strict=True):
            rows, real = ranges((first[group], stop[group]))
            visible = real[:, None, None]
            if own is not None:  # a query that is padding sees everything
                tokens = own[spans.sentence[group]][:, None] + np.arange(queries)
                visible = visible & (rows[:, None, None] <= tokens[:, None, :, None])
            slots, mask = (torch.as_tensor(each, device=layout.device) for each in (rows, visible))
            self.blocks.append(SegmentBlock(slots, mask))

    def read(self, attention: Attention, queries: Tensor, keys_values: Tensor) -> Tensor:
        """Attend from all tokens. queries: (real tokens, d_model); keys_values: (rows, 2 · d_model), both projected."""
        results = []
        for block, query in zip(self.blocks, self.into_queries.pad(queries), strict=True):
            seen = keys_values.index_select(0, block.slots.flatten()).unflatten(0, block.slots.shape)
            parts = (query.unflatten(0, (len(block.slots), -1)), *seen.chunk(2, -1))
            q, keys, values = (attention.split(each) for each in parts)
            results.append(attention.attend(q, keys, values, block.mask).flatten(0, 1))
        output: Tensor = attention.output(self.into_queries.unpad(results))
        return output
