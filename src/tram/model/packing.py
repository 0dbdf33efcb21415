"""Packed batches: the real tokens of a batch of documents, and the position of each sentence among them.

A batch of ids (documents, sentences, tokens), padded with 0, becomes one sequence of real tokens: every linear map,
norm and feed-forward works on states of shape (real tokens, d_model) and wastes nothing on padding. Only attention
needs rectangles: `Blocks` gathers sentences of similar length and scatters the results.

    layout = Layout(ids)                     # ids: (documents, sentences, tokens)
    blocks = layout.blocks(layout)           # self-attention: queries and keys of the same sentences
    padded = layout.grid(states)             # (documents, sentences, tokens, d_model), zeros at the padding
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from tram.text.special_ids import PAD

MIN_FILL = 0.6  # minimum length of a sentence relative to the longest one in its block
SHORT = 8  # below this length, a separate block costs more than the padding
T = TypeVar("T")


@dataclass(frozen=True)
class Segments:
    """The segment of its document that each sentence of a pass is in; all fields are (documents · sentences).

    numbers: index of the segment, counted through the pass; 0 is the one that was open before. places: number of
    sentences before this one in the segment; offsets: number of tokens before it.
    """

    numbers: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]

    def select(self, sentences: Tensor) -> "Segments":
        """Return the numbers of some sentences."""
        chosen = sentences.cpu().numpy()
        return Segments(self.numbers[chosen], self.places[chosen], self.offsets[chosen])


class Layout:
    """The sentences of a batch as slices of one sequence of tokens.

    ids: (documents, sentences, tokens), 0 where there is no token.
    reread: number of last sentences that the next pass reads again; the returned state is the one before them.
    """

    def __init__(self, ids: Tensor, reread: int = 0) -> None:
        self.reread = reread
        self.segments: Segments | None = None  # in models that read the whole source
        self._memo: dict[Hashable, Any] = {}
        real = ids != PAD
        self.shape = tuple(ids.shape)
        self.device = ids.device
        self.rows = real.flatten().nonzero().squeeze(1)  # place in the grid of every real token
        self.ids = ids.flatten().index_select(0, self.rows)
        lengths = real.sum(-1)
        self.lengths = lengths  # (documents, sentences)
        self.counts: np.ndarray[Any, Any] = lengths.flatten().cpu().numpy()
        self.starts: np.ndarray[Any, Any] = np.cumsum(self.counts) - self.counts

    @property
    def tokens(self) -> int:
        """The number of real tokens."""
        return len(self.ids)

    @cached_property
    def positions(self) -> Tensor:
        """The position of every real token inside its sentence."""
        starts = torch.as_tensor(self.starts, device=self.device).repeat_interleave(self.lengths.flatten())
        return torch.arange(self.tokens, device=self.device) - starts

    @property
    def segment_positions(self) -> Tensor:
        """The position of every real token inside its segment."""
        assert self.segments is not None
        return self.positions + torch.as_tensor(np.repeat(self.segments.offsets, self.counts), device=self.device)

    def grid(self, states: Tensor) -> Tensor:
        """Unpack states: (real tokens, …) → (documents, sentences, tokens, …), zeros at the padding."""
        documents, sentences, tokens = self.shape
        flat = states.new_zeros(documents * sentences * tokens, *states.shape[1:])
        return flat.index_copy(0, self.rows, states).view(*self.shape, *states.shape[1:])

    def pack(self, values: Tensor) -> Tensor:
        """Pick the values at the real tokens: (documents, sentences, tokens) → (real tokens)."""
        return values.flatten().index_select(0, self.rows)

    def only(self, chosen: Tensor) -> "Layout":
        """Return the layout of some tokens, moved to the starts of their sentences. chosen: (real tokens), bool."""
        documents, sentences, tokens = self.shape
        owners = (self.rows // tokens)[chosen]
        lengths = torch.bincount(owners, minlength=documents * sentences)
        ids = self.ids.new_full((documents * sentences, max(int(lengths.max()), 1)), PAD)
        ids[torch.arange(ids.shape[1], device=self.device) < lengths[:, None]] = self.ids[chosen]
        return Layout(ids.view(documents, sentences, -1), self.reread)

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for this key; several layers need the same indices."""
        if key not in self._memo:
            self._memo[key] = make()
        cached: T = self._memo[key]
        return cached

    @cached_property
    def own_blocks(self) -> "Blocks":
        """Rectangles for attention inside every sentence."""
        return self.blocks(self)

    @cached_property
    def steps(self) -> "Steps":
        """The sentences step by step, for the recurrence."""
        return Steps(self)

    def blocks(self, keys: "Layout") -> "Blocks":
        """Return rectangles for attention from the sentences here to the same sentences in `keys`."""
        if keys.shape[:2] != self.shape[:2]:
            raise ValueError(f"{self.shape[:2]} documents × sentences here, {keys.shape[:2]} in the keys")
        asking = self.counts > 0
        if (asking & (keys.counts == 0)).any():
            raise ValueError("a sentence with tokens attends to a sentence without any")
        return Blocks(self, keys, by_length(self.counts, keys.counts))


