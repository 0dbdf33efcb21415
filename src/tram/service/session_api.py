"""Document sessions over HTTP: translate, read, correct, align; the state out and in; fork and delete."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, FiniteFloat

from tram.errors import InputError
from tram.service import sessions
from tram.service.errors import Problem, too_long
from tram.service.keys import Client
from tram.service.openapi import ERRORS
from tram.service.requests import client_of, service_of
from tram.service.scheduler import Cancelled, Unavailable
from tram.service.service import Service
from tram.service.sessions import Change, Kind, Sentence, Session
from tram.service.shared import SharedTranslator
from tram.service.texts import Text
from tram.translation.document_state import DocumentState

router = APIRouter(prefix="/sessions", tags=["Sessions"], responses=ERRORS)
STREAM = "text/event-stream"
STATE = "application/octet-stream"
Number = Annotated[int, Field(ge=0, le=10**6)]
Alternatives = Annotated[int, Field(ge=0, le=20, description="how many other translations of each sentence")]


class Alternative(BaseModel):
    """Another translation; score: log-probability, divided by the length."""

    text: Text
    score: FiniteFloat


class SentenceModel(BaseModel):
    """A sentence of a session.

    kind: translated by the model, corrected by a client, or context that was read.
    before: the text between the previous sentence and this one.
    """

    source: Text
    target: Text
    kind: Kind = "translated"
    score: FiniteFloat | None = None
    alternatives: Annotated[list[Alternative], Field(max_length=20)] = []
    before: Text = ""

    @classmethod
    def of(cls, sentence: Sentence) -> "SentenceModel":
        """Return what clients see of a sentence."""
        alternatives = [Alternative(text=text, score=score) for text, score in sentence.alternatives if isfinite(score)]
        return cls(
            source=sentence.source,
            target=sentence.target,
            kind=sentence.kind,
            score=sentence.score if sentence.score is not None and isfinite(sentence.score) else None,
            alternatives=alternatives,
            before=sentence.before,
        )

    def sentence(self) -> Sentence:
        """Return the sentence itself."""
        alternatives = tuple((each.text, each.score) for each in self.alternatives)
        return Sentence(self.source, self.target, self.kind, self.score, alternatives, self.before)


class Translated(SentenceModel):
    """A sentence that was translated just now: its number, and where it is in the text of the request."""

    number: int
    changed: bool
    span: tuple[int, int] | None = None


class NewSession(BaseModel):
    """What a session starts with: nothing, a state, or the sentences of a session that was saved."""

    source: Text | None = None
    target: Text | None = None
    state: Text | None = Field(None, description="the state before the first sentence, as base64")
    sentences: list[SentenceModel] = []
    after: Text = Field("", description="the text after the last sentence")


class SessionInfo(BaseModel):
    """A session: who it is and when it expires if it is not used."""

    id: str
    expires: datetime
    source: str
    target: str
    model: str


class SessionContent(SessionInfo):
    """A session with its sentences; text: the whole translation."""

    sentences: list[SentenceModel]
    after: str
    text: str


class TranslateBody(BaseModel):
    """What to translate next: running text, or sentences."""

    q: Text | list[Text]
    first: Number | None = Field(None, description="the number of its first sentence; refused if that is not the next")
    alternatives: Alternatives = 0
    stream: bool = Field(False, description="answer with server-sent events, one for each sentence")


class TranslateAnswer(BaseModel):
    """The sentences that were translated."""

    sentences: list[Translated]


class ReadBody(BaseModel):
    """Sentences and their translations, one for each."""

    source: list[Text]
    target: list[Text]


class ReadAnswer(BaseModel):
    """The number of sentences of the session."""

    sentences: int


class Correction(BaseModel):
    """The translation that a sentence should have."""

    target: Text
    alternatives: Alternatives = 0


class Alignments(BaseModel):
    """For each sentence the pairs of (source word, target word); words are what blanks separate, counted from 0."""

    start: int
    alignments: list[list[tuple[int, int]]]


def _info(service: Service, session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "expires": datetime.fromtimestamp(session.used + service.sessions.lifetime, UTC),
        "source": service.languages.source,
        "target": service.languages.target,
        "model": session.origin.model,
    }


def _check_lengths(client: Client, texts: Iterable[str]) -> None:
    """Refuse a sentence that is longer than a request may be."""
    longest, limit = max(map(len, texts), default=0), client.limits.characters
    if limit and longest > limit:
        raise too_long(longest, limit)


def _state(service: Service, data: bytes) -> DocumentState:
    """Return a state that a client sent; refuse one of another model."""
    try:
        return service.translator.checked(DocumentState.from_bytes(data))
    except InputError as error:
        raise Problem(400, f"Invalid request: {error}") from None


@router.post("", status_code=201, response_model=SessionInfo)
async def create(request: Request, body: NewSession) -> Any:
    """Start a document, from nothing, from a state, or from the sentences of a saved session."""
    service, client = service_of(request), client_of(request)
    own = service.languages
    own.check(body.source or own.source, body.target or own.target)
    state = service.sessions.initial
    if body.state is not None:
        try:
            data = base64.b64decode(body.state, validate=True)
        except ValueError:
            raise Problem(400, "Invalid request: state is not base64") from None
        state = _state(service, data)
    texts = [text for sentence in body.sentences for text in (sentence.source, sentence.target)]
    _check_lengths(client, texts)
    service.usage.count_characters(client, sum(map(len, texts)), 0)
    session = Session.new(client.owner, state)
    sessions.check_room(session, len(body.sentences), service.settings.session_sentences)
    session.sentences = [each.sentence() for each in body.sentences]
    session.after = body.after
    await service.run(request, client, lambda translator: service.add_session(session, client))
    return _info(service, session)


@router.get("/{id}", response_model=SessionContent)
async def get(request: Request, id: str) -> Any:
    """Return a session's sentences and their translations."""
    service = service_of(request)
    session = service.sessions.get(id, client_of(request).owner)
    found = [SentenceModel.of(sentence) for sentence in session.sentences.copy()]
    return {**_info(service, session), "sentences": found, "after": session.after, "text": session.text}


