"""Translation of streams of documents: in lockstep, or as sentences by a model without context.

This is the implementation of `Translator.detailed`. Documents are read while others are translated, so that memory does
not grow with their number; translations are checked (`guards`), and spans are restored (`spanned`).
"""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from tram.errors import InputError, check_types
from tram.translation.document_state import DocumentState
from tram.translation.guards import DOUBTFUL, IN_PARTS, REPEATED
from tram.translation.lockstep import Cursor, History
from tram.translation.parts import Found, SplitSentences, Translation
from tram.translation.search import Hypothesis
from tram.translation.spanned import SpannedDocument
from tram.translation.tasks import DocumentTask, GuardedSentences

if TYPE_CHECKING:
    from tram.translation.translator import Translator

AHEAD = 32  # maximum number of batches, finished or in progress, after a document that is unfinished
Advance = Callable[[int], None]
Numbered = tuple[int, list[Translation]]  # a document by its number
T = TypeVar("T")


@dataclass
class Remarks:
    """Counts of translations that a user should check."""

    split: int = 0
    warnings: Counter[str] = field(default_factory=Counter)

    def counted(self, translations: list[Translation]) -> list[Translation]:
        """Count the warnings of some translations and return them."""
        self.warnings.update(warning for each in translations for warning in each.warnings)
        return translations

    def counts(self) -> dict[str, int]:
        """Return all counts by name."""
        return {"split": self.split, **{name: self.warnings[name] for name in (REPEATED, IN_PARTS, DOUBTFUL)}}

    def warn(self) -> None:
        """Emit one warning for each kind that was counted."""
        for number, sentence in (
            (self.split, "were too long and were split for translation"),
            (self.warnings[REPEATED], "were translated again, without context or with their spans in plain text"),
            (self.warnings[IN_PARTS], "were translated in parts and may not be fluent"),
            (self.warnings[DOUBTFUL], "are doubtful: every attempt loops, is too long or is empty"),
        ):
            if number:
                warnings.warn(f"{number} sentences {sentence}", stacklevel=4)


@dataclass(frozen=True)
class DocumentRun:
    """One call of `Translator.detailed`, which documents the fields."""

    translator: "Translator"
    advance: Advance | None
    states: Iterator[DocumentState] | None
    history: History
    gold: Iterator[list[str]] | None
    alignment: bool
    remarks: Remarks

    def __post_init__(self) -> None:
        check_types(advance=(self.advance, Callable | None), remarks=(self.remarks, Remarks))

    def translate(self, documents: Iterator[SpannedDocument], own_remarks: bool) -> Iterator[list[Translation]]:
        """Yield the translations of documents in order; own_remarks: emit the warnings at the end."""
        held: dict[int, list[Translation]] = {}  # of documents after one that is unfinished
        following = 0
        for number, translations in self.as_finished(documents, held):
            held[number] = translations
            while following in held:
                yield held.pop(following)
                following += 1
        if own_remarks:
            self.remarks.warn()

    def as_finished(self, documents: Iterator[SpannedDocument], held: Collection[int] = ()) -> Iterator[Numbered]:
        """Yield the number and the translations of each document as soon as it is finished.

        held: the numbers of those that wait at the caller; while these are many, no further documents are read.
        """
        if self.translator.has_context:
            yield from self.in_lockstep(documents, held)
        else:
            yield from enumerate(self.as_sentences(documents))

    def in_lockstep(self, documents: Iterator[SpannedDocument], held: Collection[int]) -> Iterator[Numbered]:
        """Translate documents with a model that has context; see `as_finished`."""
        translator = self.translator
        tasks: dict[int, DocumentTask] = {}  # unfinished
        finished: list[DocumentTask] = []
        numbers = count()
        exhausted = False

        def choose(cursor: Cursor, hypotheses: Found) -> Hypothesis:
            return tasks[cursor.number].choose(hypotheses)

        def cursors() -> Iterator[Cursor | None]:
            nonlocal exhausted
            while not exhausted:
                document = None
                if len(tasks) + len(held) < translator.batch * AHEAD:  # else too many wait for a long one before them
                    document = next(documents, None)
                    exhausted = document is None
                    if exhausted and self.gold is not None and next(self.gold, None) is not None:
                        raise InputError("there are more references than documents; give one for each document")
                if document is not None:
                    task = self._task(next(numbers), document)
                    self.remarks.split += task.sentences.split
                    if task.state is not None and any(task.state is each.state for each in tasks.values()):
                        raise InputError("two documents have the same state; give each its own, such as state.fork()")
                    if task.done:  # it has no sentence
                        finished.append(task)
                    else:
                        tasks[task.cursor.number] = task
                yield None if document is None else task.cursor

        lockstep = translator.lockstep(self.history, choose, self.alignment)
        while not exhausted:  # more than one round only if all waiting documents had no sentences
            for cursor, hypotheses in lockstep.run(cursors()):
                task = tasks[cursor.number]
                if self.advance is not None and task.sentences.completes(len(task.found)):
                    self.advance(1)
                task.add(hypotheses)
                if task.done:
                    finished.append(tasks.pop(cursor.number))
                while finished:
                    yield self._finished(finished.pop(0))
            while finished:
                yield self._finished(finished.pop(0))

    def _task(self, number: int, document: SpannedDocument) -> DocumentTask:
        translator = self.translator
        state = _next(self.states, "state") if self.states is not None else None
        task = DocumentTask.start(
            translator, number, document, state, alignment=self.alignment, in_context=self.history != "none"
        )
        if self.gold is not None:
            reference, size = _next(self.gold, "reference"), len(document.sentences)
            check_sentences(reference, f"the reference of document {number + 1}")
            if len(reference) != size:
                raise InputError(
                    f"document {number + 1} has {size} sentences and {len(reference)} reference translations; "
                    "a gold history needs one for each"
                )
            task.cursor.gold = task.sentences.gold(translator.without_separators(reference))
        return task

    def _finished(self, task: DocumentTask) -> Numbered:
        task.advance_state()
        best = task.best_of_texts()
        if self.alignment and self.translator.units is not None:
            best = self._aligned(task.document.texts, best)
        return task.cursor.number, self._joined(task.document, best, task.sentences.non_empty())

    def _joined(self, document: SpannedDocument, best: list[Translation], translated: int) -> list[Translation]:
        """Return the translations of a document's sentences; complete those that need no model."""
        if self.advance is not None and (empty := len(document.sentences) - translated) > 0:
            self.advance(empty)
        return self.remarks.counted(document.join(best, self.alignment))

    def _aligned(self, sources: list[str], translations: list[Translation]) -> list[Translation]:
        """Return translations with word alignments, computed for each sentence separately."""
        aligned = self.translator.align(sources, [each.text for each in translations])
        return [replace(each, alignment=pairs) for each, pairs in zip(translations, aligned, strict=True)]

    def as_sentences(self, documents: Iterator[SpannedDocument]) -> Iterator[list[Translation]]:
        """Translate documents with a sentence model, a few thousand sentences at a time, sorted by length."""
        translator = self.translator
        while block := _up_to(documents, translator.batch * AHEAD):
            texts = [text for document in block for text in document.texts]
            spans = [each for document in block for each in document.spans]
            sentences = translator.split(texts)
            self.remarks.split += sentences.split
            hypotheses = search_parts(translator, sentences, self.advance)
            guarded = GuardedSentences(translator, sentences, spans, in_context=False)
            for part, options in enumerate(hypotheses):
                options[0] = guarded.choose(part, options)
            best = [options[0] for options in sentences.join(hypotheses, 1)]
            if self.alignment:
                best = self._aligned(texts, best)
            start = 0
            for document in block:
                end = start + len(document.texts)
                translated = sentences.non_empty(start, end)
                if self.states is not None:
                    translator.checked(_next(self.states, "state")).sentences += translated
                yield self._joined(document, best[start:end], translated)
                start = end


