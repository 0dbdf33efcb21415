"""The optimiser and its learning rate: AdamW, linear warm-up, then the inverse square root."""

from collections.abc import Container

import torch
from torch import Tensor, nn

from tram.config import FinetuneConfig, TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig, new: Container[str] = ()) -> torch.optim.Optimizer:
    """AdamW as the config says, new and loaded parameters at their own rates; `set_rate` sets those of each update."""
    new_rate = config.lr_new if isinstance(config, FinetuneConfig) else config.lr
    groups = []
    for rate, wanted in ((config.lr, False), (new_rate, True)):
        parameters = [value for name, value in model.named_parameters() if (name in new) == wanted]
        if parameters:
            groups.append({"params": parameters, "peak": rate})
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)


def rate_factor(update: int, warmup: int) -> float:
    """Share of the peak learning rate at an update (counted from 1): 1 at the end of the warm-up."""
    if update < warmup:
        return update / warmup
    return float((max(warmup, 1) / update) ** 0.5)


def set_rate(optimizer: torch.optim.Optimizer, update: int, warmup: int) -> float:
    """Give every group its own peak times the one schedule; returns the first group's rate."""
    factor = rate_factor(update, warmup)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
    return float(optimizer.param_groups[0]["lr"])


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: NUMBER.KEY for the NUMBERth parameter."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{key}": value for number, values in state.items() for key, value in values.items()}


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    wanted = {number for group in groups for number in group["params"]}
    if state and state.keys() != wanted:
        raise ValueError(f"the optimiser's state is of {len(state)} parameters, not of {len(wanted)}")
    optimizer.load_state_dict({"state": state, "param_groups": groups})
