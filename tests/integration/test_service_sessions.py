"""Document sessions over a real socket, and what the service does when clients or the machine go away."""

import base64
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from served import HOSTS, Served, events, quick_translator, serving
from tram.service import middleware
from tram.service.connections import Connection
from tram.service.server import listen
from tram.service.service import ServiceSettings
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

SENTENCES = ["The old miller waits.", "A small fox sings.", "Our teacher sleeps.", "Tea!"]


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    return quick_translator(prepared)


@pytest.fixture(scope="module")
def served(translator: Translator) -> Iterator[Served]:
    with serving(translator) as running:
        yield running


def test_a_session_is_translated_corrected_and_read_back(served: Served, translator: Translator) -> None:
    id = served.session()
    answer = served.post(f"/sessions/{id}/translate", json={"q": " ".join(SENTENCES), "alternatives": 1}).json()
    assert [s["target"] for s in answer["sentences"]] == translator.translate(SENTENCES)
    assert {len(s["alternatives"]) for s in answer["sentences"]} in ({1}, {0, 1}), "fewer where texts are equal"
    stream = served.request("PUT", f"/sessions/{id}/sentences/0", json={"target": "Unser Lehrer singt."})
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    *found, (last, summary) = events(stream)
    assert [(name, data["number"]) for name, data in found] == [("sentence", n) for n in range(4)]
    assert (last, summary) == ("done", {"sentences": 4})
    content = served.get(f"/sessions/{id}").json()
    assert [s["target"] for s in content["sentences"]] == [data["target"] for _, data in found]
    assert served.get(f"/sessions/{id}/text").text == content["text"] == " ".join(data["target"] for _, data in found)


def test_a_stream_of_sentences(served: Served, translator: Translator) -> None:
    id = served.session()
    found = events(served.post(f"/sessions/{id}/translate", json={"q": SENTENCES, "stream": True}))
    assert [data["target"] for name, data in found if name == "sentence"] == translator.translate(SENTENCES)


def test_reading_changes_what_follows_but_not_the_text(served: Served, translator: Translator) -> None:
    id = served.session()
    body = {"source": ["Good day."], "target": ["Guten Tag."]}
    assert served.post(f"/sessions/{id}/read", json=body).json() == {"sentences": 1}
    state = translator.start()
    translator.read(["Good day."], ["Guten Tag."], state)
    answer = served.post("/translate", json={"q": "Tea!", "source": "en", "target": "de", "session": id}).json()
    assert answer["translatedText"] == translator.translate(["Tea!"], state)[0]
    assert served.get(f"/sessions/{id}/text").text == answer["translatedText"]


def test_suggest_with_a_session_is_read(served: Served) -> None:
    id = served.session()
    body = {"q": "Tea!", "s": "Tee!", "source": "en", "target": "de", "session": id}
    assert served.post("/suggest", json=body).json() == {"success": True}
    assert served.get(f"/sessions/{id}").json()["sentences"][0]["kind"] == "context"


def test_the_state_goes_out_and_in(served: Served, translator: Translator) -> None:
    id = served.session(SENTENCES[:2])
    data = served.get(f"/sessions/{id}/state").content
    state = DocumentState.from_bytes(data)
    expected = translator.translate(SENTENCES[2:], state)
    put = served.session()
    assert served.request("PUT", f"/sessions/{put}/state", data=data).status_code == 204
    created = served.post("/sessions", json={"state": base64.b64encode(data).decode()}).json()["id"]
    forked = served.post(f"/sessions/{id}/fork").json()["id"]
    for each in (put, created, forked, id):
        answer = served.post(f"/sessions/{each}/translate", json={"q": SENTENCES[2:]}).json()
        assert [s["target"] for s in answer["sentences"]] == expected


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff" * 100])
def test_a_damaged_state_is_refused(served: Served, data: bytes) -> None:
    id = served.session()
    assert served.request("PUT", f"/sessions/{id}/state", data=data).status_code == 400
    for end in ("!", "ä"):
        assert served.post("/sessions", json={"state": base64.b64encode(data).decode() + end}).status_code == 400


