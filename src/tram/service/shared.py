"""A `Translator` for one request, whose work goes through the scheduler: what `filetypes` and sessions use."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tram.errors import InputError
from tram.filetypes.verbatim import Protected, VerbatimRules, protect
from tram.service.scheduler import Cancellation, Document, Scheduler
from tram.translation.alignment import Alignment, align_words
from tram.translation.document_state import DocumentState
from tram.translation.lockstep import History
from tram.translation.parts import Translation
from tram.translation.translator import Advance, Translator, check_sentences

READ_AT_ONCE = 32  # sentences that one call of the worker reads, so that others need not wait long
RULES = VerbatimRules()


class SharedTranslator(Translator):
    """The service's translator as one request sees it: calls block, and end with `Cancelled` if the client goes."""

    def __init__(self, scheduler: Scheduler, cancellation: Cancellation | None = None) -> None:
        own = scheduler.translator
        super().__init__(own.model, own.text, own.beam, own.length_penalty, own.batch)
        self.folder = own.folder
        self.scheduler = scheduler
        self.cancellation = Cancellation() if cancellation is None else cancellation

    @property
    def fingerprint(self) -> str:
        """That of the service's translator, which knows it already."""
        return self.scheduler.translator.fingerprint

    def translate_documents(
        self,
        documents: Iterable[list[str]],
        advance: Advance | None = None,
        states: Iterable[DocumentState] | None = None,
        history: History = "generated",
        gold: Iterable[list[str]] | None = None,
    ) -> Iterator[list[str]]:
        """Translate documents as one request of the scheduler."""
        if history != "generated" or gold is not None:
            raise InputError("the service translates with the history that it generates; give no other")
        given = list(documents)
        carried = [None] * len(given) if states is None else list(states)

        def report(number: int, translations: list[Translation]) -> None:
            if advance is not None:
                advance(1)

        work = [Document(sentences, state, 1, report) for sentences, state in zip(given, carried, strict=True)]
        for document in self.scheduler.translate(work, self.cancellation):
            yield [best[0].text for best in document]

    def read(self, source: list[str], target: list[str], state: DocumentState) -> None:
        """Read sentences with their translations, some at a time."""
        check_sentences(source, "source")
        check_sentences(target, "target")
        own = self.scheduler.translator
        for start in range(0, max(len(source), len(target)), READ_AT_ONCE):
            pairs = source[start : start + READ_AT_ONCE], target[start : start + READ_AT_ONCE]
            self.scheduler.call(partial(own.read, *pairs, state), self.cancellation)

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[Alignment]:
        """Return the alignments of the words, as blanks separate them, of sentences with their translations."""
        found: list[Alignment] = []
        for start in range(0, len(sources), READ_AT_ONCE):
            pairs = sources[start : start + READ_AT_ONCE], targets[start : start + READ_AT_ONCE]
            found += self.scheduler.call(partial(align_words, self, *pairs), self.cancellation)
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
        best = min(best, self.beam)
        protected = [[self._protect(sentence) for sentence in document] for document in documents]
        work = [
            Document([part.text for parts in document for part in parts if part.needs_translation], state, best)
            for document, state in zip(protected, states or [None] * len(documents), strict=True)
        ]
        results = []
        for document, found in zip(protected, self.scheduler.translate(work, self.cancellation), strict=True):
            answers = iter(found)
            own = ([next(answers) for part in parts if part.needs_translation] for parts in document)
            results.append([self._restore(*pair) for pair in zip(document, own, strict=True)])
        return results

    def _protect(self, sentence: str) -> list[Protected]:
        if not self.special.reserved:  # the model has no ids for the places of what is kept
            return [Protected(sentence, ())]
        return protect(sentence, RULES)

    def _restore(self, parts: list[Protected], answers: list[list[Translation]]) -> list[Translation]:
        """Return the translations of a sentence with what was kept put back; those that lost any of it are dropped."""
        if len(parts) == 1 and answers:
            restored = [(parts[0].restore(option.text), option.score) for option in answers[0]]
            complete = [Translation(result.text, score) for result, score in restored if result.complete]
            if complete:
                return complete
        given = iter(answers)
        texts, scores = [], []
        for part in parts:
            option = next(given)[0] if part.needs_translation else Translation(part.text, 0.0)
            result = part.restore(option.text)
            texts.append(result.text if result.complete else part.by_parts(self._one_by_one))
            scores.append(option.score)
        return [Translation(" ".join(texts), min(scores, default=0.0))]

    def _one_by_one(self, texts: list[str]) -> list[str]:
        return [translations[0] for translations in self.translate_documents([text] for text in texts)]
