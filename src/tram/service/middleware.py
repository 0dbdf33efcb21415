"""What happens to every request: limits on its body, checks of host and origin, headers of the answer, metrics."""

import asyncio
import json
import logging
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tram.service.budget import Budget
from tram.service.scheduler import Unavailable

log = logging.getLogger(__name__)
Observe = Callable[[str, int, float], None]
BODY_TIMEOUT = 30.0  # seconds without another piece of a body
SLOWEST = 5_000  # bytes per second of a body, after the first BODY_TIMEOUT
BODIES_AT_ONCE = 300_000_000  # bytes of the bodies of all requests that are not answered yet
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Refused(Exception):
    """A request that is refused before its body is read to the end."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class Guard:
    """Checks requests before the application sees them, and finishes the headers of its answers.

    max_body: bytes; uploads: paths that may have max_upload bytes. hosts: names of the service, empty for any.
    origins: other sites whose pages may call the service; a browser names the site of a page in `Origin`.
    is_closing: whether clients should not send their next request over the same connection.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_body: int,
        max_upload: int,
        uploads: tuple[str, ...],
        hosts: tuple[str, ...],
        origins: tuple[str, ...],
        observe: Observe,
        is_closing: Callable[[], bool],
    ) -> None:
        self.app = app
        self.max_body = max_body
        self.max_upload = max_upload
        self.uploads = uploads
        self.hosts = hosts
        self.origins = origins
        self.observe = observe
        self.is_closing = is_closing
        self.bodies = Budget(BODIES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, headers, asked = time.monotonic(), 0, Headers(scope=scope), scope
        origin = headers.get("origin", "")
        body = _Body(receive, self._limit(scope), self.bodies, (scope.get("client") or ("",))[0])

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._finish(MutableHeaders(scope=message), origin)
            await send(message)

        try:
            self._check(scope, headers)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await answer({"type": "http.response.start", "status": 204, "headers": []})
                await answer({"type": "http.response.body"})
                return
            # HEAD is handled as GET; the server leaves out the body of the answer
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self.app(asked, body.receive, answer)
        except Refused as refusal:
            if not status:
                await _refuse(answer, scope["path"], refusal)
        except Exception:
            log.exception("a request failed")
            if not status:
                await _refuse(answer, scope["path"], Refused(500, "Internal error; it was logged"))
        finally:
            body.forget()
            route = asked.get("route")
            self.observe(getattr(route, "path", "other"), status or 499, time.monotonic() - start)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        if self.hosts and _host_name(host) not in self.hosts:
            # A page of another site can make its own name point to this machine
            raise Refused(421, "The service does not answer to this name; start it with --allow-host")
        origin = headers.get("origin", "")
        if origin and scope["method"] not in ("GET", "HEAD") and not self._is_allowed(origin, host):
            raise Refused(403, "Pages of other sites may not use this service; start it with --allow-origin")
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > self._limit(scope):
            raise Refused(413, f"The request is larger than {self._limit(scope)} bytes")

    def _is_allowed(self, origin: str, host: str) -> bool:
        return origin in self.origins or "*" in self.origins or origin.partition("://")[2] == host

    def _limit(self, scope: Scope) -> int:
        return self.max_upload if scope["path"] in self.uploads else self.max_body

    def _finish(self, headers: MutableHeaders, origin: str) -> None:
        for name, value in SECURITY_HEADERS.items():
            headers[name] = value
        headers.setdefault("Cache-Control", "no-store")
        if self.is_closing():
            headers["Connection"] = "close"
        if origin and (origin in self.origins or "*" in self.origins):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
            headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, DELETE"
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            headers.add_vary_header("Origin")


class _Body:
    """The body of a request, with limits on its size, on the time that it takes, and on all bodies together."""

    def __init__(self, receive: Receive, limit: int, together: Budget, client: str) -> None:
        self._receive = receive
        self._client = client
        self._limit = limit
        self._together = together
        self._start, self._size, self._is_complete = time.monotonic(), 0, False

    async def receive(self) -> Message:
        """Return the next piece."""
        if self._is_complete:
            return await self._receive()
        end = self._start + BODY_TIMEOUT + self._size / SLOWEST
        try:
            message = await asyncio.wait_for(self._receive(), min(BODY_TIMEOUT, max(end - time.monotonic(), 0)))
        except TimeoutError:
            raise Refused(408, "The request took too long to arrive") from None
        more = len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._size + more > self._limit:
            raise Refused(413, f"The request is larger than {self._limit} bytes")
        try:
            self._together.take(more, self._client, own=self._size)
        except Unavailable as error:
            raise Refused(503, str(error), error.retry_after) from None
        self._size += more
        return message

    def forget(self) -> None:
        """Make room for others: the request is answered."""
        self._together.give_back(self._size, self._client)
        self._size = 0


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host


async def _refuse(send: Send, path: str, refusal: Refused) -> None:
    name = "message" if path.startswith("/v2/") else "error"
    body = json.dumps({name: refusal.message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of the body is not read
    ]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
