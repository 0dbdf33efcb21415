"""Documents for the memory stage of the shipped model: spliced ones, and windows of real ones.

python runs/shipped/mix.py DATA SPLICED OUT_SOURCE OUT_TARGET          SPLICED: the folder of `tram splice`
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tram.data.corpus import ParallelDocument, read_parallel, write_parallel

SPLICED = {"pronouns": 15_000, "address": 8_000, "terms": 3_900}  # documents
REAL = {"opendocs": 2_600, "dialogue": 1_700, "prose": 1_500, "europarl-direct": 1_200}  # windows
WINDOW = 12  # sentences
SHORTEST, MAX_CHARACTERS = 3, 400  # of a window, and of a source sentence in it


def windows(document: ParallelDocument) -> Iterator[ParallelDocument]:
    """Yield a document in windows without very long sentences."""
    for start in range(0, len(document.source), WINDOW):
        source, target = document.source[start : start + WINDOW], document.target[start : start + WINDOW]
        if len(source) >= SHORTEST and max(map(len, source)) < MAX_CHARACTERS:
            yield ParallelDocument(source, target)


def main(data: Path, spliced: Path, out_source: Path, out_target: Path) -> None:
    """Sample, shuffle and write."""
    random = Random(7)
    mix: list[ParallelDocument] = []
    for name, count in SPLICED.items():
        found = list(read_parallel(spliced / f"{name}.en", spliced / f"{name}.de"))
        mix += random.sample(found, min(count, len(found)))
    for name, count in REAL.items():
        corpus = read_parallel(data / name / "train.en.xz", data / name / "train.de.xz")
        found = [window for document in corpus for window in windows(document)]
        mix += random.sample(found, min(count, len(found)))
    random.shuffle(mix)
    write_parallel(out_source, out_target, mix)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
