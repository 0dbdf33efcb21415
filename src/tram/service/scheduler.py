"""One worker thread that translates the waiting sentences of all requests together.

    scheduler = Scheduler(translator)
    scheduler.translate([Document(["First sentence.", "Second."])])      # blocks; call it from many threads
    scheduler.call(lambda: translator.read(source, target, state))       # anything else that needs the model
    scheduler.close(timeout=30)

Every step translates the next sentence of up to `batch` documents. They are chosen in turn from all requests, so that
a request with thousands of sentences takes no more than its share. The model is used by the worker alone.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tram.translation.document_state import DocumentState
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.parts import Found, SplitSentences, Translation
from tram.translation.search import Hypothesis
from tram.translation.translator import Translator

log = logging.getLogger(__name__)
T = TypeVar("T")
Report = Callable[[int, list[Translation]], None]  # the number of a sentence and its translations, best first
LONGEST_WAIT = 60  # seconds; the largest Retry-After


class Unavailable(Exception):
    """The service cannot accept more work now; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Cancelled(Exception):
    """The client has gone, so its work was dropped."""


class Cancellation:
    """Says that nobody waits for a result any more. May be set from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Drop the work at the next sentence."""
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """Whether nobody waits any more."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise `Cancelled` if nobody waits any more."""
        if self.is_requested:
            raise Cancelled


@dataclass(frozen=True)
class Document:
    """Sentences in order.

    state: of a document that is continued; it advances when the last sentence is done.
    best: how many translations of each sentence are returned, at most the beam.
    report: called by the worker for each sentence as soon as it is done; must return at once.
    """

    sentences: Sequence[str]
    state: DocumentState | None = None
    best: int = 1
    report: Report | None = None


@dataclass(frozen=True)
class Statistics:
    """Counts since the start, and what is waiting now."""

    steps: int
    sentences: int
    waiting_requests: int
    waiting_sentences: int


class _Task:
    """A document on its way: each sentence is one or more parts, whose ids the cursor goes through."""

    def __init__(self, document: Document, translator: Translator) -> None:
        self.document = document
        text, longest = translator.text, translator.longest
        self.split = [SplitSentences(text, [sentence], longest) for sentence in document.sentences]
        state = translator.start() if document.state is None else translator.checked(document.state)
        self.cursor = Cursor(0, [ids for sentence in self.split for ids in sentence.ids], state.state)
        self.translations: list[list[Translation]] = []
        self._found: list[Found] = []  # of the parts of the sentence in progress
        self._finish_sentences()

    @property
    def remaining(self) -> int:
        return len(self.cursor.sentences) - self.cursor.done

    def add(self, hypotheses: list[Hypothesis]) -> None:
        """Take the translations of the next part."""
        self._found.append([(hypothesis.ids, hypothesis.score) for hypothesis in hypotheses])
        self._finish_sentences()
        if self.cursor.ended and self.document.state is not None:
            self.document.state.state = self.cursor.state
            self.document.state.sentences += sum(bool(sentence.ids) for sentence in self.split)

    def _finish_sentences(self) -> None:
        """Join the parts of a sentence that is complete; an empty one is complete at once."""
        while (number := len(self.translations)) < len(self.split):
            sentence = self.split[number]
            if len(self._found) < len(sentence.ids):
                return
            (translations,) = sentence.join(self._found, self.document.best)
            self._found = []
            self.translations.append(translations)
            if self.document.report is not None:
                self.document.report(number, translations)


@dataclass(eq=False)
class _Request:
    """The documents that one client waits for."""

    tasks: list[_Task]
    cancellation: Cancellation
    future: "Future[None]" = field(default_factory=Future)

    @property
    def unfinished(self) -> list[_Task]:
        return [task for task in self.tasks if not task.cursor.ended]


@dataclass(eq=False)
class _Call:
    function: Callable[[], object]
    cancellation: Cancellation
    future: "Future[object]" = field(default_factory=Future)


