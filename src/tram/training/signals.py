"""Handling of signals in training: drop the update that is being computed and write a checkpoint."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tram.signals import handle_stop_signals, restore_handlers


class Interrupted(Exception):
    """Raised after a signal interrupted a run and its checkpoint was written."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def stop_signals(active: bool) -> Iterator[Callable[[], int]]:
    """Catch the first stop signal inside the block; the yielded function returns its number, or 0.

    The second one has its usual effect and ends the run at once.
    """
    stopped = 0
    before: dict[int, Any] = {}

    def mark(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = number
        restore_handlers(before)

    if active:
        before = handle_stop_signals(mark)
    try:
        yield lambda: stopped
    finally:
        restore_handlers(before)
