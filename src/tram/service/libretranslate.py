"""LibreTranslate's endpoints and error texts, for the clients that speak them: libretranslatepy, Weblate, OmegaT.

Beyond LibreTranslate, `document: true` translates a list as one document, `session` continues a document session, and
/suggest with a session makes it read a correction.
"""

from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from tram.filetypes.plain_text import PlainText, split_document
from tram.service import sessions
from tram.service.errors import Problem, missing
from tram.service.keys import Client
from tram.service.languages import name
from tram.service.openapi import ERRORS, body_of
from tram.service.requests import checked, client_of, read_fields, service_of
from tram.service.service import Service
from tram.service.shared import SharedTranslator
from tram.service.uploads import SUFFIXES, Upload, translate_html, translate_upload, translated_name
from tram.translation.parts import Translation

router = APIRouter(tags=["LibreTranslate"], responses=ERRORS)
MAX_ALTERNATIVES = 20
MAX_TEXTS = 10_000  # of one request


class TranslateFields(BaseModel):
    """The fields of /translate."""

    q: str | list[str] = Field(description="text, or a list of texts that have nothing to do with each other")
    source: str = Field(description="language code, or auto", examples=["en"])
    target: str = Field(description="language code", examples=["de"])
    format: str = Field("text", description="text or html")
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="how many other translations to return")
    api_key: str | None = None
    document: bool = Field(False, description="translate a list as one document, in order")
    session: str | None = Field(None, description="continue this document session")


class DetectFields(BaseModel):
    """The fields of /detect."""

    q: str
    api_key: str | None = None


class SuggestFields(BaseModel):
    """The fields of /suggest."""

    q: str = Field(description="original text")
    s: str = Field(description="its translation, corrected")
    source: str
    target: str
    api_key: str | None = None
    session: str | None = Field(None, description="the session that reads the correction")


class FileFields(BaseModel):
    """The fields of /translate_file besides the file."""

    source: str
    target: str
    api_key: str | None = None


class Detected(BaseModel):
    """A language and how sure that is, from 0 to 100."""

    confidence: float
    language: str


class Language(BaseModel):
    """A language and those it can be translated to."""

    code: str
    name: str
    targets: list[str]


class Translated(BaseModel):
    """The answer of /translate; what was not asked for is left out."""

    translatedText: str | list[str]
    detectedLanguage: Detected | list[Detected] | None = None
    alternatives: list[str] | list[list[str]] | None = None


@router.post(
    "/translate",
    response_model=Translated,
    response_model_exclude_none=True,
    openapi_extra=body_of(TranslateFields),
    summary="Translate text",
)
async def translate(request: Request) -> Any:
    """Translate a text, or a list of texts, each on its own unless `document` is set."""
    fields = await read_fields(request)
    service, client = service_of(request), client_of(request, fields)
    for required in ("q", "source", "target"):
        if not fields.get(required):
            raise missing(required)
    asked = checked(TranslateFields, fields.values)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    if len(texts) > MAX_TEXTS:
        raise Problem(400, f"Invalid request: request ({len(texts)}) exceeds batch text limit ({MAX_TEXTS})")
    service.usage.count_characters(client, sum(map(len, texts)))
    service.languages.check(asked.source, asked.target)
    detected = [service.languages.detect(text)[0] for text in texts] if asked.source == "auto" else []
    if asked.format not in ("text", "html"):
        raise Problem(400, f"{asked.format} format is not supported")
    if asked.format == "html" and (asked.document or asked.session):
        raise Problem(400, "Invalid request: document and session are for text format only")
    found = await service.run(request, client, lambda translator: _translate(service, client, translator, asked, texts))
    return _answer(asked, found, [Detected(**asdict(each)) for each in detected])


def _answer(asked: TranslateFields, found: list[list[str]], detected: list[Detected]) -> Translated:
    """Return the best translations and, if asked for, the others, as one text or as lists."""
    is_list = isinstance(asked.q, list)
    best = [options[0] for options in found]
    answer = Translated(translatedText=best if is_list else best[0])
    if detected:
        answer.detectedLanguage = detected if is_list else detected[0]
    if asked.alternatives:
        others = [options[1:] for options in found]
        answer.alternatives = others if is_list else others[0]
    return answer


def _translate(
    service: Service, client: Client, translator: SharedTranslator, asked: TranslateFields, texts: list[str]
) -> list[list[str]]:
    """Return the translations of each text, best first."""
    if asked.format == "html":
        return [[translation] for translation in translate_html(translator, texts, service.options)]
    if asked.session:
        return _in_session(service, client, translator, asked, texts)
    language = service.options.source_language
    layouts = [split_document(text, language) for text in texts]
    documents = [layout.sentences for layout in layouts]
    best = asked.alternatives + 1
    if asked.document:
        everything = [sentence for sentences in documents for sentence in sentences]
        flat = iter(translator.translate_sentences(everything, best=best))
        found = [[next(flat) for _ in sentences] for sentences in documents]
    else:
        found = translator.best_translations(documents, best=best)
    return [_texts(layout, options, best) for layout, options in zip(layouts, found, strict=True)]


