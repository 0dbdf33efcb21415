"""Compare the speed of this checkout with an older one, measured in turn, each in a process of its own.

    git worktree add --detach ../old 596f58d
    python runs/speed/checkouts.py ../old training --json docs/speed/training.json
    python runs/speed/checkouts.py ../old decoding --text FILE --old-model DIR --model DIR

Prints old time / new time: the median of the ratios of all rounds, with a 95% interval of that median (the order
statistics that a sign test gives), and whether the results were the same.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tram.measuring import median_interval

HERE = Path(__file__).resolve().parent


class Side:
    """A worker with the source of one checkout."""

    def __init__(self, checkout: Path, purpose: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "worker.py"), purpose]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, work: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do a piece of work once; return seconds and result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"work": work, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker of {work} ended; see its message above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the worker end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(sides: dict[str, Side], name: str, work: str, arguments: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Measure one piece of work on both sides in turn. arguments: `old` and `new`."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    results: dict[str, set[str]] = {side: set() for side in sides}
    for number in range(rounds + 1):
        for side, worker in sides.items():
            answer = worker.run(work, arguments[side])
            results[side].add(json.dumps(answer["result"]))
            if number:  # the first one warms up
                seconds[side].append(answer["seconds"])
    ratios = [old / new for old, new in zip(seconds["old"], seconds["new"], strict=True)]
    low, high = median_interval(ratios)
    medians = {side: statistics.median(taken) for side, taken in seconds.items()}
    row = {
        "work": name,
        "old ms": 1000 * medians["old"],
        "new ms": 1000 * medians["new"],
        "ratio": statistics.median(ratios),
        "low": low,
        "high": high,
        "rounds": rounds,
        "same result": results["old"] == results["new"] if results["new"] != {"null"} else None,  # none was returned
    }
    same = {True: ", the same result", False: ", ANOTHER RESULT", None: ""}[row["same result"]]
    print(
        f"{name}: old {row['old ms']:.0f} ms, new {row['new ms']:.0f} ms, old/new {row['ratio']:.3f} "
        f"[{low:.3f}, {high:.3f}], {rounds} rounds{same}",
        flush=True,
    )
    return row


def pieces(options: argparse.Namespace) -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, work and arguments of both sides of everything that is asked for."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    if options.what == "training":
        for size, shape in itertools.product(options.sizes, options.shapes):
            alike = {"size": size, "ragged": shape == "ragged", "optimizer": options.optimizer}
            found.append((f"training at depth 1, {size}, {shape}", "training", {"old": alike, "new": alike}))
    elif options.what == "muon":
        for size in options.sizes:
            found.append((f"step of Muon, {size}", "muon", {"old": {"size": size}, "new": {"size": size}}))
    else:
        text = str(options.text.resolve())
        for documents, beam in itertools.product(options.documents, options.beams):
            alike = {"text": text, "sentences": options.sentences, "documents": documents, "beam": beam}
            folders = {"old": options.old_model, "new": options.model}
            both = {side: alike | {"folder": str(folder.resolve())} for side, folder in folders.items()}
            found.append((f"torch engine, {documents} at once, beam {beam}", "decoding", both))
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="checkout of the older commit")
    parser.add_argument("what", choices=("training", "muon", "decoding"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", nargs="+", default=["base", "shipped"])
    parser.add_argument("--shapes", nargs="+", default=["even", "ragged"])
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--documents", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--beams", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--model", type=Path, help="model folder for this checkout")
    parser.add_argument("--old-model", type=Path, help="the same weights in a folder that the older one reads")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sides = {"old": Side(options.old, options.what), "new": Side(HERE.parents[1], options.what)}
    rows = [compare(sides, name, work, both, options.rounds) for name, work, both in pieces(options)]
    for side in sides.values():
        side.close()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
