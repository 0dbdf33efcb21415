"""What documents carry: select, join, put, save and load, for values of one row per document and for ragged ones."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import TINY
from helpers import few
from tram.config import ModelConfig
from tram.errors import InputError
from tram.model.state import Ragged, State, number_of, ragged
from tram.model.transformer import Transformer

lengths = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def state_of(rows: list[int], seed: int = 0) -> State:
    """A state of two units: `M` with one row per document, `cache` with so many rows for each."""
    draw = torch.Generator().manual_seed(seed)
    documents = [torch.randn(n, 3, generator=draw) for n in rows]
    return State({"a": {"M": torch.randn(len(rows), 2, 3, generator=draw)}, "b": {"cache": Ragged.of(documents)}})


def same(one: State, other: State) -> bool:
    left, right = one.tensors(), other.tensors()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@few
@given(lengths, st.data())
def test_selected_documents_have_their_own_rows(rows: list[int], data: st.DataObject) -> None:
    state = state_of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))
    found = state.select(torch.tensor(chosen))
    documents = state["b"]["cache"].documents()
    for number, rows_of in zip(chosen, found["b"]["cache"].documents(), strict=True):
        assert torch.equal(rows_of, documents[number])
    assert torch.equal(found["a"]["M"], state["a"]["M"][chosen])


@few
@given(lengths, lengths)
def test_joining_and_selecting_are_inverse(first: list[int], second: list[int]) -> None:
    one, other = state_of(first, 1), state_of(second, 2)
    joined = State.join([one, other])
    assert same(joined.select(torch.arange(len(first))), one)
    assert same(joined.select(torch.arange(len(first), len(first) + len(second))), other)


@few
@given(lengths, st.data())
def test_what_is_put_is_selected_and_the_rest_stays(rows: list[int], data: st.DataObject) -> None:
    state = state_of(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=len(rows), unique=True))
    new = state_of(data.draw(st.lists(st.integers(0, 4), min_size=len(chosen), max_size=len(chosen))), 3)
    changed = state.put(torch.tensor(chosen), new)
    assert same(changed.select(torch.tensor(chosen)), new)
    others = [number for number in range(len(rows)) if number not in chosen]
    if others:
        assert same(changed.select(torch.tensor(others)), state.select(torch.tensor(others)))


@few
@given(lengths)
def test_stored_tensors_bring_a_state_back(rows: list[int]) -> None:
    state = state_of(rows)
    assert same(State.from_tensors(state.tensors()), state)
    assert isinstance(State.from_tensors(state.tensors())["b"]["cache"], Ragged)


def test_a_detached_state_is_a_copy_without_gradient() -> None:
    M = torch.ones(1, 2, requires_grad=True)
    state = State({"a": {"M": M * 2}})
    detached = state.detach()
    assert not detached["a"]["M"].requires_grad
    detached["a"]["M"].zero_()
    assert torch.equal(state["a"]["M"], torch.full((1, 2), 2.0))


def test_of_two_states_the_second_decides() -> None:
    one, other = State({"a": {"M": torch.zeros(1)}, "b": {"M": torch.zeros(1)}}), State({"b": {"M": torch.ones(1)}})
    merged = one | other
    assert (float(merged["a"]["M"]), float(merged["b"]["M"])) == (0.0, 1.0)
    assert same(merged.only(["b"]), other)
    assert not State.empty()


@pytest.mark.parametrize(
    "digits", [(-1.0, 0.0), (0.0, 256.0), (3e38, 0.0), (0.5, 0.0), (0.0, -2.0), (float("nan"), 0.0)]
)
def test_a_number_that_no_pass_has_written_is_damage(digits: tuple[float, float]) -> None:
    assert number_of(2.0, 3.0) == 2 * 256 + 3
    with pytest.raises(InputError, match="start the document again"):
        number_of(*digits)


COMPRESSIVE = {"kind": "compressive", "memory_length": 5, "compressed_length": 2, "ratio": 2}


@pytest.mark.parametrize(
    ("context", "key"),
    [({"kind": "zheng", "sentences": 3}, "numbers"), (COMPRESSIVE, "memory"), (COMPRESSIVE, "compressed")],
)
def test_more_rows_than_any_pass_leaves_are_damage(context: dict[str, Any], key: str) -> None:
    model = Transformer(ModelConfig.model_validate(TINY.model_dump() | {"context": context}), 20).eval()
    units = {name: dict(unit) for name, unit in model.initial_state(1).units.items()}
    for unit in units.values():
        if key in unit:
            width = ragged(unit[key]).values.shape[1]
            unit[key] = Ragged(torch.zeros(1000, width), torch.tensor([1000]))
    with pytest.raises(InputError, match="start the document again"):
        model.forced_decode(torch.tensor([[[4, 5, 2]]]), torch.tensor([[[2, 4, 5]]]), State(units))
