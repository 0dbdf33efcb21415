"""A model folder with float16 weights: half the size.

python runs/shipped/to_float16.py MODEL OUT
"""

import sys

import torch

from tram import Translator

if __name__ == "__main__":
    Translator.load(sys.argv[1], dtype=torch.float16).save(sys.argv[2])
