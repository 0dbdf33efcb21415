"""Requests as existing clients send them: fields from JSON, a form, multipart or the query; the key; the client."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import python_multipart  # noqa: F401  (starlette needs it for forms, and says so only when one comes)
from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from tram.json_text import parse_json
from tram.service.errors import Problem
from tram.service.keys import Client
from tram.service.service import Service
from tram.service.texts import is_encodable
from tram.service.uploads import Upload

M = TypeVar("M", bound=BaseModel)
SCHEMES = ("bearer ", "deepl-auth-key ")
MAX_FIELD = 4_000_000  # bytes of one field of a form
MAX_FIELDS = 2_000


@dataclass(frozen=True)
class Fields:
    """What a request contains, wherever it was: text fields and at most one file."""

    values: dict[str, Any]
    file: Upload | None = None

    def get(self, name: str) -> Any:
        """Return a field; None if it is missing or empty."""
        return self.values.get(name) or None


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service


async def read_fields(request: Request, repeated: tuple[str, ...] = ()) -> Fields:
    """Return the fields of a request; repeated: names of those that a form may have several times, as lists."""
    query: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if is_json and request.method == "GET" and not await request.body():
        is_json = False  # some clients name the type of the body that they do not send; DeepL's sends a form with GET
    if is_json:
        return Fields(await _json(request))
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return Fields(query | {name: request.query_params.getlist(name) for name in repeated if name in query})
    try:
        async with request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD) as form:
            return await _form(form, query, repeated)
    except HTTPException as error:
        raise Problem(400, f"Invalid request: {error.detail}") from None
    except (ValueError, LookupError):  # an unknown charset, bytes that are not of it
        raise Problem(400, "Invalid request: the form cannot be read") from None


async def _form(form: FormData, query: dict[str, Any], repeated: tuple[str, ...]) -> Fields:
    values = dict(query)
    upload = None
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            upload = Upload(value.filename or "", await value.read())
            continue
        value = value.replace("\r\n", "\n").replace("\r", "\n")
        _check_text(value)
        if name in repeated:
            values[name] = [*(values[name] if isinstance(values.get(name), list) else []), value]
        else:
            values[name] = value
    return Fields(values, file=upload)


async def _json(request: Request) -> dict[str, Any]:
    try:
        values = parse_json(await request.body())
    except ValueError:
        raise Problem(400, "Invalid JSON format") from None
    if not isinstance(values, dict):
        raise Problem(400, "Invalid JSON format")
    for value in values.values():
        for text in value if isinstance(value, list) else [value]:
            _check_text(text)
    return values


def _check_text(value: Any) -> None:
    if isinstance(value, str) and not is_encodable(value):
        raise Problem(400, "Invalid request: the text contains a lone surrogate")


def checked(kind: type[M], values: dict[str, Any]) -> M:
    """Return fields as a model of them, or refuse the first that is wrong."""
    try:
        return kind.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise Problem(400, f"Invalid request: {where}: {first['msg']}") from None


def key_of(request: Request, fields: Fields | None = None) -> str | None:
    """Return the key of a request: a header, or the field or query parameter `api_key`."""
    header = request.headers.get("authorization", "")
    for scheme in SCHEMES:
        if header.lower().startswith(scheme):
            return header[len(scheme) :].strip()
    key = (fields.get("api_key") if fields else None) or request.query_params.get("api_key")
    return key if isinstance(key, str) else None


def client_of(request: Request, fields: Fields | None = None) -> Client:
    """Return who sent a request, and count it."""
    service = service_of(request)
    client = service.keys.find(key_of(request, fields))
    service.usage.count_request(client)
    if service.keys.required or request.client is None:
        return client
    return replace(client, place=request.client.host)
