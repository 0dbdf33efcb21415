"""Existing clients over a real socket: libretranslatepy, DeepL's own client, the requests of Weblate and OmegaT."""

import hashlib
import http.client
import io
import random
import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import deepl
import pytest
from libretranslatepy import LibreTranslateAPI

from served import HOSTS, Served, quick_translator, serving
from tram.service.budget import Budget
from tram.service.keys import Limits
from tram.service.service import FILES_AT_ONCE, ServiceSettings
from tram.translation.translator import Translator

TEXT = "The old miller waits. A small fox sings.\n\nOur teacher sleeps."
SENTENCES = ["The old miller waits.", "A small fox sings.", "Our teacher sleeps."]
KEY = "a-key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    return quick_translator(prepared)


@pytest.fixture(scope="module")
def served(translator: Translator) -> Iterator[Served]:
    with serving(translator) as running:
        yield running


@pytest.fixture(scope="module")
def with_keys(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    keys = tmp_path_factory.mktemp("keys") / "keys.yaml"
    keys.write_text(
        f"keys:\n  - {{name: one, key: {KEY}, characters_per_day: 300}}\n  - {{name: two, key: another-{KEY}}}\n"
    )
    with serving(translator, ServiceSettings(Limits(characters=1_000), keys, hosts=HOSTS, grace=5)) as running:
        yield running


def joined(translator: Translator) -> str:
    one, two, three = translator.translate(SENTENCES)
    return f"{one} {two}\n\n{three}"


# LibreTranslate.


def test_libretranslatepy(served: Served, translator: Translator) -> None:
    client = LibreTranslateAPI(served.url)
    assert client.translate(TEXT, "en", "de") == joined(translator)
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["de"]}
    assert client.detect("The old miller waits.")[0]["language"] == "en"
    with pytest.raises(HTTPError) as error:
        client.translate("Tea!", "en", "zz")
    assert error.value.code == 400


def test_a_list_as_weblate_sends_it_is_independent_texts(served: Served, translator: Translator) -> None:
    body = {"api_key": "", "q": SENTENCES, "source": "en", "target": "de"}
    answer = served.post("/translate", json=body).json()
    assert answer == {"translatedText": [translator.translate([sentence])[0] for sentence in SENTENCES]}


def test_a_list_can_be_one_document(served: Served, translator: Translator) -> None:
    body = {"q": SENTENCES, "source": "en", "target": "de", "document": True}
    assert served.post("/translate", json=body).json()["translatedText"] == translator.translate(SENTENCES)


@pytest.mark.parametrize("kind", ["data", "files", "params", "json"])
def test_fields_come_as_form_multipart_query_or_json(served: Served, translator: Translator, kind: str) -> None:
    fields = {"q": "Tea!", "source": "auto", "target": "de", "alternatives": 1}
    given = {name: (None, str(value)) for name, value in fields.items()} if kind == "files" else fields
    answer = served.post("/translate", **{kind: given}).json()
    assert answer["translatedText"] == translator.translate(["Tea!"])[0]
    assert answer["alternatives"] == [translator.n_best(["Tea!"], 2)[0][1].text]
    assert set(answer["detectedLanguage"]) == {"confidence", "language"}


def test_html_keeps_its_tags(served: Served) -> None:
    html = "<p>The <b>old miller</b> waits — ä.</p>"
    answer = served.post("/translate", json={"q": html, "source": "en", "target": "de", "format": "html"}).json()
    assert re.fullmatch(r"<p>.*<b>.*</b>.*</p>", answer["translatedText"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({"q": "Tea!", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "Tea!", "source": "en"}, "Invalid request: missing target parameter"),
        ({"q": "Tea!", "source": "zz", "target": "de"}, "zz is not supported"),
        ({"q": "Tea!", "source": "en", "target": "zz"}, "zz is not supported"),
        ({"q": "Tea!", "source": "en", "target": "de", "format": "pdf"}, "pdf format is not supported"),
        (
            {"q": "Tee!", "source": "de", "target": "en"},
            "English (en) is not available as a target language from German (de)",
        ),
        (
            {"q": "x" * 100_001, "source": "en", "target": "de"},
            "Invalid request: request (100001) exceeds text limit (100000)",
        ),
    ],
)
def test_libretranslates_errors(served: Served, fields: dict[str, str], message: str) -> None:
    for answer in (served.post("/translate", json=fields), served.post("/translate", data=fields)):
        assert (answer.status_code, answer.json()) == (400, {"error": message})


