"""Several processes of one run: one of them, the main process, reads and writes the run's folder for all.

accelerator = make_accelerator()
newest = on_main(accelerator, lambda: find_newest(folder))      # the same in every process
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast, broadcast_object_list, gather_object
from torch import Tensor, nn

from tram.errors import InputError

T = TypeVar("T")


def make_accelerator() -> Accelerator:
    """Return what knows the devices and processes of this run; precision is the business of a stage."""
    return Accelerator(mixed_precision="no")


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
