"""Load on the service: throughput and latency, memory of many sessions, a long mixed run, planted words.

    python runs/service/load.py latency [--seconds 60]       # 1, 8 and 64 sessions, beside one sentence at a time
    python runs/service/load.py sessions [--count 10000]     # memory of each session of twenty sentences
    python runs/service/load.py mixed [--minutes 30]         # disconnects, oversize bodies, bad JSON, slow readers
    options of all: [--model DIR] [--json FILE] [--core 0]   # the server runs on one core, the clients on the others

Needs a quiet machine with two cores. The server is `tram serve` as users start it, on a free port of this machine.
"""

import argparse
import base64
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LETTER = (Path(__file__).parents[2] / "examples" / "letter.txt").read_text(encoding="utf-8")
WORDS = ["printer", "camera", "report", "program", "door", "window", "office", "battery", "price", "menu", "letter"]
FRAMES = [
    "The {} is new.",
    "Where is the {}?",
    "I have seen the old {}.",
    "Do you need the {} today?",
    "It is very good.",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
DIGITS = 14  # of a number that is planted in one request: too long for the model to produce another one by mistake


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

    def stop(self) -> int:
        """End the server as a service manager does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Client:
    """One connection that stays open."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection(server.address, timeout=120)

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


# Latency.


@dataclass(frozen=True)
class Latency:
    """What so many sessions at once see, in milliseconds, and sentences per second of all of them."""

    sessions: int
    sentences_per_second: float
    p50: float
    p99: float


def closed_loop(server: Server, sessions: int, seconds: float) -> Latency:
    """Let clients translate one sentence after the other, each in its own session."""
    times: list[float] = []
    lock = threading.Lock()
    end = time.monotonic() + seconds

    def run(seed: int) -> None:
        draw, client = random.Random(seed), Client(server)
        id = client.session()
        own = []
        while time.monotonic() < end:
            start = time.monotonic()
            status, _ = client.send("POST", f"/sessions/{id}/translate", {"q": [sentence(draw)]})
            assert status == 200, status
            own.append(time.monotonic() - start)
        with lock:
            times.extend(own)

    together(run, sessions)
    times.sort()
    p99 = times[min(int(0.99 * len(times)), len(times) - 1)]
    return Latency(sessions, len(times) / seconds, 1e3 * statistics.median(times), 1e3 * p99)


def one_at_a_time(options: argparse.Namespace) -> float:
    """Return sentences per second of the same model called directly, in a process of its own on the server's core."""
    command = [sys.executable, __file__, "direct", "--core", str(options.core), "--seconds", str(options.seconds)]
    command += ["--model", options.model] if options.model else []
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT).stdout)


def direct(options: argparse.Namespace) -> dict[str, Any]:
    """Translate one sentence after the other, without HTTP."""
    import torch

    from tram import Translator

    os.sched_setaffinity(0, {options.core})
    torch.set_num_threads(1)
    translator, draw, done = Translator.load(options.model), random.Random(0), 0
    state = translator.start()
    translator.translate([sentence(draw)], state)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        translator.translate([sentence(draw)], state)
        done += 1
    print(done / options.seconds)
    return {"sentences_per_second": done / options.seconds}


def latency(options: argparse.Namespace) -> dict[str, Any]:
    """Measure 1, 8 and 64 sessions."""
    alone = one_at_a_time(options)
    server = Server(options.model, options.core)
    rows = [closed_loop(server, n, options.seconds) for n in (1, 8, 64)]
    server.stop()
    print(f"one sentence at a time, without HTTP: {alone:.1f} sentences per second")
    for row in rows:
        print(
            f"{row.sessions:3} sessions: {row.sentences_per_second:6.1f} sentences per second,"
            f" p50 {row.p50:.0f} ms, p99 {row.p99:.0f} ms"
        )
    throughput = rows[-1].sentences_per_second / alone
    tail = rows[1].p99 / rows[0].p50
    print(f"throughput at 64 / one at a time: {throughput:.2f}; p99 at 8 / p50 at 1: {tail:.2f}")
    return {"alone": alone, "rows": [asdict(row) for row in rows], "throughput": throughput, "tail": tail}


# Memory of sessions.


def sessions(options: argparse.Namespace) -> dict[str, Any]:
    """Hold many sessions of twenty translated sentences, each with a state of its own."""
    server = Server(options.model, options.core, "--session-limit", "0")
    client = Client(server)
    id = client.session()
    draw = random.Random(1)
    client.send("POST", f"/sessions/{id}/translate", {"q": [sentence(draw) for _ in range(20)], "alternatives": 4})
    content = client.send("GET", f"/sessions/{id}")[1]
    state = base64.b64encode(client.send("GET", f"/sessions/{id}/state")[1]).decode()
    body = {"state": state, "sentences": content["sentences"], "after": content["after"]}
    before = server.rss
    made = 0
    while made < options.count and client.send("POST", "/sessions", body)[0] == 201:
        made += 1
    each = 1024 * (server.rss - before) / max(made, 1)
    server.stop()
    print(f"{made} sessions of 20 sentences: {each / 1e3:.1f} kB each")
    return {"sessions": made, "bytes_each": each}


# Mixed load.


