"""One worker thread that translates the waiting sentences of all requests together.

    scheduler = Scheduler(translator)
    scheduler.translate([Document(["First sentence.", "Second."])])      # blocks; call it from many threads
    scheduler.call(lambda: translator.read(source, target, state))       # anything else that needs the model
    scheduler.close(timeout=30)

Every step translates the next sentence of up to `batch` documents. They are chosen in turn from all clients, and of a
client in turn from its requests, so that neither many requests nor one with thousands of sentences take more than their
share. The model is used by the worker alone.
"""

import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count, islice, repeat, zip_longest
from typing import Any, TypeVar

from tram.errors import InputError
from tram.service.shares import fits
from tram.text.verbatim import VerbatimRules
from tram.translation.document_state import DocumentState
from tram.translation.documents import Remarks
from tram.translation.parts import Found, Translation
from tram.translation.spanned import SpannedDocument
from tram.translation.tasks import DocumentTask
from tram.translation.translator import Translator

log = logging.getLogger(__name__)
T = TypeVar("T")
BUSY = "The service is busy, try again later"
CLOSING = "The service is shutting down"
LONGEST_WAIT = 60  # seconds; the largest Retry-After
PAUSE = 0.1  # seconds after which clients that were answered are no longer expected to send their next sentence
CALL_SECONDS = 0.2  # of calls between two steps
FEW_SENTENCES = 100  # may always wait, of every client


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

    state: of a document that is continued; it advances when the whole request is done.
    best: how many translations of each sentence are returned, at most the beam.
    verbatim: what must come out as it went in; None: everything is left to the model.
    alignment: whether the best translations have word alignments.
    """

    sentences: Sequence[str]
    state: DocumentState | None = None
    best: int = 1
    verbatim: VerbatimRules | None = None
    alignment: bool = False


@dataclass(frozen=True)
class Statistics:
    """Counts since the start, and what is waiting now."""

    steps: int
    sentences: int
    waiting_requests: int
    waiting_sentences: int


@dataclass(eq=False)
class _Request:
    """The documents that one client waits for."""

    client: str
    tasks: list[DocumentTask]
    cancellation: Cancellation
    future: "Future[None]" = field(default_factory=Future)

    @property
    def unfinished(self) -> list[DocumentTask]:
        return [task for task in self.tasks if not task.cursor.ended]

    @property
    def remaining(self) -> int:
        """Sentences, or parts of long ones, that are to be translated."""
        return sum(len(task.cursor.sentences) - task.cursor.done for task in self.tasks)


@dataclass(eq=False)
class _Call:
    client: str
    function: Callable[[], object]
    cancellation: Cancellation
    future: "Future[object]" = field(default_factory=Future)


class Scheduler:
    """Translates documents of many threads in common batches.

    batch: sentences translated at once; wait: seconds that a worker without a full batch waits for others after a
    pause, and for each client that was just answered.
    max_requests, max_sentences: what may wait; beyond that `Unavailable` is raised. Clients share the sentences as in
    `shares`; a client may always have a few. A model that joins sentences to units is refused.
    """

    def __init__(
        self,
        translator: Translator,
        batch: int = 32,
        wait: float = 0.005,
        max_requests: int = 256,
        max_sentences: int = 50_000,
    ) -> None:
        if translator.units is not None:
            raise InputError(
                f"{translator.folder or 'this model'}: translates several sentences as one sequence, which the service "
                "cannot do; use `tram translate`, or serve a model of sentences"
            )
        self.translator = translator
        self.batch = batch
        self.wait = wait
        self.max_requests = max_requests
        self.max_sentences = max_sentences
        self._sentinels = translator.copies_sentinels()
        self._numbers = count()
        self._changed = threading.Condition()
        self._requests: list[_Request] = []
        self._calls: OrderedDict[str, deque[_Call]] = OrderedDict()  # of each client; the next one first
        self._deadline: float | None = None  # of closing
        self._steps = self._sentences = 0
        self._expected = 0  # clients that were answered by the last step and may send their next sentence at once
        self._answered = -math.inf  # when that was
        self._rate = 10.0  # sentences per second, a moving average
        self._worker = threading.Thread(target=self._work, name="tram-scheduler", daemon=True)
        self._worker.start()

    # For callers, from any thread.

    def translate(
        self,
        documents: Sequence[Document],
        cancellation: Cancellation | None = None,
        remarks: Remarks | None = None,
        client: str = "",
    ) -> list[list[list[Translation]]]:
        """Return the translations, best first, of every sentence of some documents, which make up one request.

        remarks: counts the warnings; client: who asks, and takes turns with others.
        """
        cancellation = Cancellation() if cancellation is None else cancellation
        request = _Request(client, [self._task(document) for document in documents], cancellation)
        if request.unfinished:
            self._submit(request, request.remaining)
            request.future.result()
        results = []
        for task in request.tasks:
            task.advance_state()
            results.append(task.options())
            if remarks is not None:
                remarks.split += task.sentences.split
                remarks.counted([options[0] for options in results[-1]])
        return results

    def _task(self, document: Document) -> DocumentTask:
        spanned = SpannedDocument(document.sentences, document.verbatim, self._sentinels)
        settings = (document.state, min(document.best, self.translator.beam), document.alignment)
        return DocumentTask.start(self.translator, next(self._numbers), spanned, *settings)

    def call(self, function: Callable[[], T], cancellation: Cancellation | None = None, client: str = "") -> T:
        """Run a function in the worker between two steps and return its result; it should take less than a second."""
        call = _Call(client, function, Cancellation() if cancellation is None else cancellation)
        self._submit(call, 1)
        return call.future.result()  # type: ignore[return-value]

    def _submit(self, work: _Request | _Call, sentences: int) -> None:
        with self._changed:
            if self._deadline is not None or not self._worker.is_alive():
                raise Unavailable(CLOSING, 5)
            waiting, own = self._waiting_sentences(), self._waiting_sentences(work.client)
            if self._waiting_requests() >= self.max_requests or not fits(
                sentences, own, waiting, self.max_sentences, FEW_SENTENCES
            ):
                raise Unavailable(BUSY, self._seconds(waiting))
            if isinstance(work, _Request):
                self._requests.append(work)
                self._expected = max(self._expected - 1, 0)
            else:
                self._calls.setdefault(work.client, deque()).append(work)
            self._changed.notify_all()

    @property
    def statistics(self) -> Statistics:
        """Counts of steps and sentences, and what waits."""
        with self._changed:
            return Statistics(self._steps, self._sentences, self._waiting_requests(), self._waiting_sentences())

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

    def _waiting_requests(self) -> int:
        return len(self._requests) + sum(map(len, self._calls.values()))

    def _waiting_sentences(self, client: str | None = None) -> int:
        """Return how many sentences wait, of one client or of all; a call counts as one."""
        sentences = sum(request.remaining for request in self._requests if client in (None, request.client))
        return sentences + sum(len(calls) for name, calls in self._calls.items() if client in (None, name))

    def _seconds(self, sentences: int) -> int:
        return min(max(math.ceil(sentences / self._rate), 1), LONGEST_WAIT)

    # The worker.

    def _work(self) -> None:
        try:
            while self._await_work():
                self._run_calls()
                with self._changed:
                    self._await_more()
                    tasks = self._choose()
                if tasks:
                    self._step(tasks)
                with self._changed:
                    self._expected, self._answered = self._finish_requests(), time.monotonic()
        except BaseException:
            log.exception("the scheduler has stopped")
            raise
        finally:
            self._refuse_all()

    def _await_work(self) -> bool:
        """Wait until there is work; return False when closed."""
        with self._changed:
            while not self._requests and not self._calls:
                if self._deadline is not None:
                    return False
                self._changed.wait()
            return self._deadline is None or time.monotonic() < self._deadline

    def _run_calls(self) -> None:
        """Run the calls that wait, for a while."""
        end = time.monotonic() + CALL_SECONDS
        while self._calls and time.monotonic() < end:
            with self._changed:
                client, calls = self._calls.popitem(last=False)
                call = calls.popleft()
                if calls:  # the others wait for a turn of every other client
                    self._calls[client] = calls
            _run(call)

    def _await_more(self) -> None:
        """Wait a moment for a fuller batch: after a pause, or for the clients that the last step has answered.

        Otherwise clients that send one sentence after the other fall into groups that wait for each other's steps.
        """
        now = time.monotonic()
        if now - self._answered > PAUSE:
            self._expected, end = self.batch, now + self.wait
        else:
            end = now + self.wait * (self._expected + 1)  # their answers and requests take the same core
        while self._requests and self._expected and self._documents() < self.batch and self._deadline is None:
            if (left := end - time.monotonic()) <= 0:
                return
            self._changed.wait(left)

    def _documents(self) -> int:
        return sum(len(request.tasks) for request in self._requests)

    def _choose(self) -> list[DocumentTask]:
        """Return the documents of the next step: in turn one of each client, until the batch is full."""
        self._finish_requests()
        clients: dict[str, list[Iterator[tuple[_Request, DocumentTask]]]] = {}
        for request in self._requests:
            clients.setdefault(request.client, []).append(zip(repeat(request), request.unfinished))
        chosen = list(islice(_in_turn([_in_turn(requests) for requests in clients.values()]), self.batch))
        served = {id(request) for request, _ in chosen}
        self._requests.sort(key=lambda request: id(request) in served)  # the next step begins with the others
        return [task for _, task in chosen]

    def _step(self, tasks: list[DocumentTask]) -> None:
        start = time.monotonic()
        before = [(task.cursor.state, task.cursor.done, deque(task.cursor.encoded)) for task in tasks]
        try:
            found = self._next_sentences(tasks)
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

    def _next_sentences(self, tasks: list[DocumentTask]) -> list[Found]:
        """Return the hypotheses of the next sentence of every document, the chosen one first."""
        by_number = {task.cursor.number: task for task in tasks}
        lockstep = self.translator.lockstep(
            choose=lambda cursor, hypotheses: by_number[cursor.number].choose(hypotheses),
            alignment=any(task.alignment for task in tasks),
        )
        return lockstep.step([task.cursor for task in tasks])

    def _fail(self, task: DocumentTask, error: Exception) -> None:
        with self._changed:
            for request in self._requests:
                if task in request.tasks and not request.future.done():
                    request.future.set_exception(error)

    def _finish_requests(self) -> int:
        """Remove the requests that are done or failed, or that nobody waits for any more; return how many are done."""
        done = 0
        for request in self._requests:
            if request.future.done():
                continue
            if request.cancellation.is_requested:
                request.future.set_exception(Cancelled())
            elif not request.unfinished:
                request.future.set_result(None)
                done += 1
        self._requests = [request for request in self._requests if not request.future.done()]
        return done

    def _refuse_all(self) -> None:
        with self._changed:
            self._deadline = self._deadline or time.monotonic()
            futures: list[Future[Any]] = [
                *(request.future for request in self._requests),
                *(call.future for calls in self._calls.values() for call in calls),
            ]
            for future in futures:
                if not future.done():
                    future.set_exception(Unavailable(CLOSING, 5))
            self._requests.clear()
            self._calls.clear()


def _in_turn(lists: Sequence[Iterable[T]]) -> Iterator[T]:
    """Yield the first of each list, then the second of each, and so on."""
    missing = object()
    for turn in zip_longest(*lists, fillvalue=missing):
        yield from (each for each in turn if each is not missing)  # type: ignore[misc]


def _run(call: _Call) -> None:
    try:
        call.cancellation.check()
        call.future.set_result(call.function())
    except Exception as error:
        call.future.set_exception(error)
