"""Documents translated with a memory: what stands beside a document, or where it was stopped, does not change it.

The first half works on ids and `Lockstep`, the second on text and `Translator`.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import made_up
from helpers import FIRST_WORD, VOCABULARY, shake, tiny_config, tiny_model
from tram.config import ModelConfig
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.folder import save_model
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SpecialIds
from tram.translation.document_state import DocumentState
from tram.translation.engines.torch import TorchEngine
from tram.translation.lockstep import Cursor, History, Lockstep
from tram.translation.translator import Translator

Document = list[list[int]]
SIDES = ("source", "target", "both")

sentences = st.lists(st.integers(FIRST_WORD, VOCABULARY - 1), min_size=1, max_size=4)
documents = st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=3)
few = settings(max_examples=8)


SPECIAL = SpecialIds()


@functools.cache
def model_of(side: str = "both") -> Transformer:
    return tiny_model(tiny_config(memory={"slots": 3, "side": side}), seed=5)


class Result(NamedTuple):
    """Of one document: its translations, their scores, and what it carries at the end."""

    ids: Document
    scores: list[float]
    state: State


def translate(
    model: Transformer,
    given: Sequence[Document],
    beam: int = 2,
    together: int = 32,
    block: int = 2048,
    history: History = "generated",
    states: Sequence[State] | None = None,
) -> list[Result]:
    with torch.inference_mode():
        states = states or [model.initial_state(1) for _ in given]
    cursors = [Cursor(i, document, state) for i, (document, state) in enumerate(zip(given, states, strict=True))]
    found = [Result([], [], State.empty()) for _ in given]
    lockstep = Lockstep(TorchEngine(model), SPECIAL, beam, documents=together, block=block, history=history)
    for cursor, hypotheses in lockstep.run(cursors):
        found[cursor.number].ids.append(hypotheses[0].ids)
        found[cursor.number].scores.append(hypotheses[0].score)
    return [result._replace(state=cursor.state) for result, cursor in zip(found, cursors, strict=True)]


def assert_state(one: State, other: State) -> None:
    assert one.units.keys() == other.units.keys()
    for name, state in other.units.items():
        assert one[name].keys() == state.keys()
        for key, value in state.items():
            torch.testing.assert_close(one[name][key], value, rtol=0, atol=1e-9)


def assert_same(one: Result, other: Result) -> None:
    assert one.ids == other.ids
    assert one.scores == pytest.approx(other.scores, abs=1e-9)
    assert_state(one.state, other.state)


@torch.no_grad()
def forced(model: Transformer, source: Document, target: Document) -> State:
    """What is carried after a teacher-forced pass over a whole document."""
    sources, targets = [[SPECIAL.source(ids) for ids in source]], [[SPECIAL.decoder_input(ids) for ids in target]]
    return model.forced_decode(document_ids(sources), document_ids(targets)).state


FIXED: list[Document] = [[[3, 9, 4], [20, 7], [5, 5, 11, 8], [14]], [[6, 21], [17, 3, 12]], [[10], [4, 19, 9], [22, 6]]]


def test_the_tiny_model_has_different_translations() -> None:
    """Otherwise the tests below would show nothing."""
    found = [tuple(ids) for result in translate(model_of(), FIXED) for ids in result.ids]
    assert len(set(found)) > len(found) // 2
    assert len({len(ids) for ids in found}) > 2


@given(documents, st.integers(1, 3), st.integers(1, 4), st.integers(1, 40), st.randoms())
@few
def test_neighbours_order_lockstep_and_blocks_do_not_change_a_document(
    given_documents: list[Document], beam: int, together: int, block: int, random: st.DataObject
) -> None:
    model = model_of()
    order = list(range(len(given_documents)))
    random.shuffle(order)  # type: ignore[attr-defined]
    found = translate(model, [given_documents[i] for i in order], beam, together, block)
    for i, result in zip(order, found, strict=True):
        assert_same(result, translate(model, [given_documents[i]], beam)[0])


@pytest.mark.parametrize("side", SIDES)
@given(st.lists(sentences, min_size=2, max_size=4), st.integers(1, 3))
@few
def test_a_document_stopped_anywhere_goes_on_as_if_nothing_had_happened(side: str, document: Document, at: int) -> None:
    model = model_of(side)
    whole = translate(model, [document])[0]
    first = translate(model, [document[:at]])[0]
    second = translate(model, [document[at:]], states=[first.state])[0]
    assert_same(Result(first.ids + second.ids, first.scores + second.scores, second.state), whole)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("beam", [1, 3])
def test_the_state_after_a_document_is_that_of_reading_its_best_translations(side: str, beam: int) -> None:
    """The states collected during the search are those of a second pass over the best hypotheses."""
    model = model_of(side)
    for document, result in zip(FIXED, translate(model, FIXED, beam, block=6), strict=True):
        assert_state(result.state, forced(model, document, result.ids))


@pytest.mark.parametrize("side", SIDES)
def test_with_history_none_every_sentence_is_a_document_of_its_own(side: str) -> None:
    model = model_of(side)
    alone = [[translate(model, [[sentence]])[0] for sentence in document] for document in FIXED]
    for block in (1, 2048):
        for result, expected in zip(translate(model, FIXED, history="none", block=block), alone, strict=True):
            assert result.ids == [each.ids[0] for each in expected]
            assert result.scores == pytest.approx([each.scores[0] for each in expected], abs=1e-9)
            assert_state(result.state, model.initial_state(1))


@pytest.mark.parametrize("side", SIDES)
def test_what_stood_before_changes_the_scores(side: str) -> None:
    model = model_of(side)
    before = ([3, 9, 4], [20, 7, 7])
    scores = [translate(model, [[first, [5, 11, 8]]])[0].scores[1] for first in before]
    assert abs(scores[0] - scores[1]) > 1e-6


def test_a_document_without_sentences_is_over_before_it_begins() -> None:
    found = translate(model_of(), [[], FIXED[0], []], together=1)
    assert [len(result.ids) for result in found] == [0, 4, 0]
    assert_state(found[0].state, model_of().initial_state(1))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_untrained_memory_keeps_the_sentence_models_translations(norm: str, beam: int) -> None:
    """`read: add` starts at the sentence model: documents in lockstep are then its n-best search."""
    plain = tiny_model(tiny_config(norm=norm), seed=2)
    with_memory = Transformer(tiny_config(norm=norm, memory={"slots": 3, "read": "add"}), VOCABULARY).double().eval()
    missing, unexpected = with_memory.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected
    assert all(".context." in name for name in missing)
    flat = [sentence for document in FIXED for sentence in document]
    expected = [options[0] for options in Translator(plain, beam=beam).translate_ids(flat)]
    found = translate(with_memory, FIXED, beam)
    assert [ids for result in found for ids in result.ids] == [ids for ids, _ in expected]
    assert [s for result in found for s in result.scores] == pytest.approx([s for _, s in expected], abs=1e-9)


# With text.

TALK = made_up([6], seed=21)[0]
OTHERS = [document.source for document in made_up([3, 1, 5], seed=22)]


def random_model(prepared: Path, config: ModelConfig, seed: int = 6) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(config, TextPipeline.load(prepared).vocabulary).double().eval()
    shake(model, seed)
    return model


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    """Its weights are random, its memory on both sides lively."""
    model = random_model(prepared, tiny_config(memory={"slots": 3}, max_positions=64, max_length=64))
    return Translator(model, TextPipeline.load(prepared), beam=2)


@pytest.fixture(scope="module")
def whole(translator: Translator) -> list[str]:
    """The talk, translated in one go."""
    return translator.translate(TALK.source)


def test_one_translation_for_each_sentence(translator: Translator, whole: list[str]) -> None:
    assert len(whole) == len(TALK.source)
    assert len(set(whole)) > 3
    found = list(translator.translate_documents([[], TALK.source, *OTHERS, []]))
    assert found[0] == found[-1] == []
    assert found[1] == whole
    assert list(translator.translate_documents([])) == []


@pytest.mark.parametrize("batch", [1, 2])
def test_the_number_of_documents_at_once_does_not_change_a_text(
    translator: Translator, whole: list[str], batch: int
) -> None:
    narrow = Translator(translator.model, translator.text, beam=2, batch=batch)
    assert list(narrow.translate_documents([*OTHERS, TALK.source]))[-1] == whole


def test_a_document_is_taken_up_in_another_process(translator: Translator, whole: list[str], tmp_path: Path) -> None:
    state = translator.start()
    begun = translator.translate(TALK.source[:3], state)
    state.save(tmp_path / "state.safetensors")
    save_model(translator.model, tmp_path / "model", translator.text)
    script = """
