"""Good and bad clients together, for a long time: statuses, memory, planted numbers.

    python runs/service/mixed.py [--minutes 30] [--clients 16] [--compare 100] [--model DIR] [--json FILE] [--core 0]

Clients translate and correct in sessions, translate letters and lists, disconnect, send oversize bodies and bad JSON,
read slowly, leave streams, and guess ids. Wanted: no answer 500, memory that does not grow, no number of one request in
the answer to another, and translations like those of the same documents alone. What was seen so far is written every
minute, and at the end, also if SIGTERM or Ctrl-C comes before.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients import TIMEOUT, Client, Server, add_common, leave_core, sentence, together, write_result

LETTER = (Path(__file__).parents[2] / "examples" / "letter.txt").read_text(encoding="utf-8")
DIGITS = 14  # of a number that is planted in one request: too long for the model to produce another one by mistake


@dataclass(frozen=True)
class Seen:
    """What a client saw: the kind of request and its status; all text of the answer; sources and translations."""

    status: str
    text: str = ""
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass
class Tally:
    """What all clients saw together, and the memory of the server."""

    statuses: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    kept: int = 0  # answers with their own number
    documents: list[tuple[tuple[str, str], ...]] = field(default_factory=list)
    rss: list[tuple[float, int]] = field(default_factory=list)  # minutes, kB
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, seen: Seen, own: int, leaks: list[str]) -> None:
        """Count an answer."""
        with self.lock:
            self.statuses[seen.status] += 1
            self.leaks += leaks
            self.kept += str(own) in seen.text
            if seen.pairs:
                self.documents.append(seen.pairs)

    def result(self) -> dict[str, Any]:
        """Return the numbers. The memory is compared over the second fifth of the time and the last."""
        with self.lock:
            rss = [size for _, size in self.rss]
            parts = rss[len(rss) // 5 : 2 * len(rss) // 5 + 1], rss[-(len(rss) // 5 + 1) :]
            early, late = (statistics.median(part) for part in parts)
            return {
                "minutes": round(self.rss[-1][0], 1),
                "requests": self.statuses.total(),
                "answers": dict(sorted(self.statuses.items())),
                "server_errors": errors(self.statuses),
                "rss_kb": {"early": early, "late": late, "growth": late / early - 1},
                "rss_kb_each_minute": [self._at(minute) for minute in range(int(self.rss[-1][0]) + 1)],
                "with_own_number": self.kept,
                "with_foreign_number": len(self.leaks),
            }

    def _at(self, minute: int) -> int:
        return next(size for when, size in self.rss if when >= minute)


def mixed(options: argparse.Namespace) -> dict[str, Any]:
    """Run good and bad clients together and watch statuses, memory and planted numbers.

    Numbers of other requests must not appear. Translations are compared with those of the same documents alone.
    """
    server = Server(options.model, options.core)
    start, tally, planted = time.monotonic(), Tally(), Planted()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    kinds: list[Callable[[Server, random.Random, int], Seen]] = [
        *[good_session] * 6, one_text, one_list, disconnect, leave_stream, oversize, oversize_pieces, bad_json,
        slow_reader, wrong_session,
    ]  # fmt: skip

    def run(seed: int) -> None:
        draw = random.Random(seed)
        while not over.is_set():
            own = planted.new(draw)
            try:
                seen = draw.choice(kinds)(server, draw, own)
            except (OSError, http.client.HTTPException, LookupError, ValueError, TypeError) as error:
                seen = Seen(f"client {type(error).__name__}")
            tally.add(seen, own, planted.foreign(seen.text, own))

    def watch() -> None:
        while (minutes := (time.monotonic() - start) / 60) < options.minutes and not over.is_set():
            tally.rss.append((minutes, server.rss))
            if len(tally.rss) % 12 == 0:
                write_result(options.json, "mixed", {**tally.result(), "finished": False})
            over.wait(min(5.0, 6 * options.minutes))
        over.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    together(run, options.clients)
    watcher.join()
    documents = tally.documents
    compared = random.Random(0).sample(documents, min(options.compare, len(documents)))
    differing = [pairs for pairs in compared if alone(server, [source for source, _ in pairs]) != pairs]
    code = server.stop()
    result = tally.result()
    rss = result["rss_kb"]
    print(f"answers: {result['answers']}")
    print(f"RSS {rss['early'] / 1e3:.0f} MB early, {rss['late'] / 1e3:.0f} MB late: {rss['growth']:+.1%}; exit {code}")
    print(f"answers with their own number: {tally.kept}; with another request's: {len(tally.leaks)}")
    print(f"documents translated otherwise than alone: {len(differing)} of {len(compared)}")
    print(f"answers 5xx other than 503: {result['server_errors']}")
    return {
        **result,
        "clients": options.clients,
        "compared_with_alone": len(compared),
        "differing_from_alone": differing,
        "exit_code": code,
        "finished": result["minutes"] >= 0.99 * options.minutes,
    }


def alone(server: Server, sources: list[str]) -> tuple[tuple[str, str], ...]:
    """Translate a document while the server has nothing else to do."""
    client = Client(server)
    path = f"/sessions/{client.session()}"
    _, answer = client.send("POST", f"{path}/translate", {"q": sources, "alternatives": 2})
    client.send("DELETE", path)
    client.connection.close()
    return pairs_of(answer)


def pairs_of(answer: Any) -> tuple[tuple[str, str], ...]:
    """Return the sentences and their translations in an answer of a session."""
    return tuple((each["source"], each["target"]) for each in answer["sentences"])


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


def good_session(server: Server, draw: random.Random, planted: int) -> Seen:
    """Translate some sentences in a session, correct one, look at it, delete it."""
    client = Client(server)
    status, made = client.send("POST", "/sessions", {})
    if status != 201:
        return Seen(f"session {status}")
    path = f"/sessions/{made['id']}"
    texts = [sentence(draw, planted if draw.random() < 0.5 else None) for _ in range(draw.randint(1, 6))]
    status, answer = client.send("POST", f"{path}/translate", {"q": texts, "alternatives": 2})
    pairs = pairs_of(answer) if status == 200 else ()
    if status == 200 and draw.random() < 0.5:
        status, _ = client.send("PUT", f"{path}/sentences/0", {"target": f"Die Nummer ist {planted}."})
    _, content = client.send("GET", path)
    client.send("DELETE", path)
    client.connection.close()
    return Seen(f"session {status}", json.dumps(content), pairs)


def one_text(server: Server, draw: random.Random, planted: int) -> Seen:
    """Translate a letter."""
    text = f"{LETTER}\n{sentence(draw, planted)}"
    status, answer = Client(server).send("POST", "/translate", {"q": text, "source": "en", "target": "de"})
    return Seen(f"text {status}", json.dumps(answer))


def one_list(server: Server, draw: random.Random, planted: int) -> Seen:
    """Translate a list as Weblate does."""
    texts = [sentence(draw, planted) for _ in range(draw.randint(1, 40))]
    status, answer = Client(server).send("POST", "/translate", {"q": texts, "source": "en", "target": "de"})
    return Seen(f"list {status}", json.dumps(answer))


def disconnect(server: Server, draw: random.Random, planted: int) -> Seen:
    """Send a request and go."""
    with connected(server, {"q": LETTER * 3, "source": "en", "target": "de"}):
        time.sleep(draw.random() / 2)
    return Seen("disconnect")


def leave_stream(server: Server, draw: random.Random, planted: int) -> Seen:
    """Read the events of a session slowly, and go before the last."""
    client = Client(server)
    status, made = client.send("POST", "/sessions", {})
    if status != 201:
        return Seen(f"leave-stream {status}")
    path = f"/sessions/{made['id']}"
    text = f"{sentence(draw, planted)}\n{LETTER * 2}"
    with closing(http.client.HTTPConnection(server.address, timeout=TIMEOUT)) as connection:
        body = json.dumps({"q": text, "stream": True})
        connection.request("POST", f"{path}/translate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        events = ""
        for _ in range(draw.randint(1, 10)):
            events += answer.read1(100).decode(errors="replace")
            time.sleep(0.1)
    client.send("DELETE", path)
    client.connection.close()
    return Seen(f"leave-stream {answer.status}", events)


def oversize(server: Server, draw: random.Random, planted: int) -> Seen:
    """Send far too much."""
    status, _ = Client(server).send("POST", "/translate", {"q": "x" * 5_000_000, "source": "en", "target": "de"})
    return Seen(f"oversize {status}")


def oversize_pieces(server: Server, draw: random.Random, planted: int) -> Seen:
    """Send far too much without saying how much."""
    client = Client(server)
    pieces = (b"x" * 100_000 for _ in range(80))
    with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
        client.connection.request("POST", "/translate", pieces, {"Content-Type": "application/json"})
    try:
        status = str(client.connection.getresponse().status)
    except ConnectionResetError:  # the answer was lost, because the server does not read the rest
        status = "reset"
    client.connection.close()
    return Seen(f"oversize-pieces {status}")


def bad_json(server: Server, draw: random.Random, planted: int) -> Seen:
    """Send bytes that are no JSON."""
    client = Client(server)
    body = bytes(draw.randrange(256) for _ in range(100))
    client.connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    status = client.connection.getresponse().status
    client.connection.close()
    return Seen(f"bad-json {status}")


def slow_reader(server: Server, draw: random.Random, planted: int) -> Seen:
    """Read the answer a few bytes at a time, and not to the end."""
    with connected(server, {"q": sentence(draw, planted), "source": "en", "target": "de"}) as connection:
        text = ""
        for _ in range(10):
            text += connection.recv(20).decode(errors="replace")
            time.sleep(0.1)
    return Seen(f"slow-reader {text[9:12]}", text)


def wrong_session(server: Server, draw: random.Random, planted: int) -> Seen:
    """Guess the id of a session."""
    status, answer = Client(server).send("GET", f"/sessions/{draw.randbytes(16).hex()}")
    return Seen(f"guess {status}", json.dumps(answer))


def connected(server: Server, body: Any) -> socket.socket:
    """Return a connection on which a request to /translate was sent."""
    host, port = server.address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    data = json.dumps(body).encode()
    lines = ["POST /translate HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    head = "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""])
    connection.sendall(head.encode() + data)
    return connection


def main() -> None:
    """Run the load and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--compare", type=int, default=100, help="documents to translate again on the idle server")
    add_common(parser)
    options = parser.parse_args()
    leave_core(options.core)
    write_result(options.json, "mixed", mixed(options))


if __name__ == "__main__":
    main()
