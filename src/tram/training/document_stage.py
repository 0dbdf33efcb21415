"""The second stage of training: updates on windows of documents, sentence by sentence in order, with their context."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tram.config import FinetuneConfig
from tram.data.arrays import Split
from tram.data.batches import Batch, DocumentPlan, Rows, collate_documents
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.training.stages import Backward, LossSums, Processes, Stage, require_pairs, truncation_warning
from tram.translation.first_pass import evaluating, first_translations

Weights = npt.NDArray[np.float64]  # weight of a token at each step


class DocumentStage(Stage):
    """Stage "finetune": a group of documents is read in parallel, sentence by sentence; each window of it is an update.

    A window is split into pieces within the token budget. The detached state of `reread` sentences ago is carried from
    piece to piece; those sentences are read again with the current weights, so that gradients reach as far back as in
    the whole window. With gradient depth `full`, nothing is read again inside a window: gradients flow through the
    state from piece to piece (`connected_loss`), and stop at the sentences that the window reads again.
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
        self.full = any(context.depth == "full" for context in model.contexts().values())
        self.reach = gradient_reach(model)
        self.group_number = 0  # counted across epochs
        self.step = 0  # sentences of the group that are finished
        self.reread = 0  # number of them that are read again
        self.state = State.empty()  # state of the whole group before these
        self._epoch: tuple[int, list[Rows]] = (-1, [])

    def describe(self) -> list[str]:
        """Return the number of documents, sentences and groups."""
        documents, sentences = len(self.plan.sentences), int(self.plan.sentences.sum())
        lines = [f"{documents:,} documents with {sentences:,} sentences in {self.groups:,} groups"]
        return lines + truncation_warning(self.plan.truncated, self.model.config.max_length)

    def group(self, number: int | None = None) -> Rows:
        """Return the documents that are being read, or those of the group with this number."""
        epoch, number = divmod(self.group_number if number is None else number, self.groups)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.plan.epoch(epoch))
        return self._epoch[1][number]

    def window(self, group: Rows) -> range:
        """Return the sentences of the next update: a random number of them, at most those that are left."""
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
        per_step = self.plan.step_tokens(self.plan.labels, group, window.start, window.stop)
        sums = LossSums(tokens=int(per_step.sum()))
        weights = self.token_weights(per_step)
        pieces = self.plan.pieces(group, window.start, window.stop, self.config.tokens)
        for loss, plain in self.losses(group, pieces, weights):
            self.check_stopped()
            if loss is not None:
                backward(loss)
                sums.loss += float(loss.detach()) * sums.tokens
                sums.plain += plain
        self.step = window.stop
        if self.step == self.plan.length(group):
            self.group_number, self.step, self.reread, self.state = self.group_number + 1, 0, 0, State.empty()
        return sums

    def losses(self, group: Rows, pieces: list[range], weights: Weights) -> Iterator[tuple[Tensor | None, float]]:
        """Yield the losses of a window, weighted and plain, each for one backward pass."""
        if self.full and len(pieces) > 1:
            yield self.connected_loss(group, pieces, weights)
            return
        start = pieces[0].start
        for piece in pieces:
            yield self.piece_loss(group, piece, weights[piece.start - start : piece.stop - start])

    def token_weights(self, per_step: npt.NDArray[Any]) -> Weights:
        """Return the weight of a token at each step."""
        if self.config.weighting == "token":
            return np.full(len(per_step), 1 / max(int(per_step.sum()), 1))
        return 1 / (np.maximum(per_step, 1) * len(per_step))

    def piece_loss(self, group: Rows, piece: range, weights: Weights | None = None) -> tuple[Tensor | None, float]:
        """Return the weighted loss of this process's documents in a piece, and the plain sum; advance the state.

        weights: of a token at each step; None: no gradients, only the plain sum.
        """
        mine = self.own_documents(len(group))
        reread, self.reread = self.reread, min(self.reach, self.reread + len(piece))
        if piece.start == 0:
            self.begin(len(group))
        steps = range(piece.start - reread, piece.stop)
        if not len(mine) or not self.has_tokens(group[mine], steps):
            return None, 0.0
        rows = torch.as_tensor(mine, device=self.processes.device)
        # At the start of a document the initial memory is computed again, with its gradient
        state = None if steps.start == 0 else self.state.select(rows)
        part = self.read(group[mine], steps, reread, state, weights, self.reread)
        self.state = self.state.put(rows, part.state.detach())
        return part.loss, float(part.plain)

    def connected_loss(self, group: Rows, pieces: list[range], weights: Weights) -> tuple[Tensor | None, float]:
        """Return the same as `piece_loss` for a window of several pieces, with gradients through all of them.

        Only the states between pieces are stored; the backward pass recomputes each piece, from the last to the first
        (`torch.utils.checkpoint`), so that only one piece is in memory at a time.
        """
        mine = self.own_documents(len(group))
        window = range(pieces[0].start, pieces[-1].stop)
        reread, self.reread = self.reread, min(self.reach, self.reread + len(window))
        if window.start == 0:
            self.begin(len(group))
        if not len(mine):
            return None, 0.0
        rows = torch.as_tensor(mine, device=self.processes.device)
        kept_at = window.stop - self.reread  # the state before this step is carried to the next window
        edges = sorted({window.start - reread, *(piece.stop for piece in pieces), kept_at})
        # The initial memory with its gradient, which also flows through empty sentences
        state = self.state.select(rows) if edges[0] else self.model.initial_state(len(mine))
        losses, plain = [], 0.0
        for start, stop in itertools.pairwise(edges):
            if start == kept_at:
                self.state = self.state.put(rows, state.detach())
            steps = range(start, stop)
            if not self.has_tokens(group[mine], steps):
                continue
            passed = min(max(window.start - start, 0), len(steps))
            piece_weights = weights[max(start - window.start, 0) : max(stop - window.start, 0)]
            part = self.read_again_in_backward(group[mine], steps, passed, state, piece_weights)
            losses.append(part.loss)
            plain += float(part.plain.detach())
            state = part.state
        return (torch.stack(losses).sum() if losses else None), plain

    def read_again_in_backward(
        self, documents: Rows, steps: range, reread: int, state: State, weights: Weights
    ) -> "PieceResult":
        """Return the same as `read`, but store only the state before the piece for the backward pass."""
        names = list(state.tensors())
        after: list[str] = []

        def compute(_: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            carried = State.from_tensors(dict(zip(names, values, strict=True)))
            part = self.read(documents, steps, reread, carried, weights, 0)
            tensors = part.state.tensors()
            after[:] = tensors
            return part.loss, part.plain, *tensors.values()

        # An input that requires a gradient: without one, `checkpoint` would not recompute the piece
        anchor = torch.zeros((), device=self.processes.device, requires_grad=True)
        loss, plain, *tensors = checkpoint(compute, anchor, *state.tensors().values(), use_reentrant=True)
        return PieceResult(loss, plain, State.from_tensors(dict(zip(after, tensors, strict=True))))

    def has_tokens(self, documents: Rows, steps: range) -> bool:
        """Return whether one of these sentences is not empty."""
        return bool(self.plan.step_tokens(self.plan.source_lengths, documents, steps.start, steps.stop).any())

    def read(
        self,
        documents: Rows,
        steps: range,
        reread: int,
        state: State | None,
        weights: Weights | None,
        reread_next: int,
    ) -> "PieceResult":
        """Read some sentences of documents from `state` on, and return their loss and the state after them.

        The loss of the first `reread` sentences was part of the previous piece. weights: of a token at each of the
        others; None: no gradients. The returned state is the one before the last `reread_next` sentences.
        """
        device = self.processes.device
        batch = self.batch(documents, steps, train=weights is not None).to(device)
        if self.model.makes_first_translations:
            state = self.with_first_translations(batch, state)
        decoded = self.model.forced_decode(batch.source, batch.decoder_input, state, reread_next)
        new = (torch.arange(len(steps), device=device) >= reread)[None, :, None].expand(batch.labels.shape)
        labels = decoded.layout.pack(batch.labels)
        counted = (decoded.layout.pack(new) & (labels != PAD)).nonzero().squeeze(1)
        token_weights = by_step = None
        if weights is not None:
            by_step = torch.as_tensor(np.concatenate([np.zeros(reread), weights]), device=device)
            token_weights = decoded.layout.pack(by_step[None, :, None].expand(batch.labels.shape)).index_select(
                0, counted
            )
        states = decoded.states.index_select(0, counted)
        loss, plain = self.loss(states, labels.index_select(0, counted), token_weights, weights is not None)
        if by_step is not None:
            for layout, extra in ((decoded.source.layout, decoded.source.loss), (decoded.layout, decoded.loss)):
                if extra is not None:
                    each = layout.pack(by_step[None, :, None].expand(layout.shape))
                    loss = loss + (extra * each.to(extra.dtype)).sum()
        return PieceResult(loss, plain, decoded.state)

    def with_first_translations(self, batch: Batch, state: State | None) -> State:
        """Return the state with first-pass translations of a batch, computed with the current weights."""
        model, initial = self.model, state or State.empty()
        inputs = first_translations(model, self.split.special, batch.source)
        with evaluating(model), torch.no_grad():
            prepared = model.with_first_translations(model.encode(batch.source, initial), inputs, initial)
        return initial | prepared.only(model.decoder.contexts())

    def batch(self, documents: Rows, steps: range, train: bool) -> Batch:
        """Return some sentences of documents; train: whether a gradient is needed."""
        return collate_documents(self.split, documents, steps, self.model.config.max_length)

    def own_documents(self, documents: int) -> np.ndarray[Any, Any]:
        """Return the documents of a group that this process works on."""
        return np.arange(documents)[self.processes.number :: self.processes.count]

    def begin(self, documents: int) -> None:
        """Start a new group with the initial state, detached."""
        self.state = self.model.initial_state(documents).detach()

    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Compute the loss of whole documents with their reference history, in a separate stage."""
        evaluation = DocumentStage(self.model, self.config, 0, Processes(device=self.processes.device), held_out)
        evaluation.reach = 0  # there are no gradients, so nothing has to be read again
        plan = evaluation.plan
        groups = plan.groups(np.argsort(plan.sentences, kind="stable"))
        total, tokens = 0.0, 0
        for group in groups[self.processes.number :: self.processes.count]:
            for piece in plan.pieces(group, 0, plan.length(group), self.config.tokens):
                self.check_stopped()
                total += evaluation.piece_loss(group, piece)[1]
            tokens += int(plan.step_tokens(plan.labels, group, 0, plan.length(group)).sum())
        return total, tokens

    def position(self) -> dict[str, Any]:
        """Return the group, the position in it, and the number of sentences that are read again."""
        return {"group": self.group_number, "step": self.step, "back": self.reread}

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of this process's documents."""
        if not self.state:
            return {}
        rows = torch.as_tensor(self.own_documents(len(self.group())), device=self.processes.device)
        return self.state.select(rows).tensors() if len(rows) else {}

    def join_tensors(self, shares: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return the state of the whole group, of which each process has a share."""
        states = [document for share in shares for document in State.from_tensors(share).unbind()]
        owners = [n for number in range(len(shares)) for n in range(number, len(self.group()), len(shares))]
        return State.join([states[owners.index(n)] for n in range(len(states))]).tensors() if states else {}

    def restore(self, position: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Continue in the middle of a document; raise ValueError if the position is not valid in this data."""
        numbers: list[Any] = [position.get(key) for key in ("group", "step", "back")]
        if len(position) != 3 or not all(type(number) is int and 0 <= number < 2**53 for number in numbers):
            raise ValueError("its position in the documents is not valid")
        group_number, step, reread = numbers
        group = self.group(group_number)
        if step >= self.plan.length(group) or reread > min(step, self.reach):
            raise ValueError("its position in the documents is not valid")
        state = State.from_tensors(tensors)
        expected = self.model.initial_state(len(group)) if step else State.empty()
        if not state.has_form_of(expected) or not state.is_floating_point():
            raise ValueError("its states are not those of this model and these documents")
        self.group_number, self.step, self.reread = group_number, step, reread
        self.state = state.to(self.processes.device)


@dataclass(frozen=True)
class PieceResult:
    """The loss of a piece, weighted and plain, and the state to continue from."""

    loss: Tensor
    plain: Tensor
    state: State


def gradient_reach(model: Transformer) -> int:
    """Return the number of sentences before a piece that take part in its gradient; with depth `full`, 1 per module.

    A context module reaches back `depth` sentences. The inputs of its updates there may depend on another module, which
    reaches back further. The reach is therefore the sum of the depths along the longest chain of modules, each of which
    feeds the next.
    """
    encoder, decoder = (
        {name: 1 if context.depth == "full" else context.depth for name, context in side.contexts().items()}
        for side in (model.encoder, model.decoder)
    )
    # The decoder's first self-attention comes before any attention to the source and does not depend on the encoder.
    first = model.decoder.layers[0].self_attention.name
    behind_encoder = sum(depth for name, depth in decoder.items() if name != first)
    return max(sum(decoder.values()), sum(encoder.values()) + behind_encoder)
