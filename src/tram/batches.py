"""Batches of sentences: sorted by length, bounded in tokens, in a random order that a seed decides.

    plan = SentencePlan(split, tokens=4096, max_length=128, seed=1)
    for batch in plan.epoch(0): ...            # numbers of sentences
    source, target = collate(split, batch, max_length=128)

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

from tram.arrays import Sentences, Split
from tram.subwords import BOS, EOS, PAD

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
