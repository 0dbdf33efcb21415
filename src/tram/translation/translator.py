"""The public interface of tram: text in, translations out.

    translator = Translator.load()                             # the shipped model; or a path, as of `tram train`
    translator.translate(["First sentence.", "Second."])       # a document: list in, list of the same length out
    translator.translate_documents(documents)                  # an iterable in, an iterator out, many in lockstep
    state = translator.start()                                 # to continue later: save(), load(), fork()
    translator.translate(["Next."], state=state)
    translator.read(source=["…"], target=["…"], state=state)   # context that is not itself translated
    translator.translate(["Third."], alignment=True)           # Translation: text, score, alignment, warnings
    translator.translate(["See %s."], verbatim=VerbatimRules(glossary={"memory": "Speicher"}))

There is one translation for every sentence, in the same order; that of an empty sentence is empty and does not change
the state.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Literal, Self, overload

import torch

from tram.data.batches import document_ids
from tram.data.units import Pair, Units, units_of
from tram.errors import InputError, LongDocumentError, check_types
from tram.model.folder import find_model, fingerprint, load_model, load_text, save_int8, save_model
from tram.model.segments import segment_numbers
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.pretrained.adapters import load_with_adapter
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import SearchDefaults
from tram.text.special_ids import SENTINELS, SEPARATOR, SpecialIds
from tram.text.verbatim import VerbatimRules
from tram.text.words import Alignment, words_by_blanks
from tram.translation import limits
from tram.translation.alignment import WordSpans, align_words
from tram.translation.document_state import DocumentState
from tram.translation.documents import (
    Advance,
    DocumentRun,
    Numbered,
    Remarks,
    check_pairs,
    check_sentences,
    search_parts,
)
from tram.translation.engines.base import Engine, weight_versions
from tram.translation.engines.choice import Precision, check_engine, load_engine
from tram.translation.engines.torch import TorchEngine
from tram.translation.lockstep import Choose, History, Ids, Lockstep
from tram.translation.parts import Found, SplitSentences, Translation
from tram.translation.search import length_limit
from tram.translation.search import search as beam_search
from tram.translation.spanned import SpannedDocument
from tram.translation.speculation import SpeculativeLockstep
from tram.translation.unit_lockstep import UnitLockstep, sentence_count

BEAM = 5
BATCH = 32  # sentences, or documents, translated at once
SHIPPED = Path(__file__).parents[1] / "shipped"  # the small model that ships with tram


class Translator:
    """A model, its text pipeline and the settings of the search."""

    def __init__(
        self,
        model: Transformer,
        text: TextPipeline | None = None,
        beam: int = BEAM,
        length_penalty: float = 1.0,
        batch: int = BATCH,
        guards: bool = True,
        engine: Engine | None = None,
        speculate: int = 1,
    ) -> None:
        check_types(model=(model, Transformer), text=(text, TextPipeline | None), engine=(engine, Engine | None))
        self.model = model.eval()
        self.engine = TorchEngine(model) if engine is None else engine
        self._text = text
        self.special = SpecialIds() if text is None else text.special
        self.folder: Path | None = None
        self.beam = beam
        self.length_penalty = length_penalty
        self.batch = batch
        self.speculate = speculate  # sentences of a document that greedy search drafts at once; see `speculation`
        self.guards = guards  # retry translations that loop, are far too long or empty; off: the best hypothesis
        self._fingerprint: tuple[str, list[int]] | None = None  # with the weights' versions at that time
        self._check_settings()

    def _check_settings(self) -> None:
        limits.check_search(self.beam, self.batch, self.length_penalty)
        limits.check_speculation(self.speculate, self.beam, self.engine)

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
        engine: str = "auto",
        precision: str | None = None,
        threads: int | None = None,
        speculate: int = 1,
    ) -> Self:
        """Load a model folder, by default the small model that ships with tram; without text.json, for ids only.

        beam, length_penalty: None: 5 and 1.0, or the defaults of an imported model.
        source, target: languages of a multilingual model.
        adapter: folder of `tram export adapter` with a context module for this model.
        engine, precision, threads: see `engines.choice`. precision None: float32.
        speculate: with beam 1 and the native engine, the number of sentences of a document that are translated at once,
        with the same result; large models are faster with 3 or 4.
        """
        check_types(path=(path, Path | str | None), adapter=(adapter, Path | str | None))
        check_types(source=(source, str | None), target=(target, str | None))
        check_engine(engine, precision or "float32", threads)
        limits.check_device(device, dtype)
        if path is None and not SHIPPED.exists():
            raise InputError("this tram ships without a model; give a model folder or the output of `tram train`")
        folder = find_model(SHIPPED if path is None else path)
        rounded = dtype.itemsize < 4  # the fingerprint is that of the stored weights, before rounding
        first = torch.float32 if rounded else dtype
        model = load_model(folder, first) if adapter is None else load_with_adapter(folder, Path(adapter), first)
        text = load_text(folder)
        if source is not None or target is not None:
            if text is None:
                raise InputError(f"{folder}: has no text.json, so it has no languages; leave out --source and --target")
            text = text.with_languages(source, target, str(folder))
        if text is not None:
            limits.check_special_ids(text.special, model, folder)
        defaults = SearchDefaults() if text is None or text.pretrained is None else text.pretrained.search
        if beam is None:
            beam = defaults.beam or BEAM
        if length_penalty is None:
            length_penalty = 1.0 if defaults.length_penalty is None else defaults.length_penalty
        translator = cls(model, text, beam, length_penalty)
        translator.folder = folder
        _ = translator.units  # refuses a text pipeline that does not fit
        of_file = fingerprint(model) if rounded else None
        model.to(device, dtype)
        if of_file is not None:
            translator._fingerprint = of_file, weight_versions(model)
        translator.engine = load_engine(model, engine, precision or "float32", threads)
        translator.speculate = speculate
        translator._check_settings()
        return translator

    def save(self, path: Path | str, precision: Precision = "float32") -> None:
        """Write a model folder that `load` reads; `int8`: with rounded weights, a quarter of the size."""
        check_types(path=(path, Path | str))
        check_engine("auto", precision)
        (save_int8 if precision == "int8" else save_model)(self.model, path, self._text)

    @property
    def text(self) -> TextPipeline:
        """The text pipeline; a model folder without one can only be given ids."""
        if self._text is None:
            where = self.folder or "this model"
            raise InputError(
                f"{where}: has no text.json, so it cannot translate text; copy the text.json it was trained with"
            )
        return self._text

    @cached_property
    def units(self) -> Units | None:
        """The rule that joins sentences into one sequence; None: every sentence is one."""
        return units_of(self.model.config, self.special, str(self.folder or "this model"))

    @property
    def has_context(self) -> bool:
        """Whether a translation may depend on earlier sentences."""
        return self.model.has_context or self.units is not None

    @property
    def longest(self) -> int:
        """The maximum number of text ids in a sentence; longer sentences are split."""
        return self.special.longest(self.model.config.max_length)

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that identify the weights; a document state names its model by them."""
        versions = weight_versions(self.model)
        if self._fingerprint is None or self._fingerprint[1] != versions:
            self._fingerprint = fingerprint(self.model), versions
        return self._fingerprint[0]

    def start(self) -> DocumentState:
        """Return the state before the first sentence of a document."""
        with torch.inference_mode():
            return DocumentState(self.model.initial_state(1), self.fingerprint)

    @overload
    def translate(
        self,
        sentences: list[str],
        state: DocumentState | None = None,
        *,
        alignment: Literal[False] = False,
        verbatim: VerbatimRules | None = None,
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        sentences: list[str],
        state: DocumentState | None = None,
        *,
        alignment: Literal[True],
        verbatim: VerbatimRules | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        sentences: list[str],
        state: DocumentState | None = None,
        *,
        alignment: bool = False,
        verbatim: VerbatimRules | None = None,
    ) -> list[str] | list[Translation]:
        """Translate a document, or continue one, which advances `state`.

        A context that reads the whole source sees all sentences of this call at once. Sentences of earlier calls are
        still visible, as they were encoded then, if they belong to the same segment (`docs/SYSTEMS.md`).
        alignment: return `Translation`s with word alignments, scores and warnings instead of strings.
        verbatim: rules for spans that are copied, and a glossary; None: leave everything to the model.
        """
        states = None if state is None else [state]
        (translations,) = self.detailed([sentences], states=states, alignment=alignment, verbatim=verbatim)
        return translations if alignment else [translation.text for translation in translations]

    def translate_documents(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        states: Iterable[DocumentState] | None = None,
        history: History = "generated",
        gold: Iterable[list[str]] | None = None,
        verbatim: VerbatimRules | None = None,
    ) -> Iterator[list[str]]:
        """Translate many documents in lockstep and yield their translations in order, as soon as they are available.

        Documents are read while others are translated; memory does not grow with their number.
        advance: called with the number of sentences finished since the last call.
        states: the states of documents that are continued.
        history: the target side of the context: generated translations, the reference translations in `gold`, or none.
        verbatim: as in `translate`.
        """
        documents_translated = self.detailed(documents, advance, states, history, gold, verbatim=verbatim)
        return ([translation.text for translation in document] for document in documents_translated)

    def detailed(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        states: Iterable[DocumentState] | None = None,
        history: History = "generated",
        gold: Iterable[list[str]] | None = None,
        alignment: bool = False,
        verbatim: VerbatimRules | None = None,
        remarks: Remarks | None = None,
    ) -> Iterator[list[Translation]]:
        """Translate like `translate_documents`, but yield `Translation`s: scores, warnings and, on request, alignments.

        Alignments are computed in the context of the document and cost one more pass of the decoder.
        remarks: counts warnings over several calls; None: `warnings.warn` at the end.
        """
        self._check_settings()
        limits.check_history(history, gold, verbatim)
        check_types(states=(states, Iterable | None), gold=(gold, Iterable | None))
        state_iterator = None if states is None else iter(states)
        references = iter(gold) if gold is not None and history == "gold" else None
        run = DocumentRun(self, advance, state_iterator, history, references, alignment, remarks or Remarks())
        return run.translate(self._protected(documents, verbatim), own_remarks=remarks is None)

    def as_finished(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        alignment: bool = False,
        verbatim: VerbatimRules | None = None,
        remarks: Remarks | None = None,
    ) -> Iterator[Numbered]:
        """Translate like `detailed`, but yield each document with its number as soon as it is finished."""
        self._check_settings()
        run = DocumentRun(self, advance, None, "generated", None, alignment, remarks or Remarks())
        return run.as_finished(self._protected(documents, verbatim))

    def _protected(self, documents: Iterable[list[str]], verbatim: VerbatimRules | None) -> Iterator[SpannedDocument]:
        check_types(documents=(documents, Iterable), verbatim=(verbatim, VerbatimRules | None))
        sentinels = verbatim is not None and self.copies_sentinels()
        return (SpannedDocument(document, verbatim, sentinels) for document in _checked(documents))

    def lockstep(
        self, history: History = "generated", choose: Choose | None = None, alignment: bool = False
    ) -> Lockstep:
        """Return the lockstep decoder of this translator; with units it returns no alignments."""
        settings = (self.engine, self.special, self.beam, self.length_penalty, self.batch)
        if self.units is None and self.speculate > 1 and history == "generated":
            return SpeculativeLockstep(*settings, choose=choose, alignment=alignment, sentences=self.speculate)
        if self.units is None:
            return Lockstep(*settings, history=history, choose=choose, alignment=alignment)
        return UnitLockstep(*settings, history=history, choose=choose, units=self.units)

    def copies_sentinels(self) -> bool:
        """Return whether the model has copy sentinels and has learned to copy them, tested on a few."""
        if not self.special.reserved:
            return False
        probes = [SENTINELS[0], " ".join(SENTINELS[:2])]
        encoded = self.text.encode(probes, "source")
        if max(map(len, encoded)) > self.longest:
            return False
        hypotheses = self.search(encoded)
        return [self.text.decode([options[0].ids])[0] for options in hypotheses] == probes

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        words: WordSpans = words_by_blanks,
        min_share: float = 0.0,
    ) -> list[Alignment]:
        """Return word alignments between sentences and given translations, each pair without context.

        min_share: see `align_words`.
        """
        check_pairs(sources, targets)
        check_types(words=(words, Callable), min_share=(min_share, float | int))
        return align_words(self, sources, targets, words, min_share)

    def read(self, source: list[str], target: list[str], state: DocumentState) -> None:
        """Read sentences and their translations as context, for example a corrected sentence or an earlier chapter."""
        check_pairs(source, target)
        self.checked(state)
        sentences = self.split(source).pairs(self.without_separators(target))
        pairs = [pair for parts in sentences for pair in parts]
        self.check_reach(len(pairs), state.state, "the document")
        if self.units is not None:
            for ids, translation in pairs:
                if translation:
                    state.history = self.units.remember(state.history, Pair(ids, translation))
            pairs = []  # there is nothing else to read
        after = state.state
        for block in self._blocks_to_read(pairs, after):
            after = self._read_block(block, after)
        state.state = after  # only now: after an error, nothing has been read
        state.sentences += len(sentences)

    def _read_block(self, block: list[tuple[Ids, Ids]], state: State) -> State:
        """Return the state after reading parts of sentences and their translations in one pass."""
        device = self.model.device
        with torch.inference_mode():
            sources = document_ids([[self.special.source(s) for s, _ in block]]).to(device)
            # The last parts of a split sentence may have no translation: they do not change the target state
            targets = document_ids([[self.special.decoder_input(t) if t else [] for _, t in block]]).to(device)
            return self.model.forced_decode(sources, targets, state).state

    def check_reach(self, sentences: int, state: State, name: str) -> None:
        """Refuse a document that is too long for a context that reads it as a whole; `name` names it in the error."""
        rule = self.model.segment_rule
        if rule is not None and rule.refuses and rule.sentences is not None:
            whole = len(self.model.segment_lengths(state)) + sentences
            if whole > rule.sentences:
                raise LongDocumentError(f"{name}: {rule.beyond(whole)}")

    def _blocks_to_read(self, pairs: list[tuple[Ids, Ids]], state: State) -> list[list[tuple[Ids, Ids]]]:
        """Return pairs in blocks for one pass each; segments that are read as a whole are not split."""
        numbers = [number // BATCH for number in range(len(pairs))]
        if (rule := self.model.segment_rule) is not None:
            lengths = [len(self.special.source(source)) for source, _ in pairs]
            numbers = segment_numbers(rule, lengths, self.model.segment_lengths(state))
        return [[pair for _, pair in block] for _, block in groupby(zip(numbers, pairs, strict=True), lambda x: x[0])]

    def split(self, sentences: list[str]) -> SplitSentences:
        """Return sentences as ids, split into several parts if they are too long."""
        return SplitSentences(self.text, self.without_separators(sentences), self.longest)

    def without_separators(self, sentences: list[str]) -> list[str]:
        """Return sentences without the character that separates sentences in a sequence."""
        if self.units is None:
            return sentences
        return [sentence.replace(SEPARATOR, " ") for sentence in sentences]

    def checked(self, state: DocumentState) -> DocumentState:
        """Refuse the state of another model or a damaged one; move it to this model's device and data type."""
        if not isinstance(state, DocumentState):
            raise InputError(f"a state is made by start() or DocumentState.load(), not {type(state).__name__}")
        if state.model != self.fingerprint:
            raise InputError(
                f"this state belongs to the model {state.model}, not to {self.fingerprint}; start the document again"
            )
        device, dtype = self.model.device, self.model.dtype
        with torch.inference_mode():
            fits = not state.history if self.units is None else self.units.accepts(state.history, self.model.vocabulary)
            if not fits or not state.state.has_form_of(self.model.initial_state(1)):
                raise InputError(
                    "this state is damaged: its parts are not those of the model; start the document again"
                )
            state.state = state.state.to(device).map(lambda value: value.to(dtype))
        return state

    def n_best(self, sentences: list[str], n: int = 5, advance: Advance | None = None) -> list[list[Translation]]:
        """Return the n best translations of every sentence, without context, best first; n at most the beam."""
        self._check_settings()
        check_sentences(sentences, "sentences")
        check_types(advance=(advance, Callable | None))
        if not isinstance(n, int) or not 1 <= n <= self.beam:
            raise InputError(f"{n!r} translations need a beam of at least {n}, not {self.beam}; give a larger beam")
        parts = self.split(sentences)
        Remarks(split=parts.split).warn()
        translations = parts.join(search_parts(self, parts, advance), n)
        if advance is not None and parts.empty:
            advance(parts.empty)
        return translations

    def translate_ids(self, sentences: list[Ids]) -> list[list[tuple[Ids, float]]]:
        """Return the hypotheses (ids, score) of one batch of sentences, given as ids of text, none empty."""
        return [[(each.ids, each.score) for each in hypotheses] for hypotheses in self.search(sentences)]

    def search(self, sentences: list[Ids]) -> list[Found]:
        """Return the hypotheses of one batch of sentences, given as ids of text, without context."""
        if not sentences:
            return []
        limits.check_ids(sentences, self.model.config.source_vocabulary or self.model.vocabulary, self.longest)
        # Each sentence is a document: context modules must not see the others
        source = document_ids([[self.special.source(ids)] for ids in sentences]).to(self.model.device)
        with torch.inference_mode():
            encoded = self.engine.encode(source)
        lengths = [length_limit(self.model, self.special, len(ids)) for ids in sentences]
        counts = None
        if self.units is not None:
            counts = [sentence_count(self.model, self.units, [len(ids)]) for ids in sentences]
        return beam_search(
            self.engine, encoded, lengths, self.special, self.beam, self.length_penalty, constraints=counts
        )


def _checked(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    for number, document in enumerate(documents, start=1):
        check_sentences(document, f"document {number}")
        yield document
