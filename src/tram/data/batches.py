"""Batches of sentences and of documents: of similar length, with a token budget, shuffled by a seed.

    plan = SentencePlan(split, tokens=4096, max_length=128, seed=1)
    for rows in plan.epoch(0): ...             # numbers of sentences
    batch = collate(split, rows, max_length=128)

    plan = DocumentPlan(split, documents=8, max_length_gap=10, max_length=128, seed=1)
    for group in plan.epoch(0): ...            # numbers of documents
    batch = collate_documents(split, group, range(0, 20), max_length=128)

A plan does not depend on the number of processes: each works on its share of the rows of every batch (`share`), so
that an update is the same for any number of processes. It is a function of (seed, epoch), so that a resumed run
continues exactly where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tram.data.arrays import Split
from tram.data.budget import costs_of_sums, costs_when_padded, slices_within
from tram.text.special_ids import PAD

Rows = npt.NDArray[np.int64]
Ids = Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """Ids of one pass, (documents, sentences, tokens) each, 0 = padding.

    source: with its template, usually start … end; decoder_input: start … y_n; labels: y_1 … y_n end, 0 also where
    the target is given and not trained on (`Split.given`). context: (documents, sentences), how many tokens at the
    start of each source are context (`Split.context`).
    """

    source: Tensor
    decoder_input: Tensor
    labels: Tensor
    context: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Return the same batch on another device."""
        context = None if self.context is None else self.context.to(device)
        return Batch(self.source.to(device), self.decoder_input.to(device), self.labels.to(device), context)


class SentencePlan:
    """The batches of the sentence stage, epoch by epoch."""

    def __init__(self, split: Split, tokens: int, max_length: int, seed: int) -> None:
        source, target = split.template_lengths(max_length)
        self.lengths = np.maximum(source, target)
        self.target_lengths = target
        self.labels = target - 1 if split.given is None else target - 1 - split.given
        self.usable: Rows = np.flatnonzero(split.usable & (self.labels > 0))
        self.truncated = split.longer_than(max_length)
        self.tokens = tokens
        self.seed = seed

    def epoch(self, number: int) -> list[Rows]:
        """Return the batches of one epoch in the order of training."""
        random = np.random.default_rng((self.seed, number))
        order = random.permutation(self.usable)
        # Sorted by the longer side and then by the target, so that target lengths in a batch are similar, too.
        batches = self.batches(order[np.lexsort((self.target_lengths[order], self.lengths[order]))])
        return [batches[i] for i in random.permutation(len(batches))]

    def batches(self, ascending: Rows) -> list[Rows]:
        """Split sentences, sorted by length, into batches whose longest × rows stays within the token budget."""
        cost = costs_when_padded(self.lengths[ascending].tolist())
        return [ascending[part] for part in slices_within(cost, len(ascending), self.tokens)]

    def target_tokens(self, batch: Rows) -> int:
        """Return the number of labels in a batch, with end ids, without start ids and given prefixes."""
        return int(self.labels[batch].sum())


