"""Sentence pairs with copy sentinels, separators and masks for the first stage of the shipped model.

python runs/shipped/augment.py SOURCE TARGET OUT_SOURCE OUT_TARGET [SEED [SHARE]]

SHARE of the documents are taken; all by default.
"""

import sys
from random import Random

from tram.data.corpus import read_parallel, write_parallel
from tram.data.sentinels import augmented


def main(source: str, target: str, out_source: str, out_target: str, seed: str = "2", share: str = "1") -> None:
    """Read a corpus and write the augmented one."""
    random = Random(int(seed))
    taken = (document for document in read_parallel(source, target) if random.random() < float(share))
    write_parallel(out_source, out_target, (augmented(document, random) for document in taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
