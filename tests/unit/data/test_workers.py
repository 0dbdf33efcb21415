"""Worker processes: what becomes of a call that cannot be made."""

import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tram.data.workers import ProcessKilledError, Workers, in_new_process
from tram.errors import InputError


class Unreadable:
    """A task that cannot be read for want of memory."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return bytes, (1 << 62,)


def test_a_call_in_a_new_process_returns_its_result_or_raises_its_error() -> None:
    assert in_new_process(int, "12") == 12
    with pytest.raises(ValueError, match="invalid literal"):
        in_new_process(int, "twelve")


def test_a_task_that_a_worker_has_no_memory_to_read_is_an_error_and_not_waited_for() -> None:
    with Workers(2) as workers, pytest.raises(ProcessKilledError, match="lack of memory"):
        list(workers.ordered(len, [Unreadable()]))


def test_a_signal_to_a_worker_alone_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(2) as workers, pytest.raises(ProcessKilledError):
        list(workers.ordered(signal.raise_signal, [signal.SIGINT]))
    assert capfd.readouterr().err == ""


def test_a_limit_on_open_files_is_said_with_its_remedy() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with Workers(2) as workers, pytest.raises(InputError, match=r"cannot be started .*fewer --workers"):
            list(workers.ordered(len, ["task"]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
