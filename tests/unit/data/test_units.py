"""Units: sentences joined into sequences by the same rule in training and in decoding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import tiny_config
from tram.config.units import BlockUnit, DocumentUnit, SentenceUnit, WindowUnit
from tram.data.arrays import Sentences, Split
from tram.data.batches import SentencePlan, collate
from tram.data.units import Blocks, Pair, Units, units_of
from tram.errors import InputError
from tram.text.special_ids import PAD, SpecialIds

SPECIAL = SpecialIds(reserved=tuple(range(100, 132)))
SEPARATOR = 116
CONFIGS = {
    "2+1": WindowUnit(source=2, target=1),
    "2+2": WindowUnit(source=2, target=2),
    "3+2": WindowUnit(source=3, target=2, loss="all"),
    "flat": WindowUnit(source=3, target=1, flat_layers=1),
    "blocks": BlockUnit(sentences=3, tokens=1000),
    "short blocks": BlockUnit(sentences=3, tokens=20),
    "document": DocumentUnit(tokens=40),
}
kinds = pytest.mark.parametrize("name", CONFIGS)
sentence = st.lists(st.integers(3, 99), max_size=12)
corpus = st.lists(st.lists(st.tuples(sentence, sentence), min_size=1, max_size=8), min_size=1, max_size=4)
Document = list[tuple[list[int], list[int]]]


def rule(name: str, longest: int = 10) -> Units:
    config = tiny_config(max_positions=1000, max_length=longest + 2, unit=CONFIGS[name].model_dump())
    found = units_of(config, SPECIAL)
    assert found is not None
    return found


def split_of(documents: list[Document]) -> Split:
    def side(number: int) -> Sentences:
        sentences = [pair[number] for document in documents for pair in document]
        ids = np.array([token for sentence in sentences for token in sentence], dtype=np.uint16)
        return Sentences(ids, np.cumsum([0, *map(len, sentences)]))

    return Split(side(0), side(1), np.cumsum([0, *map(len, documents)]), SPECIAL)


def decoded_units(units: Units, document: Document) -> list[tuple[list[int], list[int]]]:
    """Source and target of every unit when a document is decoded and the translations are the references."""
    pairs = [(source[: units.longest], target[: units.longest]) for source, target in document if source and target]
    history: list[Pair] = []
    found, done = [], 0
    while done < len(pairs):
        unit = units.next_unit(history, [source for source, _ in pairs[done:]])
        for pair in unit.pairs:
            pair.target = pairs[done][1]
            done += 1
        history = units.following(unit)
        target = units.join(pair.target for pair in unit.pairs)
        found.append((units.source(unit), [*units.given_target(unit), *target]))
    return found


@given(st.lists(sentence, min_size=1))
def test_split_is_the_inverse_of_join(sentences: list[list[int]]) -> None:
    units = rule("2+2")
    assert units.split(units.join(sentences)) == sentences


@kinds
@given(documents=corpus)
@settings(max_examples=50)
def test_decoding_joins_the_sentences_that_training_joins(name: str, documents: list[Document]) -> None:
    """Where translations are not longer than their sources: the rule of blocks knows only those when it decodes."""
    units = rule(name)
    if isinstance(units, Blocks):
        documents = [[(source, target[: len(source)]) for source, target in document] for document in documents]
    trained = units.training_units(split_of(documents))
    rows = [(trained.source[i].tolist(), trained.target[i].tolist()) for i in range(len(trained.source))]
    assert rows == [unit for document in documents for unit in decoded_units(units, document)]
    assert trained.source.lengths.tolist() == [len(source) for source, _ in rows]
    assert trained.target.lengths.tolist() == [len(target) for _, target in rows]
    sizes = [len(decoded_units(units, document)) for document in documents]
    assert trained.documents.tolist() == np.cumsum([0, *sizes]).tolist()


@kinds
@given(documents=corpus)
@settings(max_examples=30)
def test_every_sentence_is_trained_on_exactly_once(name: str, documents: list[Document]) -> None:
    units = rule(name)
    trained = units.training_units(split_of(documents))
    plan = SentencePlan(trained, 10_000, 1000, seed=1)
    found: list[int] = []
    for row in plan.usable:
        labels = collate(trained, [row], 1000).labels
        assert int((labels != PAD).sum()) == plan.target_tokens(np.array([row]))
        found += [token for token in labels[labels != PAD].tolist() if 2 < token < 100]
    expected = [token for document in documents for source, target in document if source for token in target[:10]]
    if name == "3+2":  # loss: all
        assert len(found) >= len(expected)
    else:
        assert found == expected


def test_the_blocks_are_cut_by_the_published_rule() -> None:
    """A sentence joins while the sum of max(n_src, n_tgt) + 2 stays below the budget."""
    document = [([5] * 4, [6] * 8), ([5] * 8, [6]), ([5] * 8, [6] * 3), ([5], [6])]
    for tokens, lengths in ((20, [1, 1, 2]), (21, [2, 2]), (31, [3, 1]), (34, [4])):
        units = units_of(tiny_config(unit={"kind": "document", "tokens": tokens}), SPECIAL)
        assert units is not None
        found = units.training_units(split_of([document]))
        assert [len(units.split(found.source[i].tolist())) for i in range(len(found.source))] == lengths


def test_a_block_that_was_left_open_goes_on_with_its_translations_given() -> None:
    units = rule("blocks")
    history = units.remember([], Pair([7, 8], [9]))
    unit = units.next_unit(history, [[10], [11], [12]])
    assert units.source(unit) == [7, 8, SEPARATOR, 10, SEPARATOR, 11]
    assert units.given_target(unit) == [9, SEPARATOR]
    assert [pair.source for pair in unit.pairs] == [[10], [11]]
    unit = units.next_unit(units.following(unit), [[12]])
    assert (units.source(unit), units.given_target(unit)) == ([12], [])


def test_a_pipeline_without_a_separator_is_refused() -> None:
    config = tiny_config(unit={"kind": "block", "tokens": 40})
    with pytest.raises(InputError, match=r"this model: unit.kind `block` needs a separator.*--reserved"):
        units_of(config, SpecialIds())
    assert units_of(tiny_config(), SpecialIds()) is None
    assert tiny_config().unit == SentenceUnit()


@kinds
@given(document=st.lists(st.tuples(sentence, sentence), max_size=8))
@settings(max_examples=30)
def test_what_is_remembered_is_accepted_and_nothing_else(name: str, document: Document) -> None:
    units = rule(name)
    history: list[Pair] = []
    for source, target in document:
        if source and target:
            history = units.remember(history, Pair(source[:10], target[:10]))
    history = units.settled(history)
    assert units.accepts(history, vocabulary=132)
    assert not units.accepts([*history, *[Pair([5], [6])] * 3], vocabulary=132) or isinstance(units, Blocks)
    assert not units.accepts([Pair([500], [6])], vocabulary=132)
    assert not units.accepts([Pair([5] * 11, [6])], vocabulary=132)
    assert not units.accepts([Pair([5], [])], vocabulary=132)
