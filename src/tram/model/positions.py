"""Sinusoidal encodings of positions and distances."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

ROWS = 4096  # encoded at a time: double precision takes several times the memory of the table


def table(wave: Callable[[Tensor, int], Tensor], rows: int, width: int) -> Tensor:
    """Return the encodings of the first positions: (rows, width), in the default precision.

    On the device `meta` nothing is computed, because torch would load its compiler for it (70 MB).
    """
    if torch.get_default_device().type == "meta":
        return torch.empty(rows, width)
    parts = (torch.arange(start, min(start + ROWS, rows)) for start in range(0, rows, ROWS))
    return torch.cat([wave(places, width).to(torch.get_default_dtype()) for places in parts])


def sinusoids(places: Tensor, width: int) -> Tensor:
    """Return sines in the first half of the columns and cosines in the second, wavelengths from 2π to 10000 · 2π.

    places: (positions), integers, possibly negative → (positions, width), double precision.
    """
    steps = torch.arange(0, width, 2, dtype=torch.float64, device=places.device)
    angles = places.to(torch.float64)[:, None] * torch.exp(steps * (-math.log(10_000) / width))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def fairseq_sinusoids(places: Tensor, width: int) -> Tensor:
    """Return the sinusoids of M2M100 and NLLB: as `sinusoids`, but the last wavelength is exactly 10000 · 2π.

    Computed in float32, as in the training of these models; for far positions, double precision differs visibly.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000) / max(half - 1, 1)))
    angles = places.to(torch.float32)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def slot_sinusoids(places: Tensor, width: int) -> Tensor:
    """Return the sinusoids of a memory's slots: as `fairseq_sinusoids`, in double precision."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10_000) / max(half - 1, 1)))
    angles = places.to(torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
