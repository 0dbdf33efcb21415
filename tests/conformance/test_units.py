"""What every unit must do: sentences in = sentences out, and neighbours, order, padding and storage change nothing.

Documents of ids through `UnitLockstep`, in double precision, on a random model. Text and `Translator` are tested in
tests/integration/test_units.py.
"""

import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import FIRST_WORD, VOCABULARY, tiny_config, tiny_model
from tram.data.units import Pair, Unit, units_of
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.document_state import DocumentState
from tram.translation.engines.torch import TorchEngine
from tram.translation.lockstep import History
from tram.translation.unit_lockstep import UnitCursor, UnitLockstep

SEPARATOR = VOCABULARY - 1
SPECIAL = SpecialIds(reserved=(*[SEPARATOR - 1] * 16, SEPARATOR))
UNITS: dict[str, dict[str, Any]] = {
    "2+1": {"kind": "window", "source": 2, "target": 1},
    "2+2": {"kind": "window", "source": 2, "target": 2},
    "4+3": {"kind": "window", "source": 4, "target": 3},
    "flat": {"kind": "window", "source": 3, "target": 1, "flat_layers": 1},
    "blocks": {"kind": "block", "sentences": 3, "tokens": 60},
    "document": {"kind": "document", "tokens": 15},
}
kinds = pytest.mark.parametrize("name", UNITS)
windows = pytest.mark.parametrize("name", ["2+1", "2+2", "4+3", "flat"])
Document = list[list[int]]
sentences = st.lists(st.integers(FIRST_WORD, SEPARATOR - 2), min_size=1, max_size=5)
documents = st.lists(st.lists(sentences, max_size=5), min_size=1, max_size=3)
few = settings(max_examples=8)
FIXED: list[Document] = [[[3, 9, 4], [20, 7], [5, 5, 11, 8], [14], [6]], [[6, 19], [17, 3, 12]], [[10], [4, 19], [8]]]


@functools.cache
def model_of(name: str) -> Transformer:
    sizes = {"max_length": 12, "max_positions": 60, "encoder_layers": 2, "decoder_layers": 1}
    config = tiny_config(unit=UNITS[name], output_bias=True, **sizes)
    model = tiny_model(config, seed=4)
    with torch.no_grad():
        model.tokens.weight.mul_(2)
        model.decoder.embeddings.positions.mul_(3)
        assert model.bias is not None
        model.bias[[SPECIAL.end, SEPARATOR]] += 4  # sentences of a few words
    return model


def lockstep_of(name: str, beam: int = 2, together: int = 4, history: History = "generated") -> UnitLockstep:
    model = model_of(name)
    units = units_of(model.config, SPECIAL)
    assert units is not None
    return UnitLockstep(TorchEngine(model), SPECIAL, beam, documents=together, history=history, units=units)


def translate(
    lockstep: UnitLockstep, given_documents: list[Document], histories: list[list[Pair]] | None = None
) -> tuple[list[Document], list[list[float]], list[list[Pair]]]:
    """Return translations, their scores, and what is remembered at the end."""
    histories = histories or [[] for _ in given_documents]
    cursors = [
        UnitCursor(i, document, State.empty(), history=history)
        for i, (document, history) in enumerate(zip(given_documents, histories, strict=True))
    ]
    found: list[Document] = [[] for _ in given_documents]
    scores: list[list[float]] = [[] for _ in given_documents]
    for cursor, hypotheses in lockstep.run(cursors):
        found[cursor.number].append(hypotheses[0].ids)
        scores[cursor.number].append(hypotheses[0].score)
    return found, scores, [cursor.history for cursor in cursors]


@kinds
def test_what_came_before_changes_the_translation(name: str) -> None:
    """Otherwise the tests below would show nothing."""
    with_context, _, _ = translate(lockstep_of(name), FIXED)
    alone, _, _ = translate(lockstep_of(name, history="none"), FIXED)
    assert with_context != alone


@kinds
@given(documents, st.integers(1, 4), st.integers(1, 5))
@few
def test_sentences_in_are_sentences_out(name: str, given_documents: list[Document], beam: int, together: int) -> None:
    found, _, _ = translate(lockstep_of(name, beam, together), given_documents)
    assert [len(each) for each in found] == [len(each) for each in given_documents]
    assert all(ids and SEPARATOR not in ids for document in found for ids in document)