@dataclass(frozen=True)
class Block:
    """Sentences of similar length. `mask` (sentences, 1, 1, keys) is True at real keys; None: all are real."""

    sentences: Tensor
    queries: int
    keys: int
    mask: Tensor | None


class Blocks:
    """All sentences of a batch as a few rectangles, and the maps between packed states and them."""

    def __init__(self, queries: Layout, keys: Layout, groups: list[np.ndarray[Any, Any]]) -> None:
        device = queries.device
        self.into_queries = Rectangles(queries, groups)
        self.into_keys = self.into_queries if keys is queries else Rectangles(keys, groups)
        self.blocks = []
        for group, n_queries, n_keys in zip(groups, self.into_queries.widths, self.into_keys.widths, strict=True):
            counts = keys.counts[group]
            mask = None
            if counts.min() < n_keys:
                mask = torch.as_tensor(np.arange(n_keys) < counts[:, None], device=device)[:, None, None]
            self.blocks.append(Block(torch.as_tensor(group, device=device), n_queries, n_keys, mask))


@dataclass(frozen=True)
class Step:
    """The t-th sentences of all documents that have one. `mask` as in `Block`."""

    sentences: Tensor  # the documents they belong to
    some: bool  # not every document has one
    mask: Tensor | None

    def take(self, states: Tensor) -> Tensor:
        """Select the documents that have such a sentence: (documents, …) → (those documents, …)."""
        return states.index_select(0, self.sentences) if self.some else states

    def put(self, states: Tensor, taken: Tensor) -> Tensor:
        """Put new values of those documents back; the other documents keep theirs."""
        return states.index_copy(0, self.sentences, taken) if self.some else taken


class Steps:
    """The sentences of a batch of documents one after the other, each step a rectangle."""

    def __init__(self, layout: Layout) -> None:
        counts = layout.counts.reshape(layout.shape[:2])
        numbers = np.arange(counts.size).reshape(counts.shape)
        self.blocks: list[Step] = []
        groups = []
        for time in range(counts.shape[1]):
            documents = np.flatnonzero(counts[:, time])
            lengths = counts[documents, time]
            mask = None
            if len(documents) and lengths.min() < lengths.max():
                real = np.arange(lengths.max()) < lengths[:, None]
                mask = torch.as_tensor(real, device=layout.device)[:, None, None]
            some = len(documents) < len(counts)
            self.blocks.append(Step(torch.as_tensor(documents, device=layout.device), some, mask))
            groups.append(numbers[documents, time])
        self._rectangles = Rectangles(layout, groups)

    def pad(self, states: Tensor) -> tuple[Tensor, ...]:
        """Return one rectangle for each step: (real tokens, width) → (sentences · tokens, width) each."""
        return self._rectangles.pad(states)


