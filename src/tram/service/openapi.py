"""Parts of the OpenAPI description that FastAPI cannot derive: bodies in several encodings, errors."""

from typing import Any

from pydantic import BaseModel


class ErrorAnswer(BaseModel):
    """What went wrong, in one sentence."""

    error: str


class DeepLErrorAnswer(BaseModel):
    """What went wrong, in one sentence, where DeepL's clients look for it."""

    message: str


def _errors(model: type[BaseModel], *more: tuple[int, str]) -> dict[int | str, dict[str, Any]]:
    reasons = [
        (400, "The request is wrong"),
        (403, "The key is wrong, or this is not allowed"),
        (404, "There is no such thing"),
        (405, "The address has no such method"),
        (408, "The request took too long to arrive"),
        (409, "In use, or of another model"),
        (412, "The session has changed"),
        (413, "Too large"),
        (421, "The service does not have this name"),
        (429, "Too many requests, or too many characters"),
        (503, "Busy or shutting down; see Retry-After"),
        *more,
    ]
    return {status: {"model": model, "description": reason} for status, reason in reasons}


ERRORS = _errors(ErrorAnswer)
DEEPL_ERRORS = _errors(DeepLErrorAnswer, (456, "The characters of the day are used up"))


def body_of(model: type[BaseModel], file: str | None = None) -> dict[str, Any]:
    """Return the description of a body as JSON or a form; with a file, as multipart only."""
    schema = model.model_json_schema()
    if file is not None:
        schema["properties"] = {file: {"type": "string", "format": "binary"}, **schema["properties"]}
        schema["required"] = [file, *schema.get("required", [])]
        return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
