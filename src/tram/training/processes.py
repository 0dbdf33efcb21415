"""Several processes of one run, of which only the main process reads and writes the run's folder.

accelerator = make_accelerator()
newest = on_main(accelerator, lambda: find_newest(folder))      # the same in every process
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast, broadcast_object_list, gather_object
from torch import Tensor, nn
from torch.distributed import DistError

from tram.errors import InputError, RunError

T = TypeVar("T")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt


def make_accelerator() -> Accelerator:
    """Return the accelerator, which manages devices and processes; precision is set per stage."""
    try:
        return Accelerator(mixed_precision="no")
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"accelerate: {error}; correct the environment variables ACCELERATE_*, or the options of accelerate launch"
        ) from None


def keep_freed_memory() -> None:
    """Configure glibc, if it is the C library, to keep freed memory in this process.

    Each update needs the same large blocks again. By default they are returned to the system at the end of an update,
    and the next one waits for the system to zero new pages: 2 to 6% of the training time on a CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


@contextmanager
def losing_others(accelerator: Accelerator) -> Iterator[None]:
    """Turn the error of a connection whose other end was killed into one sentence."""
    try:
        yield
    except RuntimeError as error:
        lost = isinstance(error, DistError) or "gloo" in str(error)
        if accelerator.num_processes == 1 or not lost:
            raise
        raise RunError(
            "another process of this run ended, so that this one cannot continue; look at what that one printed, and "
            "run the same command again to continue"
        ) from error


@contextmanager
def closing_connections() -> Iterator[None]:
    """Close the connections to the other processes at the end; else their threads can abort this one when it exits.

    Not after a signal: what is on its way is not waited for.
    """
    try:
        yield
    finally:
        ended_by = sys.exception()
        if (ended_by is None or isinstance(ended_by, Exception)) and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def on_main(accelerator: Accelerator, function: Callable[[], T]) -> T:
    """Call a function in the main process only, and return its result or raise its `InputError` in every process."""
    if accelerator.num_processes == 1:
        return function()
    outcome: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            outcome[0] = function()
        except InputError as error:
            outcome[1] = str(error)
    broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise InputError(outcome[1])
    result: T = outcome[0]
    return result


def from_all(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the tensors of every process, in the order of the processes, on the CPU; the shapes may differ."""
    shares: list[dict[str, Tensor]] = gather_object([{name: value.cpu() for name, value in tensors.items()}])
    return shares


def share_parameters(accelerator: Accelerator, model: nn.Module) -> None:
    """Broadcast the parameters of the main process to all processes."""
    if accelerator.num_processes == 1:
        return
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(broadcast(parameter.detach()))
