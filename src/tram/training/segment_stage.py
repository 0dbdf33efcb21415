"""The second stage of training for models that read the whole source: updates on whole segments of documents."""

import itertools
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tram.config import FinetuneConfig
from tram.config.contexts import SegmentRule
from tram.data.arrays import Split
from tram.data.batches import Batch, Rows
from tram.data.budget import costs_of_sums, slices_within
from tram.errors import InputError
from tram.model.segments import segment_numbers
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.training.document_stage import DocumentStage, Weights
from tram.training.stages import Backward, LossSums, Processes, truncation_warning


class SegmentStage(DocumentStage):
    """Stage "finetune": every segment is treated as a document, and an update is one group of segments.

    A backward pass covers as many whole segments as fit the token budget; segments are never split. If the context
    module is configured so, words are masked in the source and in the decoder's input, but not in the labels.
    """

    def __init__(
        self, model: Transformer, config: FinetuneConfig, seed: int, processes: Processes, split: Split
    ) -> None:
        rule = model.segment_rule
        assert rule is not None
        self.read_documents = int((np.diff(split.documents) > 0).sum())
        super().__init__(model, config, seed, processes, split_into_segments(split, rule, model.config.max_length))
        context = model.config.context
        if context is not None and context.noise(0) and split.special.mask is None:
            raise InputError(
                "finetune.context.hidden needs a mask, which the text pipeline does not have; prepare the data with "
                "`tram prepare --reserved`, or set finetune.context.hidden=0"
            )

    def describe(self) -> list[str]:
        """Return the number of documents, segments, sentences and groups."""
        segments, sentences = len(self.plan.sentences), int(self.plan.sentences.sum())
        lines = [
            f"{self.read_documents:,} documents with {sentences:,} sentences, cut into {segments:,} segments that are "
            f"read as a whole, in {self.groups:,} groups"
        ]
        return lines + truncation_warning(self.plan.truncated, self.model.config.max_length)

    def run_update(self, update: int, backward: Backward) -> LossSums:
        """Accumulate the gradients of one group of segments."""
        group = self.group()
        per_step = self.plan.step_tokens(self.plan.labels, group, 0, self.plan.length(group))
        sums = LossSums(tokens=int(per_step.sum()))
        weights = self.token_weights(per_step)
        for part in self.parts(group[self.own_documents(len(group))]):
            loss, plain = self.part_loss(part, weights)
            self.check_stopped()
            if loss is not None:
                backward(loss)
                sums.loss += float(loss.detach()) * sums.tokens
                sums.plain += plain
        self.group_number += 1
        return sums

    def parts(self, segments: Rows) -> list[Rows]:
        """Return the segments of each backward pass."""
        plan = self.plan
        steps = plan.length(segments) if len(segments) else 0
        sides = [
            [int(plan.step_tokens(lengths, segments[i : i + 1], 0, steps).sum()) for i in range(len(segments))]
            for lengths in (plan.source_lengths, plan.target_lengths)
        ]
        return [segments[part] for part in slices_within(costs_of_sums(*sides), len(segments), self.config.tokens)]

    def part_loss(self, segments: Rows, weights: Weights | None) -> tuple[Tensor | None, float]:
        """Return the weighted loss of some segments and the plain sum; weights as in `piece_loss`."""
        steps = range(self.plan.length(segments))
        if not self.has_tokens(segments, steps):
            return None, 0.0
        step_weights = None if weights is None else weights[: len(steps)]
        part = self.read(segments, steps, 0, None, step_weights, 0)
        return part.loss, float(part.plain)

    def batch(self, documents: Rows, steps: range, train: bool) -> Batch:
        """Return some sentences of segments; in training, with masked words."""
        batch = super().batch(documents, steps, train)
        context, mask = self.model.config.context, self.split.special.mask
        rate = 0.0 if context is None or not train else context.noise(self.group_number // self.groups)
        if not rate or mask is None:
            return batch
        # Seeded by the segment alone, so that the masked words do not depend on processes or passes
        draws = [np.random.default_rng((self.seed, self.group_number, int(segment))) for segment in documents]
        sides = [self.hide(ids, draws, rate, mask) for ids in (batch.source, batch.decoder_input)]
        return replace(batch, source=sides[0], decoder_input=sides[1])

    def hide(self, ids: Tensor, draws: list[np.random.Generator], rate: float, mask: int) -> Tensor:
        """Return ids, (documents, sentences, tokens), with a share of the words replaced by the mask."""
        special = self.split.special
        no_words = torch.tensor(sorted({PAD, *special.control, *special.reserved}))
        hidden = torch.zeros_like(ids, dtype=torch.bool)
        for own, place, draw in zip(ids, hidden, draws, strict=True):
            words = ~torch.isin(own, no_words)
            place[words] = torch.from_numpy(draw.random(int(words.sum())) < rate)
        return ids.masked_fill(hidden, mask)

    def held_out_loss(self, held_out: Split) -> tuple[float, int]:
        """Compute the loss of whole segments with their reference history, in a separate stage."""
        evaluation = SegmentStage(self.model, self.config, 0, Processes(device=self.processes.device), held_out)
        plan = evaluation.plan
        groups = plan.groups(np.argsort(plan.sentences, kind="stable"))
        total, tokens = 0.0, 0
        for group in groups[self.processes.number :: self.processes.count]:
            losses = []
            for part in evaluation.parts(group):
                self.check_stopped()
                losses.append(evaluation.part_loss(part, None)[1])
            total += sum(losses)
            tokens += int(plan.step_tokens(plan.labels, group, 0, plan.length(group)).sum())
        return total, tokens


def split_into_segments(split: Split, rule: SegmentRule, max_length: int) -> Split:
    """Return the same sentences with every segment as a document; the longer side of a pair counts as its length."""
    source, target = split.template_lengths(max_length)
    lengths = np.where(split.usable, np.maximum(source, target), 0)
    edges = [0]
    for number, (start, stop) in enumerate(itertools.pairwise(split.documents.tolist())):
        numbers = np.array(segment_numbers(rule, lengths[start:stop].tolist()), dtype=np.int64)
        cuts = start + 1 + np.flatnonzero(np.diff(numbers))
        if rule.refuses and len(cuts):
            raise InputError(f"document {number + 1} of the data: {rule.beyond(int(split.usable[start:stop].sum()))}")
        edges += [*cuts.tolist(), stop] if stop > start else []
    return replace(split, documents=np.array(edges, dtype=np.int64))
