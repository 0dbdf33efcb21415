"""The page in a real browser, with the model that ships with tram: Debian's Chromium, driven by Playwright.

The accessibility check needs axe-core: `npm install axe-core`, and its folder in TRAM_AXE (by default node_modules).
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filetype_samples import docx
from served import HOSTS, Served, serving
from tram import Translator
from tram.service.service import ServiceSettings
from tram.service.sessions import restart

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]
AXE = Path(os.environ.get("TRAM_AXE", "node_modules")) / "axe-core" / "axe.min.js"
LETTER = (Path(__file__).parents[2] / "examples" / "printer.txt").read_text()
TIMEOUT = 180_000  # milliseconds
KEY = "0123456789abcdef"
EXPECTED = ("404", "400", "ERR_INTERNET_DISCONNECTED")  # what the browser says of failures that were made on purpose
VIEWS = [
    ({"width": width, "height": height}, scheme)
    for width, height in [(1280, 900), (390, 844)]
    for scheme in ("light", "dark")
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Translator.load()) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def open_page(served: Served, browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page; at the end there were no errors and no requests to other hosts."""
    contexts: list[Any] = []
    problems: list[str] = []

    def call(**options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(TIMEOUT)
        page.on("console", lambda message: note(message.type, message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: check(request.url))
        page.goto(served.url)
        page.wait_for_selector("html[data-ready]")
        return page

    def note(kind: str, text: str) -> None:
        if kind == "error" and not any(expected in text for expected in EXPECTED):
            problems.append(text)

    def check(url: str) -> None:
        if not url.startswith((served.url, "data:", "blob:")):
            problems.append(url)

    yield call
    for context in contexts:
        context.close()
    assert not problems


def idle(page: Any) -> None:
    page.wait_for_selector("#stop", state="hidden")


def translate(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".to .sentence")
    idle(page)


def sentences(page: Any) -> list[str]:
    return [text.strip() for text in page.locator(".to .sentence").all_inner_texts()]


def test_a_correction_changes_later_sentences_and_survives_a_reload(
    open_page: Callable[..., Any], served: Served
) -> None:
    page = open_page()
    translate(page, LETTER)
    before = sentences(page)
    assert before[1:3] == ["Der neue Drucker ist im Büro.", "Er ist sehr schnell."]
    page.locator(".to .sentence").nth(1).click()
    assert page.locator(".panel .options li").count() == 4
    page.fill(".panel textarea", "Die neue Maschine ist im Büro.")
    page.keyboard.press("Enter")
    idle(page)
    after = sentences(page)
    assert after[2] == "Sie ist sehr schnell."
    changed = page.locator(".to .sentence.changed").all_inner_texts()
    assert changed == [new for old, new in zip(before, after, strict=True) if old != new][1:]
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert sentences(page) == after
    served.service.sessions.delete(page.evaluate("JSON.parse(localStorage['tram-document']).id"), "anonymous")
    page.reload()  # the service has forgotten it, this browser has not
    page.wait_for_selector("html[data-ready]")
    assert sentences(page) == after
    page.fill("#more-text", "It is heavy.")
    page.click("#more button")
    idle(page)
    assert len(sentences(page)) == len(after) + 1


def test_what_a_stopped_translation_leaves_is_offered_to_continue(open_page: Callable[..., Any]) -> None:
    page = open_page()
    text = [f"The {noun} is new." for noun in ("door", "lamp", "key", "car", "table", "house", "letter", "book") * 5]
    page.fill("#text", " ".join(text))
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".to .sentence >> nth=2")
    page.click("#stop")
    idle(page)
    done = page.locator(".from .sentence").all_inner_texts()
    assert 0 < len(done) < len(text)
    assert page.input_value("#more-text") == " ".join(text[len(done) :])
    page.click("#more button")
    page.wait_for_selector(f".to .sentence >> nth={len(done)}")
    page.reload()  # instead of stopping it
    page.wait_for_selector("html[data-ready]")
    page.click("#more button")
    page.wait_for_selector(f".to .sentence >> nth={len(text) - 1}")
    idle(page)
    assert page.locator(".from .sentence").all_inner_texts() == text


def test_nothing_is_lost_when_the_service_is_away_or_has_forgotten_the_document(
    open_page: Callable[..., Any], served: Served
) -> None:
    page = open_page()
    translate(page, "The new printer is in the office. It is very fast.")
    page.context.set_offline(True)
    page.fill("#more-text", "It is heavy.")
    page.click("#more button")
    idle(page)
    assert page.inner_text("#status").startswith("The service does not answer.")
    assert page.input_value("#more-text") == "It is heavy."
    page.locator(".to .sentence").nth(0).click()
    page.fill(".panel textarea", "Die neue Maschine ist im Büro.")
    page.keyboard.press("Enter")
    idle(page)
    assert page.input_value(".panel textarea") == "Die neue Maschine ist im Büro."
    page.keyboard.press("Escape")
    page.context.set_offline(False)
    served.service.sessions.delete(page.evaluate("JSON.parse(localStorage['tram-document']).id"), "anonymous")
    page.click("#more button")
    page.wait_for_selector(".to .sentence >> nth=2")
    idle(page)
    page.locator(".to .sentence").nth(0).click()
    page.fill(".panel textarea", "Die neue Maschine ist im Büro.")
    page.keyboard.press("Enter")
    idle(page)
    assert sentences(page)[1] == "Sie ist sehr schnell."


def test_a_session_that_lost_its_last_sentences_is_started_again(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page()
    translate(page, "The new printer is in the office.\n\nIt is very fast.")
    id = page.evaluate("JSON.parse(localStorage['tram-document']).id")
    with served.service.sessions.opened(id, "anonymous") as session:  # as after SIGKILL, with sessions on disk
        restart(session, session.origin)
    page.fill("#more-text", "It is heavy.")
    page.click("#more button")
    page.wait_for_selector(".to .sentence >> nth=2")
    idle(page)
    assert sentences(page) == ["Der neue Drucker ist im Büro.", "Er ist sehr schnell.", "Er ist schwer."]


def test_two_tabs_with_one_document_show_the_same_and_a_tab_keeps_its_own(open_page: Callable[..., Any]) -> None:
    first = open_page()
    translate(first, "The new printer is in the office. It is very fast.")
    second = first.context.new_page()
    second.goto(first.url)
    second.wait_for_selector(".to .sentence >> nth=1")
    second.locator(".to .sentence").nth(0).click()
    second.fill(".panel textarea", "Die neue Maschine ist im Büro.")
    second.keyboard.press("Enter")
    second.wait_for_selector(".to .sentence.changed")
    idle(second)
    first.evaluate("dispatchEvent(new Event('focus'))")
    first.wait_for_selector("text=Maschine")
    assert sentences(first) == sentences(second) == ["Die neue Maschine ist im Büro.", "Sie ist sehr schnell."]
    second.fill("#more-text", "It is heavy.")
    second.click("#more button")
    second.wait_for_selector(".to .sentence >> nth=2")
    idle(second)
    first.fill("#more-text", "It is new.")  # this tab does not know of the third sentence
    first.click("#more button")
    first.wait_for_selector(".to .sentence >> nth=3")
    idle(first)
    assert first.locator(".from .sentence").all_inner_texts()[2:] == ["It is heavy.", "It is new."]
    second.click("#new")
    second.wait_for_selector("#start")
    translate(second, "The door is open.")
    first.reload()
    first.wait_for_selector("html[data-ready]")
    assert len(sentences(first)) == 4


def test_what_has_no_words_is_shown_and_kept(open_page: Callable[..., Any]) -> None:
    page = open_page()
    page.fill("#text", "😀")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#status.failed")
    translate(page, "The door is open.\n\n* * *\n\nIt is green.\n🎉")
    assert page.locator(".to .mark").all_inner_texts() == ["* * *", "🎉"]
    assert page.evaluate("JSON.parse(localStorage['tram-document']).sentences[0].before") == ""
    page.fill("#more-text", "✨")
    page.click("#more button")
    page.wait_for_selector("text=🎉✨")
    idle(page)
    assert page.input_value("#more-text") == ""


def test_a_new_tab_shows_the_document_before_it_has_the_key(served: Served, browser: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(f"keys: [{{name: office, key: {KEY}}}]")
    with serving(served.service.translator, ServiceSettings(keys=keys, hosts=HOSTS, grace=5)) as locked:
        context = browser.new_context()
        first, second = context.new_page(), context.new_page()
        for page in (first, second):
            page.set_default_timeout(TIMEOUT)
            page.goto(locked.url)
            page.fill("#key", KEY)
            page.keyboard.press("Enter")
            page.wait_for_selector("text=The key is used until this tab is closed")
            if page is first:
                translate(page, "The door is open.")
            assert sentences(page) == ["Die Tür ist offen."]
        context.close()


def test_a_closed_document_can_be_brought_back(open_page: Callable[..., Any]) -> None:
    page = open_page()
    translate(page, "The door is open.")
    before = sentences(page)
    page.click("#new")
    page.wait_for_selector("#start")
    page.click("#undo")
    assert sentences(page) == before
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert sentences(page) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "There is nothing to translate yet"),
        ("--- !!!", "The text has no words to translate"),
        (
            "Tea! " * 20_001,
            "The text has 100,005 characters; the limit is 100,000. Translate it in parts, or as a file.",
        ),
    ],
)
def test_a_text_that_cannot_be_translated_stays_and_a_sentence_says_why(
    open_page: Callable[..., Any], text: str, message: str
) -> None:
    page = open_page()
    page.fill("#text", text)
    page.click("#start .primary")
    page.wait_for_selector("#status.failed")
    assert page.inner_text("#status") == message
    assert page.input_value("#text") == text


