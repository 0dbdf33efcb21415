"""The state that a document carries from one sentence to the next: the states of all context modules.

    state = model.initial_state(documents=8)
    state = model.forced_decode(source, decoder_input, state).state      # after some sentences
    state.select(rows); State.join([state, other])                       # other batches of documents
    State.from_tensors(state.tensors())                                  # as stored on disk

A value is a tensor with one row per document, or `Ragged` where documents differ in length.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from tram.errors import InputError

LENGTHS = "lengths"  # suffix of a stored ragged value's lengths
DIGIT = 256  # numbers up to this are exact in every data type that a state may be stored in
DAMAGED = "the state of the document is damaged; start the document again"


@dataclass(frozen=True)
class Ragged:
    """Rows of several documents one after the other. values: (all rows, …); lengths: (documents)."""

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, documents: Sequence[Tensor]) -> Self:
        """Return the rows of some documents, (rows, …) each, as one value."""
        lengths = torch.tensor([len(rows) for rows in documents], device=documents[0].device)
        return cls(torch.cat(list(documents)), lengths)

    @classmethod
    def empty(cls, documents: int, like: Tensor) -> Self:
        """Return a value without rows for some documents. like: (…, width), of the same dtype and device."""
        return cls(like.new_empty(0, like.shape[-1]), torch.zeros(documents, dtype=torch.long, device=like.device))

    def documents(self) -> list[Tensor]:
        """Return the rows of every document, (rows, …) each."""
        return list(self.values.split(self.lengths.tolist()))

    def select(self, documents: Tensor) -> "Ragged":
        """Return the rows of only these documents, in this order."""
        parts = self.documents()
        return Ragged.of([parts[document] for document in documents.tolist()])

    def put(self, documents: Tensor, other: "Ragged") -> "Ragged":
        """Return a copy with the rows of some documents replaced."""
        parts = self.documents()
        for document, rows in zip(documents.tolist(), other.documents(), strict=True):
            parts[document] = rows
        return Ragged.of(parts)


def number_of(high: float, low: float) -> int:
    """Return the number that a state carries as two digits; refuse what no pass has written."""
    if not (0 <= high <= DIGIT and 0 <= low < DIGIT and high == int(high) and low == int(low)):
        raise InputError(DAMAGED)
    return DIGIT * int(high) + int(low)


Value = Tensor | Ragged
ContextState = dict[str, Value]  # of one context module


def tensor(value: Value) -> Tensor:
    """Return a value that is known to have one row per document."""
    assert isinstance(value, Tensor)
    return value


def ragged(value: Value) -> Ragged:
    """Return a value that is known to differ in length between documents."""
    assert isinstance(value, Ragged)
    return value


@dataclass(frozen=True)
class State:
    """The states of the context modules of a batch of documents, by the names of their sublayers."""

    units: Mapping[str, ContextState]

    @classmethod
    def empty(cls) -> "State":
        """Return the state of a model without context modules."""
        return cls({})

    def __bool__(self) -> bool:
        return bool(self.units)

    def __getitem__(self, unit: str) -> ContextState:
        return self.units[unit]

    def __contains__(self, unit: str) -> bool:
        return unit in self.units

    def __or__(self, other: "State") -> "State":
        """Return the union of both; `other` wins for units that are in both."""
        return State({**self.units, **other.units})

    def only(self, units: Iterable[str]) -> "State":
        """Return the states of only these units, as far as they are present."""
        return State({unit: self.units[unit] for unit in units if unit in self.units})

    def map(self, function: Callable[[Tensor], Tensor]) -> "State":
        """Return the state with a function applied to every tensor; lengths of ragged values stay."""

        def mapped(value: Value) -> Value:
            return Ragged(function(value.values), value.lengths) if isinstance(value, Ragged) else function(value)

        return State({unit: {key: mapped(value) for key, value in state.items()} for unit, state in self.units.items()})

    def to(self, device: torch.device) -> "State":
        """Return the state on another device."""

        def moved(value: Value) -> Value:
            if isinstance(value, Ragged):
                return Ragged(value.values.to(device), value.lengths.to(device))
            return value.to(device)

        return State({unit: {key: moved(value) for key, value in state.items()} for unit, state in self.units.items()})

    def is_floating_point(self) -> bool:
        """Return whether all values are floating-point tensors."""
        values = [value for state in self.units.values() for value in state.values()]
        return all((v.values if isinstance(v, Ragged) else v).is_floating_point() for v in values)

    def detach(self) -> "State":
        """Return the state detached from the graph."""
        return self.map(lambda value: value.detach().clone())

    def unbind(self) -> list["State"]:
        """Return the state of every document as a batch of one; the inverse of `join`."""

        def parts(value: Value) -> list[Value]:
            return [Ragged.of([rows]) for rows in value.documents()] if isinstance(value, Ragged) else [*value.split(1)]

        pieces = {unit: {key: parts(value) for key, value in state.items()} for unit, state in self.units.items()}
        documents = max((len(part) for unit in pieces.values() for part in unit.values()), default=0)
        return [
            State({unit: {key: part[number] for key, part in state.items()} for unit, state in pieces.items()})
            for number in range(documents)
        ]

    def select(self, documents: Tensor) -> "State":
        """Return the states of only these documents, in this order."""

        def selected(value: Value) -> Value:
            return value.select(documents) if isinstance(value, Ragged) else value.index_select(0, documents)

        return State(
            {unit: {key: selected(value) for key, value in state.items()} for unit, state in self.units.items()}
        )

    @classmethod
    def join(cls, states: Sequence["State"]) -> "State":
        """Concatenate the states of several batches of documents."""

        def joined(values: list[Value]) -> Value:
            if isinstance(values[0], Ragged):
                return Ragged.of([rows for value in values for rows in value.documents()])  # type: ignore[union-attr]
            return torch.cat([tensor(value) for value in values])

        return cls(
            {
                unit: {key: joined([each[unit][key] for each in states]) for key in state}
                for unit, state in states[0].units.items()
            }
        )

    def put(self, documents: Tensor, other: "State") -> "State":
        """Return a copy in which `other` replaces the state of some documents."""

        def replaced(value: Value, new: Value) -> Value:
            if isinstance(value, Ragged):
                assert isinstance(new, Ragged)
                return value.put(documents, new)
            return value.index_copy(0, documents, tensor(new))

        return State(
            {
                unit: {key: replaced(value, other[unit][key]) for key, value in state.items()}
                for unit, state in self.units.items()
            }
        )

    def has_form_of(self, other: "State") -> bool:
        """Return whether both have the same units, keys and shapes; the lengths of ragged values may differ."""

        def alike(one: Value | None, two: Value) -> bool:
            if isinstance(one, Ragged) and isinstance(two, Ragged):
                lengths = one.lengths
                counted = (
                    lengths.dtype == torch.long and lengths.shape == two.lengths.shape and bool((lengths >= 0).all())
                )
                return counted and one.values.shape == (int(lengths.sum()), *two.values.shape[1:])
            return isinstance(one, Tensor) and isinstance(two, Tensor) and one.shape == two.shape

        return self.units.keys() == other.units.keys() and all(
            state.keys() == other[unit].keys() and all(alike(value, other[unit][key]) for key, value in state.items())
            for unit, state in self.units.items()
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors as UNIT/KEY, the form in which they are stored; UNIT/KEY/lengths for ragged ones."""
        named: dict[str, Tensor] = {}
        for unit, state in self.units.items():
            for key, value in state.items():
                if isinstance(value, Ragged):
                    named |= {f"{unit}/{key}": value.values, f"{unit}/{key}/{LENGTHS}": value.lengths}
                else:
                    named[f"{unit}/{key}"] = value
        return named

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "State":
        """Return the state that `tensors` returned; the inverse of `tensors`."""
        units: dict[str, ContextState] = {}
        for name, value in tensors.items():
            unit, _, key = name.rpartition("/")
            if key != LENGTHS or "/" not in unit:
                lengths = tensors.get(f"{name}/{LENGTHS}")
                units.setdefault(unit, {})[key] = value if lengths is None else Ragged(value, lengths)
        return cls(units)
