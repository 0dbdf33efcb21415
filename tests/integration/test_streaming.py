"""`translate_documents` takes an iterable and returns an iterator: order, lockstep and bounded memory."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers import make_translator
from tram.config import MemoryConfig
from tram.errors import InputError
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.documents import AHEAD
from tram.translation.translator import Translator

WORDS = ["Tea!", "The old miller waits.", "A small fox sings on the bridge.", "Why?"]


@pytest.fixture(scope="module", params=["memory", "sentences"])
def translator(prepared: Path, request: pytest.FixtureRequest) -> Translator:
    made = make_translator(prepared)
    if request.param == "sentences":
        made = Translator(made.model.without_context(), made.text)
    made.beam, made.batch = 1, 3
    return made


def documents(count: int, longest: int = 4) -> list[list[str]]:
    draw = random.Random(count)
    return [draw.choices(WORDS, k=draw.randint(0, longest)) for _ in range(count)]


def test_documents_come_back_in_order_whenever_they_end(translator: Translator) -> None:
    given = documents(40)
    expected = [translator.translate(document) for document in given]
    assert list(translator.translate_documents(iter(given))) == expected


def test_a_result_comes_before_the_last_document_is_read(translator: Translator) -> None:
    taken = 0

    def endless() -> Iterator[list[str]]:
        nonlocal taken
        while True:
            taken += 1
            yield WORDS[:1]

    results = translator.translate_documents(endless())
    for _ in range(5):
        next(results)
    assert taken <= translator.batch * AHEAD + 5


def test_a_long_document_holds_up_only_so_many(prepared: Path) -> None:
    """Documents after it wait for it, so no more than a bounded number of them is translated meanwhile."""
    translator = make_translator(prepared)
    translator.beam, translator.batch = 1, 2
    taken = 0

    def given() -> Iterator[list[str]]:
        nonlocal taken
        yield WORDS * 100
        while True:
            taken += 1
            yield WORDS[:1]

    next(translator.translate_documents(given()))
    assert taken <= translator.batch * AHEAD


def test_documents_without_sentences_are_empty(translator: Translator) -> None:
    given: list[list[str]] = [[] for _ in range(3 * translator.batch * AHEAD)]
    assert list(translator.translate_documents([*given, ["Tea!"], []])) == [*given, translator.translate(["Tea!"]), []]


def test_too_few_states_are_refused(translator: Translator) -> None:
    with pytest.raises(InputError, match="more documents than states"):
        list(translator.translate_documents([["Tea!"], ["Why?"]], states=[translator.start()]))


def test_states_advance_also_with_a_sentence_model(translator: Translator) -> None:
    state = translator.start()
    translator.translate(["Tea!", "", "Why?"], state)
    assert state.sentences == 2


PROGRAM = """
import sys, time, torch
from pathlib import Path
from tram import Translator
from tram.measuring import peak_megabytes
torch.set_num_threads(1)
translator = Translator.load(sys.argv[1], beam=1)
count = int(sys.argv[2])
results = translator.translate_documents(["Tea!"] for _ in range(count))
next(results)
early = None
for number, _ in enumerate(results, 2):
    if number == 3000:
        early = peak_megabytes()
print(early, peak_megabytes())
"""


@pytest.mark.slow
@pytest.mark.parametrize("memory", [True, False])
def test_memory_stays_flat_over_100_000_documents(prepared: Path, tmp_path: Path, memory: bool) -> None:
    made = make_translator(prepared)
    text = TextPipeline.load(prepared)
    torch.manual_seed(1)
    config = made.model.config.model_copy(update={"context": MemoryConfig(slots=4) if memory else None})
    Translator(Transformer(config, text.vocabulary), text).save(tmp_path / "model")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model"), "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    early, late = map(float, done.stdout.split())
    assert late < early + 8, (early, late)