import json, sys, torch
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator
translator = Translator.load(sys.argv[1], dtype=torch.float64, beam=2)
state = DocumentState.load(sys.argv[2])
found = translator.translate(json.loads(sys.argv[3]), state)
state.save(sys.argv[2])
print(json.dumps(found))
"""
    arguments = [str(tmp_path / "model"), str(tmp_path / "state.safetensors"), json.dumps(TALK.source[3:])]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert begun + json.loads(done.stdout) == whole
    translator.translate(TALK.source[3:], state)
    returned = DocumentState.load(tmp_path / "state.safetensors")
    assert (returned.sentences, returned.model) == (6, translator.fingerprint)
    assert_state(returned.state, state.state)


def test_a_fork_is_independent(translator: Translator, whole: list[str]) -> None:
    state = translator.start()
    translator.translate(TALK.source[:2], state)
    fork = state.fork()
    translator.translate(OTHERS[0], fork)
    assert (state.sentences, fork.sentences) == (2, 5)
    assert translator.translate(TALK.source[2:], state) == whole[2:]


def test_documents_with_states_of_their_own_go_on_together(translator: Translator, whole: list[str]) -> None:
    states = [translator.start() for _ in range(2)]
    list(translator.translate_documents([TALK.source[:2], OTHERS[2][:1]], states=states))
    assert [state.sentences for state in states] == [2, 1]
    found = list(translator.translate_documents([TALK.source[2:], OTHERS[2][1:]], states=states))
    assert found == [whole[2:], translator.translate(OTHERS[2])[1:]]


def test_an_empty_sentence_leaves_the_state_as_it_is(translator: Translator, whole: list[str]) -> None:
    given_lines = ["", *TALK.source[:2], "  ", *TALK.source[2:], ""]
    state, plain = translator.start(), translator.start()
    assert translator.translate(given_lines, state) == ["", *whole[:2], "", *whole[2:], ""]
    translator.translate(TALK.source, plain)
    assert state.sentences == plain.sentences == 6
    assert_state(state.state, plain.state)
    translator.translate(["", " "], state)
    translator.read([""], ["Etwas."], state)
    translator.read(["Something."], [" "], state)
    assert state.sentences == 6
    assert_state(state.state, plain.state)


def test_a_state_stays_as_large_as_it_is(translator: Translator) -> None:
    state = translator.start()
    shapes = [{name: {key: value.shape for key, value in unit.items()} for name, unit in state.state.units.items()}]
    for part in (TALK.source[:1], TALK.source[1:]):
        translator.translate(part, state)
        shapes.append({name: {key: v.shape for key, v in unit.items()} for name, unit in state.state.units.items()})
    assert shapes[0] == shapes[1] == shapes[2]
    assert {shape for unit in shapes[0].values() for shape in unit.values()} == {(1, 3, 16)}


def test_reading_is_a_gold_history_and_a_teacher_forced_pass(translator: Translator) -> None:
    read, gold = translator.start(), translator.start()
    translator.read(TALK.source[:2], TALK.target[:2], read)
    translator.read(TALK.source[2:], TALK.target[2:], read)
    list(translator.translate_documents([TALK.source], states=[gold], history="gold", gold=[TALK.target]))
    source, target = translator.text.encode(TALK.source, "source"), translator.text.encode(TALK.target, "target")
    assert read.sentences == gold.sentences == 6
    assert_state(read.state, forced(translator.model, source, target))
    assert_state(gold.state, read.state)
    generated = translator.start()
    translator.translate(TALK.source, generated)
    assert not torch.allclose(generated.state["decoder.1.self"]["M"], read.state["decoder.1.self"]["M"])


def test_with_a_gold_history_a_sentence_follows_the_right_ones(translator: Translator) -> None:
    state = translator.start()
    expected = []
    for source, target in zip(TALK.source, TALK.target, strict=True):
        expected += translator.translate([source], state.fork())
        translator.read([source], [target], state)
    documents = [OTHERS[0], TALK.source]
    found = list(translator.translate_documents(documents, history="gold", gold=[OTHERS[0], TALK.target]))
    assert found[1] == expected


def test_an_empty_right_translation_leaves_the_targets_memory_as_it_is(translator: Translator) -> None:
    state = translator.start()
    list(translator.translate_documents([TALK.source[:1]], states=[state], history="gold", gold=[[""]]))
    decoder = [name for name in state.state.units if name.startswith("decoder")]
    assert_state(state.state.only(decoder), translator.start().state.only(decoder))


def test_a_right_translation_too_long_for_the_model_is_cut(translator: Translator) -> None:
    """As in training and in `read`."""
    state, read = translator.start(), translator.start()
    long = " ".join(["Papagei"] * 100)
    list(translator.translate_documents([TALK.source[:1]], states=[state], history="gold", gold=[[long]]))
    translator.read(TALK.source[:1], [long], read)
    assert_state(state.state, read.state)


@pytest.mark.parametrize("gold", [None, [], [["Eins."]], [TALK.target, TALK.target]])
def test_a_gold_history_that_does_not_fit_is_refused(translator: Translator, gold: list[list[str]] | None) -> None:
    with pytest.raises(InputError, match="reference"):
        list(translator.translate_documents([TALK.source], history="gold", gold=gold))


def test_reading_wants_pairs(translator: Translator) -> None:
    state = translator.start()
    with pytest.raises(InputError, match="2 source and 1 target"):
        translator.read(["One.", "Two."], ["Eins."], state)
    assert state.sentences == 0


def test_a_sentence_too_long_for_the_model_is_split_inside_its_document(
    translator: Translator, whole: list[str]
) -> None:
    long = " ".join(TALK.source * 3)
    with pytest.warns(UserWarning, match="1 sentences were too long"):
        found = translator.translate([*TALK.source[:2], long, TALK.source[2]])
    assert len(found) == 4
    assert found[:2] == whole[:2]
    assert all(found)
    assert found[3] != whole[2], "the long sentence was taken in"
    with pytest.warns(UserWarning, match="3 sentences were too long") as told:
        list(translator.translate_documents([[long], [TALK.source[0]], [long, long]]))
    assert sum("were too long" in str(each.message) for each in told) == 1, "however many documents there are"


@pytest.mark.parametrize("memory", [None, {"slots": 3}])
def test_a_state_of_another_model_is_refused(translator: Translator, prepared: Path, memory: dict[str, int]) -> None:
    """By a sentence model, too, which would have no use for it."""
    model = random_model(prepared, tiny_config(memory=memory), seed=9)
    other = Translator(model, translator.text)
    state = translator.start()
    assert other.fingerprint != translator.fingerprint
    for call in (
        lambda: other.translate(["Tea!"], state),
        lambda: other.read(["Tea!"], ["Tee!"], state),
    ):
        with pytest.raises(InputError, match=f"{translator.fingerprint}, not to {other.fingerprint}"):
            call()
