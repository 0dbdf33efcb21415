"""Mixed precision of one stage: autocast and, with float16, a loss scaler.

accelerate's mixed precision is not used, because it is set per process, and the stages of a run may differ.
"""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """The `precision` of a config on a device; auto: mixed precision if the device supports it well."""

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "auto":
            name = "float32"
            if device.type == "cuda":
                name = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
        self.device = device.type
        self.half = HALF.get(name)
        self.weights = torch.float64 if name == "float64" else torch.float32
        self.scaler = torch.amp.GradScaler(self.device) if name == "float16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products are computed in half precision, if configured."""
        return torch.autocast(self.device, dtype=self.half, enabled=self.half is not None)

    def backward(self, loss: Tensor) -> None:
        """Accumulate the gradients of a loss; with float16, times the scale."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def clip(self, optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], limit: float) -> float:
        """Divide the gradients by the scale, clip their norm (limit 0: do not), and return the norm before clipping."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        return float(nn.utils.clip_grad_norm_(parameters, limit or math.inf))

    def tolerates(self, norm: float) -> bool:
        """Return whether training continues after a gradient of this norm.

        With float16, a norm that is not finite is an overflow: the step is skipped and the scale halved. If the scale
        is below 1, training has diverged instead.
        """
        return math.isfinite(norm) or (self.scaler is not None and self.scaler.get_scale() >= 1)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Make a step of the optimiser, unless a gradient overflowed."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()

    def state(self) -> dict[str, Any]:
        """Return the state of the scaler, for a checkpoint."""
        return {} if self.scaler is None else {"scaler": self.scaler.state_dict()}

    def restore(self, scaler: Any) -> None:
        """Continue with the state of a scaler, and without an update it has begun; None: there was none."""
        if scaler is None or self.scaler is None:
            return
        if not isinstance(scaler, dict) or scaler.keys() != self.scaler.state_dict().keys():
            raise ValueError("`scaler` is not the state of a loss scaler")
        limits = {float: 1e38, int: 2**63 - 1}  # the largest values that torch accepts
        if not all(type(value) in limits and 0 <= value <= limits[type(value)] for value in scaler.values()):
            raise ValueError("`scaler` has a value that is not a finite number")
        self.scaler = torch.amp.GradScaler(self.device)  # the old one may have divided gradients already
        self.scaler.load_state_dict(scaler)
