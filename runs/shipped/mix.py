"""Documents for the memory of the shipped model: windows of real documents, spliced and generated ones.

python runs/shipped/mix.py STAGE DATA FOLDER          FOLDER: that of ship.sh; writes FOLDER/STAGE.en and STAGE.de

STAGE is `documents`, for the long training, or `polish`, for the short one after it. Real windows are most of the
target tokens, so that the model stays good at whole documents; spliced documents are most of the documents, so that
each update has many words that only the context decides.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.data.sentinels import with_sentinels

SPLICED = {  # documents of each kind
    "documents": {"pronouns": 12_000, "address": 8_000, "terms": 4_700},
    "polish": {"pronouns": 2_600, "address": 600, "terms": 100},
}
REAL = {  # windows of each corpus
    "documents": {"opendocs": 6_000, "europarl-direct": 4_200, "dialogue": 2_300, "prose": 2_000},
    "polish": {"opendocs": 130, "europarl-direct": 70, "dialogue": 60, "prose": 50},
}
GENERATED = {"documents": 1_200, "polish": 1_600}  # documents
GENERATED_SENTENCES = 12  # of each of them
WINDOW = 20  # sentences
SHORTEST, MAX_CHARACTERS = 3, 400  # of a window, and of a source sentence in it
COPY_SHARE = 0.15  # of the pairs of real windows are searched for spans to replace by copy sentinels


def windows(document: ParallelDocument, random: Random) -> Iterator[ParallelDocument]:
    """Yield a document in windows without very long sentences, copy sentinels in some pairs."""
    for start in range(0, len(document.source), WINDOW):
        pairs = list(islice(zip(document.source, document.target, strict=True), start, start + WINDOW))
        if len(pairs) < SHORTEST or max(len(source) for source, _ in pairs) >= MAX_CHARACTERS:
            continue
        pairs = [(random.random() < COPY_SHARE and with_sentinels(pair, random)) or pair for pair in pairs]
        yield ParallelDocument([source for source, _ in pairs], [target for _, target in pairs])


def main(stage: str, data: Path, folder: Path) -> None:
    """Sample, shuffle and write."""
    random = Random(f"7 {stage}")
    generated = read_parallel(folder / "generated" / "train.en", folder / "generated" / "train.de")
    first = slice(GENERATED_SENTENCES)
    mix = [ParallelDocument(d.source[first], d.target[first]) for d in islice(generated, GENERATED[stage])]
    for name, count in SPLICED[stage].items():
        found = list(read_parallel(folder / "spliced" / f"{name}.en", folder / "spliced" / f"{name}.de"))
        mix += random.sample(found, min(count, len(found)))
    for name, count in REAL[stage].items():
        corpus = read_parallel(data / name / "train.en.xz", data / name / "train.de.xz")
        found = [window for document in corpus for window in windows(document, random)]
        mix += random.sample(found, min(count, len(found)))
    random.shuffle(mix)
    write_parallel(folder / f"{stage}.en", folder / f"{stage}.de", mix)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
