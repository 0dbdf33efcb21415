"""Who may use the service, and how much: keys from a YAML file, limits, and what was used of them.

    keys:
      - {name: weblate, key: 3b1f…, requests_per_minute: 300}
      - {name: office, sha256: 9f86…, characters_per_day: 1000000}

A key may be stored as its SHA-256, so that the file does not contain the key itself.
"""

import hashlib
import hmac
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tram.config import Section, checked
from tram.errors import InputError
from tram.service.errors import KeyProblem, Problem, QuotaExceeded, too_long
from tram.service.texts import Text
from tram.yaml_files import read_yaml

SHORTEST_KEY = 16
SHA256 = re.compile("[0-9a-f]{64}")
UNLIMITED = 10**12  # the limit that DeepL's clients see where there is none
DAY, MINUTE = 86_400.0, 60.0

Limit = Annotated[int, Field(ge=0, le=10**12)]  # 0: none


class Limits(Section):
    """What one key may use; 0 means no limit."""

    characters: Limit = Field(100_000, description="characters of one request")
    characters_per_day: Limit = Field(0, description="characters of all requests of a day")
    requests_per_minute: Limit = Field(0, description="requests of a minute")
    sessions: Limit = Field(1_000, description="document sessions at the same time")
    session_bytes: Limit = Field(1_000_000_000, description="memory of all document sessions")
    file_bytes: Limit = Field(10_000_000, description="size of an uploaded file")
    file_characters: Limit = Field(1_000_000, description="characters to translate in one file")


class _Key(Limits):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    key: Text = ""
    sha256: str = ""


class _KeysFile(Section):
    keys: Annotated[list[_Key], Field(min_length=1, max_length=10_000)]


@dataclass(frozen=True)
class Client:
    """Someone who may use the service.

    owner: names the key in stored sessions, without revealing it; place: where no key is needed, the address, so that
    clients can be told apart while they wait. It is neither stored nor logged.
    """

    owner: str
    limits: Limits
    place: str = ""

    @property
    def waits_as(self) -> str:
        """Who takes turns with others."""
        return f"{self.owner} {self.place}"


class Keys:
    """The keys that are accepted; without any, everybody is one anonymous client."""

    def __init__(self, digests: list[tuple[bytes, Limits]], anonymous: Limits) -> None:
        self._clients = [(digest, Client(digest.hex()[:16], limits)) for digest, limits in digests]
        self._anonymous = None if digests else Client("anonymous", anonymous)

    @classmethod
    def load(cls, path: Path | None, defaults: Limits) -> "Keys":
        """Read a file of keys; what an entry does not set is as in `defaults`."""
        if path is None:
            return cls([], defaults)
        digests: dict[bytes, Limits] = {}
        for number, entry in enumerate(checked(_KeysFile, read_yaml(path), str(path)).keys, start=1):
            where = f"{path}: key {number} ({entry.name})"
            digest = _digest(entry, where)
            if digest in digests:
                raise InputError(f"{where}: is the same as an earlier one; remove one of them")
            own = entry.model_dump(include=entry.model_fields_set & set(Limits.model_fields))
            digests[digest] = defaults.model_copy(update=own)
        return cls(list(digests.items()), defaults)

    @property
    def required(self) -> bool:
        """Whether a key is needed."""
        return self._anonymous is None

    @property
    def largest_file(self) -> int:
        """The most bytes that any client may upload."""
        clients = [client for _, client in self._clients] + [self._anonymous] * (self._anonymous is not None)
        return max(client.limits.file_bytes or UNLIMITED for client in clients if client is not None)

    def find(self, key: str | None) -> Client:
        """Return the client with this key. The time this takes does not depend on the key or on which one matches."""
        if self._anonymous is not None:
            return self._anonymous
        if not key:
            raise KeyProblem(400, "Please contact the server operator to get an API key")
        presented = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        matches = [client for digest, client in self._clients if hmac.compare_digest(digest, presented)]
        if not matches:
            raise KeyProblem(403, "Invalid API key")
        return matches[0]


def _digest(entry: _Key, where: str) -> bytes:
    if bool(entry.key) == bool(entry.sha256):
        raise InputError(f"{where}: give either its `key` or its `sha256`")
    if entry.sha256:
        if not SHA256.fullmatch(entry.sha256):
            raise InputError(f"{where}: `sha256` is not 64 hexadecimal digits; compute it with sha256sum")
        return bytes.fromhex(entry.sha256)
    if len(entry.key) < SHORTEST_KEY:
        raise InputError(f"{where}: is shorter than {SHORTEST_KEY} characters; make one with `openssl rand -hex 32`")
    return hashlib.sha256(entry.key.encode()).digest()


@dataclass
class _Used:
    """What a client used in the present minute and day, and since the start."""

    minute: float = 0.0
    requests: int = 0
    day: float = 0.0
    characters: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Usage:
    """Counts what clients use and refuses what is beyond their limits. Counts start at zero with the service."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}
        self._lock = threading.Lock()

    def _of(self, client: Client) -> _Used:
        with self._lock:
            return self._used.setdefault(client.owner, _Used())

    def count_request(self, client: Client) -> None:
        """Count a request."""
        used, limit, now = self._of(client), client.limits.requests_per_minute, self._clock()
        with used.lock:
            if now - used.minute >= MINUTE:
                used.minute, used.requests = now, 0
            if limit and used.requests >= limit:
                seconds = int(used.minute + MINUTE - now) + 1
                raise Problem(429, f"Slowdown: {limit} per 1 minute", seconds)
            used.requests += 1

    def count_characters(self, client: Client, characters: int, limit: int | None = None) -> None:
        """Count the characters of a request; limit: of this request, by default that of the client."""
        used, now = self._of(client), self._clock()
        limit = client.limits.characters if limit is None else limit
        if limit and characters > limit:
            raise too_long(characters, limit)
        per_day = client.limits.characters_per_day
        with used.lock:
            if now - used.day >= DAY:
                used.day, used.characters = now, 0
            if per_day and used.characters + characters > per_day:
                seconds = int(used.day + DAY - now) + 1
                raise QuotaExceeded(429, f"Slowdown: {per_day} characters per 1 day", seconds)
            used.characters += characters
            used.total += characters

    def characters(self, client: Client) -> tuple[int, int]:
        """Return the characters that a client has used and may use: of the day where it has a limit per day."""
        used, per_day = self._of(client), client.limits.characters_per_day
        return (used.characters, per_day) if per_day else (used.total, UNLIMITED)