def test_saved_sentences_can_be_resumed(served: Served) -> None:
    id = served.session(" ".join(SENTENCES))
    content = served.get(f"/sessions/{id}").json()
    resumed = served.post("/sessions", json={"sentences": content["sentences"], "after": content["after"]}).json()["id"]
    served.request("DELETE", f"/sessions/{id}")
    assert served.get(f"/sessions/{id}").status_code == 404
    again = served.get(f"/sessions/{resumed}").json()
    assert (again["sentences"], again["text"]) == (content["sentences"], content["text"])
    *found, _ = events(served.request("PUT", f"/sessions/{resumed}/sentences/1", json={"target": "Ein Fuchs!"}))
    assert [data["number"] for _, data in found] == [1, 2, 3]


def test_a_client_that_has_missed_sentences_is_refused(served: Served) -> None:
    id = served.session(SENTENCES[:2])
    path = f"/sessions/{id}/translate"
    refused = served.post(path, json={"q": SENTENCES[2], "first": 1})
    assert (refused.status_code, refused.json()["error"]) == (412, "The session has 2 sentences, not 1")
    (event,) = events(served.post(path, json={"q": SENTENCES[2], "first": 3, "stream": True}))
    assert event == ("error", {"error": "The session has 2 sentences, not 3", "status": 412})
    assert served.post(path, json={"q": SENTENCES[2], "first": 2}).status_code == 200
    assert len(served.get(f"/sessions/{id}").json()["sentences"]) == 3


def test_a_correction_as_long_as_a_book_is_refused(served: Served) -> None:
    id = served.session(SENTENCES)
    refused = served.request("PUT", f"/sessions/{id}/sentences/0", json={"target": "Wort " * 100_000})
    assert (refused.status_code, "exceeds text limit" in refused.json()["error"]) == (400, True)


def test_words_are_aligned(served: Served) -> None:
    id = served.session(SENTENCES)
    answer = served.get(f"/sessions/{id}/alignment?start=1&count=2").json()
    assert (answer["start"], len(answer["alignments"])) == (1, 2)
    assert all(source < 4 for pairs in answer["alignments"] for source, _ in pairs)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/sessions", {"source": "zz"}, 400),
        ("POST", "/sessions/ID/translate", {}, 400),
        ("POST", "/sessions/ID/translate", {"q": 3}, 400),
        ("POST", "/sessions/ID/translate", {"q": "x" * 100_001}, 400),
        ("POST", "/sessions", {"sentences": [{"source": "a", "target": "x" * 100_001}]}, 400),
        ("POST", "/sessions/ID/read", {"source": ["a"], "target": []}, 400),
        ("PUT", "/sessions/ID/sentences/0", {"target": "a"}, 404),
        ("PUT", "/sessions/ID/sentences/-1", {"target": "a"}, 400),
        ("PUT", "/sessions/ID/sentences/x", {"target": "a"}, 400),
        ("GET", "/sessions/none", None, 404),
        ("GET", "/sessions/%2e%2e", None, 404),
    ],
)
def test_bad_requests(served: Served, method: str, path: str, body: object, status: int) -> None:
    answer = served.request(method, path.replace("ID", served.session()), json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}