class Runs(Protocol):
    """Runs of packed tokens, such as sentences: where each begins, and how many tokens it has."""

    starts: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    device: torch.device

    @property
    def tokens(self) -> int: ...  # noqa: D102


class Rectangles:
    """The map between packed tokens and the slots of the concatenated rectangles."""

    def __init__(self, layout: Runs, groups: list[np.ndarray[Any, Any]]) -> None:
        self.widths = [int(layout.counts[group].max(initial=0)) for group in groups]
        slots, real = [], []
        for group, width in zip(groups, self.widths, strict=True):
            inside = np.arange(width) < layout.counts[group][:, None]
            slots.append(np.where(inside, layout.starts[group][:, None] + np.arange(width), 0).ravel())
            real.append(inside.ravel())
        self.sizes = [len(part) for part in slots]
        slot = np.concatenate([np.empty(0, dtype=np.int64), *slots])
        is_real = np.concatenate([np.empty(0, dtype=bool), *real])
        filled = np.flatnonzero(is_real)
        rows = np.full(layout.tokens, -1)
        rows[slot[filled]] = filled
        if len(filled) > np.count_nonzero(rows >= 0):  # `_Pad.backward` would drop the gradient of one of the copies
            raise ValueError("a sentence is in two rectangles; put each sentence into one group at most")
        left_out = np.flatnonzero(rows < 0)  # rows of sentences that are in no rectangle; they are never used
        rows[left_out] = 0
        self.plain = len(slot) == layout.tokens and bool((slot == np.arange(len(slot))).all())
        self.slots = torch.as_tensor(slot, device=layout.device)
        self.rows = torch.as_tensor(rows, device=layout.device)
        self.left_out = torch.as_tensor(left_out, device=layout.device)
        self.padding = torch.as_tensor(np.flatnonzero(~is_real), device=layout.device)

    def pad(self, states: Tensor) -> tuple[Tensor, ...]:
        """Return one rectangle for each block: (real tokens, width) → (sentences · tokens, width) each."""
        padded = states if self.plain else _Pad.apply(states, self)
        return torch.split(padded, self.sizes)

    def unpad(self, parts: list[Tensor]) -> Tensor:
        """Return the packed states of rectangles; values at the padding are dropped."""
        padded = parts[0] if len(parts) == 1 else torch.cat(parts)
        result: Tensor = padded if self.plain else _Unpad.apply(padded, self)
        return result


# Every row goes to at most one slot (`Rectangles` checks this), so both directions are plain gathers, also in the
# backward pass (autograd would use index_add, which is several times as slow). Padding slots repeat row 0: its values
# are finite and never used.
class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, rectangles: Rectangles) -> Tensor:
        ctx.rectangles = rectangles
        return states.index_select(0, rectangles.slots)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rectangles = ctx.rectangles
        return gradients[0].index_select(0, rectangles.rows).index_fill_(0, rectangles.left_out, 0), None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padded: Tensor, rectangles: Rectangles) -> Tensor:
        ctx.rectangles = rectangles
        return padded.index_select(0, rectangles.rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rectangles = ctx.rectangles
        return gradients[0].index_select(0, rectangles.slots).index_fill_(0, rectangles.padding, 0), None


def by_length(queries: np.ndarray[Any, Any], keys: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Group sentences of similar length: indices of each group, in the order of the batch."""
    longest = np.where(queries > 0, np.maximum(queries, keys), 0)
    order = np.argsort(-longest, kind="stable")
    order = order[longest[order] > 0]
    groups, start = [], 0
    while start < len(order):
        limit = MIN_FILL * longest[order[start]]
        if limit <= SHORT:
            limit = 0
        end = start + int(np.searchsorted(-longest[order[start:]], -limit, side="right"))
        groups.append(np.sort(order[start:end]))
        start = end
    return groups
