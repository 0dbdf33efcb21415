"""Where sessions are kept: in memory, and with a folder also as files, which survive a restart.

A session is one JSON file, replaced as a whole whenever the session changes. With a folder only the sessions used last
are in memory.
"""

import base64
import json
import logging
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tram.errors import InputError, UnreadableError
from tram.files import check_folder_writable, read_json, reading, remove, write_text
from tram.service.errors import Problem
from tram.service.sessions import Kind, Sentence, Session, size_of, sizes_of
from tram.service.texts import Text
from tram.translation.document_state import DocumentState

log = logging.getLogger(__name__)
VERSION = 1
ID = re.compile("[0-9a-f]{32}")
FILE = re.compile(r"(?P<owner>[0-9a-z]+)\.(?P<id>[0-9a-f]{32})\.json")  # the owner is no key: see `Client`
LOADED = 1_000  # sessions in memory where there is a folder
UNKNOWN = "There is no such session; it may have expired"


Count = Annotated[int, Field(ge=0, strict=True)]


class _Stored(BaseModel):
    """The file of a session: states as base64, None for the one that every document starts with."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    version: Literal[1]  # VERSION
    used: float
    origin: Text | None
    state: Text | None
    covered: Count
    anchor: tuple[Count, Text | None] | None
    after: Text
    sentences: list[tuple[Text, Text, Kind, float | None, tuple[tuple[Text, float], ...], Text]]


class SessionStore:
    """All sessions. lifetime: seconds after which an unused session is deleted."""

    def __init__(
        self,
        initial: DocumentState,
        folder: Path | None = None,
        lifetime: float = 86_400.0,
        loaded: int = LOADED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.initial = initial  # one object for all sessions that start with it
        self.folder = folder
        self.lifetime = lifetime
        self._loaded = loaded
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._owners: dict[str, str] = {}  # of all sessions, also of those on disk only
        self._counts: Counter[str] = Counter()  # sessions of each owner
        self._sizes: dict[str, int] = {}  # bytes of each session, roughly
        self._bytes: Counter[str] = Counter()  # of all sessions of each owner
        self._lock = threading.Lock()
        if folder is not None:
            make_private(folder)
            self._find_files(folder)

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, session: Session, most: int, most_bytes: int = 0) -> None:
        """Add a session; most, most_bytes: what all sessions of its owner may be, 0 for any number."""
        session.size = size = size_of(session)
        if most and self._counts[session.owner] >= most:
            self.remove_expired()
        with self._lock:
            if most and self._counts[session.owner] >= most:
                raise Problem(429, f"Slowdown: {most} sessions at the same time", 60)
            self.check_room(session.owner, most_bytes, size)
            self._know(session.id, session.owner, size)
        try:
            self._save(session)
        except Problem:
            self._forget(session.id)
            raise
        self._put(session)

    def check_room(self, owner: str, most_bytes: int, more: int = 0) -> None:
        """Refuse more text of an owner whose sessions have reached their limit, 0 for none."""
        if most_bytes and self._bytes[owner] + more > most_bytes:
            raise Problem(429, f"Slowdown: {most_bytes} bytes of sessions; delete some of them", 60)

    def _know(self, id: str, owner: str, size: int) -> None:
        self._owners[id] = owner
        self._counts[owner] += 1
        self._set_size(id, owner, size)

    def _set_size(self, id: str, owner: str, size: int) -> None:
        self._bytes[owner] += size - self._sizes.get(id, 0)
        self._sizes[id] = size

    @contextmanager
    def opened(self, id: str, owner: str, wait: float = 60.0) -> Iterator[Session]:
        """Yield a session that nobody else changes meanwhile; it is stored afterwards, also if the client has gone."""
        session = self._locked(id, owner, wait)
        try:
            state, sentences, after = session.state, session.sentences.copy(), session.after
            try:
                yield session
            finally:
                session.used = self._clock()
                has_changed = session.state is not state or session.after != after or session.sentences != sentences
                if has_changed and self._measure(session, sentences, after):
                    self._save(session)
        finally:
            session.lock.release()

    def _measure(self, session: Session, sentences: list[Sentence], after: str) -> bool:
        """Update the size of a session, which had these sentences before; return whether it still exists."""
        old = len(sentences)
        if session.sentences[:old] == sentences:  # compares identities: much faster than to measure all again
            session.size += sizes_of(session.sentences[old:]) + len(session.after) - len(after)
        else:
            session.size = size_of(session)
        with self._lock:
            if session.id not in self._owners:
                return False
            self._set_size(session.id, session.owner, session.size)
            return True

    def _locked(self, id: str, owner: str, wait: float) -> Session:
        """Return a session with its lock held."""
        while True:
            session = self.get(id, owner)
            if not session.lock.acquire(timeout=wait):
                raise Problem(409, "The session is in use by another request; try again later", 1)
            if self._sessions.get(id) is session:
                return session
            session.lock.release()  # meanwhile it was deleted, or dropped from memory and loaded again

    def delete(self, id: str, owner: str) -> None:
        """Delete a session."""
        self._forget(self.get(id, owner).id)

    def remove_expired(self) -> None:
        """Delete the sessions that were not used for longer than their lifetime."""
        now = self._clock()
        with self._lock:
            expired = [s.id for s in self._sessions.values() if now - s.used > self.lifetime and not s.lock.locked()]
            on_disk = [(id, owner) for id, owner in self._owners.items() if id not in self._sessions]
        for id, owner in on_disk:
            path = self._path(id, owner)
            if path is not None and path.exists() and now - path.stat().st_mtime > self.lifetime:
                expired.append(id)
        for id in expired:
            self._forget(id)

    def _forget(self, id: str) -> None:
        with self._lock:
            self._sessions.pop(id, None)
            owner = self._owners.pop(id, None)
            if owner is not None:
                self._counts[owner] -= 1
                self._bytes[owner] -= self._sizes.pop(id)
        if (path := self._path(id, owner)) is not None:
            remove(path)

    def get(self, id: str, owner: str) -> Session:
        """Return a session of this owner, to look at; of another owner's, a client learns nothing."""
        if ID.fullmatch(id) is None or self._owners.get(id) != owner:
            raise Problem(404, UNKNOWN)
        with self._lock:
            session = self._sessions.get(id)
        if session is not None and self._clock() - session.used > self.lifetime:
            self._forget(id)
            raise Problem(404, UNKNOWN)
        if session is None:
            session = self._load(id, owner)
        return self._put(session)

    def _put(self, session: Session) -> Session:
        """Keep a session in memory as the one used last; return the one that is there already."""
        with self._lock:
            if session.id not in self._owners:  # deleted meanwhile
                raise Problem(404, UNKNOWN)
            session = self._sessions.setdefault(session.id, session)
            self._sessions.move_to_end(session.id)
            if self.folder is not None:
                idle = (s.id for s in self._sessions.values() if not s.lock.locked() and s is not session)
                for id in list(idle)[: max(len(self._sessions) - self._loaded, 0)]:
                    del self._sessions[id]
        return session

    # Files.

    def _path(self, id: str, owner: str | None) -> Path | None:
        return None if self.folder is None or owner is None else self.folder / f"{owner}.{id}.json"

    def _find_files(self, folder: Path) -> None:
        for path in folder.glob("*.json"):
            if match := FILE.fullmatch(path.name):
                self._know(match["id"], match["owner"], path.lstat().st_size)
        self.remove_expired()

    def _save(self, session: Session) -> None:
        if (path := self._path(session.id, session.owner)) is None:
            return
        anchor = session.anchor
        values = {
            "version": VERSION,
            "used": session.used,
            "origin": None if session.origin is self.initial else _encoded(session.origin),
            "state": None if session.state is self.initial else _encoded(session.state),
            "covered": session.covered,
            "anchor": None if anchor is None else [anchor[0], _encoded(anchor[1])],
            "after": session.after,
            "sentences": [[s.source, s.target, s.kind, s.score, s.alternatives, s.before] for s in session.sentences],
        }
        try:
            write_text(path, json.dumps(values, ensure_ascii=False))
            if session.id not in self._owners:  # deleted just now
                remove(path)
        except InputError as error:  # a full disk, for example; clients need not know where it is
            log.error("a session could not be stored: %s", _reason(error))
            raise Problem(503, "The session could not be stored; try again later", 60) from None

    def _load(self, id: str, owner: str) -> Session:
        path = self._path(id, owner)
        assert path is not None, "without a folder all sessions are in memory"
        try:
            with reading(path):
                stored, changed = _read(path), path.stat().st_mtime
            anchor = None if stored.anchor is None else (stored.anchor[0], self._state(stored.anchor[1]))
            sentences = [Sentence(*fields) for fields in stored.sentences]
            states = self._state(stored.origin), self._state(stored.state)
            used = min(max(stored.used, changed), self._clock())
        except UnreadableError as error:  # too many open files, for example
            log.error("a session could not be read: %s", _reason(error))
            raise Problem(503, "The session could not be read; try again later", 60) from None
        except (FileNotFoundError, InputError, ValueError):
            self._forget(id)
            raise Problem(404, UNKNOWN) from None
        session = Session(id, owner, *states, stored.covered, anchor, sentences, stored.after, used)
        session.size = size_of(session)
        if self._clock() - session.used > self.lifetime:
            self._forget(id)
            raise Problem(404, UNKNOWN)
        if session.state.model != self.initial.model:
            raise Problem(409, "The session belongs to another model than the one that is running; start a new one")
        return session

    def _state(self, text: str | None) -> DocumentState:
        return self.initial if text is None else DocumentState.from_bytes(base64.b64decode(text))


def make_private(folder: Path) -> None:
    """Create a folder, unless it exists, in which other users of the machine cannot read."""
    check_folder_writable(folder)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)


def _reason(error: InputError) -> str:
    """Return why a file of a session was not read or written, without its path, which contains its id."""
    return str(error.__cause__.strerror if isinstance(error.__cause__, OSError) else "it cannot be used")


def _encoded(state: DocumentState) -> str:
    return base64.b64encode(state.to_bytes()).decode()


def _read(path: Path) -> _Stored:
    try:
        stored = _Stored.model_validate(read_json(path))
    except ValueError:
        raise InputError(f"{path}: is damaged or of another version; remove it") from None
    last = len(stored.sentences)
    if stored.covered > last or (stored.anchor is not None and stored.anchor[0] > last):
        raise InputError(f"{path}: its states are after more sentences than it has; remove it")
    return stored
