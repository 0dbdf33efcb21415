"""Training stages, the sources of updates. This module has the sentence stage; `document_stage` has the second one.

A stage accumulates the gradients of one update, pass by pass, by calling `backward`. Losses are divided by the tokens
of the whole update, and every process works on its share of each pass, so that the sum of the gradients does not depend
on the number of processes. The tokens of an update are a function of the seed and the position of the stage.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tram.config import TrainConfig
from tram.data.arrays import Split
from tram.data.batches import Batch, Rows, SentencePlan, collate, share
from tram.data.units import units_of
from tram.errors import InputError
from tram.model.stacks import Encoded
from tram.model.transformer import Transformer
from tram.training.loss import cross_entropy

Backward = Callable[[Tensor], None]


@dataclass(frozen=True)
class Processes:
    """The index of this process, the number of processes, and the device of this one."""

    number: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass
class LossSums:
    """Sums of the loss over tokens, as optimised and plain; the number of tokens is that of all processes."""

    loss: float = 0.0
    plain: float = 0.0
    tokens: int = 0


class Stage(ABC):
    """A source of updates."""

    def __init__(self, model: Transformer, config: TrainConfig, seed: int, processes: Processes) -> None:
        self.model = model
        self.config = config
        self.seed = seed
        self.processes = processes
        self.check_stopped: Callable[[], None] = lambda: None  # raises between passes if the run is to end

    @abstractmethod
    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of an update (counted from 0) and return this process's sums."""

    @abstractmethod
    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Return this process's share of the plain loss on held-out documents, and the tokens of that share."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return lines that describe the data to the user."""

    def position(self) -> dict[str, Any]:
        """Return the position of the stage, beyond the number of updates, for the checkpoint."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return this process's share of the tensors of the position."""
        return {}

    def join_tensors(self, shares: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return the tensors of the position, of which each process has a share."""
        return shares[0]

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:  # noqa: B027 (need not be overridden)
        """Restore a saved position."""

    def loss(
        self, states: Tensor, labels: Tensor, weights: Tensor | None = None, train: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the summed loss of decoder states, as optimised and plain."""
        smoothing = self.config.label_smoothing if train else 0.0
        weight, bias = self.model.output_weight, self.model.bias
        return cross_entropy(states, weight, bias, labels, smoothing, self.config.loss_chunk, weights)


class SentenceStage(Stage):
    """Stage "train": batches of sentences, or of the units that a model translates as one sequence."""

    def __init__(self, model: Transformer, config: TrainConfig, seed: int, processes: Processes, split: Split) -> None:
        super().__init__(model, config, seed, processes)
        self.units = units_of(model.config, split.special, "the training data")
        self.longest = model.config.max_length if self.units is None else model.config.max_positions
        self.split = self.sequences(split)
        self.truncated = split.longer_than(model.config.max_length)
        self.plan = SentencePlan(self.split, config.tokens, self.longest, seed)
        require_pairs(len(self.plan.usable))
        self._epoch: tuple[int, list[Rows]] = (-1, [])

    def describe(self) -> list[str]:
        """Return the number of pairs, or of units, and batches."""
        what = "sentence pairs" if self.units is None else f"units ({self.model.config.unit.kind})"
        lines = [f"{len(self.plan.usable):,} {what} in {len(self.epoch(0)):,} batches"]
        return lines + truncation_warning(self.truncated, self.model.config.max_length)

    def sequences(self, split: Split) -> Split:
        """Return prepared documents as the sequences that the model reads."""
        return split if self.units is None else self.units.training_units(split)

    def epoch(self, number: int) -> list[Rows]:
        """Return the batches of an epoch; the last one is cached."""
        if self._epoch[0] != number:
            self._epoch = (number, self.plan.epoch(number))
        return self._epoch[1]

    def passes(self, update: int) -> list[Rows]:
        """Return the batches whose gradients are accumulated into an update."""
        n = len(self.epoch(max(self._epoch[0], 0)))  # the same in every epoch: batches depend only on lengths
        numbers = range(update * self.config.accumulate, (update + 1) * self.config.accumulate)
        return [self.epoch(number // n)[number % n] for number in numbers]

    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of the update's batches, divided by the number of all their tokens."""
        batches = self.passes(update)
        sums = LossSums(tokens=sum(self.plan.target_tokens(batch) for batch in batches))
        for batch in batches:
            rows, counts = share(batch, self.processes.number, self.processes.count)
            loss, plain = self.batch_loss(collate(self.split, rows, self.longest))
            self.check_stopped()
            backward(loss * (counts / sums.tokens))
            sums.loss += counts * float(loss.detach())
            sums.plain += counts * float(plain)
        return sums

    def batch_loss(self, batch: Batch, train: bool = True) -> tuple[Tensor, Tensor]:
        """Return the summed loss of a batch of sentences, without given prefixes of their targets."""
        batch = batch.to(self.processes.device)
        source: Tensor | Encoded = batch.source
        if batch.context is not None:
            source = self.model.encode(batch.source, context=batch.context)
        decoded = self.model.forced_decode(source, batch.decoder_input)
        states, labels = decoded.states, decoded.layout.pack(batch.labels)
        if self.split.given is not None:
            trained = labels.nonzero().squeeze(1)
            states, labels = states.index_select(0, trained), labels.index_select(0, trained)
        return self.loss(states, labels, train=train)

    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Compute the loss of single sentences or units, sorted by length."""
        held_out = self.sequences(held_out)
        plan = SentencePlan(held_out, self.config.tokens, self.longest, seed=0)
        batches = plan.batches(plan.usable[np.argsort(plan.lengths[plan.usable], kind="stable")])
        total, tokens = 0.0, 0
        for batch in batches[self.processes.number :: self.processes.count]:
            self.check_stopped()
            total += float(self.batch_loss(collate(held_out, batch, self.longest), train=False)[1])
            tokens += plan.target_tokens(batch)
        return total, tokens


def require_pairs(pairs: int) -> None:
    """Raise InputError if no sentence pair has words on both sides."""
    if not pairs:
        raise InputError("the training split has no sentence pair with words on both sides; prepare more text")


def truncation_warning(pairs: int, longest: int) -> list[str]:
    """Return a warning about pairs that are too long, if there are any."""
    return [f"warning: {pairs:,} sentence pairs are longer than {longest} subwords and are truncated"] if pairs else []