@router.delete("/{id}", status_code=204)
async def delete(request: Request, id: str) -> None:
    """Delete a session and everything that is known of it."""
    service_of(request).sessions.delete(id, client_of(request).owner)


@router.get("/{id}/text")
async def text(request: Request, id: str) -> Response:
    """Return the translation as plain text, with the layout of the source."""
    session = service_of(request).sessions.get(id, client_of(request).owner)
    return Response(session.text, media_type="text/plain; charset=utf-8")


@router.post("/{id}/fork", status_code=201, response_model=SessionInfo)
async def fork(request: Request, id: str) -> Any:
    """Copy a session."""
    service, client = service_of(request), client_of(request)
    copy = service.sessions.get(id, client.owner).fork()
    await service.run(request, client, lambda translator: service.add_session(copy, client))
    return _info(service, copy)


@router.post(
    "/{id}/translate",
    response_model=TranslateAnswer,
    responses={200: {"content": {STREAM: {"schema": {"type": "string"}}}}},
)
async def translate(request: Request, id: str, body: TranslateBody) -> Any:
    """Translate what follows in the document."""
    service, client = service_of(request), client_of(request)
    service.usage.count_characters(client, len(body.q) if isinstance(body.q, str) else sum(map(len, body.q)))
    service.sessions.get(id, client.owner)
    service.sessions.check_room(client.owner, client.limits.session_bytes)

    def work(translator: SharedTranslator) -> Iterator[Translated]:
        with service.sessions.opened(id, client.owner) as session:
            if body.first not in (None, len(session.sentences)):
                raise Problem(412, f"The session has {len(session.sentences)} sentences, not {body.first}")
            limit = service.settings.session_sentences
            for change in sessions.translate(session, translator, body.q, body.alternatives + 1, limit):
                yield _translated(session, change)

    if body.stream:
        return _events(service, client, work)
    return {"sentences": await service.run(request, client, lambda translator: list(work(translator)))}


