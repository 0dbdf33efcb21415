"""A translator that many requests share: spans that are kept, and alignments while others use the model."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from served import quick_translator
from tram.errors import InputError
from tram.service.languages import Languages
from tram.service.scheduler import Scheduler
from tram.service.shared import SharedTranslator
from tram.service.uploads import safe_name, translated_name
from tram.translation.alignment import align_words
from tram.translation.parts import Translation
from tram.translation.translator import Translator

SOURCES, TARGETS = ["The old miller waits."], ["Der alte Müller wartet."]


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Iterator[SharedTranslator]:
    scheduler = Scheduler(quick_translator(prepared), wait=0)
    yield SharedTranslator(scheduler)
    scheduler.close(1)


def test_alignments_do_not_see_what_other_threads_translate(
    translator: SharedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = translator.model
    expected = align_words(translator, SOURCES, TARGETS)
    original = model.forced_decode

    def meanwhile(*given: Any) -> Any:
        other = threading.Thread(target=translator.scheduler.translator.translate, args=(["A small fox sings."],))
        other.start()
        other.join()
        return original(*given)

    monkeypatch.setattr(model, "forced_decode", meanwhile)
    assert align_words(translator, SOURCES, TARGETS) == expected
    assert translator.align(SOURCES * 40, TARGETS * 40) == expected * 40


def test_other_histories_are_refused(translator: SharedTranslator) -> None:
    with pytest.raises(InputError, match="history"):
        list(translator.translate_documents([["Tea!"]], history="none"))


def test_spans_are_kept_and_alternatives_that_lose_them_dropped(
    translator: SharedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model that has ids for the places of spans."""
    monkeypatch.setattr(SharedTranslator, "_protect", protected)

    def translate(work: Any, cancellation: Any) -> Any:
        return [[[Translation(f"{t} gut", 0.0), Translation("weg", -1.0)] for t in each.sentences] for each in work]

    monkeypatch.setattr(translator.scheduler, "translate", translate)
    found = translator.translate_sentences(["See https://example.org now.", "..."], best=2)
    assert [[option.text for option in options] for options in found] == [["See https://example.org now. gut"], ["..."]]


def protected(self: SharedTranslator, sentence: str) -> Any:
    from tram.service.shared import protect

    return protect(sentence)


def test_the_language_of_a_text_is_guessed_from_its_words() -> None:
    languages = Languages(Translator.load().text)
    assert languages.detect("The new printer is in the office and it works.")[0].language == "en"
    assert languages.detect("Der neue Drucker ist im Büro und er läuft.")[0].language == "de"
    assert languages.detect("12 ...")[0].confidence == 0


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("letter.docx", "letter.de.docx"),
        ("../../etc/passwd", "passwd.de"),
        ("C:\\Users\\me\\a b.txt", "a_b.de.txt"),
        ("\r\nSet-Cookie: x.txt", "_Set-Cookie_x.de.txt"),
        ("", "file.de"),
        (".htaccess", "htaccess.de"),
        ("x" * 300 + ".odt", "x" * 100 + ".de.odt"),
    ],
)
def test_names_of_files_are_made_harmless(name: str, safe: str) -> None:
    assert translated_name(name, "de") == safe
    assert "/" not in safe_name(name)
