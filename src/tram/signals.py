"""The signals that ask a command to stop: Ctrl-C, SIGTERM, and the SIGHUP of a terminal that was closed."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
SIGNALLED = 128  # plus the number of the signal: the exit code of what a signal ended


def handle_stop_signals(handler: Handler) -> dict[int, Any]:
    """Set the handler of the signals that are not ignored, and return the handlers before.

    A signal is ignored under nohup, or in a job in the background.
    """
    before: dict[int, Any] = {}
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            try:
                before[number] = signal.signal(number, handler)
            except ValueError:  # not in the main thread: the calling program handles signals
                break
    return before


def restore_handlers(before: dict[int, Any]) -> None:
    """Set the handlers that `handle_stop_signals` returned."""
    for number, handler in before.items():
        signal.signal(number, handler)
