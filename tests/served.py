"""A service with a tiny model on a real socket of this machine, in a thread."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import torch

from helpers import make_translator, shake
from tram.model.transformer import Transformer
from tram.service.server import Server, hosts_of, listen, make_server
from tram.service.service import Service, ServiceSettings
from tram.translation.translator import Translator

HOSTS = hosts_of("127.0.0.1")


def quick_translator(prepared: Path) -> Translator:
    """A translator with a memory and random weights, whose translations are short."""
    made = make_translator(prepared)
    torch.manual_seed(1)
    short = made.model.config.model_copy(update={"max_positions": 24, "max_length": 24})
    model = Transformer(short, made.text.vocabulary).double()
    shake(model, seed=2)
    return Translator(model, made.text, beam=2, guards=False)  # random weights loop


@dataclass(frozen=True)
class Served:
    """A running service and its address."""

    url: str
    service: Service
    server: Server

    def request(self, method: str, path: str, key: str | None = None, **more: Any) -> requests.Response:
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
        return requests.request(method, self.url + path, headers=headers, timeout=60, **more)

    def post(self, path: str, **more: Any) -> requests.Response:
        return self.request("POST", path, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.request("GET", path, **more)

    def session(self, text: str | list[str] | None = None, **more: Any) -> str:
        """Start a session, with a text that is translated in it."""
        id: str = self.post("/sessions", json={}, **more).json()["id"]
        if text is not None:
            assert self.post(f"/sessions/{id}/translate", json={"q": text}, **more).status_code == 200
        return id


@contextmanager
def serving(translator: Translator, settings: ServiceSettings | None = None) -> Iterator[Served]:
    """Run a service on a free port."""
    service = Service(translator, settings or ServiceSettings(hosts=HOSTS, grace=5))
    listener = listen("127.0.0.1", 0)
    server = make_server(service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", service, server)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
    assert not thread.is_alive()


def events(response: requests.Response) -> list[tuple[str, Any]]:
    """The server-sent events of an answer: names and data."""
    found = []
    for block in response.content.decode().split("\n\n"):
        if block:
            name, data = block.split("\n", 1)
            found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found
