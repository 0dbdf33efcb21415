"""Training on whole segments: where documents are cut, which words are hidden, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from document_stages import FIXED, Lengths, example, stage_of
from helpers import END, START, tiny_config, tiny_model
from tram.config.contexts import SegmentRule
from tram.data.arrays import Split
from tram.errors import InputError
from tram.model.segments import segment_numbers
from tram.text.special_ids import SpecialIds
from tram.training.segment_stage import SegmentStage, split_into_segments

RESERVED = SpecialIds(reserved=tuple(range(100, 132)))
LONG: Lengths = [[(6, 6)] * 40, [(6, 6)] * 30]


def lengths(split: Split) -> list[int]:
    return np.diff(split.documents).tolist()  # type: ignore[no-any-return]


def test_a_segment_stays_below_its_limit_by_the_longer_side() -> None:
    """4 + 2 < 13 ≤ 4 + 2 + 5 + 2, and so on; 2 for start and end."""
    split = example([[(4, 1), (1, 5), (3, 3), (0, 9), (2, 2)], [(1, 1)]]).split
    assert lengths(split_into_segments(split, SegmentRule(tokens=13), 32)) == [1, 3, 1, 1]
    assert lengths(split_into_segments(split, SegmentRule(tokens=14), 32)) == [2, 3, 1]


def test_a_pair_that_is_not_read_does_not_count() -> None:
    split = example([[(2, 2), (0, 3), (2, 2), (2, 2)]]).split
    assert lengths(split_into_segments(split, SegmentRule(sentences=2), 32)) == [3, 1]


def test_a_segment_that_is_open_has_room_for_what_is_left() -> None:
    rule = SegmentRule(sentences=3, tokens=10)
    assert segment_numbers(rule, [3, 3, 3, 0, 9]) == [0, 0, 0, 0, 1]
    assert segment_numbers(rule, [3, 3, 3], carried=[3, 3]) == [0, 1, 1]
    assert segment_numbers(rule, [4, 3], carried=[6]) == [1, 1]
    assert segment_numbers(rule, [50, 2]) == [0, 1]


def noisy(rate: float = 0.3, epochs: int = 2, seed: int = 1) -> SegmentStage:
    context = {"kind": "g_transformer", "tokens": 100, "hidden": rate, "hidden_epochs": epochs}
    model = tiny_model(tiny_config(positions="sinusoidal", context=context))
    stage = stage_of(model, replace(example(LONG).split, special=RESERVED), seed)
    assert isinstance(stage, SegmentStage)
    return stage


def test_hidden_words_follow_from_the_seed_the_update_and_the_segment() -> None:
    stage, again, other = noisy(), noisy(), noisy(seed=2)
    segments, steps = stage.group(), range(stage.plan.length(stage.group()))
    plain = stage.batch(segments, steps, train=False)
    batch = stage.batch(segments, steps, train=True)
    assert not (plain.source == RESERVED.mask).any()
    for found, expected in ((batch.source, plain.source), (batch.decoder_input, plain.decoder_input)):
        hidden = found != expected
        assert (found[hidden] == RESERVED.mask).all()
        assert not torch.isin(expected[hidden], torch.tensor([0, START, END])).any()
        words = int((~torch.isin(expected, torch.tensor([0, START, END]))).sum())
        assert 0.2 < int(hidden.sum()) / words < 0.4
    assert torch.equal(batch.labels, plain.labels)
    assert torch.equal(again.batch(segments, steps, train=True).source, batch.source)
    assert torch.equal(stage.batch(segments[1:], steps, train=True).source, batch.source[1:])
    assert not torch.equal(other.batch(segments, steps, train=True).source, batch.source)
    stage.group_number += 1
    assert not torch.equal(stage.batch(segments, steps, train=True).source, batch.source)


def test_no_words_are_hidden_in_later_epochs() -> None:
    stage = noisy(epochs=2)
    segments, steps = stage.group(), range(1)
    stage.group_number = 2 * stage.groups
    assert not (stage.batch(segments, steps, train=True).source == RESERVED.mask).any()


def test_hiding_words_needs_a_mask() -> None:
    context = {"kind": "g_transformer", "tokens": 100}
    model = tiny_model(tiny_config(positions="sinusoidal", context=context))
    with pytest.raises(InputError, match=r"needs a mask, .* prepare the data with `tram prepare --reserved`, or set"):
        stage_of(model, example(FIXED).split)


def test_a_training_document_beyond_the_limit_is_refused() -> None:
    model = tiny_model(tiny_config(context={"kind": "selective", "sentences": 3}))
    with pytest.raises(InputError, match=r"^document 1 of the data: has 4 sentences, and the context reads whole"):
        stage_of(model, example(FIXED[:1]).split)


@torch.no_grad()
def test_the_held_out_loss_does_not_depend_on_the_budget() -> None:
    model = tiny_model(tiny_config(context={"kind": "zheng", "sentences": 2}))
    split = example(FIXED).split
    found = [stage_of(model, split, tokens=tokens).held_out_loss(split) for tokens in (4096, 8)]
    assert found[0][1] == found[1][1]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-10)


def test_the_first_line_of_a_training_says_how_it_is_cut() -> None:
    model = tiny_model(tiny_config(context={"kind": "zheng", "sentences": 2}))
    line = stage_of(model, example(FIXED).split).describe()[0]
    assert line.startswith("3 documents with 12 sentences, cut into 5 segments that are read as a whole, in ")
