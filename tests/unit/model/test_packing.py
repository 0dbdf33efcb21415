"""The layout without padding: nothing is lost, nothing is mixed up, forwards and backwards."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from helpers import few, random_ids
from tram.model.packing import MIN_FILL, SHORT, Blocks, Layout


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Lengths of the sentences of some documents, empty sentences and empty documents included, and extra padding."""
    documents, sentences = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    length = st.one_of(st.just(0), st.integers(1, 6), st.integers(1, 40))
    lengths = [draw(st.lists(length, min_size=sentences, max_size=sentences)) for _ in range(documents)]
    assume(any(map(any, lengths)))
    return lengths, draw(st.integers(0, 3))


def other_side(lengths: list[list[int]], seed: int) -> list[list[int]]:
    """Lengths of another language's sentences: empty where these are."""
    draw = torch.Generator().manual_seed(seed)
    return [[n and int(torch.randint(1, 30, (), generator=draw)) for n in document] for document in lengths]


def states_of(layout: Layout) -> Tensor:
    """A number of its own for every real token."""
    return torch.arange(1, 2 * layout.tokens + 1, dtype=torch.float64).view(-1, 2)


@given(batches())
@few
def test_the_grid_has_the_real_tokens_and_zeros_elsewhere(batch: tuple[list[list[int]], int]) -> None:
    lengths, padding = batch
    ids = random_ids(lengths, padding=padding)
    layout = Layout(ids)
    assert layout.tokens == sum(map(sum, lengths))
    assert layout.lengths.tolist() == lengths
    assert torch.equal(layout.grid(layout.ids), ids)
    states = states_of(layout)
    grid = layout.grid(states)
    assert grid.shape == (*ids.shape, 2)
    assert torch.equal(grid[ids != 0], states)
    assert not grid[ids == 0].any()


@given(batches())
@few
def test_positions_count_from_zero_in_every_sentence(batch: tuple[list[list[int]], int]) -> None:
    lengths, padding = batch
    positions = Layout(random_ids(lengths, padding=padding)).positions.tolist()
    assert positions == [position for document in lengths for n in document for position in range(n)]


@given(batches(), st.integers(0, 99))
@few
def test_every_sentence_with_tokens_lies_in_exactly_one_block_in_the_order_of_the_batch(
    batch: tuple[list[list[int]], int], seed: int
) -> None:
    lengths, padding = batch
    layout = Layout(random_ids(lengths, padding=padding))
    keys = Layout(random_ids(other_side(lengths, seed)))
    expected = [i for i, n in enumerate(n for document in lengths for n in document) if n]
    for blocks in (layout.blocks(layout), layout.blocks(keys)):
        assert all(block.sentences.tolist() == sorted(block.sentences.tolist()) for block in blocks.blocks)
        assert sorted(i for block in blocks.blocks for i in block.sentences.tolist()) == expected


@given(batches(), st.integers(0, 99))
@few
def test_a_block_holds_the_tokens_of_its_sentences_and_masks_what_is_no_key(
    batch: tuple[list[list[int]], int], seed: int
) -> None:
    queries = Layout(random_ids(batch[0], padding=batch[1]))
    keys = Layout(random_ids(other_side(batch[0], seed)))
    blocks = queries.blocks(keys)
    grid = keys.grid(states_of(keys)).flatten(0, 1)
    for block, part in zip(blocks.blocks, blocks.into_keys.pad(states_of(keys)), strict=True):
        counts = keys.lengths.flatten()[block.sentences]
        real = torch.arange(block.keys) < counts[:, None]
        rectangle = part.unflatten(0, (len(block.sentences), block.keys))
        assert torch.equal(rectangle[real], grid[block.sentences, : block.keys][real])
        assert block.queries == queries.lengths.flatten()[block.sentences].max()
        if block.mask is None:
            assert real.all()
        else:
            assert torch.equal(block.mask[:, 0, 0], real)


@given(batches(), st.integers(0, 99))
@few
def test_into_blocks_and_back_is_the_identity(batch: tuple[list[list[int]], int], seed: int) -> None:
    queries = Layout(random_ids(batch[0], padding=batch[1]))
    keys = Layout(random_ids(other_side(batch[0], seed)))
    blocks = queries.blocks(keys)
    for layout, rectangles in ((queries, blocks.into_queries), (keys, blocks.into_keys)):
        states = states_of(layout)
        assert torch.equal(rectangles.unpad(list(rectangles.pad(states))), states)


