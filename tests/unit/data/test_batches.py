"""Batches: every sentence once an epoch, within the token budget, the same for the same seed, shared out fairly."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers import END, START
from tram.data.arrays import Sentences, Split
from tram.data.batches import Rows, SentencePlan, collate, share
from tram.text.special_ids import PAD

FIRST = 5  # ids below are special
lengths = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


def side(sizes: list[int]) -> Sentences:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Sentences(np.arange(FIRST, FIRST + offsets[-1]), offsets)


def split_of(sizes: list[tuple[int, int]]) -> Split:
    """One document of sentences with so many ids on either side; no id occurs twice on a side."""
    source, target = zip(*sizes, strict=True)
    return Split(side(list(source)), side(list(target)), np.array([0, len(sizes)]))


def plan_of(sizes: list[tuple[int, int]], tokens: int = 30, max_length: int = 10, seed: int = 1) -> SentencePlan:
    return SentencePlan(split_of(sizes), tokens, max_length, seed)


def listed(epoch: list[Rows]) -> list[list[int]]:
    return [batch.tolist() for batch in epoch]


@given(lengths, st.integers(3, 60), st.integers(0, 3))
def test_every_usable_sentence_comes_once_an_epoch(sizes: list[tuple[int, int]], tokens: int, epoch: int) -> None:
    batches = listed(plan_of(sizes, tokens).epoch(epoch))
    usable = [i for i, (source, target) in enumerate(sizes) if source and target]
    assert sorted(row for batch in batches for row in batch) == usable
    assert all(batches)


@given(lengths, st.integers(3, 60))
def test_the_token_budget_holds_unless_one_sentence_breaks_it(sizes: list[tuple[int, int]], tokens: int) -> None:
    split = split_of(sizes)
    for batch in SentencePlan(split, tokens, 10, 1).epoch(0):
        ids = collate(split, batch, 10)
        widest = max(ids.source.shape[-1], ids.labels.shape[-1] + 1)
        assert widest * len(batch) <= tokens or len(batch) == 1


@given(lengths, st.integers(3, 60), st.integers(0, 5))
def test_an_epoch_is_a_function_of_seed_and_number(sizes: list[tuple[int, int]], tokens: int, seed: int) -> None:
    first, again = (listed(plan_of(sizes, tokens, seed=seed).epoch(2)) for _ in range(2))
    assert first == again


def test_another_seed_and_another_epoch_give_other_batches() -> None:
    sizes = [(1 + i % 7, 1 + i % 5) for i in range(60)]
    plan = plan_of(sizes)
    orders = [listed(plan.epoch(0)), listed(plan.epoch(1)), listed(plan_of(sizes, seed=2).epoch(0))]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


@given(lengths, st.integers(3, 60))
def test_every_epoch_has_the_same_number_of_batches(sizes: list[tuple[int, int]], tokens: int) -> None:
    """Training finds the batch of an update by dividing by this number."""
    plan = plan_of(sizes, tokens)
    shapes = [sorted(map(len, plan.epoch(number))) for number in range(4)]
    assert all(shape == shapes[0] for shape in shapes)


def test_sentences_that_will_be_cut_are_counted() -> None:
    assert plan_of([(8, 3), (9, 3), (3, 9), (30, 0)], max_length=10).truncated == 2


@given(st.integers(1, 20), st.integers(1, 6))
def test_the_shares_of_all_processes_are_the_batch(rows: int, processes: int) -> None:
    batch = np.arange(100, 100 + rows)
    shares = [share(batch, process, processes) for process in range(processes)]
    counted = [row for part, counts in shares if counts for row in part.tolist()]
    assert sorted(counted) == batch.tolist()
    assert all(len(part) for part, _ in shares), "every process has something to do"
    sizes = [len(part) if counts else 0 for part, counts in shares]
    assert max(sizes) - min(sizes) <= 1


@given(lengths)
def test_the_decoder_sees_the_labels_one_step_later(sizes: list[tuple[int, int]]) -> None:
    split = split_of(sizes)
    plan = SentencePlan(split, 40, 10, 1)
    assume(len(plan.usable))
    for batch in plan.epoch(0):
        ids = collate(split, batch, 10)
        for row, number in enumerate(batch):
            source, target = split.source[number][:8].tolist(), split.target[number][:8].tolist()
            decoder_input, labels = ids.decoder_input[0, row], ids.labels[0, row]
            assert ids.source[0, row].tolist()[: len(source) + 2] == [START, *source, END]
            assert decoder_input[decoder_input != PAD].tolist() == [START, *target]
            assert labels[labels != PAD].tolist() == [*target, END]
            assert ((decoder_input == PAD) == (labels == PAD)).all()


@given(lengths)
def test_the_plan_counts_the_labels(sizes: list[tuple[int, int]]) -> None:
    split = split_of(sizes)
    plan = SentencePlan(split, 40, 10, 1)
    for batch in plan.epoch(0):
        assert plan.target_tokens(batch) == int((collate(split, batch, 10).labels != PAD).sum())
