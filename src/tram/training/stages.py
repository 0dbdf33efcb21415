"""What one update of each stage is made of: sentences in any order, or windows of documents in order.

A stage accumulates the gradients of one update, pass by pass, through the `backward` it is given. Sums are over the
tokens of the whole update, and every process works on its share of each pass: the sum of their gradients does not
depend on their number. Which tokens make an update is a function of the seed and of where the stage stands.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tram.config import FinetuneConfig, TrainConfig
from tram.data.arrays import Split
from tram.data.batches import Batch, DocumentPlan, Rows, SentencePlan, collate, collate_documents, share
from tram.errors import InputError
from tram.model.contexts.memory import Memory
from tram.model.state import Carried, carried_from, named_tensors, select_documents
from tram.model.transformer import Transformer
from tram.training.loss import cross_entropy, foretelling

Backward = Callable[[Tensor], None]


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, and where it computes."""

    number: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass
class Sums:
    """Loss over some tokens: as trained on, and plain; the tokens are those of all processes."""

    loss: float = 0.0
    plain: float = 0.0
    tokens: int = 0


class Stage(ABC):
    """Where the updates come from."""

    def __init__(self, model: Transformer, config: TrainConfig, seed: int, processes: Processes) -> None:
        self.model = model
        self.config = config
        self.seed = seed
        self.processes = processes

    @abstractmethod
    def run_update(self, update: int, backward: Backward) -> Sums:
        """Accumulate the gradients of an update (counted from 0); gives this process's sums."""

    @abstractmethod
    def held_loss(self, held: Split) -> tuple[float, int]:
        """This process's share of the plain loss on held-out documents, and the tokens of that share."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Sentences about the data, for the user."""

    def position(self) -> dict[str, Any]:
        """Where the stage stands, beyond the number of updates: goes into the checkpoint."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Tensors that belong to the position; of several processes, their sum does."""
        return {}

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:  # noqa: B027 (need not be overridden)
        """Go to a position that was saved."""

    def loss(
        self, states: Tensor, labels: Tensor, weights: Tensor | None = None, train: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Summed loss of decoder states, as trained on and plain."""
        smoothing = self.config.label_smoothing if train else 0.0
        weight, bias = self.model.tokens.weight, self.model.bias
        return cross_entropy(states, weight, bias, labels, smoothing, self.config.loss_chunk, weights)


class SentenceStage(Stage):
    """Stage "train": batches of sentences."""

    def __init__(self, model: Transformer, config: TrainConfig, seed: int, processes: Processes, split: Split) -> None:
        super().__init__(model, config, seed, processes)
        self.split = split
        self.plan = SentencePlan(split, config.tokens, model.config.max_length, seed)
        refuse_nothing(len(self.plan.usable))
        self._epoch: tuple[int, list[Rows]] = (-1, [])

    def describe(self) -> list[str]:
        """How much there is to train on."""
        lines = [f"{len(self.plan.usable):,} sentence pairs in {len(self.epoch(0)):,} batches"]
        return lines + cut_warning(self.plan.cut, self.model.config.max_length)

    def epoch(self, number: int) -> list[Rows]:
        """The batches of an epoch; the last one asked for is remembered."""
        if self._epoch[0] != number:
            self._epoch = (number, self.plan.epoch(number))
        return self._epoch[1]

    def passes(self, update: int) -> list[Rows]:
        """The batches whose gradients make an update."""
        n = len(self.epoch(max(self._epoch[0], 0)))  # the same in every epoch: only lengths decide where a batch ends
        numbers = range(update * self.config.accumulate, (update + 1) * self.config.accumulate)
        return [self.epoch(number // n)[number % n] for number in numbers]

    def run_update(self, update: int, backward: Backward) -> Sums:
        """Gradients of some batches, divided by all their tokens."""
        batches = self.passes(update)
        sums = Sums(tokens=sum(self.plan.target_tokens(batch) for batch in batches))
        for batch in batches:
            rows, counts = share(batch, self.processes.number, self.processes.count)
            loss, plain = self.batch_loss(collate(self.split, rows, self.model.config.max_length))
            backward(loss * (counts / sums.tokens))
            sums.loss += counts * float(loss.detach())
            sums.plain += counts * float(plain)
        return sums

    def batch_loss(self, batch: Batch, train: bool = True) -> tuple[Tensor, Tensor]:
        """Summed loss of a batch of sentences."""
        batch = batch.to(self.processes.device)
        decoded = self.model.decode(batch.decoder_input, self.model.encode(batch.source))
        return self.loss(decoded.states, batch.labels.flatten().index_select(0, decoded.layout.rows), train=train)

    def held_loss(self, held: Split) -> tuple[float, int]:
        """Sentence by sentence, in the order of their length."""
        plan = SentencePlan(held, self.config.tokens, self.model.config.max_length, seed=0)
        batches = plan.cut_up(plan.usable[np.argsort(plan.lengths[plan.usable], kind="stable")])
        total, tokens = 0.0, 0
        for batch in batches[self.processes.number :: self.processes.count]:
            total += float(self.batch_loss(collate(held, batch, self.model.config.max_length), train=False)[1])
            tokens += plan.target_tokens(batch)
        return total, tokens


class DocumentStage(Stage):
    """Stage "finetune": a group of documents goes through time together; a window of it is an update.

    A window is made of pieces that fit the token budget, a backward pass each. Over the edge between two pieces goes
    the memory of `back` sentences ago, detached; those sentences are read again with the weights of the day, so that
    gradients reach as far back as the depth says also where a piece begins.
    """

    config: FinetuneConfig

    def __init__(
        self, model: Transformer, config: FinetuneConfig, seed: int, processes: Processes, split: Split
    ) -> None:
        super().__init__(model, config, seed, processes)
        self.split = split
        self.plan = DocumentPlan(split, config.documents, config.like, model.config.max_length, seed)
        refuse_nothing(int((self.plan.source_lengths > 0).sum()))
        self.groups = len(self.plan.epoch(0))
        memory = model.config.memory
        self.depth = 0 if memory is None else 1 if memory.depth == "full" else memory.depth
        self.group_number = 0  # counted through all epochs
        self.step = 0  # sentences of the group that are done
        self.back = 0  # how many of them are read again
        self.carried: Carried = {}  # before those; of the whole group
        self._epoch: tuple[int, list[Rows]] = (-1, [])
        units = model.decoder.contexts() if config.foretell else {}
        self.tellers = {name: unit for name, unit in units.items() if isinstance(unit, Memory)}
        for unit in self.tellers.values():
            unit.tells = True

    @cached_property
    def prior(self) -> Tensor:
        """Logarithms of how frequent the words of the translations are."""
        counts = np.bincount(self.split.target.ids, minlength=self.model.vocabulary) + 0.5
        return torch.as_tensor(np.log(counts / counts.sum()), dtype=torch.float32, device=self.processes.device)

    def describe(self) -> list[str]:
        """How much there is to train on."""
        documents, sentences = len(self.plan.sentences), int(self.plan.sentences.sum())
        lines = [f"{documents:,} documents with {sentences:,} sentences in {self.groups:,} groups"]
        return lines + cut_warning(self.plan.cut, self.model.config.max_length)

    def group(self) -> Rows:
        """The documents under way."""
        epoch, number = divmod(self.group_number, self.groups)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.plan.epoch(epoch))
        return self._epoch[1][number]

    def window(self, group: Rows) -> range:
        """The sentences of the next update: so many as are drawn, at most what is left."""
        left = self.plan.length(group) - self.step
        if self.config.window != "document":
            least, most = self.config.window
            random = np.random.default_rng((self.seed, self.group_number, self.step))
            left = min(left, int(random.integers(least, most + 1)))
        return range(self.step, self.step + left)

    def run_update(self, update: int, backward: Backward) -> Sums:
        """Gradients of one window."""
        group = self.group()
        window = self.window(group)
        per_step = self.plan.step_tokens(self.plan.target_lengths, group, window.start, window.stop)
        sums = Sums(tokens=int(per_step.sum()))
        weights = self.token_weights(per_step)
        for piece in self.plan.pieces(group, window.start, window.stop, self.config.tokens):
            loss, plain = self.piece_loss(group, piece, weights[piece.start - window.start : piece.stop - window.start])
            if loss is not None:
                backward(loss)
                sums.loss += float(loss.detach()) * sums.tokens
                sums.plain += plain
        self.step = window.stop
        if self.step == self.plan.length(group):
            self.group_number, self.step, self.back, self.carried = self.group_number + 1, 0, 0, {}
        return sums

    def token_weights(self, per_step: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """How much a token of each step counts."""
        if self.config.weighting == "token":
            return np.full(len(per_step), 1 / max(int(per_step.sum()), 1))
        return 1 / (np.maximum(per_step, 1) * len(per_step))

    def piece_loss(
        self, group: Rows, piece: range, weights: np.ndarray[Any, Any] | None = None
    ) -> tuple[Tensor | None, float]:
        """Weighted loss of this process's documents in a piece, and the plain sum; moves the carried state.

        weights: of a token at each step; None: no gradients, only the plain sum.
        """
        mine = self.own_documents(len(group))
        back, self.back = self.back, min(self.depth, self.back + len(piece))
        if piece.start == 0:
            self.begin(len(group))
        if not len(mine):
            return None, 0.0
        rows = torch.as_tensor(mine, device=self.processes.device)
        steps = range(piece.start - back, piece.stop)
        batch = collate_documents(self.split, group[mine], steps, self.model.config.max_length).to(
            self.processes.device
        )
        if not bool((batch.source != 0).any()):
            return None, 0.0
        # At the start of a document the first memory is read with its gradient
        carried = None if piece.start == 0 else select_documents(self.carried, rows)
        encoded = self.model.encode(batch.source, carried, self.back)
        decoded = self.model.decode(batch.decoder_input, encoded, carried, self.back)
        self.keep(decoded.carried | encoded.carried, rows)
        # Sentences read again have had their loss already
        new = (torch.arange(len(steps), device=rows.device) >= back)[None, :, None].expand(batch.labels.shape)
        counted = new.flatten().index_select(0, decoded.layout.rows).nonzero().squeeze(1)
        labels = batch.labels.flatten().index_select(0, decoded.layout.rows)
        token_weights = None
        if weights is not None:
            by_step = torch.as_tensor(np.concatenate([np.zeros(back), weights]), device=rows.device)
            token_weights = by_step[None, :, None].expand(batch.labels.shape).flatten()
            token_weights = token_weights.index_select(0, decoded.layout.rows).index_select(0, counted)
        states = decoded.states.index_select(0, counted)
        loss, plain = self.loss(states, labels.index_select(0, counted), token_weights, weights is not None)
        if weights is not None:
            for name, unit in self.tellers.items():
                told = unit.foretell(decoded.carried[name]["before"])
                weight = self.model.tokens.weight.detach()  # words are what translating makes of them
                surprise = foretelling(told, weight, self.prior.to(told), batch.labels.flatten(0, 1))
                loss = loss + self.config.foretell * (surprise * by_step.to(surprise).repeat(len(mine))).sum()
        return loss, float(plain)

    def own_documents(self, documents: int) -> np.ndarray[Any, Any]:
        """Which documents of a group this process works on."""
        return np.arange(documents)[self.processes.number :: self.processes.count]

    def begin(self, documents: int) -> None:
        """Carry first memories, cut off from the gradients, for a new group."""
        first = self.model.complete(None, documents)
        self.carried = {n: {k: v.detach().clone() for k, v in state.items()} for n, state in first.items()}

    def keep(self, carried: Carried, rows: Tensor) -> None:
        """Remember the states of this process's documents, cut off from the gradients."""
        for name, kept in self.carried.items():
            for key, value in kept.items():
                kept[key] = value.index_copy(0, rows, carried[name][key].detach())

    def held_loss(self, held: Split) -> tuple[float, int]:
        """Documents in order with the right history; the stage's own position is not touched."""
        looker = DocumentStage(self.model, self.config, 0, Processes(device=self.processes.device), held)
        plan = looker.plan
        groups = plan.cut_up(np.argsort(plan.sentences, kind="stable"))
        total, tokens = 0.0, 0
        for group in groups[self.processes.number :: self.processes.count]:
            looker.back = 0
            for piece in plan.pieces(group, 0, plan.length(group), self.config.tokens):
                total += looker.piece_loss(group, piece)[1]
            tokens += int(plan.step_tokens(plan.target_lengths, group, 0, plan.length(group)).sum())
        return total, tokens

    def position(self) -> dict[str, Any]:
        """The group, how far it is, and how many sentences are read again."""
        return {"group": self.group_number, "step": self.step, "back": self.back}

    def tensors(self) -> dict[str, Tensor]:
        """The memories of the group under way, zero where they are another process's: the sum is that of all."""
        found = {}
        for name, value in named_tensors(self.carried).items():
            rows = torch.as_tensor(self.own_documents(len(value)), device=value.device)
            found[name] = torch.zeros_like(value).index_copy(0, rows, value.index_select(0, rows))
        return found

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on in the middle of a document."""
        self.group_number, self.step, self.back = position["group"], position["step"], position["back"]
        self.carried = carried_from({name: value.to(self.processes.device) for name, value in tensors.items()})


def refuse_nothing(pairs: int) -> None:
    """Training needs a sentence pair with words on both sides."""
    if not pairs:
        raise InputError("the training split has no sentence pair with words on both sides; prepare more text")


def cut_warning(cut: int, longest: int) -> list[str]:
    """A sentence about sentences that are too long, if there are any."""
    return [f"warning: {cut:,} sentence pairs are longer than {longest} subwords and are cut"] if cut else []
