"""tram: translation of whole documents with a small recurrent memory."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tram.translation.document_state import DocumentState
    from tram.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["DocumentState", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """`Translator` and `DocumentState` bring torch with them: they are imported when asked for."""
    if name == "Translator":
        from tram.translation.translator import Translator

        return Translator
    if name == "DocumentState":
        from tram.translation.document_state import DocumentState

        return DocumentState
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
