"""A `Translator` for one request, whose work goes through the scheduler: what `filetypes` and sessions use."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tram.errors import InputError
from tram.model.state import State
from tram.service.scheduler import Cancellation, Document, Scheduler
from tram.text.verbatim import VerbatimRules
from tram.text.words import Alignment, words_by_blanks
from tram.translation.alignment import WordSpans
from tram.translation.document_state import DocumentState
from tram.translation.documents import Advance, Numbered, Remarks, check_sentences
from tram.translation.lockstep import History, Ids
from tram.translation.parts import Translation
from tram.translation.translator import Translator

# What one call of the worker reads or aligns, so that others need not wait long
READ_TOKENS = 1_000
ALIGNED_SENTENCES, ALIGNED_CHARACTERS = 32, 20_000
RULES = VerbatimRules()


class SharedTranslator(Translator):
    """The service's translator as one request sees it: calls block, and end with `Cancelled` if the client goes.

    The model runs in the worker of the scheduler only, never in the thread of a request.
    """

    def __init__(self, scheduler: Scheduler, cancellation: Cancellation | None = None, client: str = "") -> None:
        vars(self).update(vars(scheduler.translator))  # to make another one takes half a millisecond for every request
        self.scheduler = scheduler
        self.cancellation = Cancellation() if cancellation is None else cancellation
        self.client = client  # takes turns with others

    @property
    def fingerprint(self) -> str:
        """That of the service's translator, which knows it already."""
        return self.scheduler.translator.fingerprint

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
        """Translate documents as one request of the scheduler; without `remarks`, warnings are not counted."""
        if history != "generated" or gold is not None:
            raise InputError("the service translates with the history that it generates; give no other")
        given = list(documents)
        for number, sentences in enumerate(given, start=1):
            check_sentences(sentences, f"document {number}")
        carried = [None] * len(given) if states is None else list(states)
        work = [
            Document(sentences, state, verbatim=verbatim, alignment=alignment)
            for sentences, state in zip(given, carried, strict=True)
        ]
        for found in self.scheduler.translate(work, self.cancellation, remarks, self.client):
            if advance is not None:
                advance(len(found))
            yield [options[0] for options in found]

    def as_finished(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        alignment: bool = False,
        verbatim: VerbatimRules | None = None,
        remarks: Remarks | None = None,
    ) -> Iterator[Numbered]:
        """Translate documents as one request of the scheduler, which returns them in order."""
        return enumerate(self.detailed(documents, advance, alignment=alignment, verbatim=verbatim, remarks=remarks))

    def _read_block(self, block: list[tuple[Ids, Ids]], state: State) -> State:
        """Read some parts at a time in the worker; segments that are read as a whole are not split."""
        own = self.scheduler.translator
        longest = max(len(source) + len(target) for source, target in block)
        size = len(block) if self.model.segment_rule is not None else max(READ_TOKENS // max(longest, 1), 1)
        for start in range(0, len(block), size):
            read = partial(own._read_block, block[start : start + size], state)
            state = self.scheduler.call(read, self.cancellation, self.client)
        return state

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        words: WordSpans = words_by_blanks,
        min_share: float = 0.0,
    ) -> list[Alignment]:
        """Return the word alignments of sentences with their translations, some at a time."""
        own = self.scheduler.translator
        found: list[Alignment] = []
        longest = max((len(source) + len(target) for source, target in zip(sources, targets, strict=True)), default=1)
        size = min(max(ALIGNED_CHARACTERS // max(longest, 1), 1), ALIGNED_SENTENCES)
        for start in range(0, len(sources), size):
            pairs = sources[start : start + size], targets[start : start + size]
            found += self.scheduler.call(partial(own.align, *pairs, words, min_share), self.cancellation, self.client)
        return found

    def translate_sentences(
        self, sentences: Sequence[str], state: DocumentState | None = None, best: int = 1
    ) -> list[list[Translation]]:
        """Return the best translations of each sentence of a document, which `state` continues."""
        (found,) = self.best_translations([sentences], [state], best)
        return found

    def best_translations(
        self, documents: Sequence[Sequence[str]], states: Sequence[DocumentState | None] | None = None, best: int = 1
    ) -> list[list[list[Translation]]]:
        """Return the best translations of each sentence of some documents; URLs, code and the like stay unchanged.

        best: at most the beam; some sentences have fewer.
        """
        work = [
            Document(sentences, state, best, RULES)
            for sentences, state in zip(documents, states or [None] * len(documents), strict=True)
        ]
        return self.scheduler.translate(work, self.cancellation, client=self.client)
