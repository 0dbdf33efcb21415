"""Batches of sentences, and of documents: of like length, bounded in tokens, in a random order that a seed decides.

    plan = SentencePlan(split, tokens=4096, max_length=128, seed=1)
    for rows in plan.epoch(0): ...             # numbers of sentences
    batch = collate(split, rows, max_length=128)

    plan = DocumentPlan(split, documents=8, like=10, max_length=128, seed=1)
    for group in plan.epoch(0): ...            # numbers of documents
    batch = collate_documents(split, group, range(0, 20), max_length=128)

A plan does not depend on the number of processes: each takes its share of the rows of every batch (`share`), so that
an update is the same however many processes there are. It is a function of (seed, epoch), so that a run goes on
exactly where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tram.data.arrays import Sentences, Split
from tram.text.special_ids import BOS, EOS, PAD

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Ids of one pass, (documents, sentences, tokens) each, 0 = padding.

    source: bos … eos; decoder_input: bos … y_n; labels: y_1 … y_n eos.
    """

    source: Tensor
    decoder_input: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(self.source.to(device), self.decoder_input.to(device), self.labels.to(device))


class SentencePlan:
    """Which sentences go together, epoch by epoch."""

    def __init__(self, split: Split, tokens: int, max_length: int, seed: int) -> None:
        source, target = (np.minimum(side.lengths + 2, max_length) for side in (split.source, split.target))
        self.lengths = np.maximum(source, target)
        self.target_lengths = target
        self.usable: Rows = np.flatnonzero((split.source.lengths > 0) & (split.target.lengths > 0))
        self.cut = int((np.maximum(split.source.lengths, split.target.lengths)[self.usable] + 2 > max_length).sum())
        self.tokens = tokens
        self.seed = seed

    def epoch(self, number: int) -> list[Rows]:
        """The batches of one epoch in the order of training."""
        random = np.random.default_rng((self.seed, number))
        order = random.permutation(self.usable)
        # Sorted by both sides: where the longer side is equal, target lengths lie together too.
        order = order[np.lexsort((self.target_lengths[order], self.lengths[order]))]
        batches = self.cut_up(order)
        return [batches[i] for i in random.permutation(len(batches))]

    def cut_up(self, order: Rows) -> list[Rows]:
        """Cut a run of sentences where longest × rows would pass the token budget."""
        batches, start, longest = [], 0, 0
        lengths = self.lengths[order]
        for i, length in enumerate(lengths.tolist()):
            longest = max(longest, length)
            if i > start and longest * (i + 1 - start) > self.tokens:
                batches.append(order[start:i])
                start, longest = i, length
        if start < len(order):
            batches.append(order[start:])
        return batches

    def target_tokens(self, batch: Rows) -> int:
        """Number of labels (eos counted, bos not) in a batch."""
        return int((self.target_lengths[batch] - 1).sum())