def search_parts(translator: "Translator", sentences: SplitSentences, advance: Advance | None) -> list[Found]:
    """Return the hypotheses of all parts of sentences, without context."""
    hypotheses_of_part: list[Found] = [[] for _ in sentences.ids]
    order = sorted(range(len(sentences.ids)), key=lambda i: len(sentences.ids[i]))
    for start in range(0, len(order), translator.batch):
        batch = order[start : start + translator.batch]
        for i, hypotheses in zip(batch, translator.search([sentences.ids[i] for i in batch]), strict=True):
            hypotheses_of_part[i] = [replace(each, update_inputs={}) for each in hypotheses]
        if advance is not None:
            advance(sum(map(sentences.completes, batch)))
    return hypotheses_of_part


def check_sentences(document: Any, name: str) -> None:
    """Refuse anything but a list of strings; a single string would be translated letter by letter."""
    if isinstance(document, str):
        raise InputError(f"{name}: is one string; give a list of sentences, for example [{document[:40]!r}]")
    if not isinstance(document, list | tuple):
        raise InputError(f"{name}: is of type {type(document).__name__}; give a list of sentences")
    for i, sentence in enumerate(document):
        if not isinstance(sentence, str):
            raise InputError(f"{name}: sentence {i + 1} is of type {type(sentence).__name__}; give strings")


def check_pairs(source: Any, target: Any) -> None:
    """Refuse anything but lists of sentences of equal length."""
    check_sentences(source, "source")
    check_sentences(target, "target")
    if len(source) != len(target):
        raise InputError(f"{len(source)} source and {len(target)} target sentences; give each its translation")


def _up_to(documents: Iterator[SpannedDocument], sentences: int) -> list[SpannedDocument]:
    """Take documents until they have this many sentences."""
    block: list[SpannedDocument] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document.texts) + 1  # an empty document takes memory, too
        if size >= sentences:
            break
    return block


def _next(values: Iterator[T], name: str) -> T:
    try:
        return next(values)
    except StopIteration:
        raise InputError(f"there are more documents than {name}s; give one for each document") from None
