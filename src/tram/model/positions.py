"""Sinusoidal encodings of positions and distances."""

import math

import torch
from torch import Tensor


def sinusoids(places: Tensor, width: int) -> Tensor:
    """Return sines in the first half of the columns and cosines in the second, wave lengths from 2π to 10000 · 2π.

    places: (places), whole numbers, also negative ones → (places, width), double precision.
    """
    steps = torch.arange(0, width, 2, dtype=torch.float64, device=places.device)
    angles = places.to(torch.float64)[:, None] * torch.exp(steps * (-math.log(10_000) / width))
    return torch.cat([angles.sin(), angles.cos()], dim=1)
