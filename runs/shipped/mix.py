"""Documents for the memory of the shipped model: windows of real documents, spliced and generated ones.

python runs/shipped/mix.py DATA FOLDER          FOLDER: that of ship.sh; writes FOLDER/documents.en and documents.de

Most documents are spliced or generated, so that each update has many words that only the context decides. Spliced
sentences inside real windows teach the memory to follow a thing that is brought up in the middle of a document.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.data.sentinels import with_sentinels
from tram.evaluation.address import form_of
from tram.evaluation.language import load_language

SPLICED = {"pronouns": 2_600, "address": 900, "terms": 200}  # documents of each kind
REAL = {"opendocs": 80, "europarl-direct": 60, "dialogue": 80, "prose": 60}  # windows of each corpus
THREADED = {"opendocs": 150, "europarl-direct": 60, "dialogue": 150, "prose": 150}  # windows with spliced sentences
THREADS = 2  # spliced documents in each of these
GENERATED = 700  # documents
GENERATED_SENTENCES = 12  # of each of them
WINDOW, SHORT_WINDOW = 20, 12  # sentences; the short ones get spliced sentences in addition
SHORTEST, MAX_CHARACTERS = 3, 400  # of a window, and of a source sentence in it
COPY_SHARE = 0.15  # of the pairs of real windows are searched for spans to replace by copy sentinels


Pairs = list[tuple[str, str]]


def pairs_of(document: ParallelDocument) -> Pairs:
    """Return the sentence pairs of a document."""
    return list(zip(document.source, document.target, strict=True))


def document_of(pairs: Pairs) -> ParallelDocument:
    """Return a document of sentence pairs."""
    return ParallelDocument([source for source, _ in pairs], [target for _, target in pairs])


def windows(document: ParallelDocument, random: Random, size: int = WINDOW) -> Iterator[ParallelDocument]:
    """Yield a document in windows without very long sentences, copy sentinels in some pairs."""
    for start in range(0, len(document.source), size):
        pairs = pairs_of(document)[start : start + size]
        if len(pairs) < SHORTEST or max(len(source) for source, _ in pairs) >= MAX_CHARACTERS:
            continue
        pairs = [(random.random() < COPY_SHARE and with_sentinels(pair, random)) or pair for pair in pairs]
        yield document_of(pairs)


def with_threads(window: ParallelDocument, threads: list[ParallelDocument], random: Random) -> ParallelDocument | None:
    """Insert spliced documents at random places of a real one; None if forms of address would be mixed."""
    pairs = pairs_of(window)
    for thread in threads:
        at = random.randint(0, len(pairs))
        pairs[at:at] = pairs_of(thread)
    german = load_language("de")
    forms = {form for _, target in pairs if (form := form_of(target, german))}
    return document_of(pairs) if len(forms) < 2 else None


def main(data: Path, folder: Path) -> None:
    """Sample, shuffle and write."""
    random = Random(8)
    generated = read_parallel(folder / "generated" / "train.en", folder / "generated" / "train.de")
    first = slice(GENERATED_SENTENCES)
    mix = [ParallelDocument(d.source[first], d.target[first]) for d in islice(generated, GENERATED)]
    for name, count in SPLICED.items():
        found = list(read_parallel(folder / "spliced" / f"{name}.en", folder / "spliced" / f"{name}.de"))
        mix += random.sample(found, min(count, len(found)))
    spliced = list(read_parallel(folder / "spliced" / "pronouns.en", folder / "spliced" / "pronouns.de"))
    for name, count in REAL.items():
        corpus = list(read_parallel(data / name / "train.en.xz", data / name / "train.de.xz"))
        found = [window for document in corpus for window in windows(document, random)]
        mix += random.sample(found, min(count, len(found)))
        short = [window for document in corpus for window in windows(document, random, SHORT_WINDOW)]
        random.shuffle(short)
        threaded = (with_threads(window, random.sample(spliced, THREADS), random) for window in short)
        mix += islice((document for document in threaded if document is not None), THREADED[name])
    random.shuffle(mix)
    write_parallel(folder / "documents.en", folder / "documents.de", mix)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
