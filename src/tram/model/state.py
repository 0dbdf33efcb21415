"""The encoder-decoder Transformer, and the one place where context enters it.

    model = Transformer(ModelConfig(), vocabulary=30_000)
    logits = model(source, decoder_input)    # ids (documents, sentences, tokens), 0 = padding, bos first, no eos
    # → (documents, sentences, target tokens, vocabulary)

Without context modules every sentence is translated on its own. A module behind the seam (`layers.Context`) sits in
an `AttentionSublayer`; what it carries from sentence to sentence travels in `Carried`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tram.model.contexts.base import ContextState

Carried = dict[str, ContextState]  # what every context module carries, by the name of its sublayer


def select_documents(carried: Carried, documents: Tensor) -> Carried:
    """The states of only these documents, in this order."""
    return {
        name: {key: value.index_select(0, documents) for key, value in state.items()} for name, state in carried.items()
    }


def join_documents(carried: Sequence[Carried]) -> Carried:
    """The states of several batches of documents as those of one batch."""
    return {
        name: {key: torch.cat([each[name][key] for each in carried]) for key in state}
        for name, state in carried[0].items()
    }


def named_tensors(carried: Carried) -> dict[str, Tensor]:
    """Carried states as UNIT/KEY → tensor, the form in which they go to disk."""
    return {f"{name}/{key}": value for name, state in carried.items() for key, value in state.items()}


def carried_from(tensors: dict[str, Tensor]) -> Carried:
    """The way back from `named_tensors`."""
    carried: Carried = {}
    for name, value in tensors.items():
        unit, _, key = name.rpartition("/")
        carried.setdefault(unit, {})[key] = value
    return carried