@pytest.mark.parametrize("body", [b"{", b"[]", b'"q"', b"\xff", b"[" * 100_000])
def test_bad_json_is_refused(served: Served, body: bytes) -> None:
    answer = served.post("/translate", data=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


def test_too_many_texts_are_refused_even_if_they_are_empty(served: Served) -> None:
    answer = served.post("/translate", json={"q": [""] * 10_001, "source": "en", "target": "de"})
    message = "Invalid request: request (10001) exceeds batch text limit (10000)"
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_other_refusals(served: Served) -> None:
    assert served.get("/translate").status_code == 405
    assert served.post("/suggest", data={"q": "a", "s": "b", "source": "en", "target": "de"}).json() == {
        "error": "Suggestions are disabled on this server."
    }
    lone = served.post("/translate", data=rb'{"q": "\ud800"}', headers={"Content-Type": "application/json"})
    assert lone.status_code == 400
    assert served.post("/translate_file", data={"source": "en", "target": "de"}).json() == {
        "error": "Invalid request: missing file parameter"
    }


def test_a_file_comes_back_in_its_format(served: Served) -> None:
    files = {"file": ("../../etc/letter.md", b"# The miller\n\nThe old miller **waits**.\n")}
    answer = served.post("/translate_file", data={"source": "en", "target": "de"}, files=files).json()
    url = answer["translatedFileUrl"]
    assert url.startswith(served.url + "/download_file/")
    assert url.endswith(".letter.de.md")
    download = served.get(url.removeprefix(served.url))
    assert download.text.startswith("# ")
    assert "**" in download.text
    assert "letter.de.md" in download.headers["Content-Disposition"]


def test_files_that_are_translated_keep_no_other_file_waiting(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(translator: object, document: object) -> bytes:
        with ExitStack() as stack:  # all of them could be read now
            for _ in range(FILES_AT_ONCE):
                assert served.service.files.acquire(blocking=False)
                stack.callback(served.service.files.release)
        return b"Tee!"

    monkeypatch.setattr("tram.service.libretranslate.translate_upload", translate)
    files = {"file": ("letter.txt", b"Tea!")}
    assert served.post("/translate_file", data={"source": "en", "target": "de"}, files=files).status_code == 200


def test_settings_of_libretranslates_page(served: Served) -> None:
    settings = served.get("/frontend/settings").json()
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert {".docx", ".txt", ".po"} <= set(settings["supportedFilesFormat"])
    assert settings["keyRequired"] is False


# DeepL.


def client_of(served: Served, key: str = KEY) -> deepl.Translator:
    return deepl.Translator(key, server_url=served.url)


def test_deepl_client_translates_texts(served: Served, translator: Translator) -> None:
    results = client_of(served).translate_text([TEXT, "Tea!"], source_lang="EN", target_lang="DE")
    assert [result.text for result in results] == [joined(translator), translator.translate(["Tea!"])[0]]
    assert results[0].detected_source_lang == "EN"


def test_deepl_context_is_read_and_not_returned(served: Served, translator: Translator) -> None:
    state = translator.start()
    translator.translate(SENTENCES[:2], state)
    expected = translator.translate(SENTENCES[2:], state)[0]
    for _ in range(2):  # the second time the context is known already
        result = client_of(served).translate_text(SENTENCES[2], target_lang="DE", context=" ".join(SENTENCES[:2]))
        assert result.text == expected


def test_deepl_languages_and_usage(served: Served) -> None:
    client = client_of(served)
    assert [language.code for language in client.get_source_languages()] == ["EN"]
    assert [language.code for language in client.get_target_languages()] == ["DE"]
    before = client.get_usage().character.count
    client.translate_text("Tea!", target_lang="DE")
    assert client.get_usage().character.count == before + 4


@pytest.mark.parametrize("path", ["/v2/usage", "/v2/languages?type=target", "/languages", "/metrics"])
def test_a_type_without_a_body_does_not_matter(served: Served, path: str) -> None:
    assert served.get(path, headers={"Content-Type": "application/json"}).status_code == 200


def test_deepl_documents(served: Served) -> None:
    result = io.BytesIO()
    content = io.BytesIO(b"The old miller waits.\n\nTea!\n")
    status = client_of(served).translate_document(content, result, target_lang="DE", filename="letter.txt")
    assert status.done
    assert result.getvalue().count(b"\n\n") == 1


@pytest.mark.parametrize(
    "options", [{"formality": "more"}, {"glossary": "0" * 8}, {"tag_handling": "xml"}, {"target_lang": "FR"}]
)
def test_deepl_options_that_the_model_lacks_are_refused(served: Served, options: dict[str, str]) -> None:
    with pytest.raises(deepl.DeepLException, match="not supported"):
        client_of(served).translate_text("Tea!", **{"source_lang": "EN", "target_lang": "DE", **options})


# Keys.


def test_a_key_is_accepted_wherever_clients_send_it(with_keys: Served) -> None:
    fields = {"q": "Tea!", "source": "en", "target": "de"}
    answers = [
        with_keys.post("/translate", json={**fields, "api_key": KEY}),
        with_keys.post("/translate", data={**fields, "api_key": KEY}),
        with_keys.post("/translate", data=fields, key=KEY),
        with_keys.post("/translate", data=fields, headers={"Authorization": f"DeepL-Auth-Key {KEY}"}),
        with_keys.post(f"/translate?api_key={KEY}", data=fields),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5


def test_a_missing_or_wrong_key_is_refused_in_each_protocol(with_keys: Served) -> None:
    fields = {"q": "Tea!", "source": "en", "target": "de"}
    missing = with_keys.post("/translate", data=fields)
    assert (missing.status_code, "API key" in missing.json()["error"]) == (400, True)
    wrong = with_keys.post("/translate", data=fields, key="x" * 30)
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    with pytest.raises(deepl.AuthorizationException):
        client_of(with_keys, "x" * 30).translate_text("Tea!", target_lang="DE")
    assert with_keys.get("/metrics").status_code == 400
    assert with_keys.get("/health").status_code == 200


@pytest.mark.slow
def test_ten_thousand_wrong_keys_over_http_and_no_way_in(with_keys: Served) -> None:
    draw = random.Random(0)
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    near = [KEY[:-1], KEY + "x", KEY.upper(), f" {KEY} x", digest, digest[:16], "x" * 10_000, "%00", "*", "null", "[]"]
    connection = http.client.HTTPConnection(with_keys.url.removeprefix("http://"), timeout=60)
    statuses = set()
    for number in range(10_000):
        key = near[number] if number < len(near) else "".join(draw.choices(KEY, k=len(KEY)))
        kind = draw.choice(["Bearer", "DeepL-Auth-Key"])
        method, path = draw.choice([("GET", "/metrics"), ("GET", "/v2/usage"), ("POST", "/sessions")])
        headers = {"Authorization": f"{kind} {key}", "Content-Type": "application/json"}
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        answer.read()
        statuses.add(answer.status)
    assert statuses == {403}
    assert not len(with_keys.service.sessions)


def test_the_characters_of_a_day_are_limited(with_keys: Served) -> None:
    client = client_of(with_keys)
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text("Tea! " * 60, target_lang="DE")
    answer = with_keys.post("/translate", data={"q": "Tea! " * 60, "source": "en", "target": "de"}, key=KEY)
    assert answer.status_code == 429
    assert answer.json()["error"].startswith("Slowdown: ")
    assert int(answer.headers["Retry-After"]) > 0


def test_sessions_and_documents_of_one_key_are_unknown_to_another(with_keys: Served) -> None:
    other = f"another-{KEY}"
    id = with_keys.session(key=KEY)
    for method, path in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/state"),
        ("GET", "/text"),
        ("POST", "/fork"),
        ("GET", "/alignment"),
    ]:
        assert with_keys.request(method, f"/sessions/{id}{path}", key=other).status_code == 404
    assert with_keys.request("GET", f"/sessions/{id}", key=KEY).status_code == 200
    upload = {"file": ("a.txt", b"Tea!")}
    document = with_keys.post("/v2/document", data={"target_lang": "DE"}, files=upload, key=KEY).json()
    status = f"/v2/document/{document['document_id']}"
    body = {"document_key": document["document_key"]}
    assert with_keys.post(status, json=body, key=other).status_code == 404
    assert with_keys.post(status, json={"document_key": "x"}, key=KEY).status_code == 404
    assert with_keys.post(status, json=body, key=KEY).status_code == 200


# Files that attack.


def bomb(size: int, name: str = "word/document.xml") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", "<Types/>")
        package.writestr(name, b" " * size)
    return buffer.getvalue()


def lying(size: int) -> bytes:
    """A package whose headers say that its largest part has four bytes."""
    return bomb(size).replace(size.to_bytes(4, "little"), (4).to_bytes(4, "little"))


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + ']><xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>&j;</source></trans-unit>'
    "</body></file></xliff>"
).encode()
EXTERNAL = LAUGHS.replace(b'<!ENTITY a "ha">', b'<!ENTITY a SYSTEM "file:///etc/passwd">').replace(b"&j;", b"&a;")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", bomb(300_000_000)),
        ("a.docx", lying(300_000_000)),
        ("a.odt", b"PK\x03\x04" + b"\0" * 100),
        ("a.xlf", LAUGHS),
        ("a.xlf", EXTERNAL),
        ("a.pdf", b"%PDF-1.7"),
        ("a.exe", b"MZ\0\0"),
        ("a.txt", b"\xff\xfe\xff"),
        ("", b"Tea!"),
    ],
)
def test_files_that_cannot_be_read_are_refused(served: Served, name: str, content: bytes) -> None:
    files = {"file": (name, content)}
    answer = served.post("/translate_file", data={"source": "en", "target": "de"}, files=files)
    assert answer.status_code in (400, 413), answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("name", ["../../letter.txt", "/etc/letter.txt", r"..\..\letter.txt", "..%2f..%2fletter.txt"])
