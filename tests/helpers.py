"""Small makers that the tests of the model share: tiny configs, models with lively random weights, padded ids."""

from pathlib import Path
from typing import Any

import torch
from hypothesis import settings
from torch import Tensor

from conftest import TINY
from tram.config import MemoryConfig, ModelConfig
from tram.data.batches import document_ids
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SpecialIds
from tram.translation.translator import Translator

VOCABULARY = 23
START, END = SpecialIds().start, SpecialIds().end
FIRST_WORD = 3  # ids below are special

few = settings(max_examples=30, deadline=None)


def tiny_config(**changes: Any) -> ModelConfig:
    """A model config in which every width is small and no two that could be confused are equal."""
    small = {"d_model": 16, "heads": 2, "feed_forward": 24, "encoder_layers": 2, "decoder_layers": 2}
    return ModelConfig(**{**small, "max_positions": 48, "max_length": 32, **changes})


def tiny_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """A float64 model whose every parameter, biases and norms too, is random: no swap of two can go unnoticed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config, VOCABULARY).double().eval()
    shake(model, seed)
    return model


@torch.no_grad()
def shake(model: torch.nn.Module, seed: int, size: float = 0.3) -> None:
    """Add noise to every parameter that is trained."""
    noise = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn(parameter.shape, generator=noise, dtype=torch.float64), alpha=size)


def random_ids(lengths: list[list[int]], seed: int = 0, first: int | None = None, padding: int = 0) -> Tensor:
    """Ids (documents, sentences, tokens) with these lengths of sentences and `padding` more columns than needed.

    first: the id that every sentence begins with, for decoder inputs.
    """
    draw = torch.Generator().manual_seed(seed)
    sentences = max(len(document) for document in lengths)
    longest = max((n for document in lengths for n in document), default=0)
    ids = torch.zeros(len(lengths), sentences, longest + padding, dtype=torch.long)
    for i, document in enumerate(lengths):
        for j, n in enumerate(document):
            ids[i, j, :n] = torch.randint(FIRST_WORD, VOCABULARY, (n,), generator=draw)
            if first is not None and n:
                ids[i, j, 0] = first
    return ids


def make_translator(prepared: Path, side: str = "both", norm: str = "post", slots: int = 4) -> Translator:
    """A translator with a memory and random weights, on the tiny prepared corpus; it may loop."""
    text = TextPipeline.load(prepared)
    torch.manual_seed(1)
    memory = MemoryConfig.model_validate({"slots": slots, "side": side, "read": "norm" if norm == "post" else "add"})
    config = TINY.model_copy(update={"context": memory, "norm": norm, "encoder_layers": 2, "decoder_layers": 2})
    model = Transformer(config, text.vocabulary).double()
    shake(model, seed=2)
    return Translator(model, text, guards=False)


def pair_ids(translator: Translator, source: list[str], target: list[str]) -> tuple[Tensor, Tensor]:
    """The two sides of a document, (1, sentences, tokens) each, start … end."""
    text, special = translator.text, translator.special
    sources = [special.source(ids) for ids in text.encode(source, "source")]
    targets = [special.target(ids) for ids in text.encode(target, "target")]
    return document_ids([sources]), document_ids([targets])