class DocumentPlan:
    """Which documents go through time together, epoch by epoch: documents of like length, so that few stand still."""

    def __init__(self, split: Split, documents: int, like: int, max_length: int, seed: int) -> None:
        source, target = (np.minimum(side.lengths + 2, max_length) for side in (split.source, split.target))
        usable = (split.source.lengths > 0) & (split.target.lengths > 0)
        self.source_lengths = np.where(usable, source, 0)
        self.target_lengths = np.where(usable, target - 1, 0)  # labels: eos counted, bos not
        self.starts = split.documents[:-1]
        self.sentences = np.diff(split.documents)
        self.cut = int((usable & (np.maximum(split.source.lengths, split.target.lengths) + 2 > max_length)).sum())
        self.documents = documents
        self.like = like
        self.seed = seed

    def epoch(self, number: int) -> list[Rows]:
        """The groups of one epoch in the order of training."""
        random = np.random.default_rng((self.seed, number))
        order = random.permutation(np.flatnonzero(self.sentences > 0))
        groups = self.cut_up(order[np.argsort(self.sentences[order], kind="stable")])
        return [groups[i] for i in random.permutation(len(groups))]

    def cut_up(self, order: Rows) -> list[Rows]:
        """Cut a run of documents, sorted by length, where a group is full or the lengths differ too much."""
        groups, start = [], 0
        for i in range(1, len(order) + 1):
            full = i - start == self.documents
            if i == len(order) or full or self.sentences[order[i]] - self.sentences[order[start]] > self.like:
                groups.append(order[start:i])
                start = i
        return groups

    def length(self, group: Rows) -> int:
        """Sentences of the longest document of a group."""
        return int(self.sentences[group].max())

    def step_tokens(self, lengths: npt.NDArray[Any], group: Rows, start: int, stop: int) -> npt.NDArray[Any]:
        """Tokens of a group at every step from `start` to `stop`, summed over its documents."""
        totals = np.zeros(stop - start, dtype=np.int64)
        for document in group:
            first = self.starts[document]
            part = lengths[first + start : first + min(stop, self.sentences[document])]
            totals[: len(part)] += part
        return totals

    def pieces(self, group: Rows, start: int, stop: int, tokens: int) -> list[range]:
        """Cut the steps of a window where the tokens of the longer side would pass the budget."""
        sides = [
            self.step_tokens(lengths, group, start, stop) for lengths in (self.source_lengths, self.target_lengths)
        ]
        pieces, first, sums = [], start, [0, 0]
        for step in range(start, stop):
            now = [int(side[step - start]) for side in sides]
            sums = [total + more for total, more in zip(sums, now, strict=True)]
            if step > first and max(sums) > tokens:
                pieces.append(range(first, step))
                first, sums = step, now
        return [*pieces, range(first, stop)]


def share(batch: Rows, process: int, processes: int) -> tuple[Rows, bool]:
    """The rows of a batch that one process works on, and whether they count.

    A process for which no row is left works on one that does not count, so that all do the same number of passes.
    """
    rows = batch[process::processes]
    return (rows, True) if len(rows) else (batch[:1], False)


def collate(split: Split, rows: Sequence[int] | Rows, max_length: int) -> Batch:
    """The sentences as one batch of shape (1, sentences, tokens); ids beyond max_length are cut off."""
    source = padded(split.source, rows, max_length)
    target = padded(split.target, rows, max_length)
    return Batch(source[None], decoder_input(target)[None], target[None, :, 1:])


def collate_documents(split: Split, group: Sequence[int] | Rows, steps: range, max_length: int) -> Batch:
    """Some sentences of several documents, (documents, steps, tokens); a pair with an empty side is left empty."""
    rows: list[int | None] = []
    for document in group:
        first, end = int(split.documents[document]), int(split.documents[document + 1])
        numbers = [first + step for step in steps]
        rows += [row if row < end and len(split.source[row]) and len(split.target[row]) else None for row in numbers]
    source, target = (
        padded_ids([[] if row is None else side[row][: max_length - 2] for row in rows])
        for side in (split.source, split.target)
    )
    missing = torch.tensor([row is None for row in rows])
    source[missing] = target[missing] = PAD
    shape = (len(group), len(steps), -1)
    return Batch(source.view(shape), decoder_input(target).view(shape), target[:, 1:].reshape(shape))


def decoder_input(target: Tensor) -> Tensor:
    """What the decoder sees of bos … y_n eos: bos … y_n."""
    return torch.where(target[..., 1:] == PAD, PAD, target[..., :-1])


def padded(side: Sentences, rows: Sequence[int] | Rows, max_length: int) -> Tensor:
    """(rows, tokens): bos … eos, then 0; what is longer than max_length is cut."""
    return padded_ids([side[row][: max_length - 2] for row in rows])


def padded_ids(sentences: Sequence[Sequence[int] | npt.NDArray[Any]]) -> Tensor:
    """(sentences, tokens): bos … eos, then 0."""
    longest = max(len(sentence) for sentence in sentences)
    ids = np.full((len(sentences), longest + 2), PAD, dtype=np.int64)
    for line, sentence in zip(ids, sentences, strict=True):
        line[0] = BOS
        line[1 : len(sentence) + 1] = sentence
        line[len(sentence) + 1] = EOS
    return torch.from_numpy(ids)
