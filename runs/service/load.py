"""Load on the service: throughput and latency, and the memory of many sessions.

    python runs/service/load.py latency [--seconds 60]       # 1, 8 and 64 sessions, beside one sentence at a time
                                [--engine torch]
    python runs/service/load.py sessions [--count 10000]     # memory of each session of twenty sentences
    python runs/service/load.py table --json docs/service-load.json > docs/service-load.md      # also of mixed.py
    options: [--model DIR] [--json FILE] [--core 0]          # the server runs on one core, the clients on the others

Needs a quiet machine with two cores.
"""

import argparse
import base64
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from clients import ENVIRONMENT, Client, Server, add_common, leave_core, sentence, together, write_result

HEADING = """# Load on the service

The model of tram, one process, one core for the server; by `runs/service/load.py` and `runs/service/mixed.py`.

"""


# Latency.


@dataclass(frozen=True)
class Latency:
    """What so many sessions at once see. A request is one sentence; a step of the server translates several."""

    sessions: int
    requests: int
    requests_per_second: float
    requests_per_step: float
    p50_ms: float
    p99_ms: float


def closed_loop(server: Server, sessions: int, seconds: float) -> Latency:
    """Let clients translate one sentence after the other, each in its own session."""
    times: list[float] = []
    lock = threading.Lock()
    ready = threading.Barrier(sessions)

    def run(seed: int) -> None:
        draw, client = random.Random(seed), Client(server)
        id, own = client.session(), list[float]()
        ready.wait()
        end = time.monotonic() + seconds
        while (start := time.monotonic()) < end:
            status, _ = client.send("POST", f"/sessions/{id}/translate", {"q": [sentence(draw)]})
            assert status == 200, status
            own.append(time.monotonic() - start)
        with lock:
            times.extend(own)

    start, steps = time.monotonic(), server.steps
    together(run, sessions)
    elapsed, steps = time.monotonic() - start, server.steps - steps
    times.sort()
    count = len(times)
    p50, p99 = 1e3 * statistics.median(times), 1e3 * times[min(int(0.99 * count), count - 1)]
    return Latency(sessions, count, count / elapsed, count / steps, p50, p99)


def one_at_a_time(options: argparse.Namespace) -> float:
    """Return sentences per second of the same model called directly, in a process of its own on the server's core."""
    command = [sys.executable, __file__, "direct", "--core", str(options.core), "--seconds", str(options.seconds / 2)]
    command += ["--model", options.model] if options.model else []
    command += ["--engine", options.engine]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=ENVIRONMENT).stdout)


def direct(options: argparse.Namespace) -> dict[str, Any]:
    """Translate one sentence after the other, without HTTP."""
    import torch

    from tram import Translator

    os.sched_setaffinity(0, {options.core})
    torch.set_num_threads(1)
    translator, draw, done = Translator.load(options.model, engine=options.engine), random.Random(0), 0
    state = translator.start()
    translator.translate([sentence(draw)], state)
    start = time.monotonic()
    while time.monotonic() < start + options.seconds:
        translator.translate([sentence(draw)], state)
        done += 1
    rate = done / (time.monotonic() - start)
    print(rate)
    return {"sentences_per_second": rate}


def latency(options: argparse.Namespace) -> dict[str, Any]:
    """Measure 1, 8 and 64 sessions, between two measurements of the model alone."""
    before = one_at_a_time(options)
    server = Server(options.model, options.core, "--engine", options.engine)
    warm = Client(server)
    warm.send("POST", "/translate", {"q": sentence(random.Random(0)), "source": "auto", "target": "de"})
    warm.connection.close()
    rows = [closed_loop(server, n, options.seconds) for n in (1, 8, 64)]
    server.stop()
    alone = (before + one_at_a_time(options)) / 2
    result = {
        "seconds": options.seconds,
        "engine": options.engine,
        "one_at_a_time_per_second": alone,
        "rows": [asdict(row) for row in rows],
        "throughput_at_64_over_one_at_a_time": rows[-1].requests_per_second / alone,
        "p99_at_8_over_p50_at_1": rows[1].p99_ms / rows[0].p50_ms,
    }
    print(table({name_of("latency", options): result}))
    return result


# Memory of sessions.


def sessions(options: argparse.Namespace) -> dict[str, Any]:
    """Hold many sessions of twenty translated sentences, each with a state of its own."""
    server = Server(options.model, options.core, "--session-limit", "0", "--session-memory", "0")
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
    result = {"sessions": made, "sentences": len(content["sentences"]), "bytes_each": each}
    print(table({"sessions": result}))
    return result


# Results as text.


def table(results: dict[str, Any]) -> str:
    """Return results as Markdown."""
    lines: list[str] = []
    for found in (results[name] for name in ("latency", "latency-torch") if name in results):
        lines += ["", "With `--engine torch`:", ""] if found["engine"] == "torch" else []
        lines += ["| concurrent sessions | requests per second | sentences per step | p50 | p99 |"]
        lines += ["|---|---|---|---|---|"]
        lines += [f"| model alone, one at a time | {found['one_at_a_time_per_second']:.1f} | | | |"]
        for row in found["rows"]:
            rates = f"{row['requests_per_second']:.1f} | {row['requests_per_step']:.1f}"
            lines += [f"| {row['sessions']} | {rates} | {row['p50_ms']:.0f} ms | {row['p99_ms']:.0f} ms |"]
        lines += [
            "",
            f"64 sessions have {found['throughput_at_64_over_one_at_a_time']:.2f} times the throughput of one request "
            f"at a time; p99 of 8 sessions is {found['p99_at_8_over_p50_at_1']:.2f} times p50 of one. {_least(found)}",
        ]
    if found := results.get("sessions"):
        kilobytes = f"{found['bytes_each'] / 1e3:.1f} kB each"
        lines += ["", f"{found['sessions']:,} sessions of {found['sentences']} sentences: {kilobytes}."]
    if found := results.get("mixed"):
        differing = f"{len(found['differing_from_alone'])} of {found['compared_with_alone']}"
        lines += [
            "",
            f"{found['minutes']:g} minutes of mixed load by {found['clients']} clients:"
            f" {sum(found['answers'].values()):,} requests, {found['server_errors']} server errors,"
            f" {found['rss_kb']['growth']:+.1%} memory, {found['with_foreign_number']} answers with another request's"
            f" number, {differing} documents translated otherwise than alone.",
        ]
    return "\n".join(lines).strip()


def _least(found: dict[str, Any]) -> str:
    """Return what the latency of 8 sessions cannot be below at this throughput, as a sentence."""
    one, eight, _ = found["rows"]
    mean = 1e3 * eight["sessions"] / eight["requests_per_second"]
    return f"(At that throughput the mean of 8 cannot be below {mean / one['p50_ms']:.2f} times, in whatever order.)"


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["latency", "sessions", "table", "direct"])
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement of latency")
    parser.add_argument("--engine", choices=["auto", "torch"], default="auto", help="of latency")
    parser.add_argument("--count", type=int, default=10_000, help="of sessions")
    add_common(parser)
    options = parser.parse_args()
    if options.what == "table":
        print(HEADING + table(json.loads(options.json.read_text())))
        return
    leave_core(options.core)
    result = {"latency": latency, "sessions": sessions, "direct": direct}[options.what](options)
    write_result(options.json, name_of(options.what, options), result)


def name_of(what: str, options: argparse.Namespace) -> str:
    """Return the name of a result in the file of results."""
    return what if options.engine == "auto" else f"{what}-{options.engine}"


if __name__ == "__main__":
    main()
