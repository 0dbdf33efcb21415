"""Optimisers and learning rates: AdamW or Muon; linear warm-up, then one of two schedules, then a cooldown."""

import fnmatch
import re
from collections.abc import Callable, Container, Mapping
from itertools import groupby

import torch
from torch import Tensor, nn

from tram.config import FinetuneConfig, TrainConfig
from tram.errors import InputError
from tram.model.contexts.base import Context
from tram.model.folder import converted


class Muon(torch.optim.AdamW):
    """AdamW whose groups marked `orthogonal` take Muon's step instead (Jordan et al. 2024).

    The direction of such a step is U Vᵀ, where U S Vᵀ is the momentum of the gradient: all directions of a matrix learn
    at the same rate. The step is scaled to the size of AdamW's (Liu et al. 2025), so that both share a learning rate.
    For parameters in which several matrices are stacked, the group has their number: `parts`.

    `torch.optim.Muon` computes in bfloat16; this class uses float32 and, on a GPU, batches all matrices of a shape.

    As for every fused optimiser, a gradient scaler leaves two tasks to the step: to skip it if a gradient overflowed
    (`found_inf`), and to divide the gradients by the scale if that was not done before (`grad_scale`).
    """

    momentum = 0.95

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make the orthogonal steps, then AdamW's, which skips parameters without gradients."""
        overflowed, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        if overflowed is not None and bool(overflowed):
            return None
        work: list[tuple[Tensor, Tensor, float]] = []  # a matrix, the momentum of its gradient, its step length
        for group in self.param_groups:
            if not group["orthogonal"]:
                continue
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if scale is not None:
                    parameter.grad.div_(scale.to(parameter.grad))
                state = self.state[parameter]
                if not state:  # AdamW requires `step` when a state is loaded
                    state |= {"step": torch.tensor(0.0), "momentum": torch.zeros_like(parameter)}
                state["step"] += 1
                mean = state["momentum"].lerp_(parameter.grad, 1 - self.momentum)
                ahead = parameter.grad.lerp(mean, self.momentum)  # Nesterov's
                parameter.grad = None
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parts = (parameter.chunk(group["parts"]), ahead.chunk(group["parts"]))
                work += [(matrix, direction, group["lr"]) for matrix, direction in zip(*parts, strict=True)]
        work.sort(key=lambda item: item[0].shape)
        for shape, items in groupby(work, key=lambda item: item[0].shape):
            matrices, ahead, rates = zip(*items, strict=True)
            for matrix, direction, rate in zip(matrices, orthogonal(torch.stack(ahead)), rates, strict=True):
                matrix.add_(direction, alpha=-0.2 * max(shape) ** 0.5 * rate)
        return super().step(closure)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return approximately U Vᵀ for every U S Vᵀ, (n, rows, columns), by five Newton–Schulz steps."""
    if matrices.shape[-2] > matrices.shape[-1]:
        return orthogonal(matrices.mT).mT
    X = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    # On a CPU one matrix at a time, which then stays in the cache; on a GPU all at once
    parts = X.split(1 if X.device.type == "cpu" else len(X))
    return torch.cat([_newton_schulz(part) for part in parts])


def _newton_schulz(X: Tensor) -> Tensor:
    """Return X after five steps X ← P X with P = a I + b G + c G² and G = X Xᵀ, for (n, rows, columns).

    For wide matrices only the much smaller G is iterated: P and G commute, so G ← P² G, and the product of all P is
    applied to X at the end.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    G = torch.bmm(X, X.mT)
    if X.shape[-1] < 2 * X.shape[-2]:
        for step in range(5):
            G = torch.bmm(X, X.mT) if step else G
            X = torch.baddbmm(X, torch.baddbmm(G, G, G, beta=b, alpha=c), X, beta=a)
        return X
    product: Tensor | None = None
    for step in range(5):
        P = torch.baddbmm(G, G, G, beta=b, alpha=c)
        P.diagonal(dim1=-2, dim2=-1).add_(a)
        product = P if product is None else torch.bmm(P, product)
        if step < 4:
            G = torch.bmm(torch.bmm(P, P), G)
    assert product is not None
    return torch.bmm(product, X)


def make_optimizer(model: nn.Module, config: TrainConfig, new: Container[str] = ()) -> torch.optim.Optimizer:
    """Return the optimiser of the config, with learning rates for new and loaded parameters; see `set_rate`.

    Frozen parameters (without `requires_grad`) are left out, so that weight decay does not change them either.
    """
    new_rate = config.lr_new if isinstance(config, FinetuneConfig) else config.lr
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    settings = [
        {
            "params": [parameters[name] for name in names],
            "names": names,
            "peak": new_rate if is_new else config.lr,
            "orthogonal": inside,
            "parts": parts,
        }
        for (is_new, inside, parts), names in grouped(parameters, config, new, {"key_value.weight": 2})
    ]
    kind = Muon if config.optimizer == "muon" else torch.optim.AdamW
    return kind(settings, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)


