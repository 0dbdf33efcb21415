"""Several processes of one run: one of them, the main process, reads and writes the run's folder for all.

accelerator = make_accelerator()
newest = on_main(accelerator, lambda: find_newest(folder))      # the same in every process
"""

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast, broadcast_object_list, gather_object
from torch import Tensor, nn

from tram.errors import InputError

T = TypeVar("T")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt


def make_accelerator() -> Accelerator:
    """Return what knows the devices and processes of this run; precision is the business of a stage."""
    return Accelerator(mixed_precision="no")


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, where the C library is glibc.

    Each update needs the same large blocks again. By default they are returned to the system at the end of an update,
    and the next one waits for pages that the system fills with zeros: 2 to 6% of the time of training on a CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


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
    """Return what every process gave, in their order, on the CPU; the shapes may differ."""
    shares: list[dict[str, Tensor]] = gather_object([{name: value.cpu() for name, value in tensors.items()}])
    return shares


def share_parameters(accelerator: Accelerator, model: nn.Module) -> None:
    """Give every process the parameters of the main process."""
    if accelerator.num_processes == 1:
        return
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(broadcast(parameter.detach()))
