"""The server process: uvicorn, with a shutdown that answers or refuses every request that was accepted."""

import asyncio
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn

from tram.errors import InputError
from tram.service.app import create_app
from tram.service.connections import Connection
from tram.service.service import Service
from tram.signals import handle_stop_signals, restore_handlers

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LINGER = 0.5  # seconds in which a request that was sent is read and refused
AFTER_GRACE = 10  # seconds for the answers themselves, after the translations


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    return host in LOOPBACK or host.startswith("127.")


def hosts_of(host: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names by which a service at this address may be called; empty: any. more: of a proxy, for example."""
    own = (*LOOPBACK, "[::1]", host)
    return (*own, *(name.lower() for name in more)) if more or is_loopback(host) else ()


def check_names(hosts: Sequence[str], origins: Sequence[str]) -> None:
    """Refuse names of the service and of other sites that no request could have."""
    for host in hosts:
        if not re.fullmatch(r"[^\s/:]+|\[[0-9A-Fa-f:.]+\]", host):
            raise InputError(
                f"--allow-host {host}: is not a name; give one such as translate.example.org, without port"
            )
    for origin in origins:
        if not re.fullmatch(r"\*|[a-z][a-z0-9+.-]*://[^\s/]+", origin):
            raise InputError(
                f"--allow-origin {origin}: is not a site; give one such as https://example.org, without path"
            )


class Server(uvicorn.Server):
    """uvicorn that ends in two steps.

    First accepted work is finished, or refused when the grace is over, while new work is refused with 503. Then nobody
    can connect any more, and the connections are closed.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where, and start: clients can connect already, and a failure to print it leaves nothing to shut down."""
        service = self.service
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            pair = f"{service.languages.source} to {service.languages.target}"
            model = "its own small model" if service.is_shipped else service.model_name
            print(f"tram serves {model} ({pair}) at http://{at}", flush=True)
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down; a second signal does not wait for accepted work, a third not for connections."""
        self._signals += 1
        if self._signals > 2:
            self.should_exit = self.force_exit = True
            return
        grace = self.service.settings.grace if self._signals == 1 else 0
        threading.Thread(target=self._finish, args=(grace,), daemon=True).start()

    def _finish(self, grace: float) -> None:
        """Finish the work while the event loop goes on to answer; then end the loop."""
        self.service.finish(grace)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer the requests that are on their way, and close the connections."""
        await asyncio.sleep(0)  # those that have connected are accepted here
        for server in self.servers:
            server.close()
        end = time.monotonic() + LINGER
        while self.server_state.connections and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.01)
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves it out, and its end would be a traceback
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the stop signals, which end the server as they should: unlike uvicorn's, not raised again."""
        before = handle_stop_signals(self.handle_exit)
        try:
            yield
        finally:
            restore_handlers(before)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0: any free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
        # Inherited by its connections, for which asyncio does not set it: without it an answer waits 40 ms between its
        # head and its body
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or "not an address").partition(" (while")[
            0
        ]  # it repeats the address
        raise InputError(f"{host}:{port}: cannot be listened on ({reason}); choose another --host or --port") from None


def make_server(service: Service) -> Server:
    """Return a server that is ready to run on a socket."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of every bad form
    config = uvicorn.Config(
        create_app(service),
        http=Connection,
        ws="none",
        log_level="error",  # it warns of every bad request
        access_log=False,  # it would contain addresses and keys
        server_header=False,
        limit_concurrency=4 * service.settings.queue + 100,
        timeout_graceful_shutdown=int(service.settings.grace) + AFTER_GRACE,
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=64 * 1024,
    )
    return Server(config, service)
