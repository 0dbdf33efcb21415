"""Limits on what clients can make the service hold: bytes at once, files that wait for a download, sessions."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from served import quick_translator
from tram.errors import InputError
from tram.service import uploads
from tram.service.budget import Budget
from tram.service.errors import Problem
from tram.service.keys import Limits
from tram.service.scheduler import Unavailable
from tram.service.server import check_names, hosts_of, listen
from tram.service.service import Service, ServiceSettings
from tram.service.sessions import Sentence, Session, size_of
from tram.service.shares import fits
from tram.service.store import SessionStore
from tram.service.uploads import Upload, Uploads
from tram.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    return quick_translator(prepared)


def test_a_budget_is_given_back_and_what_is_too_large_is_accepted_alone() -> None:
    budget = Budget(10)
    with budget.hold(6, "one"), pytest.raises(Unavailable), budget.hold(6, "two"):
        pass
    with budget.hold(6, "one"), budget.hold(4, "two"):
        assert budget.held == 10
    with budget.hold(100, "one"), pytest.raises(Unavailable):
        budget.take(1, "two")
    assert budget.held == 0
    budget.take(8, "one")
    budget.take(8, "one", own=8)  # more of the same request
    budget.give_back(16, "one")
    assert budget.held == 0


def test_a_client_gets_as_much_as_it_leaves_free() -> None:
    budget = Budget(1000)
    taken = Counter[str]()
    for client in ("one", "one", "two", "two", "three"):
        with suppress(Unavailable):
            while True:
                budget.take(100, client)
                taken[client] += 100
    assert taken == {"one": 500, "two": 200, "three": 100}
    budget.take(200, "four")  # a newcomer may have what is left
    for client in ("one", "five"):
        with pytest.raises(Unavailable):
            budget.take(11, client)
    budget.take(10, "five")  # what every client may have, whatever the others have


@pytest.mark.parametrize("clients", [1, 2, 3, 10])
def test_greedy_clients_always_leave_a_place_for_another(clients: int) -> None:
    own, limit = [0] * clients, 128
    for client in [*range(clients)] * limit:
        own[client] += fits(1, own[client], sum(own), limit)
    assert fits(1, 0, sum(own), limit)
    assert min(own) >= limit // (clients + 1) - 1


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Uploads]:
    monkeypatch.setattr(uploads, "MAX_KEPT", 3)
    monkeypatch.setattr(uploads, "MAX_KEPT_BYTES", 10)
    made = Uploads()
    yield made
    made.close()


def test_the_oldest_files_of_a_client_make_room(kept: Uploads) -> None:
    other = kept.keep("b.txt", b"12345678", "two")
    by_count = [kept.keep("a.txt", b"1", "one") for _ in range(4)]
    with pytest.raises(Problem, match="no such file"):
        kept.get(by_count[0])
    assert kept.get(by_count[1]).path.read_bytes() == b"1"
    large = kept.keep("a.txt", b"12345678", "one")
    assert kept.get(large).size == 8
    assert kept.get(other).owner == "two"
    assert sum(path.stat().st_size for path in kept.get(large).path.parent.iterdir()) == 8 + 8 + 2


def made(store: SessionStore, sentences: int) -> Session:
    session = Session.new("one", store.initial)
    session.sentences = [Sentence("Tea!", "Tee!", alternatives=(("Tee.", -1.0),)) for _ in range(sentences)]
    return session


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_sessions_of_a_client_are_limited_in_bytes(translator: Translator, tmp_path: Path, on_disk: bool) -> None:
    folder = tmp_path / "sessions" if on_disk else None
    store = SessionStore(translator.start(), folder)
    first = made(store, 10)
    most = 3 * size_of(first)
    store.add(first, 0, most)
    with pytest.raises(Problem, match=f"{most} bytes of sessions") as refusal:
        store.add(made(store, 30), 0, most)
    assert refusal.value.status == 429
    store.add(replace(made(store, 30), owner="two"), 0, most)
    with store.opened(first.id, "one") as session:
        session.sentences = 4 * session.sentences
    with pytest.raises(Problem, match="bytes of sessions"):
        store.check_room("one", most)
    store.check_room("one", 0)
    if on_disk:
        again = SessionStore(translator.start(), folder)
        with pytest.raises(Problem, match="bytes of sessions"):
            again.check_room("one", 1000)
    store.delete(first.id, "one")
    store.add(made(store, 30), 0, most)


def test_the_size_of_a_session_is_kept_while_it_changes(translator: Translator) -> None:
    store = SessionStore(translator.start())
    session = made(store, 3)
    store.add(session, 0)

    def append(session: Session) -> None:
        session.sentences += made(store, 2).sentences
        session.after = "\n\n"

    def correct(session: Session) -> None:
        session.sentences[1] = replace(session.sentences[1], target="Ein langer Satz.")

    def forget(session: Session) -> None:
        session.sentences, session.after = session.sentences[:2], ""

    for change in (append, correct, append, forget):
        with store.opened(session.id, "one") as opened:
            change(opened)
        assert session.size == size_of(session)
        store.check_room("one", size_of(session))
        with pytest.raises(Problem):
            store.check_room("one", size_of(session) - 1)


def test_other_users_cannot_read_sessions_and_logs_do_not_name_them(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "sessions"
    store = SessionStore(translator.start(), folder)
    assert folder.stat().st_mode & 0o077 == 0
    session = made(store, 1)
    store.add(session, 0)

    def full(descriptor: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tram.files.flush_to_disk", full)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(Problem, match="could not be stored"),
        store.opened(session.id, "one") as opened,
    ):
        opened.sentences.append(opened.sentences[0])
    assert "No space left on device" in caplog.text
    assert session.id not in caplog.text
    assert str(tmp_path) not in caplog.text


def test_files_that_are_held_at_once_are_limited(translator: Translator) -> None:
    service = Service(translator, ServiceSettings(grace=1))
    service.file_bytes = Budget(10)
    client, upload = service.keys.find(None), Upload("a.txt", b"Tea! Tea!")
    with service.opened_upload(upload, client), pytest.raises(Unavailable), service.opened_upload(upload, client):
        pass
    with (
        pytest.raises(Problem, match="exceeds"),
        service.opened_upload(upload, replace(client, limits=Limits(file_characters=3))),
    ):
        pass
    assert service.file_bytes.held == 0
    service.close()


def test_names_of_the_service() -> None:
    assert hosts_of("0.0.0.0") == ()
    assert "localhost" in hosts_of("127.0.0.1")
    assert {"translate.example", "localhost"} <= set(hosts_of("127.0.0.1", ["Translate.Example"]))
    assert {"translate.example", "0.0.0.0"} <= set(hosts_of("0.0.0.0", ["translate.example"]))


@pytest.mark.parametrize("host", ["http://a.example", "a.example:80", "a b", "", "a/b"])
def test_names_that_no_request_has_are_refused(host: str) -> None:
    with pytest.raises(InputError, match="--allow-host"):
        check_names([host], [])
    check_names(["a.example", "[::1]"], ["*", "https://a.example:8080", "moz-extension://1-2"])


@pytest.mark.parametrize("origin", ["a.example", "https://a.example/", "https://", "https://a b", ""])
def test_sites_that_no_page_has_are_refused(origin: str) -> None:
    with pytest.raises(InputError, match="--allow-origin"):
        check_names([], [origin])


def test_a_port_in_use_is_refused_in_one_sentence() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=rf"^127.0.0.1:{port}: cannot be listened on \(Address already in use\);"):
            listen("127.0.0.1", port)


def test_a_refusal_is_one_short_line_whatever_the_client_sent() -> None:
    problem = Problem(400, f"language {'x' * 100_000}\n\x1b[2J is not supported")
    assert problem.message == str(problem)
    assert len(problem.message) < 2000
    assert problem.message.isprintable()