@router.post("/{id}/read", response_model=ReadAnswer)
async def read(request: Request, id: str, body: ReadBody) -> Any:
    """Read sentences with their translations as context."""
    service, client = service_of(request), client_of(request)
    service.usage.count_characters(client, sum(map(len, (*body.source, *body.target))))
    service.sessions.check_room(client.owner, client.limits.session_bytes)

    def work(translator: SharedTranslator) -> int:
        with service.sessions.opened(id, client.owner) as session:
            sessions.read(session, translator, body.source, body.target, service.settings.session_sentences)
            return len(session.sentences)

    return {"sentences": await service.run(request, client, work)}


@router.put(
    "/{id}/sentences/{number}",
    response_class=StreamingResponse,
    responses={200: {"content": {STREAM: {"schema": {"type": "string"}}}}},
)
async def correct(request: Request, id: str, number: Number, body: Correction) -> StreamingResponse:
    """Correct a sentence and translate again what follows: server-sent events, one for each sentence."""
    service, client = service_of(request), client_of(request)
    session = service.sessions.get(id, client.owner)
    following = sum(len(sentence.source) for sentence in session.sentences[number + 1 :])
    session.sentence(number)
    _check_lengths(client, [body.target])
    service.usage.count_characters(client, len(body.target) + following, 0)

    def work(translator: SharedTranslator) -> Iterator[Translated]:
        with service.sessions.opened(id, client.owner) as session:
            for change in sessions.correct(session, translator, number, body.target, body.alternatives + 1):
                yield _translated(session, change)

    return _events(service, client, work)


@router.get("/{id}/alignment", response_model=Alignments)
async def alignment(
    request: Request, id: str, start: Annotated[int, Query(ge=0)] = 0, count: Annotated[int, Query(ge=0, le=200)] = 50
) -> Any:
    """Return which words of some sentences and of their translations belong together."""
    service, client = service_of(request), client_of(request)
    chosen = service.sessions.get(id, client.owner).sentences[start : start + count]
    sources, targets = [sentence.source for sentence in chosen], [sentence.target for sentence in chosen]
    found = await service.run(request, client, lambda translator: translator.align(sources, targets))
    return {"start": start, "alignments": found}


@router.get("/{id}/state", responses={200: {"content": {STATE: {}}}}, response_class=Response)
async def get_state(request: Request, id: str) -> Response:
    """Return the state after the last sentence, as safetensors: 33 kB with the model that ships with tram."""
    service, client = service_of(request), client_of(request)
    service.sessions.get(id, client.owner)

    def work(translator: SharedTranslator) -> bytes:
        with service.sessions.opened(id, client.owner) as session:
            return sessions.state_of(session, translator).to_bytes()

    return Response(await service.run(request, client, work), media_type=STATE)


@router.put(
    "/{id}/state",
    status_code=204,
    openapi_extra={
        "requestBody": {"required": True, "content": {STATE: {"schema": {"type": "string", "format": "binary"}}}}
    },
)
async def put_state(request: Request, id: str) -> None:
    """Continue from another state; the sentences of the session are forgotten."""
    service, client = service_of(request), client_of(request)
    service.sessions.get(id, client.owner)
    state = _state(service, await request.body())

    def work(translator: SharedTranslator) -> None:
        with service.sessions.opened(id, client.owner) as session:
            sessions.restart(session, state)

    await service.run(request, client, work)


def _translated(session: Session, change: Change) -> Translated:
    shown = SentenceModel.of(session.sentences[change.number])
    return Translated(number=change.number, changed=change.changed, span=change.span, **shown.model_dump())


def _events(
    service: Service, client: Client, work: Callable[[SharedTranslator], Iterator[Translated]]
) -> StreamingResponse:
    """Answer with an event `sentence` for each one that is done, then `done`; or `error`."""

    def run(translator: SharedTranslator, emit: Callable[[str], None]) -> None:
        count = 0
        try:
            for sentence in work(translator):
                emit(_event("sentence", sentence.model_dump_json()))
                count += 1
            emit(_event("done", json.dumps({"sentences": count})))
        except (Problem, Unavailable, InputError) as error:
            status = error.status if isinstance(error, Problem) else 503 if isinstance(error, Unavailable) else 400
            emit(_event("error", json.dumps({"error": str(error), "status": status}, ensure_ascii=False)))
        except Cancelled:
            pass

    return StreamingResponse(service.stream(client, run), media_type=STREAM)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
