"""DeepL's API, version 2, for its official clients (`server_url=`): text with context, languages, usage, documents.

What a model cannot do, such as formality or a glossary, is refused with a sentence that says so.
"""

import asyncio
import hmac
import secrets
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask

from tram.filetypes.plain_text import PlainText, split_document
from tram.service.errors import Problem
from tram.service.keys import Client
from tram.service.languages import name
from tram.service.openapi import DEEPL_ERRORS, body_of
from tram.service.requests import Fields, checked, client_of, read_fields, service_of
from tram.service.service import Service
from tram.service.shared import SharedTranslator
from tram.service.uploads import Upload, characters, translate_html, translate_upload, translated_name

router = APIRouter(prefix="/v2", tags=["DeepL"], responses=DEEPL_ERRORS)
MAX_TEXTS = 50
MAX_DOCUMENTS = 200
DEFAULT_FORMALITY = ("default", "prefer_more", "prefer_less")  # wishes, which DeepL's documentation allows to ignore
UNSUPPORTED = ("glossary_id", "glossary_ids", "style_id", "custom_instructions", "translation_memory_id")


class TranslateFields(BaseModel):
    """The fields of /v2/translate that have an effect, and those that are refused."""

    text: list[str] = Field(max_length=MAX_TEXTS, description="texts that do not share context")
    target_lang: str = Field(examples=["DE"])
    source_lang: str | None = Field(None, examples=["EN"])
    context: str = Field("", description="text before these texts; it is read, but not returned")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] = "1"
    tag_handling: str | None = Field(None, description="html, or nothing")
    formality: str = "default"


class DocumentFields(BaseModel):
    """The fields of /v2/document besides the file."""

    target_lang: str
    source_lang: str | None = None
    filename: str | None = None
    formality: str = "default"
    output_format: str | None = None


class DocumentKey(BaseModel):
    """What proves that a document is one's own."""

    document_key: str


class TextResult(BaseModel):
    """One translated text."""

    detected_source_language: str
    text: str
    billed_characters: int


class Translations(BaseModel):
    """The answer of /v2/translate."""

    translations: list[TextResult]


@router.post("/translate", response_model=Translations, openapi_extra=body_of(TranslateFields))
async def translate(request: Request) -> Any:
    """Translate texts, each on its own, after the same context."""
    fields = await read_fields(request, repeated=("text",))
    service, client = service_of(request), client_of(request, fields)
    _refuse_unsupported(fields)
    if isinstance(fields.values.get("text"), str):
        fields.values["text"] = [fields.values["text"]]
    for required in ("text", "target_lang"):
        if not fields.get(required):
            raise Problem(400, f"Parameter '{required}' not specified")
    asked = checked(TranslateFields, fields.values)
    _check_languages(service, asked.source_lang, asked.target_lang)
    if asked.tag_handling not in (None, "", "html"):
        raise Problem(400, f"tag_handling={asked.tag_handling} is not supported; use html or upload a file")
    service.usage.count_characters(client, sum(map(len, (*asked.text, asked.context))))
    found = await service.run(request, client, lambda translator: _translate(service, client, translator, asked))
    code = service.languages.source.upper()
    return Translations(
        translations=[
            TextResult(detected_source_language=code, text=result, billed_characters=len(text))
            for text, result in zip(asked.text, found, strict=True)
        ]
    )


def _translate(service: Service, client: Client, translator: SharedTranslator, asked: TranslateFields) -> list[str]:
    if asked.tag_handling == "html":
        return translate_html(translator, asked.text, service.options)
    layouts = [_layout(text, str(asked.split_sentences), service.options.source_language) for text in asked.text]
    states = None
    if asked.context.strip():
        state = service.state_after(translator, asked.context, client.owner)
        states = [state.fork() for _ in layouts]
    found = translator.best_translations([layout.sentences for layout in layouts], states)
    return [
        layout.join([options[0].text for options in sentences])
        for layout, sentences in zip(layouts, found, strict=True)
    ]


def _layout(text: str, split: str, language: str) -> PlainText:
    if split == "0":
        return PlainText([text], ["", ""])
    return split_document(" ".join(text.split("\n")) if split == "nonewlines" else text, language)


def _check_languages(service: Service, source: str | None, target: str) -> None:
    own = service.languages
    try:
        own.check(source or own.source, target)
    except Problem:
        supported = f"{own.source.upper()} to {own.target.upper()}"
        raise Problem(400, f"Value for 'target_lang' or 'source_lang' not supported: only {supported}.") from None


def _refuse_unsupported(fields: Fields) -> None:
    for parameter in UNSUPPORTED:
        if fields.get(parameter):
            raise Problem(400, f"{parameter} is not supported by this model")
    if (formality := fields.get("formality")) and formality not in DEFAULT_FORMALITY:
        raise Problem(400, "formality is not supported by this model; correct a sentence in a session instead")


