"""Rows of states that the sentences of a document may read: those carried into a pass, and the pass's own tokens.

    rows = DocumentRows(layout, carried.lengths)
    everything = rows.join(carried.values, states)      # (rows, width): document by document, carried ones first
    rows.starts, rows.stops                             # the rows of each sentence's own tokens

A sentence reads one or several ranges of rows; `ranges` converts them to a rectangle of indices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tram.errors import InputError
from tram.model.attention import Attention
from tram.model.packing import Layout
from tram.model.state import DAMAGED, ContextState, Ragged

Numbers = np.ndarray[Any, Any]


class CarriedAndNew:
    """Rows of several documents: those carried into a pass, then new ones. All numbers are on the CPU.

    carried, new: (documents), the number of rows of each kind; first: (documents), the first row of each document.
    """

    def __init__(self, carried: Numbers, new: Numbers, device: torch.device) -> None:
        self.carried, self.new, self.device = carried, new, device
        sizes = carried + new
        self.first: Numbers = np.cumsum(sizes) - sizes
        owners = np.concatenate([np.repeat(np.arange(len(sizes)), each) for each in (carried, new)])
        order = np.argsort(owners, kind="stable")  # a document's carried rows before its new ones
        in_order = bool((order[1:] >= order[:-1]).all())
        self._order = None if in_order else torch.as_tensor(order, device=device)

    def join(self, carried: Tensor, new: Tensor) -> Tensor:
        """Return all rows in order. carried, new: (rows of all documents, width) each."""
        if len(carried) != self.carried.sum():  # two values of a state that must have as many rows
            raise InputError(DAMAGED)
        rows = torch.cat([carried, new])
        return rows if self._order is None else rows.index_select(0, self._order)

    def indices(self, first: Numbers, stop: Numbers) -> tuple[Tensor, Tensor]:
        """Return the concatenated rows of one range per document, and the length of each range."""
        rows = np.concatenate([np.arange(*each) for each in zip(first, stop, strict=True)])
        return torch.as_tensor(rows, device=self.device), torch.as_tensor(stop - first, device=self.device)


class DocumentRows(CarriedAndNew):
    """Rows carried into a pass, then the tokens of all its sentences.

    starts, stops: (documents · sentences), the rows of each sentence's own tokens; document: the index of its document;
    ends: (documents), the end of the sentences that the returned state includes (`Layout.reread`).
    """

    def __init__(self, layout: Layout, carried: Tensor) -> None:
        documents, sentences = layout.shape[:2]
        counts = layout.counts.reshape(documents, sentences)
        super().__init__(carried.cpu().numpy(), counts.sum(1), layout.device)
        before = np.cumsum(counts, axis=1) - counts
        tokens = self.first + self.carried
        self.starts: Numbers = (tokens[:, None] + before).ravel()
        self.stops: Numbers = self.starts + layout.counts
        self.document: Numbers = np.repeat(np.arange(documents), sentences)
        self.ends: Numbers = tokens + counts[:, : sentences - layout.reread].sum(1)


@dataclass(frozen=True)
class SourceRows:
    """Source states that the decoder may read. first, stop: (documents · sentences), the rows of each one's segment."""

    states: Tensor
    first: Numbers
    stop: Numbers

    @classmethod
    def of_documents(cls, rows: Ragged) -> "SourceRows":
        """Return the rows for decoding one sentence per document, which is in the open segment."""
        lengths = rows.lengths.cpu().numpy()
        stops = np.cumsum(lengths)
        return cls(rows.values, stops - lengths, stops)

    @classmethod
    def of_sentences(cls, states: Tensor, layout: Layout) -> "SourceRows":
        """Return the rows of sentences each of which is a segment."""
        return cls(states, layout.starts, layout.starts + layout.counts)

    def select(self, sentences: Tensor) -> "SourceRows":
        """Return the rows that some sentences read."""
        places = sentences.cpu().numpy()
        return SourceRows(self.states, self.first[places], self.stop[places])


def ranges(*parts: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Return a rectangle of row indices: for every sentence its ranges, one after the other, aligned at the right.

    parts: first and stop of a range, (sentences) each. → indices (sentences, longest), 0 at the padding on the left,
    and a mask of the same shape, True at real indices.
    """
    lengths = [stop - first for first, stop in parts]
    total = np.sum(lengths, axis=0)
    from_right = np.arange(int(total.max(initial=0)))[::-1]  # 0 is the last row of the last range
    rows = np.zeros((len(total), len(from_right)), dtype=np.int64)
    passed = np.zeros_like(total)
    for (_, stop), length in zip(reversed(parts), reversed(lengths), strict=True):
        inside = (from_right >= passed[:, None]) & (from_right < (passed + length)[:, None])
        rows = np.where(inside, stop[:, None] - 1 - (from_right - passed[:, None]), rows)
        passed = passed + length
    return rows, from_right < total[:, None]


def padded(attention: Attention, keys_values: Tensor, *parts: tuple[Numbers, Numbers]) -> ContextState:
    """Return keys, values and mask of the ranges of rows that each sentence reads.

    keys_values: (rows, 2 · d_model), projected; parts: see `ranges`.
    """
    rows, real = ranges(*parts)
    slots = torch.as_tensor(rows, device=keys_values.device)
    seen = keys_values.index_select(0, slots.flatten()).unflatten(0, slots.shape)
    keys, values = (attention.split(part).contiguous() for part in seen.chunk(2, -1))
    return {"keys": keys, "values": values, "mask": torch.as_tensor(real, device=slots.device)[:, None, None]}
