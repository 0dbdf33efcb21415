"""The start of a training: the model that ships with tram, with 32 reserved ids if it has none yet.

python runs/shipped/start.py OLD OUT                the sentence model inside OLD
python runs/shipped/start.py OLD OUT --base RUN     OLD's memory on top of the sentence model that RUN trained
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from tram import Translator
from tram.model.folder import load_model, weights
from tram.model.transformer import Transformer
from tram.text.bpe import BPE
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import RESERVED_CHARACTERS


def with_reserved(text: TextPipeline) -> TextPipeline:
    """Return a text pipeline with reserved ids behind all others."""
    if text.special.reserved:
        return text
    assert isinstance(text.bpe, BPE)
    return replace(text, bpe=BPE(text.bpe.alphabet, text.bpe.merges, RESERVED_CHARACTERS))


def main() -> None:
    """Write a model folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", type=Path)
    given = parser.parse_args()
    old = Translator.load(given.old)
    text = with_reserved(old.text)
    model = old.model if given.base else old.model.without_context()
    trained = weights(load_model(given.base)) if given.base else {}
    new = Transformer(model.config, text.vocabulary)
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            value = trained.get(name, weights(model)[name])
            missing = len(parameter) - len(value)
            if missing:  # new ids begin near the mean of all others
                value = torch.cat([value, value.mean(0) + torch.randn(missing, value.shape[1]) * value.std(0) / 4])
            parameter.copy_(value)
    Translator(new, text).save(given.out)


if __name__ == "__main__":
    main()
