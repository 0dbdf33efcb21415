"""Many files translated by one `Translator`: their documents go through the lockstep together.

    for document, rows in translate_opened(translator, files):      # files: an iterable of FileDocument
        content, report = finish(document, rows)

Files are read while others are translated. Segments that have a translation already are read as context, so that the
memory knows the choices of whoever translated them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, tee
from typing import TYPE_CHECKING

from tram.filetypes.base import FileDocument, Segment, is_placeholder
from tram.filetypes.inline import word_spans
from tram.filetypes.translate import Rendition
from tram.text.verbatim import Protected, VerbatimRules, protect
from tram.translation.alignment import align_words

if TYPE_CHECKING:
    from tram.translation.translator import Translator

Row = Sequence[Rendition | None]
Advance = Callable[[int], None]


@dataclass(frozen=True)
class _Sentence:
    """A segment on its way through the model: what is translated, and the spans that are put back."""

    parts: list[Protected]

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.parts if part.needs_translation]


def translate_opened(
    translator: "Translator",
    files: Iterable[FileDocument],
    rules: VerbatimRules | None = None,
    advance: Advance | None = None,
) -> Iterator[tuple[FileDocument, list[Row]]]:
    """Yield every file with the renditions of its documents, in order."""
    work = _Work(translator, rules or VerbatimRules(), advance)
    for has_targets, group in groupby(files, key=_has_targets):
        if has_targets:
            for file in group:
                rows = [work.with_context(document) for document in file.documents]
                yield file, [work.aligned(*pair) for pair in zip(file.documents, rows, strict=True)]
        else:
            yield from work.in_lockstep(group)


def _has_targets(file: FileDocument) -> bool:
    return any(segment.target is not None for document in file.documents for segment in document)


class _Work:
    def __init__(self, translator: "Translator", rules: VerbatimRules, advance: Advance | None) -> None:
        self.translator = translator
        self.rules = rules
        self.advance = advance
        self.has_sentinels = bool(translator.special.reserved)

    def in_lockstep(self, files: Iterable[FileDocument]) -> Iterator[tuple[FileDocument, list[Row]]]:
        """Translate the documents of files that have no translations yet."""
        ahead, files = tee(files)
        prepared: list[list[_Sentence | None]] = []  # of documents that are being translated

        def documents() -> Iterator[list[str]]:
            for file in ahead:
                for document in file.documents:
                    sentences = [self.prepare(segment) for segment in document]
                    prepared.append(sentences)
                    yield [text for sentence in sentences if sentence is not None for text in sentence.texts]

        results = self.translator.translate_documents(documents(), self.advance)
        for file in files:
            rows: list[Row] = []
            for document in file.documents:
                texts = iter(next(results))
                row = [self.rendition(sentence, texts) for sentence in prepared.pop(0)]
                rows.append(self.aligned(document, row))
            yield file, rows

    def with_context(self, document: Sequence[Segment]) -> Row:
        """Translate one document, reading the translations that it has already."""
        state = self.translator.start()
        row: list[Rendition | None] = []
        for has_target, group in groupby(document, key=lambda segment: segment.target is not None):
            segments = list(group)
            if has_target:
                sources = [segment.readable for segment in segments]
                self.translator.read(sources, [segment.target or "" for segment in segments], state)
                row += [None] * len(segments)
                continue
            sentences = [self.prepare(segment) for segment in segments]
            wanted = [text for sentence in sentences if sentence is not None for text in sentence.texts]
            texts = iter(self.translator.translate(wanted, state))
            row += [self.rendition(sentence, texts) for sentence in sentences]
            if self.advance is not None:
                self.advance(len(wanted))
        return row

    def aligned(self, document: Sequence[Segment], row: Row) -> Row:
        """Add word alignments to the renditions of segments with tags, to place the tags by."""
        result = list(row)
        tagged = [i for i, segment in enumerate(document) if segment.tags and row[i] is not None]
        pairs = [(document[i].text, rendition.text) for i in tagged if (rendition := row[i]) is not None]
        spans = {_without_placeholders(text): word_spans(text) for pair in pairs for text in pair}
        sources, targets = ([_without_placeholders(pair[side]) for pair in pairs] for side in (0, 1))
        found = align_words(self.translator, sources, targets, lambda text: spans[text])
        for i, (_, target), alignment in zip(tagged, pairs, found, strict=True):
            result[i] = Rendition(target, alignment)
        return result

    def prepare(self, segment: Segment) -> _Sentence | None:
        """Return what the model is given of a segment; None: it is not translated."""
        if not segment.translate:
            return None
        if self.has_sentinels:
            return _Sentence(protect(segment.text, self.rules))
        # Without sentinels the model cannot carry placeholders: they are put back by position
        return _Sentence([Protected(" ".join(_without_placeholders(segment.text).split()), ())])

    def rendition(self, sentence: _Sentence | None, texts: Iterator[str]) -> Rendition | None:
        """Return the translation of a segment, its spans put back."""
        if sentence is None:
            return None
        found = []
        for part in sentence.parts:
            restored = part.restore(next(texts) if part.needs_translation else part.text)
            found.append(restored.text if restored.complete else part.by_parts(self.one_by_one))
        return Rendition(" ".join(found))

    def one_by_one(self, texts: list[str]) -> list[str]:
        """Translate pieces of a sentence on their own."""
        return [translations[0] for translations in self.translator.translate_documents([text] for text in texts)]


def _without_placeholders(text: str) -> str:
    """Return a text of the same length with a blank for every placeholder."""
    return "".join(" " if is_placeholder(c) else c for c in text)
