"""What all endpoints share: the translator and its scheduler, sessions, files, keys, and threads that wait for them."""

import asyncio
import hashlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from tram.filetypes.base import FileDocument, ReadOptions
from tram.filetypes.plain_text import split_document
from tram.service.budget import Budget
from tram.service.fixed import FixedTranslator
from tram.service.keys import Client, Keys, Limits, Usage
from tram.service.languages import Languages
from tram.service.scheduler import BUSY, CLOSING, Cancellation, Cancelled, Scheduler, Unavailable
from tram.service.sessions import Session
from tram.service.shared import SharedTranslator
from tram.service.shares import fits
from tram.service.store import SessionStore
from tram.service.uploads import Upload, Uploads, characters, open_upload, unpacked_size
from tram.translation.document_state import DocumentState
from tram.translation.translator import SHIPPED, Translator

T = TypeVar("T")
CACHED_CONTEXTS = 128
FILES_AT_ONCE = 2  # that are being read, which takes most of the time in Python
FILE_BYTES_AT_ONCE = 100_000_000  # of the files that are being read and translated, unpacked


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of `tram serve`."""

    limits: Limits = field(default_factory=Limits)
    keys: Path | None = None
    sessions: Path | None = None
    session_seconds: float = 86_400.0
    session_sentences: int = 10_000
    batch: int = 32
    queue: int = 256
    grace: float = 20.0  # seconds for accepted requests at shutdown
    hosts: tuple[str, ...] = ()  # names by which the service may be addressed; empty: any
    origins: tuple[str, ...] = ()  # other sites whose pages may call it


class Service:
    """A running service, without its HTTP side."""

    def __init__(self, translator: Translator, settings: ServiceSettings | None = None) -> None:
        self.settings = settings or ServiceSettings()
        translator = FixedTranslator(translator)
        self.keys = Keys.load(self.settings.keys, self.settings.limits)
        self.usage = Usage()
        self.languages = Languages(translator.text)
        self.sessions = SessionStore(translator.start(), self.settings.sessions, self.settings.session_seconds)
        self.uploads = Uploads()
        self.translator = translator
        self.scheduler = Scheduler(translator, self.settings.batch, max_requests=self.settings.queue)
        self.files = threading.Semaphore(FILES_AT_ONCE)
        self.file_bytes = Budget(FILE_BYTES_AT_ONCE)
        self.options = ReadOptions(translator.text.source_language, translator.text.target_language)
        self._pool = ThreadPoolExecutor(self.settings.queue, "tram-request")
        self._running: Counter[str] = Counter()  # requests of each client; changed in the event loop's thread only
        self._is_closing = False
        self._contexts: OrderedDict[str, DocumentState] = OrderedDict()
        self._contexts_lock = threading.Lock()

    @property
    def model_name(self) -> str:
        """The name of the model's folder."""
        return self.translator.folder.name if self.translator.folder else "model"

    @property
    def is_shipped(self) -> bool:
        """Whether the model is the small one that comes with tram."""
        return self.translator.folder == SHIPPED

    @property
    def is_accepting(self) -> bool:
        """Whether new requests are accepted."""
        return not self._is_closing and self.scheduler.is_working

    def finish(self, timeout: float) -> None:
        """Accept no more requests, finish the accepted ones within some seconds, and refuse the rest.

        A request may need the scheduler several times, so that the scheduler closes after the last one.
        """
        self._is_closing = True
        end = time.monotonic() + timeout
        while self._running and self.scheduler.is_working and time.monotonic() < end:
            time.sleep(0.01)
        self.scheduler.close(max(end - time.monotonic(), 0))

    def close(self, timeout: float | None = None) -> None:
        """Finish what was accepted, refuse the rest, and remove temporary files."""
        self.finish(self.settings.grace if timeout is None else timeout)
        self._pool.shutdown(wait=True)
        self.uploads.close()

    def add_session(self, session: Session, client: Client) -> None:
        """Keep a new session, within the limits of its client."""
        self.sessions.add(session, client.limits.sessions, client.limits.session_bytes)

    @contextmanager
    def opened_upload(self, upload: Upload, client: Client) -> Iterator[FileDocument]:
        """Yield a file to translate, within the limits of its client; its size is counted until the end."""
        with self.file_bytes.hold(unpacked_size(upload.content, client.limits.file_bytes), client.waits_as):
            with self.files:
                document = open_upload(upload, self.options)
            self.usage.count_characters(client, characters(document), client.limits.file_characters)
            yield document

    async def run(self, request: Request, client: Client, work: Callable[[SharedTranslator], T]) -> T:
        """Run work that waits for the scheduler in a thread; drop it if the client goes."""
        cancellation = Cancellation()
        future = self._start(client, lambda: work(self._shared(client, cancellation)))
        watcher = asyncio.ensure_future(_disconnected(request))
        either: set[asyncio.Future[Any]] = {future, watcher}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise Cancelled
            return future.result()
        finally:
            watcher.cancel()
            cancellation.cancel()

    def stream(self, client: Client, work: Callable[[SharedTranslator, Callable[[T], None]], None]) -> AsyncIterator[T]:
        """Start work in a thread and return what it emits, as it does; it is dropped if nobody iterates any more."""
        cancellation = Cancellation()
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[T | None] = asyncio.Queue()

        def emit(event: T | None) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(events.put_nowait, event)

        def run() -> None:
            try:
                work(self._shared(client, cancellation), emit)
            finally:
                emit(None)

        future = self._start(client, run)  # here, not at the first event, so that a refusal has a status of its own

        async def emitted() -> AsyncIterator[T]:
            try:
                while (event := await events.get()) is not None:
                    yield event
                await future
            finally:
                cancellation.cancel()

        return emitted()

    def run_in_background(self, client: Client, work: Callable[[SharedTranslator], object]) -> None:
        """Run work of a client that nobody waits for."""
        self._start(client, lambda: work(self._shared(client)))

    def _shared(self, client: Client, cancellation: Cancellation | None = None) -> SharedTranslator:
        return SharedTranslator(self.scheduler, cancellation, client.waits_as)

    def _start(self, client: Client, work: Callable[[], T]) -> "asyncio.Future[T]":
        if not self.is_accepting:
            raise Unavailable(CLOSING, 5)
        name = client.waits_as
        if not fits(1, self._running[name], self._running.total(), self.settings.queue):
            raise Unavailable(BUSY, 1)
        self._running[name] += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(partial(self._ended, name))
        return future

    def _ended(self, name: str, future: "asyncio.Future[T]") -> None:
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]
        if not future.cancelled():
            future.exception()  # nobody may be waiting for it any more

    def state_after(self, translator: SharedTranslator, context: str, owner: str) -> DocumentState:
        """Return the state after a text that is context only; cached, because clients send it with every request."""
        key = f"{owner}/{hashlib.sha256(context.encode()).hexdigest()}"
        with self._contexts_lock:
            state = self._contexts.get(key)
        if state is None:
            state = self.sessions.initial.fork()
            sentences = split_document(context, self.options.source_language).sentences
            translator.translate_sentences(sentences, state)
            with self._contexts_lock:
                self._contexts[key] = state
                while len(self._contexts) > CACHED_CONTEXTS:
                    self._contexts.popitem(last=False)
        return state.fork()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
