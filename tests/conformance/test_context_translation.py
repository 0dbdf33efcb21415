"""What every context module must do for a translator: states are data, and what was read is context like any other."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import TINY, Done
from context_kinds import CONTEXTS, model_of, reads_ahead
from helpers import random_ids, shake
from tram.config import ModelConfig
from tram.errors import InputError
from tram.model.folder import load_model, save_model
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

contexts = pytest.mark.parametrize("name", CONTEXTS)
SOURCE = ["The old miller waits.", "My neighbour sings on the bridge.", "", "A small fox sleeps.", "Our teacher waits."]
TARGET = ["Der alte Müller wartet.", "Mein Nachbar singt.", "", "Ein kleiner Fuchs schläft.", "Unser Lehrer wartet."]


def translator_of(name: str, prepared: Path, **sizes: int) -> Translator:
    text = TextPipeline.load(prepared)
    torch.manual_seed(1)
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    config = ModelConfig.model_validate(TINY.model_dump() | layers | CONTEXTS[name] | sizes)
    model = Transformer(config, text.vocabulary).double()
    shake(model, seed=2)
    return Translator(model, text, beam=2, guards=False)


@contexts
def test_a_document_is_continued_from_a_stored_state(name: str, prepared: Path) -> None:
    translator = translator_of(name, prepared)
    whole = translator.translate(SOURCE)
    assert len(whole) == len(SOURCE)
    edge = segment_edge(translator) if reads_ahead(name) else 2
    if edge < len(SOURCE):
        state = translator.start()
        parts = translator.translate(SOURCE[:edge], state)
        state = DocumentState.from_bytes(state.to_bytes())
        assert parts + translator.translate(SOURCE[edge:], state) == whole
    if reads_ahead(name):  # in the middle of a segment, a state that was stored is the same as one that was not
        state = translator.start()
        translator.read(SOURCE[:2], TARGET[:2], state)
        stored = DocumentState.from_bytes(state.to_bytes())
        assert translator.translate(SOURCE[3:], stored) == translator.translate(SOURCE[3:], state)


@contexts
def test_the_narrowest_model_continues_a_document_from_a_stored_state(name: str, prepared: Path) -> None:
    translator = translator_of(name, prepared, d_model=2, heads=1)
    state = translator.start()
    translator.read(SOURCE[:2], TARGET[:2], state)
    stored = DocumentState.from_bytes(state.to_bytes())
    assert translator.translate(SOURCE[3:], stored) == translator.translate(SOURCE[3:], state)


def segment_edge(translator: Translator) -> int:
    """Where a segment of `SOURCE` ends; the end of the document if it is one segment."""
    rule = translator.model.segment_rule
    return len(SOURCE) if rule is None or rule.sentences is None or rule.sentences > 3 else 4


@contexts
def test_a_model_in_half_precision_translates_and_reads(name: str, prepared: Path) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        translator = translator_of(name, prepared)
        translator.model.to(dtype)
        state = translator.start()
        assert len(translator.translate(SOURCE[:2], state)) == 2
        translator.read(SOURCE[3:], TARGET[3:], state)


@contexts
def test_units_read_together_or_one_by_one_are_the_same_context(name: str, prepared: Path) -> None:
    translator = translator_of(name, prepared)
    together, single = translator.start(), translator.start()
    translator.read(SOURCE, TARGET, together)
    cut = segment_edge(translator)
    steps = [slice(0, cut), slice(cut, None)] if reads_ahead(name) else [slice(i, i + 1) for i in range(len(SOURCE))]
    for step in steps:
        translator.read(SOURCE[step], TARGET[step], single)
    expected = together.state.tensors()
    for key, value in single.state.tensors().items():
        torch.testing.assert_close(value, expected[key], rtol=0, atol=1e-9)


@contexts
@torch.no_grad()
def test_a_model_folder_keeps_the_model(name: str, tmp_path: Path) -> None:
    """Also tensors that several layers share."""
    model = model_of(name)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model", torch.float64)
    assert loaded.config == model.config
    ids = random_ids([[4, 3, 5], [2, 6, 1]], 1)
    assert torch.equal(loaded(ids, ids), model(ids, ids))


@contexts
def test_sentences_without_context_do_not_know_of_each_other(name: str) -> None:
    translator = Translator(model_of(name), beam=2)
    sentences = [[3, 9, 4], [20, 7], [5, 5, 11, 8]]
    together = translator.translate_ids(sentences)
    for sentence, found in zip(sentences, together, strict=True):
        assert translator.translate_ids([sentence])[0][0][0] == found[0][0]


@functools.cache
def started(name: str) -> DocumentState:
    return Translator(model_of(name)).start()


def state_of(name: str) -> DocumentState:
    return started(name).fork()


@contexts
def test_a_state_of_another_kind_is_refused(name: str) -> None:
    translator = Translator(model_of(name))
    own = model_of(name).config.context
    for other in CONTEXTS:
        context = model_of(other).config.context
        if own is not None and context is not None and context.kind != own.kind:
            state = state_of(other)
            with pytest.raises(InputError, match="this state belongs to the model"):
                translator.checked(state)
            state.model = translator.fingerprint  # as a damaged file may claim
            if not state.state.has_form_of(started(name).state):
                with pytest.raises(InputError, match="its parts are not those of the model"):
                    translator.checked(state)


def test_a_document_beyond_a_whole_source_limit_is_refused(prepared: Path) -> None:
    """Also one that grows beyond it, and one that is only read."""
    text = TextPipeline.load(prepared)
    context = {"kind": "selective", "sentences": 3}
    model = Transformer(ModelConfig.model_validate(TINY.model_dump() | {"context": context}), text.vocabulary)
    translator = Translator(model, text, beam=1, guards=False)
    problem = r"document 1: has 4 sentences, and the context reads whole documents of at most 3; cut it into parts"
    with pytest.raises(InputError, match=problem):
        translator.translate(SOURCE)
    state = translator.start()
    translator.read(SOURCE[:2], TARGET[:2], state)
    with pytest.raises(InputError, match=problem):
        translator.translate(SOURCE[2:], state)
    with pytest.raises(InputError, match="the document: has 5 sentences"):
        translator.read(SOURCE[1:], TARGET[1:], state)
    assert len(translator.translate(SOURCE[4:], state)) == 1


@pytest.mark.parametrize(
    "command", [["translate", "--lines"], ["translate", "--plain"], ["evaluate", "--no-perplexity"]]
)
def test_commands_name_the_file_with_a_document_beyond_the_limit(
    command: list[str], prepared: Path, tmp_path: Path, tram: Callable[..., Done]
) -> None:
    text = TextPipeline.load(prepared)
    context = {"kind": "selective", "sentences": 3}
    model = Transformer(ModelConfig.model_validate(TINY.model_dump() | {"context": context}), text.vocabulary)
    save_model(model, tmp_path / "model", text)
    files = [tmp_path / name for name in ("letter.txt", "reference.txt")]
    for file in files:
        file.write_text("One sentence.\n" * 4, encoding="utf-8")
    done = tram(*command, *files[: 2 if "evaluate" in command else 1], "--model", tmp_path / "model")
    assert done.code == 2
    problem = "has 4 sentences, and the context reads whole documents of at most 3; cut it into parts"
    assert done.err == f"tram: {files[0]}, document 1: {problem}\n"
