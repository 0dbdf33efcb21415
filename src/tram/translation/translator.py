"""The public interface of tram: text in, translations out.

    translator = Translator.load()                             # the small model of tram; or the output of `tram train`
    translator.translate(["First sentence.", "Second."])       # a document: list in, list of the same length out
    translator.translate_documents(documents)                  # an iterable in, an iterator out, many in lockstep
    state = translator.start()                                 # to continue later: save(), load(), fork()
    translator.translate(["Next."], state=state)
    translator.read(source=["…"], target=["…"], state=state)   # context that is not itself translated

There is one translation for every sentence, in the same order; that of an empty sentence is empty and leaves the state
as it is.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import torch

from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.folder import find_model, fingerprint, load_model, read_model_file, save_model
from tram.model.transformer import Transformer
from tram.pretrained.adapters import load_with_adapter
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import SearchDefaults
from tram.text.special_ids import SpecialIds
from tram.translation.document_state import DocumentState
from tram.translation.lockstep import Cursor, History, Ids, Lockstep
from tram.translation.parts import Found, SplitSentences, Translation
from tram.translation.search import length_limit, search

MAX_BEAM = 1_000
MAX_BATCH = 100_000
MAX_PENALTY = 100.0
BEAM = 5
BATCH = 32  # sentences, or documents, searched at once
AHEAD = 32  # batches that may be finished or in progress behind a document that is not
SHIPPED = Path(__file__).parents[1] / "shipped"  # the small model that comes with tram
Advance = Callable[[int], None]
T = TypeVar("T")


@dataclass
class _Task:
    """A document on its way through the lockstep."""

    sentences: SplitSentences
    cursor: Cursor
    state: DocumentState | None
    found: list[Found]

    @property
    def done(self) -> bool:
        return len(self.found) == len(self.sentences.ids)


class Translator:
    """A model, its text pipeline and the settings of the search."""

    def __init__(
        self,
        model: Transformer,
        text: TextPipeline | None = None,
        beam: int = BEAM,
        length_penalty: float = 1.0,
        batch: int = BATCH,
    ) -> None:
        self.model = model.eval()
        self._text = text
        self.special = SpecialIds() if text is None else text.special
        self.folder: Path | None = None
        self.beam = beam
        self.length_penalty = length_penalty
        self.batch = batch
        self._fingerprint: tuple[str, list[tuple[int, int]]] | None = None  # and the weights' versions then
        self._check_settings()

    def _check_settings(self) -> None:
        for name, value, largest in (("beam", self.beam, MAX_BEAM), ("batch", self.batch, MAX_BATCH)):
            if not isinstance(value, int) or not 1 <= value <= largest:
                raise InputError(f"{name} {value!r}: give a whole number from 1 to {largest:,}")
        penalty = self.length_penalty
        if not isinstance(penalty, int | float) or not math.isfinite(penalty) or abs(penalty) > MAX_PENALTY:
            raise InputError(f"length penalty {penalty!r}: give a number from -{MAX_PENALTY:g} to {MAX_PENALTY:g}")

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        beam: int | None = None,
        length_penalty: float | None = None,
        *,
        source: str | None = None,
        target: str | None = None,
        adapter: Path | str | None = None,
    ) -> Self:
        """Read a model folder; without a path, the small model that comes with tram. No text.json: ids only.

        beam, length_penalty: None: 5 and 1.0, or what an imported model says. source, target: languages, of a model
        that knows several. adapter: folder of `tram export adapter` with a memory for this model.
        """
        if path is None and not SHIPPED.exists():
            raise InputError("this tram has no model of its own; give a model folder or the output of `tram train`")
        folder = find_model(SHIPPED if path is None else path)
        rounded = dtype.itemsize < 4  # the fingerprint is that of the file's weights, before they are rounded
        first = torch.float32 if rounded else dtype
        model = load_model(folder, first) if adapter is None else load_with_adapter(folder, Path(adapter), first)
        text = TextPipeline.load(folder) if (folder / "text.json").exists() else None
        if text is not None and text.fingerprint != (wanted := read_model_file(folder).text):
            raise InputError(
                f"{folder / 'text.json'}: is pipeline {text.fingerprint}, the model was trained with {wanted}; "
                "copy the text.json it was trained with"
            )
        if source is not None or target is not None:
            if text is None:
                raise InputError(f"{folder}: has no text.json, so it has no languages; leave out --source and --target")
            text = text.with_languages(source, target, str(folder))
        defaults = SearchDefaults() if text is None or text.pretrained is None else text.pretrained.search
        if beam is None:
            beam = defaults.beam or BEAM
        if length_penalty is None:
            length_penalty = 1.0 if defaults.length_penalty is None else defaults.length_penalty
        translator = cls(model, text, beam, length_penalty)
        translator.folder = folder
        if rounded:
            translator._fingerprint = fingerprint(model), translator._versions()
        model.to(device, dtype)
        return translator

    def save(self, path: Path | str) -> None:
        """Write a model folder that `load` reads."""
        save_model(self.model, path, self._text)

    @property
    def text(self) -> TextPipeline:
        """The text pipeline; a model folder without one can only be given ids."""
        if self._text is None:
            where = self.folder or "this model"
            raise InputError(
                f"{where}: has no text.json, so it cannot translate text; copy the text.json it was trained with"
            )
        return self._text

    @property
    def longest(self) -> int:
        """The most ids of text in a sentence; what is longer is split."""
        return self.special.longest(self.model.config.max_length)

    @property
    def fingerprint(self) -> str:
        """Twelve digits that stand for the weights; a document state names the model it belongs to by them."""
        versions = self._versions()
        if self._fingerprint is None or self._fingerprint[1] != versions:
            self._fingerprint = fingerprint(self.model), versions
        return self._fingerprint[0]

    def _versions(self) -> list[tuple[int, int]]:
        """Return what changes when a weight is replaced or changed in place."""
        return [(id(p), 0 if p.is_inference() else p._version) for p in self.model.parameters()]

    def start(self) -> DocumentState:
        """Return the state before the first sentence of a document."""
        with torch.inference_mode():
            return DocumentState(self.model.initial_state(1), self.fingerprint)

    def translate(self, sentences: list[str], state: DocumentState | None = None) -> list[str]:
        """Translate a document, or continue one: then `state` advances with it."""
        (translations,) = self.translate_documents([sentences], states=None if state is None else [state])
        return translations

    def translate_documents(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        states: Iterable[DocumentState] | None = None,
        history: History = "generated",
        gold: Iterable[list[str]] | None = None,
    ) -> Iterator[list[str]]:
        """Translate many documents in lockstep and yield their translations in order, as soon as they are known.

        Documents are asked for while others are translated; memory does not grow with their number.
        advance: called with the number of sentences that are done. states: of documents that are continued.
        history: what the target memory reads of earlier sentences: their translations here (generated), their
        reference translations, which `gold` must hold, or nothing.
        """
        self._check_settings()
        if history not in get_args(History):
            raise InputError(f"history {history!r}: give one of {', '.join(get_args(History))}")
        if history == "gold" and gold is None:
            raise InputError("a gold history needs the reference translation of each sentence; give them as `gold`")
        given = None if states is None else iter(states)
        if self.model.has_context:
            references = iter(gold) if gold is not None and history == "gold" else None
            return self._in_lockstep(_checked(documents), advance, given, history, references)
        return self._as_sentences(_checked(documents), advance, given)

    def _in_lockstep(
        self,
        documents: Iterator[list[str]],
        advance: Advance | None,
        states: Iterator[DocumentState] | None,
        history: History,
        gold: Iterator[list[str]] | None,
    ) -> Iterator[list[str]]:
        lockstep = Lockstep(self.model, self.special, self.beam, self.length_penalty, self.batch, history=history)
        tasks: dict[int, _Task] = {}  # in the order of the documents
        numbers = count()
        split, exhausted = 0, False

        def cursors() -> Iterator[Cursor | None]:
            nonlocal split, exhausted
            while not exhausted:
                document = None
                if len(tasks) < self.batch * AHEAD:  # else too many wait for a long document before them
                    document = next(documents, None)
                    exhausted = document is None
                    if exhausted and gold is not None and next(gold, None) is not None:
                        raise InputError("there are more references than documents; give one for each document")
                if document is not None:
                    task = self._task(next(numbers), document, states, gold)
                    split += task.sentences.split
                    tasks[task.cursor.number] = task
                yield None if document is None else task.cursor

        def finished() -> Iterator[list[str]]:
            while tasks and (first := next(iter(tasks.values()))).done:
                if advance is not None and (empty := first.sentences.empty):
                    advance(empty)
                yield self._finished(tasks.pop(first.cursor.number))

        while not exhausted:  # more than one round only where nothing but documents without sentences was waiting
            for cursor, hypotheses in lockstep.run(cursors()):
                task = tasks[cursor.number]
                if advance is not None and task.sentences.completes(len(task.found)):
                    advance(1)
                task.found.append([(hypotheses[0].ids, hypotheses[0].score)])
                yield from finished()
            yield from finished()
        self._warn_of(split)

    def _task(
        self,
        number: int,
        document: list[str],
        states: Iterator[DocumentState] | None,
        gold: Iterator[list[str]] | None,
    ) -> _Task:
        state = self.checked(_next(states, "state")) if states is not None else None
        sentences = SplitSentences(self.text, document, self.longest)
        initial = self.model.initial_state(1) if state is None else state.state
        cursor = Cursor(number, sentences.ids, initial)
        if gold is not None:
            reference = _next(gold, "reference")
            check_sentences(reference, f"the reference of document {number + 1}")
            if len(reference) != len(document):
                raise InputError(
                    f"document {number + 1} has {len(document)} sentences and {len(reference)} reference translations; "
                    "a gold history needs one for each"
                )
            cursor.gold = sentences.gold(reference)
        return _Task(sentences, cursor, state, [])

    def _finished(self, task: _Task) -> list[str]:
        if task.state is not None:
            task.state.state = task.cursor.state
            task.state.sentences += task.sentences.non_empty()
        return [best[0].text for best in task.sentences.join(task.found, 1)]

    def _as_sentences(
        self, documents: Iterator[list[str]], advance: Advance | None, states: Iterator[DocumentState] | None
    ) -> Iterator[list[str]]:
        """Translate documents with a sentence model, some thousand sentences at a time, sorted by length."""
        split = 0
        while block := _up_to(documents, self.batch * AHEAD):
            sentences = SplitSentences(
                self.text, [sentence for document in block for sentence in document], self.longest
            )
            split += sentences.split
            best = [options[0].text for options in self._n_best(sentences, 1, advance)]
            start = 0
            for document in block:
                end = start + len(document)
                if states is not None:
                    self.checked(_next(states, "state")).sentences += sentences.non_empty(start, end)
                yield best[start:end]
                start = end
        self._warn_of(split)

    def read(self, source: list[str], target: list[str], state: DocumentState) -> None:
        """Read sentences and their translations as context: a corrected sentence, an earlier chapter."""
        check_sentences(source, "source")
        check_sentences(target, "target")
        if len(source) != len(target):
            raise InputError(f"{len(source)} source and {len(target)} target sentences; give each its translation")
        self.checked(state)
        sentences = SplitSentences(self.text, source, self.longest).pairs(target)
        pairs = [pair for parts in sentences for pair in parts]
        device = self.model.device
        with torch.inference_mode():
            for start in range(0, len(pairs), BATCH):
                block = pairs[start : start + BATCH]
                sources = document_ids([[self.special.source(s) for s, _ in block]]).to(device)
                # Of a sentence in several parts the last ones may have no translation: they leave the target state
                targets = document_ids([[self.special.decoder_input(t) if t else [] for _, t in block]]).to(device)
                state.state = self.model.forced_decode(sources, targets, state.state).state
        state.sentences += len(sentences)

    def checked(self, state: DocumentState) -> DocumentState:
        """Refuse the state of another model or a damaged one; move it to this model's device and data type."""
        if not isinstance(state, DocumentState):
            raise InputError(f"a state is made by start() or DocumentState.load(), not {type(state).__name__}")
        if state.model != self.fingerprint:
            raise InputError(
                f"this state belongs to the model {state.model}, not to {self.fingerprint}; start the document again"
            )
        weights = self.model.tokens.weight
        with torch.inference_mode():
            if not state.state.has_form_of(self.model.initial_state(1)):
                raise InputError(
                    "this state is damaged: its parts are not those of the model; start the document again"
                )
            state.state = state.state.to(weights.device).map(lambda value: value.to(weights.dtype))
        return state

    def n_best(self, sentences: list[str], n: int = 5, advance: Advance | None = None) -> list[list[Translation]]:
        """Return the n best translations of every sentence, without context, best first; n at most the beam."""
        self._check_settings()
        check_sentences(sentences, "sentences")
        if not 1 <= n <= self.beam:
            raise InputError(f"{n} translations were asked for, the beam holds {self.beam}; give a larger beam")
        parts = SplitSentences(self.text, sentences, self.longest)
        self._warn_of(parts.split)
        return self._n_best(parts, n, advance)

    def _n_best(self, sentences: SplitSentences, n: int, advance: Advance | None) -> list[list[Translation]]:
        found: list[Found] = [[] for _ in sentences.ids]
        order = sorted(range(len(sentences.ids)), key=lambda i: len(sentences.ids[i]))
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            for i, hypotheses in zip(batch, self.translate_ids([sentences.ids[i] for i in batch]), strict=True):
                found[i] = hypotheses
            if advance is not None:
                advance(sum(map(sentences.completes, batch)))
        if advance is not None and sentences.empty:
            advance(sentences.empty)
        return sentences.join(found, n)

    def translate_ids(self, sentences: list[Ids]) -> list[Found]:
        """Return the hypotheses (ids, score) of one batch of sentences, given as ids of text, none empty."""
        source = document_ids([[self.special.source(ids) for ids in sentences]]).to(self.model.device)
        with torch.inference_mode():
            encoded = self.model.encode(source)
        limits = [length_limit(self.model, self.special, len(ids)) for ids in sentences]
        found = search(self.model, encoded, limits, self.special, self.beam, self.length_penalty)
        return [[(hypothesis.ids, hypothesis.score) for hypothesis in hypotheses] for hypotheses in found]

    @staticmethod
    def _warn_of(split: int) -> None:
        if split:
            warnings.warn(f"{split} sentences were too long and were split for translation", stacklevel=3)


def check_sentences(document: Any, name: str) -> None:
    """Refuse what is no list of strings; one string would be translated letter by letter."""
    if isinstance(document, str):
        raise InputError(f"{name}: is one string; give a list of sentences, for example [{document[:40]!r}]")
    if not isinstance(document, list | tuple):
        raise InputError(f"{name}: is of type {type(document).__name__}; give a list of sentences")
    for i, sentence in enumerate(document):
        if not isinstance(sentence, str):
            raise InputError(f"{name}: sentence {i + 1} is of type {type(sentence).__name__}; give strings")


def _checked(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    for number, document in enumerate(documents, start=1):
        check_sentences(document, f"document {number}")
        yield document


def _up_to(documents: Iterator[list[str]], sentences: int) -> list[list[str]]:
    """Take documents until they have so many sentences."""
    block: list[list[str]] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document) + 1  # an empty document takes memory, too
        if size >= sentences:
            break
    return block


def _next(values: Iterator[T], name: str) -> T:
    try:
        return next(values)
    except StopIteration:
        raise InputError(f"there are more documents than {name}s; give one for each document") from None