@pytest.mark.parametrize("lengths", [[[3, 0, 5], [1, 2, 0]], [[14, 2, 9], [0, 0, 0], [13, 1, 3]], [[4, 4]], [[12, 5]]])
def test_gradients_through_blocks_are_the_numerical_ones(lengths: list[list[int]]) -> None:
    queries = Layout(random_ids(lengths, padding=1))
    keys = Layout(random_ids([[n and n % 5 + 3 for n in document] for document in lengths]))
    blocks = queries.blocks(keys)
    for layout, rectangles in ((queries, blocks.into_queries), (keys, blocks.into_keys)):

        def through(states: Tensor, rectangles=rectangles) -> Tensor:  # type: ignore[no-untyped-def]
            scaled = [part.sin() * (1 + i) for i, part in enumerate(rectangles.pad(states))]
            return rectangles.unpad(scaled)

        states = (states_of(layout) / 7).requires_grad_()
        assert torch.autograd.gradcheck(through, (states,))


@given(batches())
@few
def test_a_step_holds_the_sentences_of_one_number_of_the_documents_that_have_one(
    batch: tuple[list[list[int]], int],
) -> None:
    layout = Layout(random_ids(batch[0], padding=batch[1]))
    states = states_of(layout)
    grid = layout.grid(states)
    parts = layout.steps.pad(states)
    assert len(parts) == layout.shape[1]
    for number, (step, part) in enumerate(zip(layout.steps.blocks, parts, strict=True)):
        having = [document for document, lengths in enumerate(batch[0]) if lengths[number]]
        assert step.sentences.tolist() == having
        counts = layout.lengths[having, number]
        width = int(counts.max()) if having else 0
        real = torch.arange(width) < counts[:, None]
        assert torch.equal(part.view(len(having), width, 2)[real], grid[having, number, :width][real])
        assert real.all() if step.mask is None else torch.equal(step.mask[:, 0, 0], real)


@given(batches())
@few
def test_documents_without_a_sentence_keep_what_they_carry(batch: tuple[list[list[int]], int]) -> None:
    layout = Layout(random_ids(batch[0], padding=batch[1]))
    carried = torch.arange(len(batch[0]))[:, None] + 1.0
    for number, step in enumerate(layout.steps.blocks):
        after = step.put(carried, -step.take(carried))
        expected = [-(i + 1.0) if lengths[number] else i + 1.0 for i, lengths in enumerate(batch[0])]
        assert after.flatten().tolist() == expected


def shapes(blocks: Blocks) -> list[tuple[int, int, int]]:
    return [(len(block.sentences), block.queries, block.keys) for block in blocks.blocks]


def test_sentences_of_like_length_share_a_block_and_others_do_not() -> None:
    layout = Layout(random_ids([[40, 5, 30], [38, 6, 2]]))
    assert min(30, 38) >= MIN_FILL * 40
    assert max(5, 6, 2) <= SHORT
    assert shapes(layout.blocks(layout)) == [(3, 40, 40), (3, 6, 6)]


def test_equal_lengths_need_neither_mask_nor_copy() -> None:
    layout = Layout(random_ids([[7, 7], [7, 7]]))
    blocks = layout.blocks(layout)
    states = states_of(layout)
    (part,) = blocks.into_queries.pad(states)
    assert blocks.blocks[0].mask is None
    assert part.data_ptr() == states.data_ptr()


def test_keys_of_another_number_of_sentences_or_documents_are_refused() -> None:
    layout = Layout(random_ids([[3, 2]]))
    for lengths in ([[3, 2, 4]], [[3, 2], [1, 1]], [[3], [2]]):
        with pytest.raises(ValueError, match="documents × sentences"):
            layout.blocks(Layout(random_ids(lengths)))


def test_a_sentence_that_would_attend_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="without any"):
        Layout(random_ids([[3, 2]])).blocks(Layout(random_ids([[3, 0]])))


def test_a_sentence_in_two_blocks_is_refused() -> None:
    """The backward pass gathers one gradient per token; that of a second copy would be lost."""
    layout = Layout(random_ids([[3, 2], [4, 1]]))
    groups = [np.array([0, 1]), np.array([1, 2])]
    with pytest.raises(ValueError, match="a sentence is in two rectangles"):
        Blocks(layout, layout, groups)
    Blocks(layout, layout, [np.array([0, 1]), np.array([2])])
