"""Documents that the service remembers: their sentences, and the state that continues them.

    session = Session.new("anonymous", translator.start())
    for number in translate(session, translator, "Running text.", best=3): ...      # sentences as they are done
    for number in correct(session, translator, 2, "Der neue Satz."): ...            # what follows is translated again

The state is a function of the sentences and their translations: `state` has read the first `covered` of them. So a
session is consistent after every sentence, whenever a client goes, and no state needs to be kept for each sentence.
"""

import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from tram.filetypes.layout import line_regions
from tram.filetypes.plain_text import split_document
from tram.service.errors import Problem
from tram.service.shared import SharedTranslator
from tram.translation.document_state import DocumentState
from tram.translation.parts import Translation

Kind = Literal["translated", "corrected", "context"]
Span = tuple[int, int]
Option = tuple[str, float]  # an alternative translation and its score
LARGEST_STEP = 16  # sentences translated before the session is consistent again
SENTENCE_BYTES, OPTION_BYTES = 600, 200  # of the objects in memory, besides their characters


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its translation.

    kind: translated by the model, corrected by the client, or context: read, but no part of the text.
    before: the text between the previous sentence and this one.
    """

    source: str
    target: str
    kind: Kind = "translated"
    score: float | None = None
    alternatives: tuple[Option, ...] = ()
    before: str = ""


@dataclass
class Session:
    """One document. `lock` is held while its sentences or its state change."""

    id: str
    owner: str
    origin: DocumentState  # before the first sentence
    state: DocumentState  # after the first `covered` sentences
    covered: int = 0
    anchor: tuple[int, DocumentState] | None = None  # before the last correction: the next one is likely to be near
    sentences: list[Sentence] = field(default_factory=list)
    after: str = ""  # the text after the last sentence
    used: float = 0.0
    size: int = 0  # of the sentences in memory; kept by the store
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def new(cls, owner: str, origin: DocumentState) -> "Session":
        """Return a session without sentences, with an id that nobody can guess."""
        return cls(secrets.token_hex(16), owner, origin, origin, used=time.time())

    def fork(self) -> "Session":
        """Return a copy with another id; states are replaced, never changed, so that both may share them."""
        copy = Session.new(self.owner, self.origin)
        copy.state, copy.covered, copy.anchor = self.state, self.covered, self.anchor
        copy.sentences, copy.after = list(self.sentences), self.after
        return copy

    @property
    def text(self) -> str:
        """The translation with the layout of the source; without context."""
        parts = [s.before + s.target for s in self.sentences if s.kind != "context"]
        return "".join([*parts, self.after])

    @property
    def has_text(self) -> bool:
        """Whether `text` is not empty."""
        return bool(self.after) or any(s.kind != "context" and s.before + s.target for s in reversed(self.sentences))

    def sentence(self, number: int) -> Sentence:
        """Return a sentence by its number, from 0."""
        if not 0 <= number < len(self.sentences):
            raise Problem(404, f"There is no sentence {number}; the session has {len(self.sentences)}")
        return self.sentences[number]


@dataclass(frozen=True, slots=True)
class Change:
    """A sentence that was translated: its number, whether its translation differs from the one before, its span."""

    number: int
    changed: bool
    span: Span | None = None  # in the text of the request


def translate(
    session: Session, translator: SharedTranslator, given: str | Sequence[str], best: int, limit: int
) -> Iterator[Change]:
    """Translate the continuation of a document: a running text, or sentences; yield each one when it is done."""
    if isinstance(given, str):
        language = translator.text.source_language
        layout = split_document(given, language)
        sources, gaps = layout.sentences, layout.gaps
        spans: list[Span | None] = list(line_regions(given, language))
        joint = " " if session.has_text and not session.after + gaps[0] else ""
    else:
        sources, gaps = [" ".join(sentence.split()) for sentence in given], ["\n"] * (len(given) + 1)
        spans = [None] * len(sources)
        gaps[0] = joint = ""
    if not sources:
        session.after += gaps[0]
        return
    check_room(session, len(sources), limit)
    _seek(session, translator, len(session.sentences))
    befores = [session.after + joint + gaps[0], *gaps[1:-1]]
    for part in _steps(len(sources)):
        state = session.state.fork()
        found = translator.translate_sentences(sources[part], state, best)
        first = len(session.sentences)
        for source, before, options in zip(sources[part], befores[part], found, strict=True):
            session.sentences.append(_translated(source, before, options))
        session.state, session.covered, session.after = state, len(session.sentences), gaps[part.stop]
        for offset, span in enumerate(spans[part]):
            yield Change(first + offset, True, span)


def read(
    session: Session, translator: SharedTranslator, sources: Sequence[str], targets: Sequence[str], limit: int
) -> None:
    """Read sentences with their translations as context, which is no part of the text."""
    check_room(session, len(sources), limit)
    if len(sources) != len(targets):
        raise Problem(400, f"{len(sources)} source and {len(targets)} target sentences; give each its translation")
    pairs = zip(sources, targets, strict=True)
    context = [Sentence(source, target, "context") for source, target in pairs]
    _seek(session, translator, len(session.sentences))
    state = session.state.fork()
    translator.read(list(sources), list(targets), state)
    session.sentences += context
    session.state, session.covered = state, len(session.sentences)


def correct(
    session: Session, translator: SharedTranslator, number: int, target: str, best: int = 1
) -> Iterator[Change]:
    """Replace the translation of a sentence and translate again what follows; yield every sentence when it is done.

    Sentences that the client has corrected, and context, stay as they are and are read again.
    """
    old = session.sentence(number)
    _seek(session, translator, number)
    session.anchor = number, session.state
    kind: Kind = "context" if old.kind == "context" else "corrected"
    options = old.alternatives
    if old.score is not None and target != old.target:  # what the model had proposed
        options = ((old.target, old.score), *(option for option in options if option[0] != target))
    session.sentences[number] = replace(old, target=target, kind=kind, score=None, alternatives=options)
    yield Change(number, target != old.target)
    runs = groupby(range(number + 1, len(session.sentences)), key=lambda n: session.sentences[n].kind == "translated")
    for is_translated, run in runs:
        numbers = list(run)
        if not is_translated:
            for n in numbers:
                yield Change(n, False)
            continue
        _seek(session, translator, numbers[0])
        for part in _steps(len(numbers)):
            yield from _again(session, translator, numbers[part], best)


def _again(session: Session, translator: SharedTranslator, numbers: list[int], best: int) -> list[Change]:
    state = session.state.fork()
    old = [session.sentences[n] for n in numbers]
    found = translator.translate_sentences([sentence.source for sentence in old], state, best)
    for n, sentence, options in zip(numbers, old, found, strict=True):
        session.sentences[n] = _translated(sentence.source, sentence.before, options)
    session.state, session.covered = state, numbers[-1] + 1
    return [Change(n, session.sentences[n].target != before.target) for n, before in zip(numbers, old, strict=True)]


def state_of(session: Session, translator: SharedTranslator) -> DocumentState:
    """Return the state after all sentences."""
    _seek(session, translator, len(session.sentences))
    return session.state


def restart(session: Session, state: DocumentState) -> None:
    """Forget the sentences and continue from another state."""
    session.origin = session.state = state
    session.covered, session.anchor, session.sentences, session.after = 0, None, [], ""


def size_of(session: Session) -> int:
    """Return roughly how many bytes the sentences of a session take in memory."""
    return sizes_of(session.sentences) + len(session.after)


def sizes_of(sentences: Iterable[Sentence]) -> int:
    """Return roughly how many bytes some sentences take in memory."""
    return sum(
        SENTENCE_BYTES
        + len(sentence.source)
        + len(sentence.target)
        + len(sentence.before)
        + sum(OPTION_BYTES + len(text) for text, _ in sentence.alternatives)
        for sentence in sentences
    )


def check_room(session: Session, more: int, limit: int) -> None:
    """Refuse more sentences than a session may have."""
    if len(session.sentences) + more > limit:
        raise Problem(400, f"A session has at most {limit} sentences; continue in a new one with this session's state")


def _seek(session: Session, translator: SharedTranslator, number: int) -> None:
    """Bring the state to where it has read the sentences before `number`, with their present translations."""
    if session.covered > number:
        place, state = session.anchor or (0, session.origin)
        session.covered, session.state = (place, state) if place <= number else (0, session.origin)
    if session.covered < number:
        unread = session.sentences[session.covered : number]
        state = session.state.fork()
        translator.read([s.source for s in unread], [s.target for s in unread], state)
        session.state, session.covered = state, number


def _translated(source: str, before: str, options: list[Translation]) -> Sentence:
    alternatives = tuple((option.text, option.score) for option in options[1:])
    return Sentence(source, options[0].text, "translated", options[0].score, alternatives, before)


def _steps(count: int) -> Iterator[slice]:
    """Yield runs of sentences: the first ones short, so that the first translations are seen at once."""
    start, size = 0, 1
    while start < count:
        yield slice(start, min(start + size, count))
        start, size = start + size, min(2 * size, LARGEST_STEP)