@pytest.fixture(scope="module")
def stored(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("sessions")
    with serving(translator, ServiceSettings(sessions=folder, hosts=HOSTS, grace=5)) as running:
        yield running


LONE = '"\\ud800"'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/sessions/ID/translate", f'{{"q": {LONE}}}'),
        ("POST", "/sessions/ID/translate", f'{{"q": ["Tea!", {LONE}]}}'),
        ("POST", "/sessions/ID/read", f'{{"source": [{LONE}], "target": ["a"]}}'),
        ("PUT", "/sessions/ID/sentences/0", f'{{"target": {LONE}}}'),
        ("POST", "/sessions", f'{{"after": {LONE}}}'),
        ("POST", "/sessions", f'{{"sentences": [{{"source": "a", "target": {LONE}}}]}}'),
        ("POST", "/sessions", f'{{"sentences": [{{"source": "a", "target": "b", "before": {LONE}}}]}}'),
        ("POST", "/sessions", '{"sentences": [{"source": "a", "target": "b", "score": NaN}]}'),
        ("POST", "/sessions/ID/translate", '{"q": "a", "alternatives": 1e999}'),
        ("POST", "/sessions/ID/translate", f'{{"q": "a", "alternatives": {"9" * 5000}}}'),
        ("POST", "/sessions/ID/translate", "[" * 100_000),
        ("POST", "/sessions/ID/translate", "null"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_session_goes_on(
    stored: Served, method: str, path: str, body: str
) -> None:
    id = stored.session("Tea!")
    answer = stored.request(method, path.replace("ID", id), data=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (400, {"error"}), answer.text
    assert stored.post(f"/sessions/{id}/translate", json={"q": "Tea!"}).status_code == 200
    assert len(stored.get(f"/sessions/{id}").json()["sentences"]) == 2


def test_a_body_of_another_type_is_refused_in_a_sentence(served: Served) -> None:
    path = f"/sessions/{served.session()}/translate"
    answer = served.post(path, data='{"q": "a"}', headers={"Content-Type": "text/plain"})
    assert answer.json() == {"error": "Invalid request: the body is no JSON object, or its type is not JSON"}


def test_nothing_of_one_session_is_ever_in_another(served: Served, translator: Translator) -> None:
    """Sessions with words of their own, all at once: each one comes back as if it had been alone."""
    draw = random.Random(3)
    texts = [[f"{draw.choice(SENTENCES)[:-1]} {n}.", *draw.choices(SENTENCES, k=2)] for n in range(10, 20)]
    expected = [translator.translate(text) for text in texts]

    def work(text: list[str]) -> list[str]:
        id = served.session()
        targets = []
        for sentence in text:
            answer = served.post(f"/sessions/{id}/translate", json={"q": [sentence]}).json()
            targets += [s["target"] for s in answer["sentences"]]
        content = served.get(f"/sessions/{id}").json()
        assert [s["source"] for s in content["sentences"]] == text
        return targets

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(work, texts)) == expected


def test_an_unexpected_error_is_logged_counted_and_told(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served.service.languages, "detect", lambda text: 1 // 0)
    answer = served.post("/detect", data={"q": "Tea!"})
    assert (answer.status_code, set(answer.json())) == (500, {"error"})
    assert "Content-Security-Policy" in answer.headers
    assert "ZeroDivisionError" in caplog.text
    assert 'endpoint="/detect",status="500"' in served.get("/metrics").text


# Clients that go away.


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


def raw(served: Served, request: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))
    connection.sendall(request)
    return connection


@pytest.mark.parametrize("path", ["/translate", "/sessions/ID/translate"])
def test_work_for_a_client_that_has_gone_is_dropped(served: Served, path: str) -> None:
    body = b'{"q": "' + b"Tea! " * 500 + b'", "source": "en", "target": "de", "stream": true}'
    head = f"POST {path.replace('ID', served.session())} HTTP/1.1\r\nHost: localhost\r\n".encode()
    head += b"Content-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n"
    connection = raw(served, head + body)
    wait_for(lambda: served.service.scheduler.statistics.waiting_sentences > 0)
    connection.close()
    wait_for(lambda: served.service.scheduler.statistics.waiting_sentences == 0)
    assert served.post("/translate", data={"q": "Tea!", "source": "en", "target": "de"}).status_code == 200


def test_a_slow_reader_and_a_half_sent_body_hold_up_nobody(served: Served) -> None:
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    connections = [raw(served, head) for _ in range(20)]
    assert served.post("/translate", data={"q": "Tea!", "source": "en", "target": "de"}).status_code == 200
    for connection in connections:
        connection.close()


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", GET[:30], GET % b"/health" + b"GET"])
def test_a_connection_without_a_whole_request_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.3)
    connection = raw(served, sent)
    connection.settimeout(30)
    with connection, suppress(ConnectionResetError):
        while connection.recv(10_000):
            pass


def test_a_connection_that_works_for_long_is_not_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.05)
    body = {"q": "Tea! " * 100, "source": "en", "target": "de"}
    assert served.post("/translate", json=body).status_code == 200


