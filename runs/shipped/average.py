"""A model as it ships: its weights averaged with those that its training started from, in float16.

python runs/shipped/average.py TRAINED START OUT

On documents of training sets, three quarters of the trained weights and one quarter of the start translate at least as
well as either (docs/LOG.md).
"""

import sys

import torch

from tram import Translator
from tram.model.folder import load_model, weights

SHARE = 0.75  # of the trained weights


def main(trained: str, start: str, out: str) -> None:
    """Write a model folder."""
    translator = Translator.load(trained)
    before = weights(load_model(start))
    with torch.no_grad():
        for name, value in weights(translator.model).items():
            value.lerp_(before[name], 1 - SHARE)
    Translator(translator.model.half(), translator.text).save(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
