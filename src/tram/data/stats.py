"""Corpus statistics: documents, sentences and words of each side, counted in one pass.

    print(stats_table(corpus_stats("train.en.xz", "train.de.xz")))

`tram stats` prints the same table.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tram.data.corpus import has_both_sides, read_documents, read_parallel


@dataclass(frozen=True, slots=True)
class SideStats:
    """Counts of one side; words are separated by white space."""

    words: int
    words_per_sentence: float
    longest_sentence: int
    empty_sentences: int


@dataclass(frozen=True, slots=True)
class CorpusStats:
    """Counts of a corpus; `target` is None if the corpus has one side only."""

    documents: int
    sentences: int
    sentences_per_document: float
    median_document: float
    longest_document: int
    source: SideStats
    target: SideStats | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return asdict(self)


class _SideCount:
    """Running counts of one side."""

    def __init__(self) -> None:
        self.sentences = self.words = self.longest = self.empty = 0

    def add(self, sentences: list[str]) -> None:
        for sentence in sentences:
            words = len(sentence.split())
            self.words += words
            self.longest = max(self.longest, words)
            self.empty += not words
        self.sentences += len(sentences)

    def stats(self) -> SideStats:
        return SideStats(self.words, self.words / self.sentences, self.longest, self.empty)


def corpus_stats(source: Path | str, target: Path | str | None = None, format: str | None = None) -> CorpusStats:
    """Count one file, two aligned files, or one file with both sides."""
    lengths: Counter[int] = Counter()
    left, right = _SideCount(), _SideCount()
    for source_sentences, target_sentences in _sides(source, target, format):
        lengths[len(source_sentences)] += 1
        left.add(source_sentences)
        right.add(target_sentences)
    documents = lengths.total()
    return CorpusStats(
        documents=documents,
        sentences=left.sentences,
        sentences_per_document=left.sentences / documents,
        median_document=_median(lengths),
        longest_document=max(lengths),
        source=left.stats(),
        target=right.stats() if right.sentences else None,
    )


def _sides(source: Path | str, target: Path | str | None, format: str | None) -> Iterator[tuple[list[str], list[str]]]:
    if target is None and not has_both_sides(source, format):
        return ((document.sentences, []) for document in read_documents(source, format))
    return ((document.source, document.target) for document in read_parallel(source, target, format))


def _median(lengths: Counter[int]) -> float:
    """Return the median of counted values; for an even number of values, the mean of the two in the middle."""
    middle = ((lengths.total() - 1) // 2, lengths.total() // 2)
    middle_lengths, seen = [], 0
    for length in sorted(lengths):
        middle_lengths += [length for place in middle if seen <= place < seen + lengths[length]]
        seen += lengths[length]
    return sum(middle_lengths) / 2


def stats_table(stats: CorpusStats) -> str:
    """Return the counts as a small table with a column per side."""
    rows = [
        ("documents", f"{stats.documents:,}"),
        ("sentences", f"{stats.sentences:,}"),
        ("sentences/document, mean", f"{stats.sentences_per_document:,.1f}"),
        ("sentences/document, median", f"{stats.median_document:,.1f}"),
        ("longest document, sentences", f"{stats.longest_document:,}"),
    ]
    sides = [side for side in (stats.source, stats.target) if side is not None]
    columns = [_side_cells(side) for side in sides]
    per_side = zip(("words", "words/sentence", "longest sentence, words", "empty sentences"), *columns, strict=True)
    header = ("", "source", "target") if len(sides) == 2 else ()
    table = [*rows, header, *per_side] if header else [*rows, *per_side]
    return "\n".join(_line(row) for row in table)


def _side_cells(side: SideStats) -> list[str]:
    return [
        f"{side.words:,}",
        f"{side.words_per_sentence:,.1f}",
        f"{side.longest_sentence:,}",
        f"{side.empty_sentences:,}",
    ]


def _line(row: tuple[str, ...]) -> str:
    label, *cells = row
    return f"{label:<28}" + "".join(f"{cell:>12}" for cell in cells)