@router.get("/languages")
@router.post("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """Return the source language or, with type=target, the target language."""
    fields = await read_fields(request)
    client_of(request, fields)
    own = service_of(request).languages
    if fields.get("type") == "target":
        return [{"language": own.target.upper(), "name": name(own.target), "supports_formality": False}]
    return [{"language": own.source.upper(), "name": name(own.source)}]


@router.get("/usage")
@router.post("/usage")
async def usage(request: Request) -> dict[str, int]:
    """Return how many characters were translated, and how many may be."""
    fields = await read_fields(request)
    client = client_of(request, fields)
    used, limit = service_of(request).usage.characters(client)
    return {"character_count": used, "character_limit": limit}


# Documents.


@dataclass
class _Job:
    """A document that is being translated, or was."""

    key: str
    owner: str
    status: Literal["queued", "translating", "done", "error"] = "queued"
    characters: int = 0
    message: str = ""
    file: str | None = None  # its name in the uploads
    is_read: "Future[None]" = field(default_factory=Future)  # fails if it cannot be read


class Jobs:
    """The documents of /v2/document."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()

    def add(self, job: _Job) -> str:
        """Keep a document; return its id. The oldest one that has ended makes room."""
        id = secrets.token_hex(16)
        with self._lock:
            if len(self._jobs) >= MAX_DOCUMENTS:
                ended = next((key for key, job in self._jobs.items() if job.status in ("done", "error")), None)
                if ended is None:
                    raise Problem(503, "Too many documents are being translated", 10)
                del self._jobs[ended]
            self._jobs[id] = job
        return id

    def get(self, id: str, key: Any, owner: str) -> _Job:
        """Return a document to the client that uploaded it and knows its key."""
        job = self._jobs.get(id)
        given = key if isinstance(key, str) else ""
        if job is None or job.owner != owner or not hmac.compare_digest(job.key.encode(), given.encode()):
            raise Problem(404, "Document not found")
        return job

    def remove(self, id: str) -> None:
        """Forget a document."""
        self._jobs.pop(id, None)


def jobs_of(request: Request) -> Jobs:
    """Return the documents of the service."""
    jobs: Jobs = request.app.state.jobs
    return jobs


@router.post("/document", openapi_extra=body_of(DocumentFields, file="file"))
async def upload_document(request: Request) -> dict[str, str]:
    """Accept a document; the answer names it and the key to ask for it with."""
    fields = await read_fields(request)
    service, client = service_of(request), client_of(request, fields)
    _refuse_unsupported(fields)
    if fields.file is None or not fields.file.content:
        raise Problem(400, "Parameter 'file' not specified")
    if not fields.get("target_lang"):
        raise Problem(400, "Parameter 'target_lang' not specified")
    asked = checked(DocumentFields, fields.values)
    _check_languages(service, asked.source_lang, asked.target_lang)
    if asked.output_format:
        raise Problem(400, "output_format is not supported; a document is returned in its own format")
    upload = replace(fields.file, name=asked.filename or fields.file.name)
    job = _Job(secrets.token_hex(32), client.owner)
    id = jobs_of(request).add(job)
    try:
        service.run_in_background(
            client, lambda translator: _translate_document(service, client, translator, upload, job)
        )
        await asyncio.wrap_future(job.is_read)
    except Exception:
        jobs_of(request).remove(id)
        raise
    return {"document_id": id, "document_key": job.key}


def _translate_document(
    service: Service, client: Client, translator: SharedTranslator, upload: Upload, job: _Job
) -> None:
    try:
        with service.opened_upload(upload, client) as document:
            job.characters, job.status = characters(document), "translating"
            job.is_read.set_result(None)
            content = translate_upload(translator, document)
        job.file = service.uploads.keep(translated_name(upload.name, service.languages.target), content, client.owner)
        job.status = "done"
    except Exception as error:
        job.message = str(error) if isinstance(error, Problem) else "The document could not be translated"
        job.status = "error"
        if job.is_read.done():
            raise
        job.is_read.set_exception(error)


async def _own_job(request: Request, id: str) -> _Job:
    fields = await read_fields(request)
    return jobs_of(request).get(id, fields.get("document_key"), client_of(request, fields).owner)


@router.post("/document/{id}", openapi_extra=body_of(DocumentKey))
async def document_status(request: Request, id: str) -> dict[str, Any]:
    """Return how far a document is."""
    job = await _own_job(request, id)
    answer: dict[str, Any] = {"document_id": id, "status": job.status}
    if job.status == "translating":
        answer["seconds_remaining"] = service_of(request).scheduler.seconds_remaining
    if job.status == "done":
        answer["billed_characters"] = job.characters
    if job.status == "error":
        answer["error_message"] = job.message
    return answer


@router.post("/document/{id}/result", response_class=FileResponse, openapi_extra=body_of(DocumentKey))
async def document_result(request: Request, id: str) -> FileResponse:
    """Return a translated document once; it is deleted afterwards."""
    job = await _own_job(request, id)
    if job.file is None:
        raise Problem(503, "Document translation is not done", 1)
    uploads, file = service_of(request).uploads, job.file
    kept = uploads.get(file)
    jobs_of(request).remove(id)
    return FileResponse(
        kept.path,
        media_type="application/octet-stream",
        filename=kept.name,
        background=BackgroundTask(uploads.remove, file),
    )