def _texts(layout: PlainText, options: list[list[Translation]], best: int) -> list[str]:
    """Return whole texts: of the best translations, of the second best, and so on while they differ."""
    count = min(best, max(map(len, options), default=1))
    return [layout.join([each[min(k, len(each) - 1)].text for each in options]) for k in range(max(count, 1))]


def _in_session(
    service: Service, client: Client, translator: SharedTranslator, asked: TranslateFields, texts: list[str]
) -> list[list[str]]:
    results = []
    service.sessions.check_room(client.owner, client.limits.session_bytes)
    with service.sessions.opened(asked.session or "", client.owner) as session:
        for text in texts:
            layout = split_document(text, service.options.source_language)
            first = len(session.sentences)
            for _ in sessions.translate(
                session, translator, text, asked.alternatives + 1, service.settings.session_sentences
            ):
                pass
            new = session.sentences[first:]
            options = [[Translation(s.target, 0.0), *(Translation(*each) for each in s.alternatives)] for s in new]
            results.append(_texts(layout, options, asked.alternatives + 1))
    return results


@router.post("/detect", response_model=list[Detected], openapi_extra=body_of(DetectFields))
async def detect(request: Request) -> Any:
    """Guess which of the model's two languages a text is in."""
    fields = await read_fields(request)
    client_of(request, fields)
    if not fields.get("q"):
        raise missing("q")
    asked = checked(DetectFields, fields.values)
    return [asdict(each) for each in service_of(request).languages.detect(asked.q)]


@router.get("/languages", response_model=list[Language])
async def languages(request: Request) -> Any:
    """Return the languages of the model."""
    own = service_of(request).languages
    return [
        Language(code=own.source, name=name(own.source), targets=[own.target]),
        Language(code=own.target, name=name(own.target), targets=[]),
    ]


@router.post("/translate_file", openapi_extra=body_of(FileFields, file="file"))
async def translate_file(request: Request) -> dict[str, str]:
    """Translate a file in its own format; the answer says where to download it."""
    fields = await read_fields(request)
    service, client = service_of(request), client_of(request, fields)
    if (upload := fields.file) is None:
        raise missing("file")
    for required in ("source", "target"):
        if not fields.get(required):
            raise missing(required)
    asked = checked(FileFields, fields.values)
    if not upload.name:
        raise Problem(400, "Invalid request: empty file")
    service.languages.check(asked.source, asked.target)
    id = await service.run(request, client, lambda translator: _translate_file(service, client, translator, upload))
    return {"translatedFileUrl": str(request.url_for("download_file", name=id))}


def _translate_file(service: Service, client: Client, translator: SharedTranslator, upload: Upload) -> str:
    with service.opened_upload(upload, client) as document:
        content = translate_upload(translator, document)
    return service.uploads.keep(translated_name(upload.name, service.languages.target), content, client.owner)


@router.get("/download_file/{name}", name="download_file", response_class=FileResponse)
async def download_file(request: Request, name: str) -> FileResponse:
    """Download a translated file; its random name is the permission."""
    kept = service_of(request).uploads.get(name)
    return FileResponse(kept.path, media_type="application/octet-stream", filename=kept.name)


@router.post("/suggest", openapi_extra=body_of(SuggestFields))
async def suggest(request: Request) -> dict[Literal["success"], bool]:
    """Let a session read a correction; suggestions without a session are not collected."""
    fields = await read_fields(request)
    service, client = service_of(request), client_of(request, fields)
    if not fields.get("session"):
        raise Problem(403, "Suggestions are disabled on this server.")
    for required in ("q", "s", "source", "target"):
        if not fields.get(required):
            raise missing(required)
    asked = checked(SuggestFields, fields.values)
    service.languages.check(asked.source, asked.target)
    service.usage.count_characters(client, len(asked.q) + len(asked.s))

    def read(translator: SharedTranslator) -> None:
        service.sessions.check_room(client.owner, client.limits.session_bytes)
        with service.sessions.opened(asked.session or "", client.owner) as session:
            sessions.read(session, translator, [asked.q], [asked.s], service.settings.session_sentences)

    await service.run(request, client, read)
    return {"success": True}


@router.get("/frontend/settings")
async def frontend_settings(request: Request) -> dict[str, Any]:
    """Return what LibreTranslate's page, and ours, need to know."""
    service = service_of(request)
    own, limits = service.languages, service.settings.limits
    return {
        "apiKeys": service.keys.required,
        "charLimit": limits.characters or -1,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": service.keys.required,
        "language": {
            "source": {"code": own.source, "name": name(own.source)},
            "target": {"code": own.target, "name": name(own.target)},
        },
        "suggestions": False,
        "supportedFilesFormat": SUFFIXES,
        "fileLimit": service.keys.largest_file,
        "model": service.model_name,
        "isShipped": service.is_shipped,
    }
