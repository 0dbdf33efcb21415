"""The mean of the weights of two models of the same sizes, as a model folder.

python runs/shipped/average.py MODEL OTHER OUT

Training on real documents gains BLEU and loses some of what the start knew about antecedents further back; the mean of
both keeps most of either (docs/LOG.md, thirteenth session).
"""

import sys

import torch

from tram import Translator


def main(model: str, other: str, out: str) -> None:
    """Write the folder."""
    mean, second = Translator.load(model), Translator.load(other)
    with torch.no_grad():
        for one, two in zip(mean.model.parameters(), second.model.parameters(), strict=True):
            one.lerp_(two, 0.5)
    mean.save(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
