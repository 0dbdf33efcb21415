"""`tram serve`: the HTTP service."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.options import ModelOptions, finite, with_model_options
from tram.errors import InputError


@with_model_options
def serve(
    options: ModelOptions,
    host: Annotated[str, typer.Option(help="Address to listen on; by default only this machine can connect.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 5000,
    keys: Annotated[Path | None, typer.Option(help="YAML file of keys and their limits; see docs/SERVICE.md.")] = None,
    open: Annotated[bool, typer.Option("--open", help="Serve other machines without keys.")] = False,
    sessions: Annotated[
        Path | None, typer.Option(help="Folder for document sessions, which then survive a restart.")
    ] = None,
    session_hours: Annotated[
        float,
        typer.Option(min=0.01, max=100_000, callback=finite, help="Hours after which an unused session is deleted."),
    ] = 24.0,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Sentences translated at once.")] = 32,
    queue: Annotated[
        int, typer.Option(min=1, max=1000, help="Requests that may wait, half of them from one client; more get 503.")
    ] = 256,
    char_limit: Annotated[
        int, typer.Option(min=0, max=10**9, help="Characters of one request; 0: any number.")
    ] = 100_000,
    file_limit: Annotated[int, typer.Option(min=1, max=500, help="Megabytes of an uploaded file.")] = 10,
    request_limit: Annotated[
        int, typer.Option(min=0, max=10**9, help="Requests per minute and key; 0: any number.")
    ] = 0,
    session_limit: Annotated[
        int, typer.Option(min=0, max=10**9, help="Document sessions per key; 0: any number.")
    ] = 1_000,
    session_memory: Annotated[
        int, typer.Option(min=0, max=10**6, help="Megabytes of the document sessions of a key; 0: any number.")
    ] = 1_000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name that clients use for the service, such as that of a proxy; may be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Site whose pages may use the service, such as https://example.org; may be repeated."),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, max=3600, callback=finite, help="Seconds that accepted requests get at shutdown.")
    ] = 20.0,
) -> None:
    """Serve translations over HTTP: LibreTranslate's and DeepL's protocols, document sessions, and a page."""
    try:
        from tram.service.server import check_names, hosts_of, is_loopback, listen, make_server
    except ImportError as error:
        raise InputError(f"{error.name}: is not installed; run pip install 'tram-mt[serve]'") from None
    if not is_loopback(host) and keys is None and not open:
        raise InputError(
            f"--host {host}: other machines could use the service without a key; give --keys FILE or --open"
        )
    check_names(allow_host or (), allow_origin or ())
    listener = listen(host, port)  # before the model is loaded, which takes longer
    from tram.cli.console import load_translator
    from tram.files import locked
    from tram.service.keys import Limits
    from tram.service.process import settle
    from tram.service.service import Service, ServiceSettings
    from tram.service.store import make_private

    settings = ServiceSettings(
        limits=Limits(
            characters=char_limit,
            file_bytes=file_limit * 1_000_000,
            requests_per_minute=request_limit,
            sessions=session_limit,
            session_bytes=session_memory * 1_000_000,
        ),
        keys=keys,
        sessions=sessions,
        session_seconds=session_hours * 3600,
        batch=batch,
        queue=queue,
        grace=grace,
        hosts=hosts_of(host, allow_host or ()),
        origins=tuple(allow_origin or ()),
    )
    if sessions is not None:
        make_private(sessions)
    with locked(sessions) if sessions is not None else nullcontext():
        translator = load_translator(replace(options, threads=options.threads or 1))
        service = Service(translator, settings)
        server = make_server(service)
        settle()
        server.run(sockets=[listener])
