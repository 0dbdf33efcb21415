"""tram: translation of whole documents with a small recurrent memory."""

from typing import TYPE_CHECKING, Any

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.text.verbatim import VerbatimRules
    from tram.translation.document_state import DocumentState
    from tram.translation.parts import Translation
    from tram.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["DocumentState", "InputError", "Translation", "Translator", "VerbatimRules", "__version__"]

# Most of these need torch, so they are imported when they are first used.
_LAZY = {
    "DocumentState": "tram.translation.document_state",
    "Translation": "tram.translation.parts",
    "Translator": "tram.translation.translator",
    "VerbatimRules": "tram.text.verbatim",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
