"""Which engine computes a translation.

    engine = load_engine(model)                                          # the fastest one that can
    engine = load_engine(model, "native", precision="int8", threads=4)

`native` is for CPUs and is left out of an installation without a compiler. Its module has `NativeEngine(model,
precision, threads)`, `why_unavailable()`, which says in a few words why this installation has no native engine, and
`why_unsupported(model)`, which says why it cannot run this model; both return None if all is well.
"""

import importlib
import warnings
from types import ModuleType
from typing import Any, Literal, get_args

import torch

from tram.errors import InputError
from tram.model.transformer import Transformer
from tram.translation.engines.base import Engine
from tram.translation.engines.torch import TorchEngine

EngineName = Literal["auto", "torch", "native"]
Precision = Literal["float32", "int8"]
NATIVE = "tram.translation.engines.native"


def load_engine(
    model: Transformer, engine: str = "auto", precision: str = "float32", threads: int | None = None
) -> Engine:
    """Return an engine for a model.

    engine: `auto` is `native` where it is installed and knows the model, else `torch`. precision: of the products;
    `int8` is for `native` alone. threads: None: as many as torch has; torch has one number of threads for the whole
    process.
    """
    check_engine(engine, precision, threads)
    native, reason = _native()
    if native is not None:
        unsupported = native.why_unsupported(model)
        if unsupported is None and engine != "torch":
            made: Engine = native.NativeEngine(model, precision, threads)
            return made
        reason = unsupported
        if engine == "native" and precision == "float32":
            warnings.warn(f"the native engine is not used: {reason}; torch translates instead", stacklevel=2)
            engine = "torch"
    if engine == "native":
        raise InputError(f"engine native: {reason}; use torch")
    if precision == "int8":
        raise InputError(f"precision int8: only the native engine has it, and {reason}; use float32")
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchEngine(model)


def check_engine(engine: str, precision: str, threads: int | None = None) -> None:
    """Refuse names that no engine has, and numbers of threads that make no sense."""
    for what, value, known in (("engine", engine, EngineName), ("precision", precision, Precision)):
        if value not in get_args(known):
            raise InputError(f"{what} {value!r}: give one of {', '.join(get_args(known))}")
    if engine == "torch" and precision == "int8":
        raise InputError("precision int8: the torch engine does not have it; use native, or float32")
    if threads is not None and (not isinstance(threads, int) or not 1 <= threads <= 1024):
        raise InputError(f"threads {threads!r}: give a whole number from 1 to 1,024")


def _native() -> tuple[Any, str]:
    """Return the module of the native engine; or None, and why there is none."""
    try:
        module: ModuleType = importlib.import_module(NATIVE)
    except ModuleNotFoundError as error:
        if error.name != NATIVE:
            raise
        return None, "this version of tram does not have it"
    reason = module.why_unavailable()
    return (module, "") if reason is None else (None, reason)
