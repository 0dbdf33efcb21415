"""The HTTP application: all endpoints, and errors in the form that each kind of client expects.

app = create_app(Service(Translator.load()))
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tram import __version__
from tram.errors import InputError
from tram.service import deepl, libretranslate, session_api
from tram.service.errors import KeyProblem, Problem, QuotaExceeded
from tram.service.metrics import Metrics
from tram.service.middleware import Guard
from tram.service.requests import client_of
from tram.service.scheduler import Cancelled, Unavailable
from tram.service.service import Service

PAGE = Path(__file__).parent / "page"
MAX_BODY = 4_000_000  # bytes, of everything but files
UPLOADS = ("/translate_file", "/v2/document")
FORM_OVERHEAD = 100_000  # bytes of an upload besides its file
SWEEP_SECONDS = 60.0
CLIENT_GONE = 499  # nobody reads the answer
DEEPL_QUOTA = 456


def create_app(service: Service) -> FastAPI:
    """Return the application of a service; it closes the service at shutdown."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(_sweep(service))
        yield
        sweeper.cancel()
        await asyncio.get_running_loop().run_in_executor(None, service.close)

    app = FastAPI(
        title="tram",
        version=__version__,
        summary="Translation of whole documents with a small recurrent memory",
        description="LibreTranslate's and DeepL's protocols, and document sessions. Where keys are needed: the header "
        "`Authorization: Bearer KEY` or `Authorization: DeepL-Auth-Key KEY`, or the parameter `api_key`.",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.jobs = deepl.Jobs()
    metrics = Metrics(service)
    for router in (session_api.router, libretranslate.router, deepl.router):  # in the order in which they are searched
        app.include_router(router)
    _add_operations(app, service, metrics)
    _add_page(app)
    _add_errors(app)
    app.add_middleware(
        Guard,
        max_body=MAX_BODY,
        max_upload=service.keys.largest_file + FORM_OVERHEAD,
        uploads=UPLOADS,
        hosts=service.settings.hosts,
        origins=service.settings.origins,
        observe=metrics.observe,
        is_closing=lambda: not service.is_accepting,
    )
    return app


async def _sweep(service: Service) -> None:
    """Delete what has expired, from time to time."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for store in (service.sessions, service.uploads):
            with suppress(OSError, InputError):
                await asyncio.get_running_loop().run_in_executor(None, store.remove_expired)


def _add_operations(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/health", tags=["Operations"], responses={503: {"description": "Shutting down"}})
    async def health(response: Response) -> dict[str, str]:
        """Return whether the service accepts work."""
        if not service.is_accepting:
            response.status_code = 503
            return {"status": "unavailable"}
        return {"status": "ok"}

    @app.get("/metrics", tags=["Operations"], response_class=Response)
    async def prometheus(request: Request) -> Response:
        """Return counters for Prometheus; needs a key where keys are needed."""
        client_of(request)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", StaticFiles(directory=PAGE), name="page")


def _add_errors(app: FastAPI) -> None:
    def is_deepl(request: Request) -> bool:
        return request.url.path.startswith("/v2/")

    def answer(
        request: Request,
        status: int,
        message: str,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JSONResponse:
        name = "message" if is_deepl(request) else "error"
        more = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return JSONResponse({name: message}, status, {**(headers or {}), **more})

    async def problem(request: Request, error: Any) -> JSONResponse:
        if is_deepl(request) and isinstance(error, QuotaExceeded):
            return answer(request, DEEPL_QUOTA, "Quota exceeded")
        status = 403 if is_deepl(request) and isinstance(error, KeyProblem) else error.status
        return answer(request, status, error.message, error.retry_after)

    async def unavailable(request: Request, error: Any) -> JSONResponse:
        return answer(request, 503, str(error), error.retry_after)

    async def bad_input(request: Request, error: Any) -> JSONResponse:
        return answer(request, 400, f"Invalid request: {error}")

    async def invalid(request: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return answer(request, 400, "Invalid JSON format")
        where = ".".join(str(part) for part in first["loc"][1:4])
        if not where:
            return answer(request, 400, "Invalid request: the body is no JSON object, or its type is not JSON")
        return answer(request, 400, f"Invalid request: {where}: {first['msg']}")

    async def http(request: Request, error: Any) -> JSONResponse:
        return answer(request, error.status_code, str(error.detail), headers=error.headers)

    async def gone(request: Request, error: Any) -> Response:
        return Response(status_code=CLIENT_GONE)

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(Unavailable, unavailable)
    app.add_exception_handler(InputError, bad_input)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Cancelled, gone)
    app.add_exception_handler(ClientDisconnect, gone)