def grouped(
    parameters: Mapping[str, Tensor], config: TrainConfig, new: Container[str], parts: Mapping[str, int]
) -> list[tuple[tuple[bool, bool, int], list[str]]]:
    """Return the names of parameters, grouped by (new, orthogonal, number of stacked matrices), groups sorted.

    parts: the number of stacked matrices in a parameter, by the suffix of its name.
    """
    groups: dict[tuple[bool, bool, int], list[str]] = {}
    for name, parameter in parameters.items():
        inside = config.optimizer == "muon" and parameter.ndim == 2 and "layers." in name and name.endswith(".weight")
        count = next((count for end, count in parts.items() if inside and name.endswith(end)), 1)
        groups.setdefault((name in new, inside, count), []).append(name)
    return sorted(groups.items())


def freeze(model: nn.Module, frozen: str | tuple[str, ...], new: Container[str]) -> None:
    """Freeze parameters: none; base: all but new ones and the context's; or those that match a pattern."""
    names = [name for name, _ in model.named_parameters()]
    if frozen == "base":
        contexts = {id(p) for module in model.modules() if isinstance(module, Context) for p in module.parameters()}
        chosen = {name for name, p in model.named_parameters() if name not in new and id(p) not in contexts}
        if not chosen:
            raise InputError(
                "finetune.freeze: base freezes no parameter, because none is loaded; "
                "set finetune.start to a model, or freeze: none"
            )
    elif isinstance(frozen, tuple):
        matches = {pattern: fnmatch.filter(names, pattern) for pattern in frozen}
        if unused := [pattern for pattern, matched in matches.items() if not matched]:
            raise InputError(
                f"finetune.freeze: no parameter matches `{unused[0]}`; names are such as {names[0]} and {names[-1]}"
            )
        chosen = {name for matched in matches.values() for name in matched}
    else:
        chosen = set()
    if len(chosen) == len(names):
        raise InputError(f"finetune.freeze: {frozen} leaves no parameter to train; freeze fewer")
    for name, parameter in model.named_parameters():
        if name in chosen:
            parameter.requires_grad_(False)


def rate_factor(update: int, config: TrainConfig) -> float:
    """Return the learning rate at an update (counted from 1) as a share of its peak, which ends the warm-up."""
    left = min(1.0, (config.updates + 1 - update) / (config.cooldown + 1))
    if update < config.warmup:
        return left * update / config.warmup
    return left if config.schedule == "constant" else left * (max(config.warmup, 1) / update) ** 0.5


def set_rate(optimizer: torch.optim.Optimizer, update: int, config: TrainConfig) -> float:
    """Set the rate of every group to its own peak times the schedule, and return that of the first group."""
    factor = rate_factor(update, config)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
    return float(optimizer.param_groups[0]["lr"])


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors: PARAMETER/KEY."""
    saved = optimizer.state_dict()
    names = [name for group in saved["param_groups"] for name in group["names"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    return {
        f"{name}/{key}": value
        for name, number in zip(names, numbers, strict=True)
        for key, value in saved["state"].get(number, {}).items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state of `optimizer_tensors`; raise ValueError if it does not fit these parameters."""
    expected = {
        name: (parameter.shape, {"step", "momentum"} if group["orthogonal"] else {"step", "exp_avg", "exp_avg_sq"})
        for group in optimizer.param_groups
        for name, parameter in zip(group["names"], group["params"], strict=True)
    }
    groups = optimizer.state_dict()["param_groups"]
    names = [name for group in groups for name in group["names"]]
    numbers = dict(zip(names, (number for group in groups for number in group["params"]), strict=True))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        parameter, _, key = name.rpartition("/")
        if parameter not in expected:
            raise ValueError(f"`{parameter}` is not a parameter that is trained here")
        shape, keys = expected[parameter]
        if key not in keys or value.shape != (() if key == "step" else shape) or not value.is_floating_point():
            raise ValueError(f"`{name}` has another name, shape or type than the state of this optimiser")
        if key in {"step", "exp_avg_sq"} and bool((value < 0).any()):
            raise ValueError(f"`{name}` is negative, as no count or mean of squares is")
        state.setdefault(numbers[parameter], {})[key] = value
    if state and sum(map(len, state.values())) != sum(len(keys) for _, keys in expected.values()):
        raise ValueError(f"the optimiser's state is of {len(state)} parameters, not of {len(numbers)}")
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def renumbered(
    tensors: Mapping[str, Tensor], model: nn.Module, config: TrainConfig, new: Container[str]
) -> dict[str, Tensor]:
    """Return the optimiser state of a checkpoint of version 1 under the current names.

    In version 1 names were NUMBER.KEY, numbered by groups, and queries, keys and values had one projection.
    """
    fused: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if not re.search(r"\.key_value\.(weight|bias)$", name):
            fused[re.sub(r"\.query\.(weight|bias)$", r".projection.\1", name)] = parameter
    was_new = {name for name in fused if name.replace(".projection.", ".query.") in new}
    groups = grouped(fused, config, was_new, {"projection.weight": 3})
    names = [name for _, group in groups for name in group]
    by_key: dict[str, dict[str, Tensor]] = {}
    result: dict[str, Tensor] = {}
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        if value.ndim:
            by_key.setdefault(key, {})[names[int(number)]] = value
        else:  # counts of steps
            result |= {f"{each}/{key}": value.clone() for each in converted({names[int(number)]: torch.empty(3)})}
    return result | {
        f"{name}/{key}": value for key, state in by_key.items() for name, value in converted(state).items()
    }
