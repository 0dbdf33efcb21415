"""Many files translated by one `Translator`: their documents go through the lockstep together.

    for document, rows in translate_opened(translator, files):      # files: an iterable of FileDocument
        content, report = finish(document, rows)

`translate_opened` yields files in order, `files_as_finished` as soon as they are finished. Files are read while others
are translated. Segments that have a translation already are read as context, so that the memory knows the choices of
whoever translated them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby, tee
from typing import TYPE_CHECKING

from tram.filetypes.base import FileDocument, Segment, is_placeholder
from tram.filetypes.inline_tree import word_spans
from tram.filetypes.translate import Rendition
from tram.filetypes.typography import restored_signs
from tram.text.verbatim import VerbatimRules
from tram.translation.documents import Remarks
from tram.translation.guards import DOUBTFUL
from tram.translation.parts import Translation

if TYPE_CHECKING:
    from tram.translation.document_state import DocumentState
    from tram.translation.translator import Translator

# Of 500 tagged nouns, 81.0% are tagged alone in the translation; 73.6% if all links count (runs/tags/planted.py).
MIN_SHARE = 0.7
HARD_HYPHEN = "\u2011"  # models know the ordinary one
Row = Sequence[Rendition | None]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class FileSettings:
    """How files are translated.

    rules: what is kept as it is. alignment: whether to align the words of all sentences. remarks: counts of what should
    be checked.
    """

    rules: VerbatimRules = field(default_factory=VerbatimRules)
    alignment: bool = False
    remarks: Remarks = field(default_factory=Remarks)


def translate_opened(
    translator: "Translator",
    files: Iterable[FileDocument],
    settings: FileSettings | None = None,
    advance: Advance | None = None,
) -> Iterator[tuple[FileDocument, list[Row]]]:
    """Yield every file with the renditions of its documents, in order."""
    held: dict[int, list[Row]] = {}
    ahead, files = tee(files)
    finished = files_as_finished(translator, ahead, settings, advance)
    for file in files:
        while id(file) not in held:
            other, rows = next(finished)
            held[id(other)] = rows
        yield file, held.pop(id(file))


def files_as_finished(
    translator: "Translator",
    files: Iterable[FileDocument],
    settings: FileSettings | None = None,
    advance: Advance | None = None,
) -> Iterator[tuple[FileDocument, list[Row]]]:
    """Yield every file with the renditions of its documents as soon as it is finished."""
    work = _Work(translator, settings or FileSettings(), advance)
    for has_targets, group in groupby(files, key=_has_targets):
        if has_targets:
            for file in group:
                rows = [work.with_context(document) for document in file.documents]
                yield file, [work.aligned(*pair) for pair in zip(file.documents, rows, strict=True)]
        else:
            yield from work.in_lockstep(group)


def translate_pieces(
    translator: "Translator",
    pieces: Iterable[FileDocument],
    settings: FileSettings | None = None,
    advance: Advance | None = None,
) -> Iterator[tuple[FileDocument, list[Row]]]:
    """Yield the pieces of one long document with their renditions; the memory continues from piece to piece."""
    work = _Work(translator, settings or FileSettings(), advance)
    state = translator.start()
    for piece in pieces:
        (document,) = piece.documents
        yield piece, [work.aligned(document, work.with_context(document, state))]


def _has_targets(file: FileDocument) -> bool:
    return any(segment.target is not None for document in file.documents for segment in document)


@dataclass(frozen=True)
class _Work:
    translator: "Translator"
    settings: FileSettings
    advance: Advance | None

    def in_lockstep(self, files: Iterable[FileDocument]) -> Iterator[tuple[FileDocument, list[Row]]]:
        """Translate the documents of files that have no translations yet; yield each file when it is finished."""
        unfinished: dict[int, tuple[FileDocument, int]] = {}  # documents by number: the file, and which one of it
        rows: dict[int, dict[int, Row]] = {}  # by the identity of the file, and by document
        empty: list[FileDocument] = []
        numbers = count()

        def wanted() -> Iterator[list[str]]:
            for file in files:
                if not file.documents:
                    empty.append(file)
                rows[id(file)] = {}
                for i, document in enumerate(file.documents):
                    unfinished[next(numbers)] = file, i
                    yield _wanted(document)

        results = self.translator.as_finished(
            wanted(),
            self.advance,
            alignment=self.settings.alignment,
            verbatim=self.settings.rules,
            remarks=self.settings.remarks,
        )
        language = self.translator.text.target_language
        for number, translations in results:
            file, i = unfinished.pop(number)
            document = file.documents[i]
            found = rows[id(file)]
            found[i] = self.aligned(document, _row(document, translations, language))
            if len(found) == len(file.documents):
                yield file, [row for _, row in sorted(rows.pop(id(file)).items())]
        yield from ((file, []) for file in empty)

    def with_context(self, document: Sequence[Segment], state: "DocumentState | None" = None) -> Row:
        """Translate one document, or continue one, reading the translations that it has already."""
        state = state or self.translator.start()
        row: list[Rendition | None] = []
        for has_target, group in groupby(document, key=lambda segment: segment.target is not None):
            segments = list(group)
            if has_target:
                sources = [segment.readable for segment in segments]
                self.translator.read(sources, [segment.target or "" for segment in segments], state)
                row += [None] * len(segments)
                continue
            (found,) = self.translator.detailed(
                [_wanted(segments)],
                self.advance,
                states=[state],
                alignment=self.settings.alignment,
                verbatim=self.settings.rules,
                remarks=self.settings.remarks,
            )
            row += _row(segments, found, self.translator.text.target_language)
        return row

    def aligned(self, document: Sequence[Segment], row: Row) -> Row:
        """Add word alignments to the renditions of segments with tags, to place the tags by."""
        result = list(row)
        tagged = {i: each for i, (segment, each) in enumerate(zip(document, row, strict=True)) if segment.tags and each}
        pairs = [(document[i].text, rendition.text) for i, rendition in tagged.items()]
        spans = {_without_placeholders(text): word_spans(text) for pair in pairs for text in pair}
        sources, targets = ([_without_placeholders(pair[side]) for pair in pairs] for side in (0, 1))
        found = self.translator.align(sources, targets, lambda text: spans[text], MIN_SHARE)
        for (i, rendition), alignment in zip(tagged.items(), found, strict=True):
            result[i] = replace(rendition, alignment=alignment)
        return result


def _wanted(document: Sequence[Segment]) -> list[str]:
    return [segment.text.replace(HARD_HYPHEN, "-") for segment in document if segment.translate]


def _row(document: Sequence[Segment], translations: Iterable[Translation], language: str) -> Row:
    """Return the renditions of a document's segments; None for those that are not translated."""
    given = iter(translations)
    return [_rendition(segment.text, next(given), language) if segment.translate else None for segment in document]


def _rendition(source: str, translation: Translation, language: str) -> Rendition:
    return Rendition(
        restored_signs(source, translation.text, language),
        doubtful=DOUBTFUL in translation.warnings,
        score=translation.score,
        words=translation.alignment,
        warnings=translation.warnings,
    )


def _without_placeholders(text: str) -> str:
    """Return a text of the same length with a blank for every placeholder."""
    return "".join(" " if is_placeholder(c) else c for c in text)
