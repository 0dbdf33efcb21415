"""Progress on standard error: a live bar on a terminal, elsewhere a plain line every few seconds.

    with Progress("tokenising", total=lines, unit="lines") as progress:
        progress.advance(1000, note="loss 4.32")

Each line shows the steps done, the rate and the estimated time left. Where nobody can read them any more, because the
terminal or the other end of a pipe was closed, the work goes on.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal


class Progress:
    """The progress of one task; `total` is None if the number of steps is unknown."""

    def __init__(self, description: str, total: int | None = None, unit: str = "", done: int = 0, hidden: bool = False):
        self.description = description
        self.total = total
        self.unit = unit
        self.done = done
        self.note = ""
        self.hidden = hidden
        self._first = done
        self._start = self._last_line = time.monotonic()
        self._bar: Bar | None = None
        if not hidden and sys.stderr.isatty():
            self._bar = _bar(unit)
            self._task = self._bar.add_task(description, total=total, completed=done, rate="", note="")

    def __enter__(self) -> Self:
        if self._bar:
            with suppress(OSError):
                self._bar.start()
        return self

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Record that `steps` more steps are done; `note` is shown after the bar until the next note."""
        self.done += steps
        self.note = self.note if note is None else note
        if self._bar:
            rate = _format_rate(self._rate())
            self._bar.update(self._task, completed=self.done, rate=rate, note=self.note)
        elif not self.hidden and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.say(self._line())

    def say(self, text: str) -> None:
        """Print a line above the bar, where it stays."""
        if self.hidden:
            return
        with suppress(OSError):
            if self._bar:
                self._bar.console.print(text, highlight=False, markup=False)
            else:
                print(text, file=sys.stderr, flush=True)

    def _rate(self) -> float:
        return (self.done - self._first) / max(time.monotonic() - self._start, 1e-9)

    def _line(self) -> str:
        of = f"/{self.total:,}" if self.total else ""
        line = f"{self.description}: {self.done:,}{of} {self.unit}".rstrip() + f", {_format_rate(self._rate())}"
        if self.total and self._rate() > 0:
            line += f", {format_duration(max(self.total - self.done, 0) / self._rate())} left"
        return f"{line}  {self.note}".rstrip()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            with suppress(OSError):
                self._bar.stop()
        elif not self.hidden and kind is None:
            took = format_duration(time.monotonic() - self._start)
            self.say(f"{self.description}: {self.done:,} {self.unit}".rstrip() + f" in {took}  {self.note}".rstrip())


def format_duration(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds: 90 → 0:01:30."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _format_rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as plain sentences at the end of the block: no file names, no source lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if warning.category is UserWarning:
            print(f"warning: {warning.message}", file=sys.stderr)


def _bar(unit: str) -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
