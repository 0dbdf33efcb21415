"""Worker processes for a stream of tasks, which never outlive the process that started them.

    with Workers(4) as workers:
        for result in workers.ordered(function, tasks): ...

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
from collections.abc import Callable, Iterable, Iterator
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
            _send(process, (function, task))
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
        for process in self._processes:
            process.kill()  # its tasks are finished or no longer needed
        for process in self._processes:
            process.communicate()


def _start() -> subprocess.Popen[bytes]:
    program = f"import sys; sys.path[:] = {sys.path!r}; from tram.data.workers import serve; serve({os.getpid()})"
    pipe = subprocess.PIPE
    # Not forked: the threads of tokenizers do not survive a fork.
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, start_new_session=True)


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


def _died() -> InputError:
    return InputError("a worker process was killed, perhaps for lack of memory; run again with fewer --workers")


def serve(parent: int) -> None:
    """Process tasks from standard input until it is closed. parent: process that started this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before
            os._exit(0)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not be mixed with the results
    tasks: SimpleQueue[Any] = SimpleQueue()
    # A separate thread notices the end of the input while a task is running.
    Thread(target=_read_tasks, args=(tasks,), daemon=True).start()
    while True:
        function, task = tasks.get()
        try:
            result = pickle.dumps((function(task), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # raised again in the parent process
            result = pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)
        try:
            results.write(result)
            results.flush()
        except BrokenPipeError:
            os._exit(1)


def _read_tasks(tasks: SimpleQueue[Any]) -> None:
    while True:
        try:
            tasks.put(pickle.load(sys.stdin.buffer))
        except (EOFError, pickle.UnpicklingError):  # the end of the input, perhaps in the middle of a task
            os._exit(0)
