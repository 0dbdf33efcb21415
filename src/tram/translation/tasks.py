"""The translation of one document in a lockstep: its sentences as ids, the chosen translations, its state.

    task = DocumentTask.start(translator, number, SpannedDocument(sentences, rules, sentinels), state)
    lockstep = translator.lockstep(choose=lambda cursor, found: task.choose(found))
    for cursor, hypotheses in lockstep.run([task.cursor]): task.add(hypotheses)
    task.advance_state(), task.options()                   # translations of every sentence, best first

`documents` runs many tasks in order; the service runs those of all its requests at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from tram.translation.document_state import DocumentState
from tram.translation.guards import DOUBTFUL, Guard, Spans, find_problem
from tram.translation.lockstep import Cursor
from tram.translation.parts import Found, SplitSentences, Translation
from tram.translation.search import Hypothesis
from tram.translation.spanned import SpannedDocument
from tram.translation.unit_lockstep import UnitCursor

if TYPE_CHECKING:
    from tram.translation.translator import Translator

MAX_PARTS = 16  # a sentence with more parts is not one, and wrong translations of its parts are not retried


@dataclass(frozen=True)
class GuardedSentences:
    """Sentences with their spans, whose translations are checked part by part.

    in_context: whether they are translated with context, so that retrying without it makes sense.
    """

    translator: "Translator"
    sentences: SplitSentences
    spans: Sequence[Spans | None]
    in_context: bool

    def choose(self, part: int, hypotheses: Found) -> Hypothesis:
        """Return the translation of a part of a sentence; retry if the best hypothesis is certainly wrong."""
        source, spans = self.sentences.ids[part], self._spans_of(part)
        if spans is None and not self.translator.guards:
            return hypotheses[0]
        if spans is None and self.sentences.sentence_of(part)[1] > MAX_PARTS:
            best = hypotheses[0]
            return best if find_problem(source, best.ids) is None else replace(best, warnings=(DOUBTFUL,))
        return self._guard.choose(source, hypotheses, spans, self.in_context)

    def with_alternatives(self, part: int, hypotheses: Found) -> Found:
        """Return the chosen translation of a part, followed by the others that may be right."""
        chosen, *others = hypotheses
        source, spans = self.sentences.ids[part], self._spans_of(part)
        others = [each for each in others if each.ids != chosen.ids]
        if spans is not None or self.translator.guards:
            others = [each for each in others if self._guard.accepts(source, each, spans)]
        return [chosen, *others]

    def _spans_of(self, part: int) -> Spans | None:
        number, parts = self.sentences.sentence_of(part)
        spans = self.spans[number]
        if spans is None or parts == 1:
            return spans
        return spans.of_part(self.translator.text.decode([self.sentences.ids[part]], "source")[0])

    @property
    def _guard(self) -> Guard:
        return Guard(self.translator.text, self.translator.search, self.translator.longest)


@dataclass
class DocumentTask:
    """A document in progress.

    state: of a document that is continued; best: number of translations per sentence; alignment: whether to compute
    word alignments; found: the hypotheses of the finished parts.
    """

    document: SpannedDocument
    guarded: GuardedSentences
    cursor: Cursor
    state: DocumentState | None
    best: int = 1
    alignment: bool = False
    found: list[Found] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        translator: "Translator",
        number: int,
        document: SpannedDocument,
        state: DocumentState | None = None,
        best: int = 1,
        alignment: bool = False,
        in_context: bool = True,
    ) -> "DocumentTask":
        """Return a task at its first sentence, without running the model; number: that of its cursor."""
        if state is not None:
            translator.checked(state)
        sentences = translator.split(document.texts)
        with torch.inference_mode():
            initial = translator.model.initial_state(1) if state is None else state.state
        if in_context:
            translator.check_reach(len(sentences.ids), initial, f"document {number + 1}")
        if translator.units is None:
            cursor = Cursor(number, sentences.ids, initial)
        else:
            cursor = UnitCursor(number, sentences.ids, initial, history=[] if state is None else state.history)
        guarded = GuardedSentences(translator, sentences, document.spans, in_context and translator.has_context)
        return cls(document, guarded, cursor, state, best, alignment)

    @property
    def sentences(self) -> SplitSentences:
        """The texts that the model translates, as ids."""
        return self.guarded.sentences

    @property
    def done(self) -> bool:
        """Whether all parts have their translations."""
        return len(self.found) == len(self.sentences.ids)

    def choose(self, hypotheses: Found) -> Hypothesis:
        """Return the translation of the part that the cursor is at."""
        return self.guarded.choose(self.cursor.done, hypotheses)

    def add(self, hypotheses: Found) -> None:
        """Store the hypotheses of the next part as far as needed, the chosen one first."""
        kept = hypotheses if self.best > 1 else hypotheses[:1]
        self.found.append(
            [replace(each, update_inputs={}, attention=each.attention if self.alignment else None) for each in kept]
        )

    def advance_state(self) -> None:
        """Advance the state of a continued document to the end of the task."""
        if self.state is None:
            return
        self.state.state = self.cursor.state
        if isinstance(self.cursor, UnitCursor):
            self.state.history = self.cursor.history
        self.state.sentences += self.sentences.non_empty()

    def best_of_texts(self) -> list[Translation]:
        """Return the best translation of every text of the document, before its spans are restored."""
        return [options[0] for options in self.sentences.join(self.found, 1)]

    def options(self) -> list[list[Translation]]:
        """Return the translations of every sentence, best first; there may be fewer than requested.

        Only the best one has an alignment. Alternatives that loop or have lost a span are left out.
        """
        usable = [self.guarded.with_alternatives(part, found) for part, found in enumerate(self.found)]
        texts = self.sentences.join(usable, self.best)
        rows = [
            self.document.join([options[min(rank, len(options) - 1)] for options in texts], self.alignment and not rank)
            for rank in range(max(map(len, texts), default=1))
        ]
        return [_distinct(options) for options in zip(*rows, strict=True)]


def _distinct(options: Iterable[Translation]) -> list[Translation]:
    """Return translations without duplicates of a better one."""
    by_text: dict[str, Translation] = {}
    for option in options:
        by_text.setdefault(option.text, option)
    return list(by_text.values())
