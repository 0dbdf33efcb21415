"""A limit on what many requests hold in memory at the same time."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tram.service.scheduler import BUSY, Unavailable
from tram.service.shares import fits

SMALL = 100  # a client can always have one so many-th of the limit


class Budget:
    """So many bytes at once, from any thread, shared by clients as in `shares`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._of: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, size: int, client: str, own: int = 0) -> None:
        """Take some bytes for a client, or raise `Unavailable`; own: what the same request holds already."""
        with self._lock:
            is_alone = self.held == own
            if not is_alone and not fits(size, self._of[client], self.held, self.limit, self.limit // SMALL):
                raise Unavailable(BUSY, 1)
            self.held += size
            self._of[client] += size

    def give_back(self, size: int, client: str) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self.held -= size
            self._of[client] -= size
            if not self._of[client]:
                del self._of[client]

    @contextmanager
    def hold(self, size: int, client: str) -> Iterator[None]:
        """Take some bytes until the end of the block."""
        self.take(size, client)
        try:
            yield
        finally:
            self.give_back(size, client)
