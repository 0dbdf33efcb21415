"""A whole file translated: segments to a function that translates documents, tags placed, the file written.

    translate_file(Path("manual.docx"), Path("manual.de.docx"), translate)

`translate` gets the documents of the file, each a list of `Segment`, and returns a `Rendition` for each segment, or
None for one that is not translated. A segment with `target` is context: the translation that the file has already.
Texts contain placeholder characters, which a translation must contain as well: see `verbatim`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tram.errors import InputError
from tram.files import exists, replacing
from tram.filetypes.base import (
    FIRST_PLACEHOLDER,
    PLACEHOLDERS,
    FileDocument,
    ReadOptions,
    Segment,
    Translation,
    is_placeholder,
)
from tram.filetypes.inline import Alignment, place
from tram.filetypes.registry import open_file
from tram.text.verbatim import TranslateStrings, VerbatimRules, translate_protected
from tram.text.words import filled_alignment

# Controls, surrogates, non-characters, and the characters that models reserve.
UNWRITABLE = re.compile(
    f"[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff{chr(FIRST_PLACEHOLDER + PLACEHOLDERS)}-{chr(0x10FFFF)}]"
)

BLANKS = re.compile(r"\s+")
LINE_END = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Rendition:
    """What a model made of a segment.

    alignment: (source word, target word) pairs over `inline.word_spans`, to place tags by, or None.
    doubtful: it should be looked at. score, words, warnings: of the translator, for reports; `words` is an alignment of
    what white space separates.
    """

    text: str
    alignment: Alignment | None = None
    doubtful: bool = False
    score: float | None = None
    words: Alignment | None = None
    warnings: tuple[str, ...] = ()


Translate = Callable[[list[list[Segment]]], Iterable[Sequence[Rendition | None]]]


@dataclass(frozen=True, slots=True)
class SentenceReport:
    """One translated sentence, placeholders replaced by what they stand for; alignment: of white-space words."""

    source: str
    translation: str
    score: float | None
    alignment: Alignment | None
    warnings: tuple[str, ...]


@dataclass
class FileReport:
    """Counts of a translated file, and its sentences."""

    documents: int = 0
    segments: int = 0
    translated: int = 0
    kept: int = 0  # had a translation already
    doubtful: int = 0
    placed_by_position: int = 0  # segments with tags but without an alignment
    repaired: int = 0  # segments in which a placeholder was missing or doubled
    sentences: list[SentenceReport] = field(default_factory=list)

    def add(self, other: "FileReport") -> None:
        """Add the report of the next piece of the same document."""
        for name, value in vars(other).items():
            if name != "documents" or not self.documents:
                setattr(self, name, getattr(self, name) + value)


def translate_file(
    path: Path,
    output: Path,
    translate: Translate,
    format: str | None = None,
    options: ReadOptions | None = None,
) -> FileReport:
    """Translate a file into another one; the original is never written to."""
    if exists(output) and exists(path) and output.samefile(path):
        raise InputError(f"{output}: is the original; choose another name for the translation")
    document = open_file(path, format, options)
    content, report = translate_document(document, translate)
    with replacing(output) as temporary:
        temporary.write_bytes(content)
    return report


def translate_document(document: FileDocument, translate: Translate) -> tuple[bytes, FileReport]:
    """Translate a document that is open; return the file's new content."""
    return finish(document, translate(document.documents))


def finish(
    document: FileDocument, rows: Iterable[Sequence[Rendition | None]], sentences: bool = True
) -> tuple[bytes, FileReport]:
    """Return the content of a file with these renditions of its segments, and counts; on request, its sentences."""
    report = FileReport(len(document.documents), sum(map(len, document.documents)))
    results: list[list[Translation | None]] = []
    for segments, renditions in zip(document.documents, rows, strict=True):
        pairs = zip(segments, renditions, strict=True)
        results.append([_translation(segment, rendition, report, sentences) for segment, rendition in pairs])
    return document.write(results), report


def _translation(
    segment: Segment, rendition: Rendition | None, report: FileReport, sentences: bool
) -> Translation | None:
    if rendition is None or not segment.translate:
        report.kept += segment.target is not None
        return None
    text, is_repaired = repair(segment.text, _clean(rendition.text))
    alignment = None if is_repaired else rendition.alignment  # its words are no longer those of the alignment
    placed = place(segment.text, segment.tags, text, alignment)
    doubtful = rendition.doubtful or is_repaired or not text
    report.translated += 1
    report.doubtful += doubtful
    report.repaired += is_repaired
    report.placed_by_position += placed.by_position
    if sentences:
        report.sentences.append(_sentence_report(segment, rendition, text, is_repaired, placed.by_position))
    return Translation(text, placed.tags, doubtful, alignment)


def _sentence_report(
    segment: Segment, rendition: Rendition, text: str, is_repaired: bool, by_position: bool
) -> SentenceReport:
    contents = dict(zip(filter(is_placeholder, segment.text), segment.opaque, strict=False))
    alignment = None
    if rendition.words is not None and text == rendition.text:
        alignment = filled_alignment(rendition.words, segment.text, contents, text, contents)
    warnings = [*rendition.warnings, *["placeholder by position"] * is_repaired, *["markup by position"] * by_position]
    filled = "".join(contents.get(character, character) for character in text)
    return SentenceReport(segment.readable, filled, rendition.score, alignment, tuple(warnings))


def _clean(text: str) -> str:
    """Return a translation in one line, without characters that a file cannot hold or that are tram's own."""
    text = BLANKS.sub(lambda run: " " if LINE_END.search(run[0]) else run[0], text.strip())
    return UNWRITABLE.sub("", text).strip()


def repair(source: str, target: str) -> tuple[str, bool]:
    """Return a translation in which every placeholder of the source is present once, and whether it had to change.

    A missing one goes to its relative position, between two words; a doubled one is dropped.
    """
    wanted = [c for c in source if is_placeholder(c)]
    counts = Counter(c for c in target if is_placeholder(c))
    if counts == Counter(wanted):
        return target, False
    seen: set[str] = set()
    kept = []
    for character in target:
        if is_placeholder(character):
            if character in seen or character not in wanted:
                continue
            seen.add(character)
        kept.append(character)
    text = "".join(kept)
    if len(text) < len(target):
        text = re.sub(" {2,}", " ", text).strip(" ")  # the blanks around what was dropped
    for character in wanted:
        if character not in seen:
            share = source.index(character) / len(source)
            gaps = [0, *(i for i, c in enumerate(text) if c == " "), len(text)]
            at = min(gaps, key=lambda gap: abs(gap - share * len(text)))
            before, after = text[:at], text[at:]
            text = f"{before}{' ' if before else ''}{character}{'' if not after or after[0] == ' ' else ' '}{after}"
    return text, True


def by_sentences(translate: TranslateStrings, rules: VerbatimRules | None = None) -> Translate:
    """Make a function that translates documents of one that translates a list of sentences."""

    def translate_documents(documents: list[list[Segment]]) -> Iterable[Sequence[Rendition | None]]:
        for segments in documents:
            wanted = [segment for segment in segments if segment.translate]
            found = translate_protected([segment.text for segment in wanted], translate, rules or VerbatimRules())
            results = iter(found)
            row: list[Rendition | None] = []
            for segment in segments:
                result = next(results) if segment.translate else None
                row.append(None if result is None else Rendition(result.text, doubtful=not result.complete))
            yield row

    return translate_documents
