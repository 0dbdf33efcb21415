"""A campaign of damaged inputs: none may cause a traceback or take long.

    python -m tests.fuzz.run --kind configs --count 20000

Prints how many were accepted and refused, and for each new kind of failure the seed, which `--first SEED --count 1`
repeats. Exit code 1 if there was one. SIGTERM and Ctrl-C end it with what was counted so far.
"""

import argparse
import ctypes
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
SECONDS = 20  # for one input
TICK = 0.5  # seconds
MESSAGE = 2000  # characters
MEMORY = 8 << 30  # bytes


class TooSlow(BaseException):
    """Raised in an input that takes too long."""


class Watch:
    """A limit on the time of one input: of the processor, and of waiting.

    Time in which the whole process is stopped by SIGSTOP, or has to wait for others' work, does not count: the limit is
    on the processor's time, and on ticks of a clock, of which at most one arrives late.
    """

    def __init__(self) -> None:
        self._ticks = 0
        self._start = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch inputs inside the block."""
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raise TooSlow if the block takes too long."""
        self._ticks, self._start = 0, time.process_time()
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._check()  # of a long call into a library, only its end is seen

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self._ticks += 1
        self._check()

    def _check(self) -> None:
        used = time.process_time() - self._start
        waits = self._ticks * TICK > 3 * SECONDS and used < SECONDS / 10  # for a pipe, for example
        if used > SECONDS or waits:
            raise TooSlow


@dataclass
class Outcome:
    """What became of the inputs of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)  # by place: seed and traceback


def campaign(kind: Any, seeds: range, progress: bool = False) -> Outcome:
    """Try one damaged input for every seed."""
    from tram.errors import InputError, RunError
    from tram.training.signals import Interrupted

    outcome, watch = Outcome(), Watch()
    seed = seeds.start

    def note(ignored: Any) -> None:  # Python would print it to the user's screen
        outcome.failures.setdefault(f"ignored: {ignored.exc_type.__name__}", (seed, str(ignored.exc_value)[:500]))

    with watch.running(), _unraisable(note), suppress(KeyboardInterrupt):  # what was counted so far is printed
        for seed in seeds:
            before = _memory("VmRSS")
            _forget_peak()
            try:
                with watch.one():
                    kind.case(seed)
                outcome.counts["accepted"] += 1
            except (InputError, RunError) as error:
                outcome.counts["refused"] += 1
                if len(str(error)) > MESSAGE or "\n" in str(error):
                    outcome.failures.setdefault("message", (seed, str(error)[:500]))
            except Interrupted:  # a training took the signal for itself
                break
            except (Exception, TooSlow) as error:
                outcome.counts["failed"] += 1
                frames = traceback.extract_tb(error.__traceback__)
                frame = next((each for each in reversed(frames) if each.filename != __file__), frames[-1])
                place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
                outcome.failures.setdefault(place, (seed, traceback.format_exc()))
                if progress:
                    print(f"seed {seed}: {place}", file=sys.stderr, flush=True)
            if (grown := _memory("VmHWM") - before) > kind.growth:
                outcome.failures.setdefault("memory", (seed, f"{grown:,} bytes"))
            if progress and outcome.counts.total() % 1000 == 0:
                print(f"{outcome.counts.total():,} inputs, {dict(outcome.counts)}", file=sys.stderr, flush=True)
    return outcome


def _memory(name: str) -> int:
    """Return a size of this process in bytes: VmRSS, in use now; VmHWM, at most since the peak was forgotten."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return 0
    return int(text.partition(f"{name}:")[2].split()[0]) * 1024


def _forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@contextmanager
def _unraisable(hook: Callable[[Any], None]) -> Iterator[None]:
    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def drop_override() -> None:
    """Let file permissions hold for root too, so that unreadable files can be tried; without effect elsewhere."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable: the lower 32 capabilities, then the others
    if libc.capget(header, sets) == 0:
        for each in (0, 1):  # also of the permitted ones, by which os.access judges
            sets[each] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.capset(header, sets)


def main() -> int:
    """Run the campaign that the command line asks for."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fuzz.commands import COMMANDS
    from fuzz.kinds import KINDS as FUNCTIONS

    KINDS = {**FUNCTIONS, **COMMANDS}
    drop_override()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a bomb is a MemoryError, not a machine that swaps
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first input")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed = False
    for name in options.kind:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            seeds = range(options.first, options.first + options.count)
            outcome = campaign(KINDS[name](Path(folder)), seeds, progress=True)
        print(f"{name}: {outcome.counts.total():,} inputs, {dict(outcome.counts)}", flush=True)
        for place, (seed, trace) in outcome.failures.items():
            failed = True
            print(f"--- {name}, seed {seed}: {place}\n{trace}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
