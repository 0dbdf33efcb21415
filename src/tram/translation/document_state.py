"""The state of a document between two sentences, which can be stored and moved.

state = translator.start()
state.save("chapter-1.safetensors")
state = DocumentState.load("chapter-1.safetensors")
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tram.data.units import Pair
from tram.errors import InputError, check_types
from tram.files import regular_file, replacing
from tram.fingerprints import bytes_fingerprint, fingerprint
from tram.model.state import Ragged, State
from tram.model.tensors import LARGEST, all_within

VERSION = 1
MAX_STATE = 1 << 30  # bytes; the memories of a large model are a thousand times smaller
HISTORY = "history"  # name of the stored pairs, beside the states of context modules


@dataclass
class DocumentState:
    """The state of one document, and the model it belongs to."""

    state: State  # of a batch of one document
    model: str  # fingerprint of the weights
    sentences: int = 0  # read or translated so far
    history: list[Pair] = field(default_factory=list)  # what the next unit may see, in models with units of sentences

    def fork(self) -> "DocumentState":
        """Return an independent copy."""
        history = [replace(pair) for pair in self.history]
        return DocumentState(self.state.map(lambda value: value.clone()), self.model, self.sentences, history)

    def to_bytes(self) -> bytes:
        """Return the state as the bytes that `save` writes."""
        stored = self.state | _history_tensors(self.history)
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in stored.tensors().items()}
        about = {"version": str(VERSION), "model": self.model, "sentences": str(self.sentences)}
        return save(tensors, metadata=about | {"checksum": _checksum(tensors, about)})

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the state") -> Self:
        """Return the state from the bytes of `to_bytes`; `name` names it in error messages."""
        try:
            tensors = load(data)
            size = int.from_bytes(data[:8], "little")
            about = json.loads(data[8 : 8 + size])["__metadata__"]
            if (version := int(about["version"])) > VERSION:
                raise InputError(f"{name}: is a state of version {version}, this tram reads {VERSION}; update tram")
            checksum = about.pop("checksum", None)  # states of earlier versions have none
            if checksum is not None and checksum != _checksum(tensors, about):
                raise ValueError
            model, sentences = str(about["model"]), int(about["sentences"])
            stored = State.from_tensors(tensors)
            state = stored.only(name for name in stored.units if name != HISTORY)
            history = _history(stored)
            if not 0 <= sentences < 2**63 or not all(map(_is_plausible, _values(state))):
                raise ValueError
        except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, RecursionError):
            # Besides its own error: a data type that torch lacks, metadata that are something else
            raise InputError(f"{name}: is damaged or no document state; start the document again") from None
        return cls(state, model, sentences, history)

    def save(self, path: Path | str) -> None:
        """Write the state as a safetensors file, atomically."""
        check_types(path=(path, Path | str))
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return a saved state."""
        check_types(path=(path, Path | str))
        try:
            data = regular_file(Path(path), MAX_STATE).read_bytes()
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file; give a state that `save` wrote") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give a state that `save` wrote") from None
        return cls.from_bytes(data, str(path))


def _checksum(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """Return twelve digits that identify a state, to notice damage that leaves valid numbers."""
    return bytes_fingerprint(save(tensors) + fingerprint(about).encode())


def _history_tensors(history: list[Pair]) -> State:
    """Return pairs as a state: the ids of all sentences of each side, and their lengths."""
    if not history:
        return State.empty()
    sides = {"source": [pair.source for pair in history], "target": [pair.target for pair in history]}
    return State({HISTORY: {side: Ragged.of([torch.tensor(ids) for ids in found]) for side, found in sides.items()}})


def _history(stored: State) -> list[Pair]:
    """Return the pairs of `_history_tensors`; raise ValueError for anything else."""
    if HISTORY not in stored:
        return []
    sides: list[list[list[int]]] = []
    for side in ("source", "target"):
        value = stored[HISTORY][side]
        if not isinstance(value, Ragged) or {value.values.dtype, value.lengths.dtype} != {torch.long}:
            raise ValueError
        if value.values.dim() != 1 or value.lengths.dim() != 1 or bool((value.lengths < 1).any()):
            raise ValueError
        sides.append([ids.tolist() for ids in value.documents()])
    return [Pair(source, target) for source, target in zip(*sides, strict=True)]


def _values(state: State) -> list[Tensor]:
    return [
        value.values if isinstance(value, Ragged) else value for unit in state.units.values() for value in unit.values()
    ]


def _is_plausible(value: Tensor) -> bool:
    """Return whether all values are numbers that a model may have written; NaN is not."""
    return value.is_floating_point() and all_within(value, LARGEST)