class Scheduler:
    """Translates documents of many threads in common batches.

    batch: sentences translated at once; wait: seconds that an idle worker waits for more after the first sentence.
    max_requests, max_sentences: what may wait; beyond that `Unavailable` is raised. A single request is accepted
    whatever its size if nothing else is waiting.
    """

    def __init__(
        self,
        translator: Translator,
        batch: int = 32,
        wait: float = 0.004,
        max_requests: int = 128,
        max_sentences: int = 50_000,
    ) -> None:
        self.translator = translator
        self.batch = batch
        self.wait = wait
        self.max_requests = max_requests
        self.max_sentences = max_sentences
        self._lockstep = Lockstep(translator.model, translator.special, translator.beam, translator.length_penalty)
        self._changed = threading.Condition()
        self._requests: list[_Request] = []
        self._calls: deque[_Call] = deque()
        self._deadline: float | None = None  # of closing
        self._steps = self._sentences = 0
        self._rate = 10.0  # sentences per second, a moving average
        self._worker = threading.Thread(target=self._work, name="tram-scheduler", daemon=True)
        self._worker.start()

    # For callers, from any thread.

    def translate(
        self, documents: Sequence[Document], cancellation: Cancellation | None = None
    ) -> list[list[list[Translation]]]:
        """Return the translations, best first, of every sentence of some documents, which make up one request."""
        cancellation = Cancellation() if cancellation is None else cancellation
        request = _Request([_Task(document, self.translator) for document in documents], cancellation)
        if request.unfinished:
            self._submit(request, sum(task.remaining for task in request.tasks))
            request.future.result()
        return [task.translations for task in request.tasks]

    def call(self, function: Callable[[], T], cancellation: Cancellation | None = None) -> T:
        """Run a function in the worker between two steps and return its result; it should take less than a second."""
        call = _Call(function, Cancellation() if cancellation is None else cancellation)
        self._submit(call, 1)
        return call.future.result()  # type: ignore[return-value]

    def _submit(self, work: _Request | _Call, sentences: int) -> None:
        with self._changed:
            if self._deadline is not None or not self._worker.is_alive():
                raise Unavailable("The service is shutting down", 5)
            waiting = self._waiting_sentences()
            if len(self._requests) + len(self._calls) >= self.max_requests or (
                waiting and waiting + sentences > self.max_sentences
            ):
                raise Unavailable("The service is busy, try again later", self._seconds(waiting))
            if isinstance(work, _Request):
                self._requests.append(work)
            else:
                self._calls.append(work)
            self._changed.notify_all()

    @property
    def statistics(self) -> Statistics:
        """Counts of steps and sentences, and what waits."""
        with self._changed:
            waiting = len(self._requests) + len(self._calls)
            return Statistics(self._steps, self._sentences, waiting, self._waiting_sentences())

    @property
    def seconds_remaining(self) -> int:
        """How long the work that waits may take, from the speed so far; at most a minute."""
        with self._changed:
            return self._seconds(self._waiting_sentences())

    @property
    def is_working(self) -> bool:
        """Whether work is accepted."""
        return self._deadline is None and self._worker.is_alive()

    def close(self, timeout: float) -> None:
        """Accept no more work, finish what was accepted within some seconds, and refuse the rest."""
        with self._changed:
            end = time.monotonic() + timeout
            self._deadline = end if self._deadline is None else min(self._deadline, end)
            self._changed.notify_all()
        self._worker.join()

    def _waiting_sentences(self) -> int:
        return sum(task.remaining for request in self._requests for task in request.tasks) + len(self._calls)

    def _seconds(self, sentences: int) -> int:
        return min(max(math.ceil(sentences / self._rate), 1), LONGEST_WAIT)

    # The worker.

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    if not self._await_work():
                        return
                    call = self._calls.popleft() if self._calls else None
                    tasks = self._choose()
                if call is not None:
                    _run(call)
                if tasks:
                    self._step(tasks)
                with self._changed:
                    self._finish_requests()
        except BaseException:
            log.exception("the scheduler has stopped")
            raise
        finally:
            self._refuse_all()

    def _await_work(self) -> bool:
        """Wait until there is work, and a moment longer for more of it; return False when closed."""
        is_idle = not self._requests and not self._calls
        while not self._requests and not self._calls:
            if self._deadline is not None:
                return False
            self._changed.wait()
        if is_idle and self._deadline is None:
            end = time.monotonic() + self.wait
            while self._documents() < self.batch and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
        return self._deadline is None or time.monotonic() < self._deadline

    def _documents(self) -> int:
        return sum(len(request.tasks) for request in self._requests)

    def _choose(self) -> list[_Task]:
        """Return the documents of the next step: in turn one of each request, until the batch is full."""
        self._finish_requests()
        lists = [request.unfinished for request in self._requests]
        chosen: list[_Task] = []
        for turn in range(max(map(len, lists), default=0)):
            for tasks in lists:
                if turn < len(tasks) and len(chosen) < self.batch:
                    chosen.append(tasks[turn])
            if len(chosen) == self.batch:
                break
        if len(self._requests) > self.batch:  # the next step begins with those that had no turn
            self._requests = self._requests[self.batch :] + self._requests[: self.batch]
        return chosen

    def _step(self, tasks: list[_Task]) -> None:
        start = time.monotonic()
        before = [(task.cursor.state, task.cursor.done, deque(task.cursor.encoded)) for task in tasks]
        try:
            found = self._lockstep.step([task.cursor for task in tasks])
        except Exception as error:
            if len(tasks) == 1:
                self._fail(tasks[0], error)
                return
            # One bad document, for example a state of absurd values, must not fail the others
            for task, (state, done, encoded) in zip(tasks, before, strict=True):
                task.cursor.state, task.cursor.done, task.cursor.encoded = state, done, encoded
                self._step([task])
            return
        for task, hypotheses in zip(tasks, found, strict=True):
            task.add(hypotheses)
        with self._changed:
            self._steps += 1
            self._sentences += len(tasks)
            self._rate += 0.1 * (len(tasks) / max(time.monotonic() - start, 1e-6) - self._rate)

    def _fail(self, task: _Task, error: Exception) -> None:
        with self._changed:
            for request in self._requests:
                if task in request.tasks:
                    request.future.set_exception(error)

    def _finish_requests(self) -> None:
        """Remove the requests that are done or failed, or that nobody waits for any more."""
        for request in self._requests:
            if request.future.done():
                continue
            if request.cancellation.is_requested:
                request.future.set_exception(Cancelled())
            elif not request.unfinished:
                request.future.set_result(None)
        self._requests = [request for request in self._requests if not request.future.done()]

    def _refuse_all(self) -> None:
        with self._changed:
            self._deadline = self._deadline or time.monotonic()
            futures: list[Future[Any]] = [
                *(request.future for request in self._requests),
                *(call.future for call in self._calls),
            ]
            for future in futures:
                if not future.done():
                    future.set_exception(Unavailable("The service is shutting down", 5))
            self._requests.clear()
            self._calls.clear()


def _run(call: _Call) -> None:
    try:
        call.cancellation.check()
        call.future.set_result(call.function())
    except Exception as error:
        call.future.set_exception(error)
