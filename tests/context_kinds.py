"""Every kind of context module, in several settings: what the conformance suite runs over."""

import functools
from typing import Any

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
}


@functools.cache
def model_of(name: str) -> Transformer:
    return tiny_model(tiny_config(**CONTEXTS[name]), seed=3)
