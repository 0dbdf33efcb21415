"""Safetensors files: names and shapes are checked before any value is read, and all values must be plausible."""

import errno
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tram.errors import InputError, UnreadableError
from tram.files import reading, regular_file
from tram.measuring import available_memory

# Of a number in a model or a state: those of real ones stay a thousand times smaller, and larger ones, as one wrong bit
# of an exponent makes them, become infinite inside a layer norm, which makes zeros of them.
LARGEST = 1e6
FINITE = sys.float_info.max


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; disk errors are raised as OSError."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    path.touch()
    mode = path.stat().st_mode  # that of any other file here; safetensors would let the owner alone read it
    try:
        save_file(plain, path)
        path.chmod(mode)
    except SafetensorError as error:
        raise _system_error(error) or OSError(errno.EIO, str(error)) from error


def _system_error(error: Exception) -> OSError | None:
    """Return the error of the system in a message: `Permission denied (os error 13)`, or `(13)` from torch."""
    for code in map(int, re.findall(r"\((?:os error )?(\d+)\)", str(error))):
        if f"{os.strerror(code)} (" in str(error):
            return OSError(code, os.strerror(code))
    return None


def load_tensors(path: Path, device: str | torch.device = "cpu", largest: float = LARGEST) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; raise InputError if it is damaged.

    largest: absolute value of a floating-point number; `FINITE`: any.
    """
    regular_file(path, available_memory())  # a file of zeros can be of any size
    tensors = _read(path, device, lambda file, name: file.get_tensor(name))
    check_values(path, tensors, largest)
    return tensors


def tensor_shapes(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file on the device `meta`: names and shapes without values."""

    def empty(file: Any, name: str) -> Tensor:
        return torch.empty(file.get_slice(name).get_shape(), device="meta")

    return _read(path, "cpu", empty)


def _read(path: Path, device: str | torch.device, value: Any) -> dict[str, Tensor]:
    try:
        with reading(path):
            regular_file(path).open("rb").close()  # safetensors takes a file that cannot be opened for a missing one
        with safe_open(path, framework="pt", device=str(device)) as file:
            return {name: value(file, name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give a complete model or run folder") from None
    except (
        SafetensorError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RuntimeError,
        MemoryError,
    ) as error:
        # Besides its own error: a data type that torch lacks, a size beyond 64 bits or beyond the memory
        if (system := _system_error(error)) is not None:
            raise UnreadableError.of(path, system) from None
        raise InputError(f"{path}: is truncated or not a safetensors file ({error}); use another copy of it") from None


def check_values(where: Path | str, tensors: Mapping[str, Tensor], largest: float = LARGEST) -> None:
    """Refuse tensors with infinities, NaN or numbers beyond the largest."""
    for name, value in tensors.items():
        if value.is_complex() or (value.is_floating_point() and not all_within(value, largest)):
            raise InputError(
                f"{where}: `{name}` contains values that are not finite numbers or far too large, as after a training "
                "that diverged; use another copy or an earlier checkpoint"
            )


def all_within(value: Tensor, largest: float) -> bool:
    """Return whether all values are numbers of at most this size; much faster than `isfinite().all()`."""
    if not value.numel():
        return True
    low, high = (value.float() if value.element_size() == 1 else value).aminmax()  # NaN if any value is
    return -largest <= low.item() and high.item() <= largest


def check_shapes(
    path: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], complete: bool = True
) -> None:
    """Refuse tensors of a file that a model does not have, or has in another shape; complete: also missing ones."""
    if foreign := sorted(found.keys() - expected.keys()):
        raise InputError(
            f"{path}: contains the unknown tensor `{foreign[0]}`; it belongs to another model or another tram"
        )
    for name, value in found.items():
        if expected[name].shape != value.shape:
            shapes = f"{list(value.shape)}, its config asks for {list(expected[name].shape)}"
            raise InputError(f"{path}: `{name}` has shape {shapes}; do not mix models")
    if complete and (missing := sorted(expected.keys() - found.keys())):
        raise InputError(f"{path}: lacks the tensor `{missing[0]}`; it belongs to another model or another tram")


def product_dtype(states: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: that of autocast, if it is enabled."""
    device = states.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
