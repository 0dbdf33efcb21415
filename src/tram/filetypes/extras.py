"""Libraries that only some file types need."""

from importlib import import_module
from typing import Any

from tram.errors import InputError


def load(module: str, name: str) -> Any:
    """Import a library of the extra `files`; `name` is the file that needs it."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(
            f"{name}: needs the library {module}, which is not installed; run pip install 'tram-mt[files]'"
        ) from None
