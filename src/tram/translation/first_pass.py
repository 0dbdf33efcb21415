"""First-pass translations: translations of single sentences without context, for context modules that read them.

inputs = first_translations(model, special, source)                # ids (documents, sentences, tokens) on both sides
state = model.with_first_translations(model.encode(source, state), inputs, state)
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tram.data.batches import document_ids
from tram.data.budget import costs_when_padded, slices_within
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import length_limit, search

TOKENS = 2048  # source tokens per search


def first_translations(model: Transformer, special: SpecialIds, source: Tensor) -> Tensor:
    """Return greedy translations without context as decoder inputs; source: (documents, sentences, tokens)."""
    inputs: list[list[list[int]]] = [[[] for _ in document] for document in source]
    places = [(document, sentence) for document, sentence in source.any(-1).nonzero().tolist()]
    lengths = (source != PAD).sum(-1)
    places.sort(key=lambda place: int(lengths[place]))
    engine = TorchEngine(model)
    cost = costs_when_padded([int(lengths[place]) for place in places])
    with evaluating(model), torch.no_grad():
        for part in slices_within(cost, len(places), TOKENS):
            batch_places = places[part]
            sentences = [source[place][: int(lengths[place])].tolist() for place in batch_places]
            limits = [length_limit(model, special, len(ids) - special.source_extra) for ids in sentences]
            encoded = model.encode(document_ids([[ids] for ids in sentences]).to(model.device))
            for (document, sentence), hypotheses in zip(
                batch_places, search(engine, encoded, limits, special, beam=1), strict=True
            ):
                inputs[document][sentence] = special.decoder_input(hypotheses[0].ids)
    return document_ids(inputs).to(model.device)


@contextmanager
def evaluating(model: Transformer) -> Iterator[None]:
    """Switch dropout off inside the block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
