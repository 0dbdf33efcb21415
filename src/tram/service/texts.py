"""Texts of clients and of stored sessions: anything that can be written as UTF-8."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def is_encodable(text: str) -> bool:
    """Return whether a text has no lone surrogate, which JSON can write but no encoding can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(text: str) -> str:
    if not is_encodable(text):
        raise PydanticCustomError("lone_surrogate", "the text contains a lone surrogate")
    return text


Text = Annotated[str, AfterValidator(_checked)]
