"""Loading of PyTorch files of tensors, without running code in them."""

import ctypes
import sys
import warnings
from mmap import PAGESIZE
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from tram.errors import InputError
from tram.files import regular_file

MADV_DONTNEED = 4  # of Linux


def load_torch_file(path: Path, remedy: str, mmap: bool = False) -> Any:
    """Load a PyTorch file of tensors, numbers, strings and containers of them.

    remedy: end of the error message for other files. mmap: values stay in the file until they are used.
    """
    try:
        with regular_file(path).open("rb"):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about pickle; real problems are errors
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap and can_be_mapped(path))
    except UnpicklingError as error:
        raise InputError(
            f"{path}: is not a PyTorch file of tensors only (other objects are not loaded: they could run code); "
            f"{remedy}"
        ) from error
    except Exception as error:  # torch raises many kinds of errors for damaged files, including KeyError and OSError
        raise InputError(f"{path}: is damaged or not a PyTorch file; use another copy") from error


def checked_tensors(path: Path, found: Any, remedy: str) -> dict[str, Tensor]:
    """Return the tensors of a loaded file by their names; refuse anything else, and tensors that lack values.

    A tensor can be without values (device `meta`), or repeat a few of them so often that no memory holds them all.
    """
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path}: contains no state dict; {remedy}")
    for name, value in found.items():
        if not isinstance(value, Tensor) or not _has_values(value):
            raise InputError(f"{path}: `{name}` is not a tensor with values; {remedy}")
    return found


def _has_values(tensor: Tensor) -> bool:
    if tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def can_be_mapped(path: Path) -> bool:
    """Return whether the file is in the format that can be mapped; files before PyTorch 1.6 cannot."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def release(mapped: Tensor) -> None:
    """Release the memory of a tensor in a mapped file; the system reads it again when it is used again.

    Otherwise everything read would count as memory of this process, up to the size of the file.
    """
    if sys.platform == "linux":
        start = mapped.data_ptr() // PAGESIZE * PAGESIZE
        length = mapped.data_ptr() + mapped.nbytes - start
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_DONTNEED)
