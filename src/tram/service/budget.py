"""A limit on what many requests hold in memory at the same time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tram.service.scheduler import BUSY, Unavailable


class Budget:
    """So many bytes at once, from any thread. What is larger than that is accepted alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._lock = threading.Lock()

    def take(self, size: int, own: int = 0) -> None:
        """Take some bytes, or raise `Unavailable`; own: what the same request holds already."""
        with self._lock:
            if self.held > own and self.held + size > self.limit:
                raise Unavailable(BUSY, 1)
            self.held += size

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self.held -= size

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Take some bytes until the end of the block."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)
