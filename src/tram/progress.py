"""Progress of long work, on standard error: a live bar on a terminal, a plain line now and then elsewhere.

with Progress("tokenising", total=lines, unit="lines") as progress:
    progress.advance(1000, note="loss 4.32")
"""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PLAIN_SECONDS = 10.0  # between two plain lines


class Progress:
    """How far a piece of work is. `total` None: not known."""

    def __init__(self, description: str, total: int | None = None, unit: str = "", done: int = 0, hidden: bool = False):
        self.description = description
        self.total = total
        self.unit = unit
        self.done = done
        self.note = ""
        self.hidden = hidden
        self._first = done
        self._start = self._spoke = time.monotonic()
        self._bar: Bar | None = None
        if not hidden and sys.stderr.isatty():
            self._bar = Bar(
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
            self._task = self._bar.add_task(description, total=total, completed=done, rate="", note="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """So many steps more are done; `note` stands behind the bar until the next one."""
        self.done += steps
        self.note = self.note if note is None else note
        if self._bar:
            rate = _pace(self._rate())
            self._bar.update(self._task, completed=self.done, rate=rate, note=self.note)
        elif not self.hidden and time.monotonic() - self._spoke >= PLAIN_SECONDS:
            self._spoke = time.monotonic()
            self.say(self._line())

    def say(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        if self.hidden:
            return
        if self._bar:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _rate(self) -> float:
        return (self.done - self._first) / max(time.monotonic() - self._start, 1e-9)

    def _line(self) -> str:
        of = f"/{self.total:,}" if self.total else ""
        line = f"{self.description}: {self.done:,}{of} {self.unit}".rstrip() + f", {_pace(self._rate())}"
        if self.total and self._rate() > 0:
            line += f", {clock((self.total - self.done) / self._rate())} left"
        return f"{line}  {self.note}".rstrip()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        elif not self.hidden and kind is None:
            took = clock(time.monotonic() - self._start)
            self.say(f"{self.description}: {self.done:,} {self.unit}".rstrip() + f" in {took}  {self.note}".rstrip())


def clock(seconds: float) -> str:
    """90 → 0:01:30."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _pace(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
