"""A campaign of damaged inputs: none may cause a traceback or take long.

    python -m tests.fuzz.run --kind configs --count 20000

Prints how many were accepted and refused, and for each new kind of failure the seed, which `--first SEED --count 1`
repeats. Exit code 1 if there was one.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
SECONDS = 20  # for one input, on a busy machine
MESSAGE = 4000  # characters
MEMORY = 8 << 30  # bytes


class TooSlow(BaseException):
    """Raised in an input that takes too long."""


@dataclass
class Outcome:
    """What became of the inputs of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)  # by place: seed and traceback


def campaign(kind: Any, seeds: range) -> Outcome:
    """Try one damaged input for every seed."""
    from tram.errors import InputError, RunError

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    outcome = Outcome()
    seed = seeds.start

    def note(ignored: Any) -> None:  # Python would print it to the user's screen
        outcome.failures.setdefault(f"ignored: {ignored.exc_type.__name__}", (seed, str(ignored.exc_value)[:500]))

    before, hook = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = note
    try:
        for seed in seeds:
            signal.alarm(SECONDS)
            try:
                kind.case(seed)
                outcome.counts["accepted"] += 1
            except KeyboardInterrupt:  # what was counted so far is printed
                break
            except (InputError, RunError) as error:
                outcome.counts["refused"] += 1
                if len(str(error)) > MESSAGE or "\n" in str(error):
                    outcome.failures.setdefault("message", (seed, str(error)[:500]))
            except (Exception, TooSlow) as error:
                outcome.counts["failed"] += 1
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
                outcome.failures.setdefault(place, (seed, traceback.format_exc()))
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
    return outcome


def main() -> int:
    """Run the campaign that the command line asks for."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fuzz.kinds import KINDS

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a bomb is a MemoryError, not a machine that swaps
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first input")
    options = parser.parse_args()
    failed = False
    for name in KINDS if options.kind == "all" else [options.kind]:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            outcome = campaign(KINDS[name](Path(folder)), range(options.first, options.first + options.count))
        print(f"{name}: {outcome.counts.total():,} inputs, {dict(outcome.counts)}", flush=True)
        for place, (seed, trace) in outcome.failures.items():
            failed = True
            print(f"--- {name}, seed {seed}: {place}\n{trace}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
