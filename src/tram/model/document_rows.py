"""Rows that sentences of a document may read: those carried into a pass, and the tokens of all its sentences.

    rows = DocumentRows(layout, carried.lengths)
    everything = rows.join(carried.values, states)      # (rows, width): document by document, carried ones first
    rows.starts, rows.stops                             # the rows of each sentence's own tokens

What a sentence reads is a range of rows, or several. `ranges` turns them into a rectangle of indices.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tram.model.packing import Layout

Numbers = np.ndarray[Any, Any]


class DocumentRows:
    """Where the rows of each document and of each sentence are. All numbers are on the CPU.

    carried: (documents), how many rows of each are carried into the pass.
    first: (documents), the first row of each document; starts, stops: (documents · sentences), of each sentence.
    """

    def __init__(self, layout: Layout, carried: Tensor) -> None:
        documents, sentences = layout.shape[:2]
        self.layout = layout
        self.carried: Numbers = carried.cpu().numpy()
        counts = layout.counts.reshape(documents, sentences)
        sizes = self.carried + counts.sum(1)
        self.first: Numbers = np.cumsum(sizes) - sizes
        before = np.cumsum(counts, axis=1) - counts
        self.starts: Numbers = ((self.first + self.carried)[:, None] + before).ravel()
        self.stops: Numbers = self.starts + layout.counts
        self.document: Numbers = np.repeat(np.arange(documents), sentences)  # of each sentence
        owners = np.concatenate([np.repeat(np.arange(documents), each) for each in (self.carried, counts.sum(1))])
        order = np.argsort(owners, kind="stable")  # a document's carried rows before its tokens
        in_order = bool((order[1:] >= order[:-1]).all())
        self._order = None if in_order else torch.as_tensor(order, device=layout.device)
        # Rows that there are after the sentences whose state is wanted
        self.ends: Numbers = self.first + self.carried + counts[:, : sentences - layout.reread].sum(1)

    def join(self, carried: Tensor, states: Tensor) -> Tensor:
        """Return all rows in order. carried: (carried rows, width); states: (real tokens, width)."""
        rows = torch.cat([carried, states])
        return rows if self._order is None else rows.index_select(0, self._order)

    def indices(self, first: Numbers, stop: Numbers) -> tuple[Tensor, Tensor]:
        """Return the rows of one range per document, one after the other, and how many there are of each."""
        rows = np.concatenate([np.arange(*each) for each in zip(first, stop, strict=True)])
        device = self.layout.device
        return torch.as_tensor(rows, device=device), torch.as_tensor(stop - first, device=device)


def ranges(*parts: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Return rectangles of the rows in some ranges per sentence, one range after the other, aligned at the right.

    parts: first and stop, (sentences) each. → rows (sentences, most), 0 at the padding on the left, and where they are
    real, (sentences, most).
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