def test_everything_works_with_the_keyboard_alone(open_page: Callable[..., Any]) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#text")
    page.keyboard.type("The new printer is in the office. It is very fast. Where is it?")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".to .sentence")
    idle(page)
    page.focus(".to .sentence")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.number") == "1"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel-target"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.number") == "1"
    assert page.locator(".panel").count() == 0


def test_words_that_belong_together_light_up(open_page: Callable[..., Any]) -> None:
    page = open_page()
    translate(page, "The new printer is in the office.")
    word = page.locator(".to .word", has_text="Drucker")
    word.hover()
    page.wait_for_timeout(1500)
    page.mouse.move(1, 1)
    word.hover()
    assert page.locator(".from .word.near").all_inner_texts() == ["printer"]
    assert page.locator(".from .sentence.near").count() == 1


def test_files_are_uploaded_and_downloaded(open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = open_page(accept_downloads=True)
    source = tmp_path / "letter.docx"
    source.write_bytes(docx().content)
    page.set_input_files("#file", source)
    link = page.wait_for_selector("#file-list a")
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "letter.de.docx"
    assert Path(download.value.path()).read_bytes().startswith(b"PK")


def test_a_document_is_saved_and_opened(open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = open_page(accept_downloads=True)
    translate(page, "The door is open.\n\nIt is green.")
    with page.expect_download() as download:
        page.click("#save")
    saved = tmp_path / "document.tram.json"
    download.value.save_as(saved)
    assert json.loads(saved.read_text())["format"] == "tram-document"
    before = sentences(page)
    page.click("#new")
    assert page.locator(".to .sentence").count() == 0
    page.set_input_files("#file", saved)
    page.wait_for_selector(".to .sentence")
    assert sentences(page) == before
    with page.expect_download() as download:
        page.click("#download")
    assert Path(download.value.path()).read_text() == "\n\n".join(before)


def test_the_field_of_a_correction_shows_all_of_it_on_a_phone(open_page: Callable[..., Any]) -> None:
    page = open_page(viewport={"width": 390, "height": 844})
    translate(page, "The new printer is in the office next to the old camera and the letter that I have seen today.")
    page.locator(".to .sentence").nth(0).click()
    field = page.locator(".panel textarea")
    hidden = "field => field.scrollHeight - field.clientHeight"
    assert field.evaluate(hidden) <= 0
    page.locator(".panel .options button").nth(0).click()
    page.keyboard.type(" Und noch viel mehr Text, der nicht in eine Zeile passt, sondern in drei oder vier Zeilen.")
    assert field.evaluate(hidden) <= 0


@pytest.mark.parametrize(("viewport", "scheme"), VIEWS)
def test_nothing_overflows_and_axe_finds_nothing_serious(
    open_page: Callable[..., Any], viewport: dict[str, int], scheme: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=scheme, bypass_csp=True)
    translate(page, LETTER)
    page.locator(".to .sentence").nth(1).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    if not AXE.exists():
        pytest.skip("needs axe-core: npm install axe-core")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert not [violation["id"] for violation in found if violation["impact"] in ("serious", "critical")]
