"""A service with its clients, for load.py and mixed.py: `tram serve` on one core, on a free port of this machine."""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WORDS = ["printer", "camera", "report", "program", "door", "window", "office", "battery", "price", "menu", "letter"]
FRAMES = [
    "The {} is new.",
    "Where is the {}?",
    "I have seen the old {}.",
    "Do you need the {} today?",
    "It is very good.",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
TIMEOUT = 900  # seconds


class Server:
    """`tram serve` on one core."""

    def __init__(self, model: str | None, core: int, *options: str) -> None:
        command = [sys.executable, "-m", "tram", "serve", "--port", "0", *options]
        command += ["--model", model] if model else []
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),  # noqa: PLW1509 (no other thread runs yet)
        )
        assert self.process.stdout is not None
        self.address = urlsplit(self.process.stdout.readline().split()[-1]).netloc

    @property
    def rss(self) -> int:
        """Memory of the process, in kB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    @property
    def steps(self) -> int:
        """How many batches were translated."""
        text = Client(self).send("GET", "/metrics")[1].decode()
        return int(float(next(line for line in text.splitlines() if line.startswith("tram_steps_total")).split()[1]))

    def stop(self) -> int:
        """End the server as a service manager does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


class Client:
    """One connection that stays open."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection(server.address, timeout=TIMEOUT)

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send JSON; return the status and the JSON of the answer, if it is any."""
        data = None if body is None else json.dumps(body)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
                self.connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            return 0, None
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content

    def session(self) -> str:
        """Start a session."""
        return str(self.send("POST", "/sessions", {})[1]["id"])


def sentence(draw: random.Random, planted: int | None = None) -> str:
    """Return a sentence; with a planted number, it contains it."""
    text = draw.choice(FRAMES).format(draw.choice(WORDS))
    return text if planted is None else f"The number of the {draw.choice(WORDS)} is {planted}."


def together(run: Callable[[int], None], count: int) -> None:
    """Run something in so many threads, and wait for all of them."""
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of all measurements."""
    parser.add_argument("--model", help="model folder; by default the model of tram")
    parser.add_argument("--core", type=int, default=0, help="core of the server; the clients use the others")
    parser.add_argument("--json", type=Path, help="also write the result into this file, beside other results")


def leave_core(core: int) -> None:
    """Run this process on the other cores."""
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {core} or {core})


def write_result(path: Path | None, name: str, result: dict[str, Any]) -> None:
    """Write a result into a file, beside the other results there."""
    if path is not None:
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, name: result}, indent=2, ensure_ascii=False) + "\n")
