"""The shared library of the native engine, loaded with ctypes; calls release Python's global lock.

The variable TRAM_NATIVE_LIBRARY may name another build of it, for example one with sanitizers (`make sanitize`);
TRAM_NATIVE_KERNELS the kernels of one instruction set: portable, avx2 or avx512.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(os.environ.get("TRAM_NATIVE_LIBRARY") or Path(__file__).parent / "_tram_native.so").resolve()
KERNELS = os.environ.get("TRAM_NATIVE_KERNELS", "")  # empty: the best ones
Array = np.ndarray[Any, Any]

# Restype and argument types of every function; see `cpp/api.cpp`.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tram_error": (c_char_p, []),
    "tram_kernels": (c_char_p, [c_char_p]),
    "tram_model_new": (c_void_p, [c_char_p, c_void_p, c_float, c_int]),
    "tram_model_free": (None, [c_void_p]),
    "tram_model_memory": (c_int, [c_void_p, c_char_p, c_void_p]),
    "tram_model_linear": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_int64, c_int64]),
    "tram_model_linear_int8": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int]),
    "tram_model_rough_output": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tram_model_norm": (c_int, [c_void_p, c_char_p, c_void_p]),
    "tram_model_embeddings": (
        c_int,
        [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64],
    ),
    "tram_model_check": (c_int, [c_void_p]),
    "tram_encode": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p]),
    "tram_force": (
        c_int,
        [
            *[c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64],
            *[c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p],
        ],
    ),
    "tram_advance": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "tram_search_new": (
        c_void_p,
        [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_int32],
    ),
    "tram_search_free": (None, [c_void_p]),
    "tram_search_step": (c_int, [c_void_p, c_void_p, c_void_p, c_int64]),
    "tram_search_best": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "tram_search_logits": (c_int, [c_void_p, c_void_p]),
    "tram_search_select": (c_int, [c_void_p, c_void_p, c_int64]),
    "tram_search_update_inputs": (c_int, [c_void_p, c_int64, c_int64, c_void_p]),
    "tram_search_run": (
        c_int,
        [c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_double, c_void_p, POINTER(c_int64), POINTER(c_int64)],
    ),
    "tram_search_found": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tram_probe_linear": (
        c_int,
        [c_char_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_int64, c_int, c_int, c_void_p],
    ),
    "tram_probe_scan": (c_int, [c_char_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tram_probe_attend": (
        c_int,
        [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p],
    ),
    "tram_probe_activate": (c_int, [c_char_p, c_void_p, c_int64, c_int]),
}


class NativeError(RuntimeError):
    """What the library says went wrong; a mistake of this program, not of its user."""


@cache
def load_library() -> Any:
    """Return the library with typed functions; raise OSError if it is not there or does not fit this machine."""
    library = ctypes.CDLL(str(PATH))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(failed: int) -> None:
    """Raise what the last call said went wrong, if it did."""
    if failed:
        raise NativeError(load_library().tram_error().decode())


def kernels(name: str = "") -> str | None:
    """Return the name of the kernels that run: those named, or the default; None if they cannot run here."""
    found = load_library().tram_kernels((name or KERNELS).encode())
    return None if found is None else found.decode()


def address(array: Array | None) -> int | None:
    """Return where the values of an array are."""
    return None if array is None else array.ctypes.data


def addresses(arrays: list[Array]) -> Any:
    """Return a C array of the addresses of some arrays, which the caller keeps alive."""
    return (c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
