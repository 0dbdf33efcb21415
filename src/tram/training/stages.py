"""The two stages of training: updates on sentences in any order, and on windows of documents in order.

A stage accumulates the gradients of one update, pass by pass, through the `backward` it is given. Sums are over the
tokens of the whole update, and every process works on its share of each pass: the sum of their gradients does not
depend on their number. Which tokens an update sees is a function of the seed and of the position of the stage.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tram.config import FinetuneConfig, TrainConfig
from tram.data.arrays import Split
from tram.data.batches import Batch, DocumentPlan, Rows, SentencePlan, collate, collate_documents, share
from tram.errors import InputError
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.training.loss import cross_entropy

Backward = Callable[[Tensor], None]


@dataclass(frozen=True)
class Processes:
    """The number of this process, how many there are, and the device it computes on."""

    number: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass
class LossSums:
    """Loss summed over some tokens: as optimised, and plain; the tokens are those of all processes."""

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

    @abstractmethod
    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of an update (counted from 0) and return this process's sums."""

    @abstractmethod
    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Return this process's share of the plain loss on held-out documents, and the tokens of that share."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return sentences about the data, for the user."""

    def position(self) -> dict[str, Any]:
        """Return the position of the stage, beyond the number of updates, for the checkpoint."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the position; with several processes, their sum is the position's."""
        return {}

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:  # noqa: B027 (need not be overridden)
        """Go to a position that was saved."""

    def loss(
        self, states: Tensor, labels: Tensor, weights: Tensor | None = None, train: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the summed loss of decoder states, as optimised and plain."""
        smoothing = self.config.label_smoothing if train else 0.0
        weight, bias = self.model.tokens.weight, self.model.bias
        return cross_entropy(states, weight, bias, labels, smoothing, self.config.loss_chunk, weights)


class SentenceStage(Stage):
    """Stage "train": batches of sentences."""

    def __init__(self, model: Transformer, config: TrainConfig, seed: int, processes: Processes, split: Split) -> None:
        super().__init__(model, config, seed, processes)
        self.split = split
        self.plan = SentencePlan(split, config.tokens, model.config.max_length, seed)
        require_pairs(len(self.plan.usable))
        self._epoch: tuple[int, list[Rows]] = (-1, [])

    def describe(self) -> list[str]:
        """Return the number of pairs and batches."""
        lines = [f"{len(self.plan.usable):,} sentence pairs in {len(self.epoch(0)):,} batches"]
        return lines + truncation_warning(self.plan.truncated, self.model.config.max_length)

    def epoch(self, number: int) -> list[Rows]:
        """Return the batches of an epoch; the last epoch asked for is kept."""
        if self._epoch[0] != number:
            self._epoch = (number, self.plan.epoch(number))
        return self._epoch[1]

    def passes(self, update: int) -> list[Rows]:
        """Return the batches whose gradients make an update."""
        n = len(self.epoch(max(self._epoch[0], 0)))  # the same in every epoch: only lengths decide where a batch ends
        numbers = range(update * self.config.accumulate, (update + 1) * self.config.accumulate)
        return [self.epoch(number // n)[number % n] for number in numbers]

    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of some batches, divided by all their tokens."""
        batches = self.passes(update)
        sums = LossSums(tokens=sum(self.plan.target_tokens(batch) for batch in batches))
        for batch in batches:
            rows, counts = share(batch, self.processes.number, self.processes.count)
            loss, plain = self.batch_loss(collate(self.split, rows, self.model.config.max_length))
            backward(loss * (counts / sums.tokens))
            sums.loss += counts * float(loss.detach())
            sums.plain += counts * float(plain)
        return sums

    def batch_loss(self, batch: Batch, train: bool = True) -> tuple[Tensor, Tensor]:
        """Return the summed loss of a batch of sentences."""
        batch = batch.to(self.processes.device)
        done = self.model.forced_decode(batch.source, batch.decoder_input)
        return self.loss(done.states, done.layout.pack(batch.labels), train=train)

    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Compute the loss of single sentences, in the order of their length."""
        plan = SentencePlan(held_out, self.config.tokens, self.model.config.max_length, seed=0)
        batches = plan.batches(plan.usable[np.argsort(plan.lengths[plan.usable], kind="stable")])
        total, tokens = 0.0, 0
        for batch in batches[self.processes.number :: self.processes.count]:
            total += float(self.batch_loss(collate(held_out, batch, self.model.config.max_length), train=False)[1])
            tokens += plan.target_tokens(batch)
        return total, tokens


class DocumentStage(Stage):
    """Stage "finetune": a group of documents is read sentence by sentence in parallel; a window of it is an update.

    A window consists of pieces that fit the token budget, one backward pass each. From piece to piece goes the
    detached state of `reread` sentences ago; those sentences are read again with the current weights, so that
    gradients reach as far back as the depth says also at the beginning of a piece.
    """

    config: FinetuneConfig

    def __init__(
        self, model: Transformer, config: FinetuneConfig, seed: int, processes: Processes, split: Split
    ) -> None:
        super().__init__(model, config, seed, processes)
        self.split = split
        self.plan = DocumentPlan(split, config.documents, config.max_length_gap, model.config.max_length, seed)
        require_pairs(int((self.plan.source_lengths > 0).sum()))
        self.groups = len(self.plan.epoch(0))
        memory = model.config.memory
        self.depth = 0 if memory is None else 1 if memory.depth == "full" else memory.depth
        self.group_number = 0  # counted through all epochs
        self.step = 0  # sentences of the group that are done
        self.reread = 0  # how many of them are read again
        self.state = State.empty()  # before those; of the whole group
        self._epoch: tuple[int, list[Rows]] = (-1, [])

    def describe(self) -> list[str]:
        """Return the number of documents, sentences and groups."""
        documents, sentences = len(self.plan.sentences), int(self.plan.sentences.sum())
        lines = [f"{documents:,} documents with {sentences:,} sentences in {self.groups:,} groups"]
        return lines + truncation_warning(self.plan.truncated, self.model.config.max_length)

    def group(self) -> Rows:
        """Return the documents that are being read."""
        epoch, number = divmod(self.group_number, self.groups)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.plan.epoch(epoch))
        return self._epoch[1][number]

    def window(self, group: Rows) -> range:
        """Return the sentences of the next update: as many as are drawn, at most what is left."""
        left = self.plan.length(group) - self.step
        if self.config.window != "document":
            least, most = self.config.window
            random = np.random.default_rng((self.seed, self.group_number, self.step))
            left = min(left, int(random.integers(least, most + 1)))
        return range(self.step, self.step + left)

    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of one window."""
        group = self.group()
        window = self.window(group)
        per_step = self.plan.step_tokens(self.plan.target_lengths, group, window.start, window.stop)
        sums = LossSums(tokens=int(per_step.sum()))
        weights = self.token_weights(per_step)
        for piece in self.plan.pieces(group, window.start, window.stop, self.config.tokens):
            loss, plain = self.piece_loss(group, piece, weights[piece.start - window.start : piece.stop - window.start])
            if loss is not None:
                backward(loss)
                sums.loss += float(loss.detach()) * sums.tokens
                sums.plain += plain
        self.step = window.stop
        if self.step == self.plan.length(group):
            self.group_number, self.step, self.reread, self.state = self.group_number + 1, 0, 0, State.empty()
        return sums

    def token_weights(self, per_step: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the weight of a token at each step."""
        if self.config.weighting == "token":
            return np.full(len(per_step), 1 / max(int(per_step.sum()), 1))
        return 1 / (np.maximum(per_step, 1) * len(per_step))

    def piece_loss(
        self, group: Rows, piece: range, weights: np.ndarray[Any, Any] | None = None
    ) -> tuple[Tensor | None, float]:
        """Return the weighted loss of this process's documents in a piece, and the plain sum; advance the state.

        weights: of a token at each step; None: no gradients, only the plain sum.
        """
        mine = self.own_documents(len(group))
        reread, self.reread = self.reread, min(self.depth, self.reread + len(piece))
        if piece.start == 0:
            self.begin(len(group))
        if not len(mine):
            return None, 0.0
        rows = torch.as_tensor(mine, device=self.processes.device)
        steps = range(piece.start - reread, piece.stop)
        batch = collate_documents(self.split, group[mine], steps, self.model.config.max_length).to(
            self.processes.device
        )
        if not bool((batch.source != 0).any()):
            return None, 0.0
        # At the start of a document the first memory is computed again, with its gradient
        state = None if piece.start == 0 else self.state.select(rows)
        done = self.model.forced_decode(batch.source, batch.decoder_input, state, self.reread)
        self.state = self.state.put(rows, done.state.detach())
        # Sentences that are read again had their loss in the piece before
        new = (torch.arange(len(steps), device=rows.device) >= reread)[None, :, None].expand(batch.labels.shape)
        counted = done.layout.pack(new).nonzero().squeeze(1)
        labels = done.layout.pack(batch.labels)
        token_weights = None
        if weights is not None:
            by_step = torch.as_tensor(np.concatenate([np.zeros(reread), weights]), device=rows.device)
            token_weights = done.layout.pack(by_step[None, :, None].expand(batch.labels.shape)).index_select(0, counted)
        states = done.states.index_select(0, counted)
        loss, plain = self.loss(states, labels.index_select(0, counted), token_weights, weights is not None)
        return loss, float(plain)

    def own_documents(self, documents: int) -> np.ndarray[Any, Any]:
        """Return the documents of a group that this process works on."""
        return np.arange(documents)[self.processes.number :: self.processes.count]

    def begin(self, documents: int) -> None:
        """Start a new group with the initial state, detached."""
        self.state = self.model.initial_state(documents).detach()

    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Compute the loss of documents in order with their reference history, from a stage of its own."""
        evaluation = DocumentStage(self.model, self.config, 0, Processes(device=self.processes.device), held_out)
        plan = evaluation.plan
        groups = plan.groups(np.argsort(plan.sentences, kind="stable"))
        total, tokens = 0.0, 0
        for group in groups[self.processes.number :: self.processes.count]:
            evaluation.reread = 0
            for piece in plan.pieces(group, 0, plan.length(group), self.config.tokens):
                total += evaluation.piece_loss(group, piece)[1]
            tokens += int(plan.step_tokens(plan.target_lengths, group, 0, plan.length(group)).sum())
        return total, tokens

    def position(self) -> dict[str, Any]:
        """Return the group, how far it is, and how many sentences are read again."""
        return {"group": self.group_number, "step": self.step, "back": self.reread}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of the group, zero where it is another process's: the sum is that of all."""
        found = {}
        for name, value in self.state.tensors().items():
            rows = torch.as_tensor(self.own_documents(len(value)), device=value.device)
            found[name] = torch.zeros_like(value).index_copy(0, rows, value.index_select(0, rows))
        return found

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Continue in the middle of a document."""
        self.group_number, self.step, self.reread = position["group"], position["step"], position["back"]
        self.state = State.from_tensors(tensors).to(self.processes.device)


def require_pairs(pairs: int) -> None:
    """Refuse data without a sentence pair that has words on both sides."""
    if not pairs:
        raise InputError("the training split has no sentence pair with words on both sides; prepare more text")


def truncation_warning(pairs: int, longest: int) -> list[str]:
    """Return a sentence about pairs that are too long, if there are any."""
    return [f"warning: {pairs:,} sentence pairs are longer than {longest} subwords and are truncated"] if pairs else []
