"""Every kind of context module, in several settings: what the conformance suite runs over.

On which unit whole documents are the same as one unit after the other, each kind declares by its `SegmentRule`: a
sentence, or the segment whose source is read as a whole (`edges`).
"""

import functools
from typing import Any

from torch import Tensor

from helpers import tiny_config, tiny_model
from tram.model.transformer import Transformer

CONTEXTS: dict[str, dict[str, Any]] = {
    "memory, both sides": {"memory": {"slots": 3}},
    "memory, source side": {"memory": {"slots": 3, "side": "source"}},
    "memory, target side": {"memory": {"slots": 2, "side": "target"}},
    "memory, all layers": {"memory": {"slots": 2, "layers": [0, 1]}},
    "memory, learned positions": {"memory": {"slots": 3, "positions": "learned"}},
    "memory, pre-norm, add": {"norm": "pre", "memory": {"slots": 3, "read": "add"}},
    "memory, pre-norm, scaled": {"norm": "pre", "memory": {"slots": 3, "read": "scaled"}},
    "Transformer-XL, both sides": {"context": {"kind": "transformer_xl", "memory_length": 9}},
    "Transformer-XL, source side, pre-norm": {
        "norm": "pre",
        "context": {"kind": "transformer_xl", "memory_length": 5, "side": "source"},
    },
    "Transformer-XL, target side, pre-norm": {
        "norm": "pre",
        "context": {"kind": "transformer_xl", "memory_length": 5, "side": "target"},
    },
    "Compressive, both sides": {
        "context": {"kind": "compressive", "memory_length": 5, "compressed_length": 2, "ratio": 2}
    },
    "Compressive, target side, pre-norm": {
        "norm": "pre",
        "context": {"kind": "compressive", "memory_length": 3, "compressed_length": 3, "ratio": 3, "side": "target"},
    },
    "HAN, encoder": {"context": {"kind": "han", "side": "source"}},
    "HAN, decoder": {"context": {"kind": "han", "sentences": 2, "side": "target"}},
    "HAN, join, pre-norm": {"norm": "pre", "context": {"kind": "han", "sentences": 2}},
    "G-Transformer, segments of 3 sentences": {
        "max_positions": 80,
        "context": {
            "kind": "g_transformer",
            "hidden": 0,
            "encoder": 1,
            "decoder": 1,
            "cross": 2,
            "tokens": 80,
            "sentences": 3,
        },
    },
    "G-Transformer, long segments, pre-norm": {
        "norm": "pre",
        "positions": "sinusoidal",
        "context": {"kind": "g_transformer", "hidden": 0, "encoder": 2, "decoder": 1, "cross": 1, "tokens": 80},
    },
    "G-Transformer, encoder": {
        "max_positions": 80,
        "context": {"kind": "g_transformer", "hidden": 0, "side": "source", "tokens": 80, "sentences": 3},
    },
    "G-Transformer, decoder": {
        "max_positions": 80,
        "context": {"kind": "g_transformer", "hidden": 0, "side": "target", "cross": 1, "tokens": 80, "sentences": 3},
    },
    "Zheng, segments of 3 sentences": {"context": {"kind": "zheng", "sentences": 3}},
    "Zheng, pre-norm": {"norm": "pre", "context": {"kind": "zheng"}},
    "Zheng, encoder": {"norm": "pre", "context": {"kind": "zheng", "sentences": 3, "side": "source"}},
    "Zheng, decoder": {"context": {"kind": "zheng", "side": "target"}},
    "Selective, source": {"context": {"kind": "selective"}},
    "Selective, source, online, sparse words, pre-norm": {
        "norm": "pre",
        "context": {"kind": "selective", "online": True, "words": "sparsemax"},
    },
    "Selective, target": {"context": {"kind": "selective", "side": "target"}},
    "Selective, target, online, pre-norm": {
        "norm": "pre",
        "context": {"kind": "selective", "side": "target", "online": True},
    },
}


def reads_ahead(name: str) -> bool:
    """Whether the sentences of a pass see the source of those that follow."""
    return model_of(name).segment_rule is not None


def edges(model: Transformer, source: Tensor) -> list[int]:
    """The sentences at which a batch may be cut: there, a segment ends in every document, or nothing follows."""
    segments = model.encode(source).layout.segments
    sentences = source.shape[1]
    if segments is None:
        return list(range(1, sentences))
    numbers, full = segments.numbers.reshape(source.shape[:2]), (source != 0).any(-1).numpy()

    def ends(document: int, edge: int) -> bool:
        before, after = (numbers[document, part][full[document, part]] for part in (slice(edge), slice(edge, None)))
        return not len(before) or not len(after) or before[-1] != after[0]

    return [edge for edge in range(1, sentences) if all(ends(document, edge) for document in range(len(source)))]


@functools.cache
def model_of(name: str) -> Transformer:
    return tiny_model(tiny_config(**CONTEXTS[name]), seed=3)
