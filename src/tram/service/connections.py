"""Connections of clients that send or read too slowly are closed, so that they cannot hold up the service.

Without it some hundred clients that connect and send nothing are all that the service accepts.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 30.0  # from the connection, or the last answer, to the end of the next request's head
SEND_SECONDS = 120.0  # in which a client must read what fills the buffers


class Connection(H11Protocol):
    """uvicorn's connection, with limits on the time that the head of a request and reading an answer may take."""

    head_seconds = HEAD_SECONDS
    send_seconds = SEND_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._idle: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._idle = self._abort_after(self.head_seconds)

    def data_received(self, data: bytes) -> None:
        """Read more of a request."""
        super().data_received(data)
        if not self._is_idle:
            _cancel(self._idle)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, which may have been read already."""
        super().on_response_complete()
        _cancel(self._idle)
        if self._is_idle:  # longer where the end of the answer is still to be sent
            unsent = self.transport.get_write_buffer_size()
            self._idle = self._abort_after(self.send_seconds if unsent else self.head_seconds)

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        self._unread = self._abort_after(self.send_seconds)

    def resume_writing(self) -> None:
        """Go on sending to a client that reads."""
        super().resume_writing()
        _cancel(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        _cancel(self._idle)
        _cancel(self._unread)

    def _abort_after(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