def test_a_client_that_does_not_read_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "send_seconds", 0.5)
    connections = served.server.server_state.connections
    wait_for(lambda: not connections)
    with raw(served, GET % b"/openapi.json" * 500):  # 20 MB, more than any buffer
        wait_for(lambda: connections)
        wait_for(lambda: not connections)


def test_a_body_that_drips_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_TIMEOUT", 0.5)
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"
    )
    with raw(served, head) as connection:
        connection.settimeout(0.1)
        for _ in range(300):  # each byte comes soon after the last one
            with suppress(TimeoutError):
                answer = connection.recv(1000)
                break
            connection.sendall(b" ")
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_full_queue_answers_503_with_retry_after(translator: Translator) -> None:
    with serving(translator, ServiceSettings(queue=1, hosts=HOSTS, grace=5)) as small, ThreadPoolExecutor(1) as pool:
        body = {"q": "Tea! " * 60, "source": "en", "target": "de"}
        long = pool.submit(small.post, "/translate", json=body)
        wait_for(lambda: small.service.scheduler.statistics.waiting_requests)
        refused = small.post("/translate", json={**body, "q": "Tea!"})
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert long.result().status_code == 200


def test_a_client_that_fills_the_queue_leaves_room_for_others(translator: Translator, tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text("keys:\n  - {name: greedy, key: greedy-greedy-greedy}\n  - {name: small, key: small-small-small}\n")
    settings = ServiceSettings(queue=8, keys=keys, hosts=HOSTS, grace=5)
    with serving(translator, settings) as served, ThreadPoolExecutor(8) as pool:

        def ask(key: str, text: str) -> int:
            return served.post("/translate", key=key, json={"q": text, "source": "en", "target": "de"}).status_code

        greedy = [pool.submit(ask, "greedy-greedy-greedy", "Tea! " * 2000) for _ in range(8)]
        wait_for(lambda: sum(future.done() for future in greedy) == 4)
        assert [ask("small-small-small", "Why?") for _ in range(3)] == [200, 200, 200]
        assert sum(future.done() for future in greedy) == 4
        served.service.finish(0)
        assert {future.result(60) for future in greedy} == {503}


def test_the_body_of_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# The server process.


@pytest.fixture(scope="module")
def model(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    translator.save(folder)
    return folder


class Process:
    """`tram serve` as a user starts it."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tram", "serve", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def post(self, path: str, body: object) -> requests.Response:
        return requests.post(self.url + path, json=body, timeout=60)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stderr is not None
        assert "Traceback" not in self.process.stderr.read()
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Starts services and ends those that still run."""
    started: list[Process] = []

    def call(*arguments: object) -> Process:
        started.append(Process(*arguments))
        return started[-1]

    yield call
    for each in started:
        each.process.kill()
        each.process.wait(60)


@pytest.mark.slow
def test_sigterm_answers_or_refuses_what_was_accepted(model: Path, start: Callable[..., Process]) -> None:
    server = start("--model", model, "--grace", 1)
    statuses: list[int] = []
    lost: list[Exception] = []

    def client(connections: requests.Session) -> None:
        """Send one request after the other until one is refused, or nobody listens any more."""
        body = {"q": SENTENCES[:1], "source": "en", "target": "de"}
        while 503 not in statuses:
            try:
                statuses.append(connections.post(server.url + "/translate", json=body, timeout=60).status_code)
            except requests.ConnectionError as error:
                if "Connection refused" not in str(error):
                    lost.append(error)
                return

    threads = [threading.Thread(target=client, args=(requests.Session(),)) for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_for(lambda: 200 in statuses)
    assert server.end(signal.SIGTERM) == 0
    for thread in threads:
        thread.join(30)
    assert not lost
    assert set(statuses) <= {200, 503}


@pytest.mark.slow
def test_a_service_that_ends_answers_until_its_work_is_done(model: Path, start: Callable[..., Process]) -> None:
    server = start("--model", model, "--grace", 60)
    with ThreadPoolExecutor(1) as pool:
        body = {"q": "Tea! " * 60, "source": "en", "target": "de"}
        long = pool.submit(server.post, "/translate", body)
        wait_for(lambda: "tram_waiting_requests 1.0" in requests.get(server.url + "/metrics", timeout=60).text)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: requests.get(server.url + "/health", timeout=60).status_code == 503)
        refused = server.post("/translate", {**body, "q": "Tea!"})
        assert (refused.status_code, refused.headers["Connection"]) == (503, "close")
        assert int(refused.headers["Retry-After"]) > 0
        assert long.result().status_code == 200
    assert server.process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_a_session_that_is_being_translated_is_finished_at_the_first_signal_and_refused_at_the_second(
    model: Path, start: Callable[..., Process], signals: int
) -> None:
    server = start("--model", model, "--grace", 60)
    path = f"/sessions/{server.post('/sessions', {}).json()['id']}/translate"
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(server.post, path, {"q": SENTENCES * 20})  # takes several requests to the scheduler
        wait_for(lambda: "tram_steps_total 0.0" not in requests.get(server.url + "/metrics", timeout=60).text)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: requests.get(server.url + "/health", timeout=60).status_code == 503)
        if signals == 2:
            server.process.send_signal(signal.SIGTERM)
        assert long.result().status_code == (200 if signals == 1 else 503)
    assert server.process.wait(60) == 0


def test_a_third_signal_closes_the_service_without_a_traceback(
    translator: Translator, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(translator) as served:
        for _ in range(3):
            served.server.handle_exit(signal.SIGINT, None)
    assert not served.service.is_accepting
    assert "Traceback" not in caplog.text + capfd.readouterr().err


@pytest.mark.slow
def test_sigkill_leaves_sessions_that_load(model: Path, start: Callable[..., Process], tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    server = start("--model", model, "--sessions", folder)
    ids = [server.post("/sessions", {}).json()["id"] for _ in range(3)]

    answered: list[str] = []

    def client(id: str) -> None:
        while True:
            try:
                server.post(f"/sessions/{id}/translate", {"q": SENTENCES[:1]}).raise_for_status()
                answered.append(id)
            except requests.ConnectionError:
                return

    threads = [threading.Thread(target=client, args=(id,)) for id in ids]
    for thread in threads:
        thread.start()
    wait_for(lambda: set(answered) == set(ids))
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(30)
    for thread in threads:
        thread.join(30)
    again = start("--model", model, "--sessions", folder)
    for id in ids:
        content = requests.get(f"{again.url}/sessions/{id}", timeout=60).json()
        assert len(content["sentences"]) >= answered.count(id), "what was answered is on disk"
        answer = again.post(f"/sessions/{id}/translate", {"q": SENTENCES[:1]}).json()
        assert answer["sentences"][0]["number"] == len(content["sentences"])
    assert again.end(signal.SIGINT) == 0


def test_serving_other_machines_needs_keys_or_consent(tram: object, tmp_path: Path) -> None:
    from conftest import refused

    refused(tram("serve", "--host", "0.0.0.0"), "--keys", "--open")  # type: ignore[operator]
    keys = tmp_path / "keys.yaml"
    keys.write_text("keys:\n  - {name: a, key: short}\n")
    refused(tram("serve", "--keys", keys, "--port", 0), "keys.yaml", "16 characters")  # type: ignore[operator]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(tram("serve", "--port", taken.getsockname()[1]), "cannot be listened on", "--port")  # type: ignore[operator]