@kinds
@given(documents, st.integers(1, 3), st.integers(1, 5), st.randoms())
@few
def test_neighbours_order_and_lockstep_change_nothing(
    name: str, given_documents: list[Document], beam: int, together: int, random: Any
) -> None:
    order = list(range(len(given_documents)))
    random.shuffle(order)
    found, scores, histories = translate(lockstep_of(name, beam, together), [given_documents[i] for i in order])
    for place, i in enumerate(order):
        alone, own_scores, own_history = translate(lockstep_of(name, beam, 1), [given_documents[i]])
        assert found[place] == alone[0]
        assert scores[place] == pytest.approx(own_scores[0], abs=1e-9)
        assert histories[place] == own_history[0]


@windows
@given(st.lists(sentences, min_size=1, max_size=6), st.integers(0, 6))
@few
def test_a_continued_document_is_the_whole_document(name: str, document: Document, at: int) -> None:
    """With the state stored and loaded in between."""
    lockstep = lockstep_of(name)
    whole, scores, _ = translate(lockstep, [document])
    first, first_scores, (history,) = translate(lockstep, [document[:at]])
    stored = DocumentState.from_bytes(DocumentState(State.empty(), "0", at, history).to_bytes()).history
    assert stored == history
    rest, rest_scores, _ = translate(lockstep, [document[at:]], [stored])
    assert [*first[0], *rest[0]] == whole[0]
    assert [*first_scores[0], *rest_scores[0]] == pytest.approx(scores[0], abs=1e-9)


@pytest.mark.parametrize("name", ["blocks", "document"])
@given(st.lists(sentences, min_size=2, max_size=6), st.integers(1, 5))
@few
def test_a_block_boundary_cuts_everything_off(name: str, document: Document, at: int) -> None:
    """Blocks do not see each other: one alone is translated as it is in its document."""
    lockstep = lockstep_of(name)
    whole, _, _ = translate(lockstep, [document])
    sizes, rest = [], document
    while rest:
        unit = lockstep.units.next_unit((), rest)
        sizes.append(len(unit.pairs))
        rest = rest[len(unit.pairs) :]
    at = sum(sizes[: at % (len(sizes) + 1)])
    assert translate(lockstep, [document[at:]])[0][0] == whole[0][at:]


@kinds
def test_a_continued_document_sees_what_is_given(name: str) -> None:
    """A corrected translation is part of what the next sentence is translated after, where the unit has a target."""
    lockstep = lockstep_of(name)
    source, corrected = [3, 9, 4], [12, 12, 5]
    scores = []
    for target in ([8, 8, 6], corrected):
        history = lockstep.units.remember([], Pair(source, target))
        _, found, _ = translate(lockstep, [[[20, 7]]], [history])
        scores.append(found[0][0])
    assert (scores[0] == scores[1]) == (name in ("2+1", "flat"))


@kinds
def test_the_history_can_be_the_references(name: str) -> None:
    """Then a window is decoded after the reference translations, however the sentences before were translated."""
    lockstep = lockstep_of(name, history="gold")
    document = FIXED[0]
    gold = [[5, 6], [7], [8, 9, 10], [], [11]]
    cursor = UnitCursor(0, document, State.empty(), gold=gold)
    found = [hypotheses[0].ids for _, hypotheses in lockstep.run([cursor])]
    assert len(found) == len(document)
    if name == "2+2":
        pairs = [Pair(source, target) for source, target in zip(document, gold, strict=True)]
        contexts = [(), (pairs[0],), (pairs[1],), (pairs[2],), (pairs[2],)]  # one without a reference is left out
        units = [Unit(context, (Pair(ids),)) for context, ids in zip(contexts, document, strict=True)]
        assert found == [hypotheses[0].ids for hypotheses in lockstep.translate_units(units)]


@kinds
def test_without_history_every_sentence_is_a_document_of_its_own(name: str) -> None:
    found, _, histories = translate(lockstep_of(name, history="none"), FIXED)
    singles = [[ids] for document in FIXED for ids in document]
    alone, _, _ = translate(lockstep_of(name), singles)
    assert [ids for document in found for ids in document] == [ids for document in alone for ids in document]
    assert histories == [[], [], []]


@kinds
def test_what_is_carried_does_not_grow_with_the_document(name: str) -> None:
    _, _, (history,) = translate(lockstep_of(name), [FIXED[0] * 6])
    assert len(history) <= 10
    assert lockstep_of(name).units.accepts(history, VOCABULARY)
