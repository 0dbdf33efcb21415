"""Documents for the memory stages of the shipped model: spliced and generated ones, and windows of real ones.

python runs/shipped/mix.py {memory,polish} DATA FOLDER          FOLDER: that of ship.sh; writes FOLDER/STAGE.en and .de
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from tram.data.corpus import ParallelDocument, read_parallel, write_parallel

SPLICED = {  # documents of each kind
    "memory": {"pronouns": 15_000, "address": 8_000, "terms": 3_900},
    "polish": {"pronouns": 1_700, "address": 900, "terms": 300},
}
REAL = {  # windows of each corpus
    "memory": {"opendocs": 2_600, "dialogue": 1_700, "prose": 1_500, "europarl-direct": 1_200},
    "polish": {"opendocs": 700, "dialogue": 250, "prose": 250, "europarl-direct": 200},
}
GENERATED = {"memory": 0, "polish": 2_200}  # documents
WINDOW = 12  # sentences
SHORTEST, MAX_CHARACTERS = 3, 400  # of a window, and of a source sentence in it


def windows(document: ParallelDocument) -> Iterator[ParallelDocument]:
    """Yield a document in windows without very long sentences."""
    for start in range(0, len(document.source), WINDOW):
        source, target = document.source[start : start + WINDOW], document.target[start : start + WINDOW]
        if len(source) >= SHORTEST and max(map(len, source)) < MAX_CHARACTERS:
            yield ParallelDocument(source, target)


def main(stage: str, data: Path, folder: Path) -> None:
    """Sample, shuffle and write."""
    random = Random(7)
    generated = read_parallel(folder / "generated" / "train.en", folder / "generated" / "train.de")
    mix = [ParallelDocument(d.source[:WINDOW], d.target[:WINDOW]) for d in islice(generated, GENERATED[stage])]
    for name, count in SPLICED[stage].items():
        found = list(read_parallel(folder / "spliced" / f"{name}.en", folder / "spliced" / f"{name}.de"))
        mix += random.sample(found, min(count, len(found)))
    for name, count in REAL[stage].items():
        corpus = read_parallel(data / name / "train.en.xz", data / name / "train.de.xz")
        found = [window for document in corpus for window in windows(document)]
        mix += random.sample(found, min(count, len(found)))
    random.shuffle(mix)
    write_parallel(folder / f"{stage}.en", folder / f"{stage}.de", mix)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
