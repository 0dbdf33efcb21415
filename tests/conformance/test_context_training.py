"""What every context module must do in training: pieces, processes and interruptions change no update."""

import json
from typing import Any

import pytest
import torch

from context_kinds import CONTEXTS, model_of, reads_ahead
from document_stages import FIXED, assert_same, example, stage_of, update_gradients
from tram.training.stages import Processes

contexts = pytest.mark.parametrize("name", CONTEXTS)


def settings(name: str) -> dict[str, Any]:
    """Windows of two sentences; where the whole source is read, segments are never cut, and words are not hidden."""
    return {"documents": 2, "max_length_gap": None} if reads_ahead(name) else {"window": (2, 2)}


@contexts
def test_pieces_do_not_change_an_update(name: str) -> None:
    """The gradient of a window is that of one pass over it, whatever the budget of a backward pass is."""
    split = example(FIXED).split
    whole, pieces = (stage_of(model_of(name), split, **settings(name), tokens=tokens) for tokens in (4096, 8))
    for _ in range(3):
        expected = update_gradients(whole)
        assert_same(update_gradients(pieces), expected)


@contexts
def test_a_stage_restored_goes_on_as_if_nothing_had_happened(name: str) -> None:
    split = example(FIXED).split
    stage, restored = (stage_of(model_of(name), split, **settings(name), tokens=12) for _ in "ab")
    update_gradients(stage)
    position, tensors = json.loads(json.dumps(stage.position())), stage.tensors()
    assert bool(tensors) == (not reads_ahead(name)), "in the middle of a document"
    restored.restore(position, {key: value.clone() for key, value in tensors.items()})
    expected, found = update_gradients(stage), update_gradients(restored)
    assert all(torch.equal(found[key], value) for key, value in expected.items())


@contexts
@pytest.mark.parametrize("count", [2, 4])
def test_processes_add_up_to_one(name: str, count: int) -> None:
    """Gradients and states; a process may have no document."""
    split = example(FIXED).split
    stages = [stage_of(model_of(name), split, **settings(name), tokens=8) for _ in range(count + 1)]
    for number, stage in enumerate(stages[1:]):
        stage.processes = Processes(number, count)
    for _ in range(2):
        whole, *parts = (update_gradients(stage) for stage in stages)
        assert_same({key: sum(part[key] for part in parts) for key in whole}, whole)  # type: ignore[misc]
    expected, *shares = (stage.tensors() for stage in stages)
    joined = stages[0].join_tensors(shares)
    assert joined.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(joined[key], value, rtol=0, atol=1e-12)
