"""Good and bad clients together, for a long time: statuses, memory, planted numbers.

    python runs/service/mixed.py [--minutes 30] [--clients 16] [--compare 100] [--model DIR] [--json FILE] [--core 0]

Clients translate and correct in sessions, translate letters and lists, disconnect, send oversize bodies and bad JSON,
read slowly, and guess ids. Wanted: no answer 500, memory that does not grow, no number of one request in the answer to
another, and translations like those of the same documents alone.
"""

import argparse
import json
import random
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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


def mixed(options: argparse.Namespace) -> dict[str, Any]:
    """Run good and bad clients together and watch statuses, memory and planted numbers.

    Numbers of other requests must not appear. Translations are compared with those of the same documents alone.
    """
    server = Server(options.model, options.core)
    end = time.monotonic() + 60 * options.minutes
    statuses: Counter[str] = Counter()
    planted, leaks, kept = Planted(), list[str](), 0
    documents: list[tuple[tuple[str, str], ...]] = []
    rss: list[int] = []
    kinds: list[Callable[[Server, random.Random, int], Seen]] = [
        *[good_session] * 6, one_text, one_list, disconnect, oversize, bad_json, slow_reader, wrong_session,
    ]  # fmt: skip

    def run(seed: int) -> None:
        nonlocal kept
        draw = random.Random(seed)
        while time.monotonic() < end:
            own = planted.new(draw)
            seen = draw.choice(kinds)(server, draw, own)
            statuses[seen.status] += 1
            leaks.extend(planted.foreign(seen.text, own))
            kept += str(own) in seen.text
            if seen.pairs:
                documents.append(seen.pairs)

    def watch() -> None:
        while time.monotonic() < end:
            rss.append(server.rss)
            time.sleep(min(5.0, 6 * options.minutes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    together(run, options.clients)
    watcher.join()
    compared = random.Random(0).sample(documents, min(options.compare, len(documents)))
    differing = [pairs for pairs in compared if alone(server, [source for source, _ in pairs]) != pairs]
    code = server.stop()
    early, late = (
        statistics.median(part) for part in (rss[len(rss) // 5 : 2 * len(rss) // 5 + 1], rss[-len(rss) // 5 :])
    )
    growth = late / early - 1
    print(f"answers: {dict(sorted(statuses.items()))}")
    print(f"RSS {early / 1e3:.0f} MB early, {late / 1e3:.0f} MB late: {growth:+.1%}; exit code {code}")
    print(f"answers with their own number: {kept}; with another request's: {len(leaks)}")
    print(f"documents translated otherwise than alone: {len(differing)} of {len(compared)}")
    print(f"answers 5xx other than 503: {errors(statuses)}")
    return {
        "minutes": options.minutes,
        "clients": options.clients,
        "answers": dict(sorted(statuses.items())),
        "server_errors": errors(statuses),
        "rss_kb": {"early": early, "late": late, "growth": growth},
        "with_own_number": kept,
        "with_foreign_number": len(leaks),
        "compared_with_alone": len(compared),
        "differing_from_alone": differing,
        "exit_code": code,
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


def oversize(server: Server, draw: random.Random, planted: int) -> Seen:
    """Send far too much."""
    status, _ = Client(server).send("POST", "/translate", {"q": "x" * 5_000_000, "source": "en", "target": "de"})
    return Seen(f"oversize {status}")


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
