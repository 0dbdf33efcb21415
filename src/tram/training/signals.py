"""Handling of Ctrl-C and SIGTERM in training: drop the update that is being computed and write a checkpoint."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """Raised after the user interrupted a run and its checkpoint was written."""


@contextmanager
def stop_signals(active: bool) -> Iterator[Callable[[], bool]]:
    """Catch the first SIGINT or SIGTERM inside the block; the yielded function returns whether one arrived.

    The second one has its usual effect and ends the run at once.
    """
    stopped = False
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def mark(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        restore()

    if active:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) == signal.SIG_IGN:  # nohup, or a job in the background
                continue
            try:
                before[number] = signal.signal(number, mark)
            except ValueError:  # not in the main thread: the calling program handles signals
                break
    try:
        yield lambda: stopped
    finally:
        restore()