def test_a_name_never_becomes_a_path(served: Served, name: str) -> None:
    upload = {"file": (name, b"Tea!")}
    answer = served.post("/translate_file", data={"source": "en", "target": "de"}, files=upload)
    link = answer.json()["translatedFileUrl"].removeprefix(f"{served.url}/download_file/")
    assert re.fullmatch(r"[0-9a-f]{32}\.[\w.-]*letter\.de\.txt", link)
    assert served.get(f"/download_file/{link}").status_code == 200


@pytest.mark.parametrize("name", ["../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/keys.yaml", "x" * 300])
def test_no_other_file_can_be_downloaded(served: Served, name: str) -> None:
    for path in (f"/download_file/{name}", f"/page/{name}"):
        assert served.get(path).status_code == 404


def test_a_body_that_is_too_large_is_refused(served: Served) -> None:
    assert served.post("/translate", data=b"q=" + b"x" * 5_000_000).status_code == 413
    chunks = (b"x" * 100_000 for _ in range(60))
    answer = served.post("/translate", data=chunks, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 413


def test_bodies_that_are_held_at_once_are_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tram.service.budget.Budget.take", Budget(10).take)
    fields = {"q": "Tea! " * 10, "source": "en", "target": "de"}
    assert served.post("/translate", json=fields).status_code == 200, "alone it may be larger"
    refused = served.post("/translate", json=fields)  # nothing was given back
    assert (refused.status_code, refused.json()) == (503, {"error": "The service is busy, try again later"})
    assert int(refused.headers["Retry-After"]) >= 1


# Pages of other sites.


def test_other_hosts_and_origins_are_refused(served: Served) -> None:
    assert served.get("/languages", headers={"Host": "evil.example"}).status_code == 421
    assert served.get("/languages", headers={"Host": "LocalHost:5000"}).status_code == 200
    fields = {"q": "Tea!", "source": "en", "target": "de"}
    assert served.post("/translate", data=fields, headers={"Origin": "http://evil.example"}).status_code == 403
    assert served.post("/translate", data=fields, headers={"Origin": served.url}).status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "file://", "*", "://"])
