"""Processes for a stream of tasks, or for one call, which never outlive the process that started them.

    with Workers(4) as workers:
        for result in workers.ordered(function, tasks): ...
    result = in_new_process(function, *arguments)

A worker reads tasks from its standard input and exits as soon as that is closed, even if the parent process was killed;
on Linux the kernel ends it, which does not wait for an import to end. Each worker has its own session, so that Ctrl-C
reaches only the parent.
"""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from tram.errors import InputError

X = TypeVar("X")
Y = TypeVar("Y")
AHEAD = 4  # tasks in progress per worker
PR_SET_PDEATHSIG = 1  # of Linux


class ProcessKilledError(InputError):
    """A process that was killed from outside."""


class Workers:
    """A pool of processes; a pool of one works in the current process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._processes: list[subprocess.Popen[bytes]] = []

    def ordered(self, function: Callable[[X], Y], tasks: Iterable[X]) -> Iterator[Y]:
        """Yield the results like `map`, without running far ahead of the consumer."""
        if self.number == 1:
            yield from map(function, tasks)
            return
        while len(self._processes) < self.number:
            self._processes.append(_start())
        pending: deque[subprocess.Popen[bytes]] = deque()  # the process of each task in progress, in order
        for process, task in zip(cycle(self._processes), tasks, strict=False):
            _send(process, partial(function, task))
            pending.append(process)
            if len(pending) >= AHEAD * self.number:
                yield _receive(pending.popleft())
        while pending:
            yield _receive(pending.popleft())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _kill(self._processes)


def in_new_process(function: Callable[..., Y], *arguments: Any) -> Y:
    """Return the result of a function, called in a process of its own."""
    process = _start()
    try:
        _send(process, partial(function, *arguments))
        result: Y = _receive(process)
        return result
    finally:
        _kill([process])


def _start() -> subprocess.Popen[bytes]:
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "  # ends it without a traceback
        f"sys.path[:] = {sys.path!r}; from tram.data.workers import serve; serve({os.getpid()})"
    )
    pipe = subprocess.PIPE
    try:  # not forked: the threads of tokenizers do not survive a fork
        return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, start_new_session=True)
    except OSError as error:
        raise InputError(
            f"a worker process cannot be started ({error.strerror}); run again with fewer --workers, or raise the "
            "limits on processes and open files (ulimit -u, ulimit -n)"
        ) from error


def _send(process: subprocess.Popen[bytes], task: Any) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
        process.stdin.flush()
    except BrokenPipeError:
        raise _died() from None


def _receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    try:
        result, error = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        raise _died() from None
    if error is not None:
        raise error
    return result


def _died() -> ProcessKilledError:
    return ProcessKilledError(
        "a worker process was killed, perhaps for lack of memory; run again with more memory or fewer --workers"
    )


def _kill(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes whose tasks are finished or no longer needed."""
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()


def serve(parent: int) -> None:
    """Process tasks from standard input until it is closed. parent: process that started this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before
            os._exit(0)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not be mixed with the results
    tasks: SimpleQueue[Any] = SimpleQueue()
    try:  # a separate thread notices the end of the input while a task is running
        Thread(target=_read_tasks, args=(tasks,), daemon=True).start()
    except RuntimeError:  # the limit on threads
        os._exit(1)
    while True:
        call = tasks.get()
        try:
            result = pickle.dumps((call(), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # raised again in the parent process
            result = pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
        try:
            results.write(result)
            results.flush()
        except BrokenPipeError:
            os._exit(1)


def _read_tasks(tasks: SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:  # the end of the input, perhaps in the middle of a task; or too little memory to import its function
        os._exit(0)