def mixed(options: argparse.Namespace) -> dict[str, Any]:
    """Run good and bad clients together and watch statuses, memory and planted words."""
    server = Server(options.model, options.core)
    end = time.monotonic() + 60 * options.minutes
    statuses: Counter[str] = Counter()
    planted, leaks = Planted(), list[str]()
    rss: list[int] = []
    kinds: list[Callable[[Server, random.Random, int], tuple[str, str]]] = [
        *[good_session] * 6, one_text, one_list, disconnect, oversize, bad_json, slow_reader, wrong_session,
    ]  # fmt: skip

    def run(seed: int) -> None:
        draw = random.Random(seed)
        while time.monotonic() < end:
            own = planted.new(draw)
            status, text = draw.choice(kinds)(server, draw, own)
            statuses[status] += 1
            leaks.extend(planted.foreign(text, own))

    def watch() -> None:
        while time.monotonic() < end:
            rss.append(server.rss)
            time.sleep(min(5.0, 6 * options.minutes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    together(run, options.clients)
    watcher.join()
    code = server.stop()
    early, late = (
        statistics.median(part) for part in (rss[len(rss) // 5 : 2 * len(rss) // 5 + 1], rss[-len(rss) // 5 :])
    )
    growth = late / early - 1
    print(f"answers: {dict(sorted(statuses.items()))}")
    print(f"RSS {early / 1e3:.0f} MB early, {late / 1e3:.0f} MB late: {growth:+.1%}; exit code {code}")
    print(f"words of another session: {len(leaks)}; answers 5xx other than 503: {errors(statuses)}")
    return {"statuses": statuses, "rss": rss, "growth": growth, "leaks": leaks, "exit": code}


def errors(statuses: Counter[str]) -> int:
    """Return how many answers were errors of the server."""
    return sum(n for status, n in statuses.items() if status.split()[-1].startswith("5") and not status.endswith("503"))


class Planted:
    """The numbers that were planted, one for each request."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def new(self, draw: random.Random) -> int:
        """Return a number that no other request has."""
        number = draw.randrange(10 ** (DIGITS - 1), 10**DIGITS)
        self.known.add(str(number))
        return number

    def foreign(self, text: str, own: int) -> list[str]:
        """Return the numbers of other requests that a text contains."""
        digits = "".join(c if c.isdecimal() else " " for c in text).split()
        return [each for each in digits if each in self.known and each != str(own)]


def good_session(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Translate some sentences in a session, correct one, look at it, delete it."""
    client = Client(server)
    status, made = client.send("POST", "/sessions", {})
    if status != 201:
        return f"session {status}", ""
    path = f"/sessions/{made['id']}"
    texts = [sentence(draw, planted if draw.random() < 0.5 else None) for _ in range(draw.randint(1, 6))]
    status, _ = client.send("POST", f"{path}/translate", {"q": texts, "alternatives": 2})
    if status == 200 and draw.random() < 0.5:
        status, _ = client.send("PUT", f"{path}/sentences/0", {"target": f"Die Nummer ist {planted}."})
    _, content = client.send("GET", path)
    client.send("DELETE", path)
    client.connection.close()
    return f"session {status}", json.dumps(content)


def one_text(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Translate a letter."""
    text = f"{LETTER}\n{sentence(draw, planted)}"
    status, answer = Client(server).send("POST", "/translate", {"q": text, "source": "en", "target": "de"})
    return f"text {status}", json.dumps(answer)


def one_list(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Translate a list as Weblate does."""
    texts = [sentence(draw, planted) for _ in range(draw.randint(1, 40))]
    status, answer = Client(server).send("POST", "/translate", {"q": texts, "source": "en", "target": "de"})
    return f"list {status}", json.dumps(answer)


def disconnect(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Send a request and go."""
    with connected(server, {"q": LETTER * 3, "source": "en", "target": "de"}):
        time.sleep(draw.random() / 2)
    return "disconnect 0", ""


def oversize(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Send far too much."""
    status, _ = Client(server).send("POST", "/translate", {"q": "x" * 5_000_000, "source": "en", "target": "de"})
    return f"oversize {status}", ""


def bad_json(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Send bytes that are no JSON."""
    client = Client(server)
    body = bytes(draw.randrange(256) for _ in range(100))
    client.connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    status = client.connection.getresponse().status
    client.connection.close()
    return f"bad-json {status}", ""


def slow_reader(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Read the answer a few bytes at a time, and not to the end."""
    with connected(server, {"q": sentence(draw, planted), "source": "en", "target": "de"}) as connection:
        text = ""
        for _ in range(10):
            text += connection.recv(20).decode(errors="replace")
            time.sleep(0.1)
    return f"slow-reader {text[9:12]}", text


def wrong_session(server: Server, draw: random.Random, planted: int) -> tuple[str, str]:
    """Guess the id of a session."""
    status, answer = Client(server).send("GET", f"/sessions/{draw.randbytes(16).hex()}")
    return f"guess {status}", json.dumps(answer)


def connected(server: Server, body: Any) -> socket.socket:
    """Return a connection on which a request to /translate was sent."""
    host, port = server.address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    data = json.dumps(body).encode()
    lines = ["POST /translate HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    head = "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""])
    connection.sendall(head.encode() + data)
    return connection


def together(run: Callable[[int], None], count: int) -> None:
    """Run something in so many threads, and wait for all of them."""
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["latency", "sessions", "mixed", "direct"])
    parser.add_argument("--model", help="model folder; by default the model of tram")
    parser.add_argument("--core", type=int, default=0, help="core of the server")
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement of latency")
    parser.add_argument("--minutes", type=float, default=30, help="of the mixed load")
    parser.add_argument("--clients", type=int, default=16, help="of the mixed load")
    parser.add_argument("--count", type=int, default=10_000, help="of sessions")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args()
    others = os.sched_getaffinity(0) - {options.core}
    os.sched_setaffinity(0, others or {options.core})
    result = {"latency": latency, "sessions": sessions, "mixed": mixed, "direct": direct}[options.what](options)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