def test_a_strange_origin_is_refused(served: Served, origin: str) -> None:
    fields = {"q": "Tea!", "source": "en", "target": "de"}
    assert served.post("/translate", data=fields, headers={"Origin": origin}).status_code == 403


def test_head_is_answered_like_get_and_a_wrong_method_with_the_right_ones(served: Served) -> None:
    for path in ("/", "/health", "/languages", "/page/app.js", "/sessions/none"):
        got, asked = served.get(path), served.request("HEAD", path)
        assert (asked.status_code, asked.content) == (got.status_code, b"")
        assert asked.headers["Content-Length"] == got.headers["Content-Length"]
    wrong = served.get("/translate")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")


def test_pages_of_sites_that_are_named_may_use_it(translator: Translator) -> None:
    site = "https://site.example"
    with serving(translator, ServiceSettings(origins=(site,), hosts=HOSTS, grace=5)) as named:
        preflight = {"Origin": site, "Access-Control-Request-Method": "POST"}
        answer = named.request("OPTIONS", "/translate", headers=preflight)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (204, site)
        fields = {"q": "Tea!", "source": "en", "target": "de"}
        assert named.post("/translate", data=fields, headers={"Origin": site}).status_code == 200
        assert named.post("/translate", data=fields, headers={"Origin": "https://other.example"}).status_code == 403


def test_answers_have_security_headers_and_metrics_no_secrets(served: Served) -> None:
    answer = served.get("/languages")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer.headers
    id = served.session()
    served.get(f"/sessions/{id}?api_key={KEY}")
    metrics = served.get("/metrics").text
    assert 'endpoint="/sessions/{id}"' in metrics
    assert not [secret for secret in (id, KEY, "127.0.0.1") if secret in metrics]
