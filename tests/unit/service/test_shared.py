"""A translator that many requests share: spans that are kept, and alignments while others use the model."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from served import quick_translator
from tram.errors import InputError
from tram.filetypes.base import ReadOptions
from tram.filetypes.batch import translate_opened
from tram.filetypes.registry import read_bytes
from tram.service import shared
from tram.service.languages import Languages
from tram.service.scheduler import Scheduler
from tram.service.shared import SharedTranslator
from tram.service.uploads import safe_name, translated_name
from tram.text.verbatim import VerbatimRules
from tram.translation.alignment import align_words
from tram.translation.documents import Remarks
from tram.translation.parts import Found
from tram.translation.search import Hypothesis
from tram.translation.tasks import DocumentTask
from tram.translation.translator import Translator

SOURCES, TARGETS = ["The old miller waits."], ["Der alte Müller wartet."]
DOCUMENTS = [
    ["The fox reads https://example.org now.", "Tea!", "", "..."],
    ["A small fox sings 🙂.", "The old miller waits " * 3],
    [],
    ["Open %s.", "Why?"],
]


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Iterator[SharedTranslator]:
    scheduler = Scheduler(quick_translator(prepared), wait=0)
    yield SharedTranslator(scheduler)
    scheduler.close(1)


def test_alignments_are_those_of_the_translator(translator: SharedTranslator) -> None:
    expected = align_words(translator.scheduler.translator, SOURCES, TARGETS)
    assert translator.align(SOURCES * 40, TARGETS * 40) == expected * 40


def test_a_long_sentence_is_read_in_many_calls_and_the_state_is_that_of_the_translator(
    translator: SharedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "READ_TOKENS", 100)
    own, sources, targets = translator.scheduler.translator, ["The old miller " * 300, "Tea!"], ["Der Müller", "Tee!"]
    expected, state, sizes = own.start(), own.start(), []
    own.read(sources, targets, expected)
    original = own._read_block
    monkeypatch.setattr(own, "_read_block", lambda block, state: sizes.append(len(block)) or original(block, state))
    translator.read(sources, targets, state)
    assert (len(sizes) > 10, max(sizes) < 10) == (True, True)
    for unit, values in expected.state.units.items():
        torch.testing.assert_close(state.state[unit]["M"], values["M"])
    assert state.sentences == expected.sentences == 2


def test_alignments_do_not_see_what_other_threads_translate(
    translator: SharedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = translator.scheduler.translator
    expected = align_words(own, SOURCES, TARGETS)
    original = own.model.forced_decode

    def meanwhile(*given: Any) -> Any:
        other = threading.Thread(target=own.search, args=(own.text.encode(["A small fox sings."], "source"),))
        other.start()
        other.join()
        return original(*given)

    monkeypatch.setattr(own.model, "forced_decode", meanwhile)
    assert align_words(own, SOURCES, TARGETS) == expected


def test_other_histories_are_refused(translator: SharedTranslator) -> None:
    with pytest.raises(InputError, match="history"):
        list(translator.translate_documents([["Tea!"]], history="none"))


@pytest.mark.parametrize("has_memory", [True, False])
def test_spans_guards_and_alignments_are_those_of_the_translator(prepared: Path, has_memory: bool) -> None:
    own = quick_translator(prepared)
    if not has_memory:
        own = Translator(own.model.without_context(), own.text, beam=2)
    own.guards = has_memory
    scheduler = Scheduler(own, batch=3)
    ours, theirs = Remarks(), Remarks()
    shared = SharedTranslator(scheduler)
    states, others = [own.start() for _ in DOCUMENTS], [own.start() for _ in DOCUMENTS]
    # A sentence model is asked for alignments after the translation, which random subwords do not survive
    settings: dict[str, Any] = {"alignment": has_memory, "verbatim": VerbatimRules(glossary={"fox": "Fuchs"})}
    found = list(shared.detailed(DOCUMENTS, states=states, remarks=ours, **settings))
    expected = list(own.detailed(DOCUMENTS, states=others, remarks=theirs, **settings))
    scheduler.close(1)
    assert [[(t.text, t.alignment, t.warnings) for t in document] for document in found] == [
        [(t.text, t.alignment, t.warnings) for t in document] for document in expected
    ]
    assert ours == theirs
    assert ours.warnings, "a model with random weights loses spans"
    for one, other in zip(states, others, strict=True):
        assert one.sentences == other.sentences
        for name, value in other.state.tensors().items():
            torch.testing.assert_close(one.state.tensors()[name], value)


def test_the_model_runs_in_the_worker_only(translator: SharedTranslator) -> None:
    threads: set[str] = set()
    handles = [
        module.register_forward_pre_hook(lambda *_: threads.add(threading.current_thread().name))
        for stack in (translator.model.encoder, translator.model.decoder)
        for module in stack.layers
    ]
    state = translator.start()
    translator.translate(DOCUMENTS[0], state, alignment=True, verbatim=VerbatimRules())
    translator.read(SOURCES, TARGETS, state)
    translator.translate_sentences(DOCUMENTS[1], state, best=2)
    file = read_bytes("html", b"<p>The <b>old</b> miller waits.</p>", "html", ReadOptions("en", "de"))
    list(translate_opened(translator, [file]))
    for handle in handles:
        handle.remove()
    assert threads == {"tram-scheduler"}


def test_alternatives_that_lose_a_span_are_dropped(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = quick_translator(prepared)
    scheduler = Scheduler(own)

    def next_sentences(tasks: list[DocumentTask]) -> list[Found]:
        found = []
        for task in tasks:
            answers = own.text.encode(["The fox sings", "X1 waits", "The X1 miller waits", "X1 waits"], "target")
            hypotheses = [Hypothesis(ids, -float(rank)) for rank, ids in enumerate(answers)]
            found.append([task.choose(hypotheses), *hypotheses[1:]])
            task.cursor.done += 1
        return found

    monkeypatch.setattr(own, "beam", 4)
    monkeypatch.setattr(scheduler, "_next_sentences", next_sentences)
    found = SharedTranslator(scheduler).translate_sentences(["The miller waits https://example.org", "..."], best=4)
    scheduler.close(1)
    texts = [[option.text for option in options] for options in found]
    assert texts == [["https://example.org waits", "The https://example.org miller waits"], ["..."]]


def test_unequal_sentences_leave_the_state_as_it_is(translator: SharedTranslator) -> None:
    state = translator.start()
    with pytest.raises(InputError, match="40 source and 32 target"):
        translator.read(SOURCES * 40, TARGETS * 32, state)
    assert state.sentences == 0


def test_a_model_of_units_is_refused(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = quick_translator(prepared)
    monkeypatch.setattr(own, "units", "blocks of four sentences")
    with pytest.raises(InputError, match="several sentences as one sequence"):
        Scheduler(own)


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