class DocumentPlan:
    """The groups of documents that are trained in parallel, epoch by epoch.

    max_length_gap: largest difference in sentences between the documents of a group; None: any. Then every group is a
    random sample, so that corpora of short and of long documents are mixed in each update.
    """

    def __init__(self, split: Split, documents: int, max_length_gap: int | None, max_length: int, seed: int) -> None:
        source, target = split.template_lengths(max_length)
        self.source_lengths = np.where(split.usable, source, 0)
        self.target_lengths = np.where(split.usable, target - 1, 0)  # with the end id, without the start id
        given = 0 if split.given is None else np.minimum(split.given, self.target_lengths)
        self.labels = self.target_lengths - given  # those that are trained on
        self.starts = split.documents[:-1]
        self.sentences = np.diff(split.documents)
        self.truncated = split.longer_than(max_length)
        self.documents = documents
        self.max_length_gap = max_length_gap
        self.seed = seed

    def epoch(self, number: int) -> list[Rows]:
        """Return the groups of one epoch in the order of training."""
        random = np.random.default_rng((self.seed, number))
        order = random.permutation(np.flatnonzero(self.sentences > 0))
        if self.max_length_gap is None:
            return [order[i : i + self.documents] for i in range(0, len(order), self.documents)]
        groups = self.groups(order[np.argsort(self.sentences[order], kind="stable")])
        return [groups[i] for i in random.permutation(len(groups))]

    def groups(self, ascending: Rows) -> list[Rows]:
        """Split documents, sorted by length, where a group is full or the lengths differ too much."""
        groups, start = [], 0
        gap = np.inf if self.max_length_gap is None else self.max_length_gap
        lengths = self.sentences[ascending]
        for i in range(1, len(ascending) + 1):
            full = i - start == self.documents
            if i == len(ascending) or full or lengths[i] - lengths[start] > gap:
                groups.append(ascending[start:i])
                start = i
        return groups

    def length(self, group: Rows) -> int:
        """Return the number of sentences of the longest document of a group."""
        return int(self.sentences[group].max())

    def step_tokens(self, lengths: npt.NDArray[Any], group: Rows, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the tokens of a group at every step from `start` to `stop`, summed over its documents."""
        totals = np.zeros(stop - start, dtype=np.int64)
        for document in group:
            first = self.starts[document]
            part = lengths[first + start : first + min(stop, self.sentences[document])]
            totals[: len(part)] += part
        return totals

    def pieces(self, group: Rows, start: int, stop: int, tokens: int) -> list[range]:
        """Split the steps of a window where the tokens of the longer side would exceed the budget."""
        sides = (self.step_tokens(each, group, start, stop) for each in (self.source_lengths, self.target_lengths))
        cost = costs_of_sums(*(side.tolist() for side in sides))
        return [range(start + part.start, start + part.stop) for part in slices_within(cost, stop - start, tokens)]


def share(batch: Rows, process: int, processes: int) -> tuple[Rows, bool]:
    """Return the rows of a batch that one process works on, and whether they count.

    A process without a row works on one that does not count, so that all processes do the same number of passes.
    """
    rows = batch[process::processes]
    return (rows, True) if len(rows) else (batch[:1], False)


def collate(split: Split, rows: Sequence[int] | Rows, max_length: int) -> Batch:
    """Return the sentences as one batch of shape (1, sentences, tokens); ids beyond max_length are dropped."""
    return _batch(split, rows, max_length, (1, len(rows), -1))


def collate_documents(split: Split, group: Sequence[int] | Rows, steps: range, max_length: int) -> Batch:
    """Return some sentences of several documents, (documents, steps, tokens); a pair with an empty side is empty."""
    rows: list[int | None] = []
    for document in group:
        first, end = int(split.documents[document]), int(split.documents[document + 1])
        numbers = [first + step for step in steps]
        rows += [row if row < end and split.usable[row] else None for row in numbers]
    return _batch(split, rows, max_length, (len(group), len(steps), -1))


def _batch(split: Split, rows: Sequence[int | None] | Rows, max_length: int, shape: tuple[int, int, int]) -> Batch:
    special = split.special
    source_room, target_room = max_length - special.source_extra, max_length - special.target_extra
    source = pad(
        [[] if row is None else split.source[row][:source_room] for row in rows],
        special.source_prefix,
        special.source_suffix,
    )
    target = pad(
        [[] if row is None else split.target[row][:target_room] for row in rows], special.target_start, (special.end,)
    )
    labels = target[:, 1:]
    if split.given is not None:
        given = _numbers(split.given, rows)
        labels = labels.masked_fill(torch.arange(labels.shape[1]) < given[:, None], PAD)
    context = None if split.context is None else _numbers(split.context, rows).view(shape[:2])
    return Batch(source.view(shape), decoder_input(target).view(shape), labels.reshape(shape), context)


def _numbers(values: npt.NDArray[np.int64], rows: Sequence[int | None] | Rows) -> Tensor:
    """Return the values of some rows; 0 where there is no row."""
    return torch.tensor([0 if row is None else int(values[row]) for row in rows])


def decoder_input(target: Tensor) -> Tensor:
    """Return the decoder's input, start … y_n, for targets start … y_n end."""
    return torch.where(target[..., 1:] == PAD, PAD, target[..., :-1])


def pad(sentences: Sequence[Ids], prefix: Sequence[int] = (), suffix: Sequence[int] = ()) -> Tensor:
    """Return sentences between prefix and suffix as (sentences, tokens), 0 = padding; an empty one stays empty."""
    extra = len(prefix) + len(suffix)
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = np.full((len(sentences), max(longest + extra, 1)), PAD, dtype=np.int64)
    for line, sentence in zip(ids, sentences, strict=True):
        if len(sentence):
            end = len(prefix) + len(sentence)
            line[: len(prefix)] = prefix
            line[len(prefix) : end] = sentence
            line[end : end + len(suffix)] = suffix
    return torch.from_numpy(ids)


def document_ids(documents: Sequence[Sequence[Ids]]) -> Tensor:
    """Return documents of sentences, templates included, as (documents, sentences, tokens), 0 = padding."""
    flat = pad([sentence for document in documents for sentence in document])
    ids = flat.new_zeros(len(documents), max(map(len, documents)), flat.shape[1])
    rows = iter(flat)
    for document, place in zip(documents, ids, strict=True):
        for number in range(len(document)):
            place[number] = next(rows)
    return ids
