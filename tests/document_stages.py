"""Documents as prepared data and as padded ids, and stages of training on them."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from helpers import END, FIRST_WORD, START, VOCABULARY
from tram.config import FinetuneConfig
from tram.data.arrays import Sentences, Split
from tram.model.transformer import Transformer
from tram.training.document_stage import DocumentStage
from tram.training.segment_stage import SegmentStage
from tram.training.stages import Processes

Lengths = list[list[tuple[int, int]]]  # documents of sentences: ids of the source and of the target
Gradients = dict[str, Tensor]
FIXED: Lengths = [[(3, 2), (1, 4), (0, 2), (5, 1), (2, 2)], [(2, 3), (4, 0), (1, 1)], [(6, 5), (0, 0), (2, 7), (1, 2)]]


class Example(NamedTuple):
    """The same documents as prepared data and as padded ids (documents, sentences, tokens), done by hand."""

    split: Split
    source: Tensor
    decoder_input: Tensor
    labels: Tensor


def example(documents: Lengths) -> Example:
    draw = np.random.default_rng(3)
    flat = [pair for document in documents for pair in document]
    sides = [[draw.integers(FIRST_WORD, VOCABULARY, pair[side]) for pair in flat] for side in (0, 1)]
    arrays = [Sentences(np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides]
    split = Split(arrays[0], arrays[1], np.cumsum([0, *map(len, documents)]))
    grid = torch.zeros(3, len(documents), max(map(len, documents)), 8, dtype=torch.long)
    for i, start in enumerate(split.documents[:-1]):
        for j in range(len(documents[i])):
            source, target = (side[start + j].tolist() for side in sides)
            if source and target:  # half a pair is no pair
                for row, ids in zip(grid, ([START, *source, END], [START, *target], [*target, END]), strict=True):
                    row[i, j, : len(ids)] = torch.tensor(ids)
    return Example(split, *grid)


def stage_of(model: Transformer, split: Split, seed: int = 1, **changes: Any) -> DocumentStage:
    config = FinetuneConfig(**{"label_smoothing": 0.0, "documents": 8, **changes})
    stage = DocumentStage if model.segment_rule is None else SegmentStage
    return stage(model, config, seed, Processes(), split)


def update_gradients(stage: DocumentStage) -> Gradients:
    """Of the next update."""
    stage.model.zero_grad()
    stage.run_update(0, Tensor.backward)
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in stage.model.named_parameters()
    }


def assert_same(found: Gradients, expected: Gradients) -> None:
    for name, value in expected.items():
        error = float((found[name] - value).abs().max())
        assert error <= 1e-10 * max(1.0, float(value.abs().max())), name
