"""The documents on which runs/rivals compares systems on real text, and the items of its test of pronouns.

python runs/rivals/documents.py DATA FOLDER          DATA: folder of the corpora; FOLDER/spliced is by `tram splice`

Writes FOLDER/train.en and train.de (windows of real documents, and spliced ones in which context decides),
FOLDER/test.en and test.de (whole documents of all kinds) and FOLDER/pronouns.jsonl (a part of ContraPro).
"""

import itertools
import sys
from pathlib import Path
from random import Random

from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.files import write_text

REAL = {"opendocs": 600, "dialogue": 600, "prose": 500}  # windows of each corpus
SPLICED = {"pronouns": 1_800, "address": 900}  # documents of each kind
TEST, SENTENCES = ("opendocs", "dialogue", "prose", "conversation-nc"), 250  # of each corpus, or a few more
SIZES = (8, 12, 24)  # sentences of a window
SHORTEST, LONGEST = 4, 60  # sentences of a document of the test
MAX_CHARACTERS = 300  # of a source sentence of a window
EVERY = 3  # item of ContraPro


def window(document: ParallelDocument, random: Random) -> ParallelDocument | None:
    """Return a random run of sentences of a document; None if one of them is very long."""
    start = random.randrange(max(1, len(document.source) - min(SIZES) + 1))
    part = slice(start, start + random.choice(SIZES))
    source, target = document.source[part], document.target[part]
    return None if max(map(len, source)) > MAX_CHARACTERS else ParallelDocument(source, target)


def training_documents(data: Path, folder: Path, random: Random) -> list[ParallelDocument]:
    """Return windows of real documents and spliced documents, in a random order."""
    documents: list[ParallelDocument] = []
    for name, count in REAL.items():
        corpus = list(read_parallel(data / name / "train.en.xz", data / name / "train.de.xz"))
        random.shuffle(corpus)
        windows = (window(document, random) for document in itertools.cycle(corpus))
        documents += itertools.islice(filter(None, windows), count)
    for name, count in SPLICED.items():
        spliced = list(read_parallel(folder / "spliced" / f"{name}.en", folder / "spliced" / f"{name}.de"))
        documents += random.sample(spliced, count)
    random.shuffle(documents)
    return documents


def test_documents(data: Path, random: Random) -> list[ParallelDocument]:
    """Return whole documents of all corpora, as many of each as have the wanted number of sentences."""
    documents: list[ParallelDocument] = []
    for name in TEST:
        corpus = list(read_parallel(data / name / "dev.en", data / name / "dev.de"))
        random.shuffle(corpus)
        left = SENTENCES
        for document in corpus:
            if left > 0 and SHORTEST <= len(document.source) <= LONGEST:
                documents.append(document)
                left -= len(document.source)
    return documents


def main(data: Path, folder: Path) -> None:
    """Sample and write."""
    write_parallel(folder / "train.en", folder / "train.de", training_documents(data, folder, Random(1)))
    write_parallel(folder / "test.en", folder / "test.de", test_documents(data, Random(2)))
    items = (data / "contrapro-sample" / "contrapro.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    write_text(folder / "pronouns.jsonl", "".join(items[::EVERY]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
