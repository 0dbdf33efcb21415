"""Progress on a terminal or a pipe that is closed while a command works, as when a connection to a server is lost."""

import os
import sys
from collections.abc import Callable

import pytest
import typer

from tram.cli.console import exit_on_interrupt
from tram.progress import Progress
from tram.training.signals import Interrupted


@pytest.mark.parametrize("opened", [os.openpty, os.pipe], ids=["terminal", "pipe"])
def test_work_goes_on_and_is_interrupted_as_ever(
    opened: Callable[[], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = opened()

    def work() -> None:
        with exit_on_interrupt(), Progress("training", 5, "updates") as progress:
            progress.say("so far")
            os.close(one)
            progress.say("lost")
            progress.advance(2)
            raise Interrupted(1)

    with open(os.devnull, "w") as nowhere, open(other, "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(typer.Exit) as ended:
            work()
        with Progress("evaluating", 5, "sentences") as progress:
            progress.advance(5)
        os.dup2(nowhere.fileno(), other)  # else the lost lines would be written again
    assert ended.value.exit_code == 129
