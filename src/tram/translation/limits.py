"""Limits of the settings of a search and of the ids around a sentence, checked before any work."""

from pathlib import Path
from types import UnionType
from typing import get_args

import torch

from tram.errors import InputError
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Engine

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MAX_BEAM = 1_000
MAX_BATCH = 100_000
MAX_SPECULATION = 64
MAX_PENALTY = 10.0  # with more, the power of a long translation is no number


def check_device(device: object, dtype: object = torch.float32, name: str = "device") -> None:
    """Refuse a device that this machine does not have, and a data type that no model can have; name: of the device."""
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r}: give one of {', '.join(map(str, DTYPES))}")
    try:
        torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        raise InputError(f"{name} {device}: this machine or this torch has no such device; give cpu") from None


def check_types(**arguments: tuple[object, type | UnionType]) -> None:
    """Refuse arguments of another type than the one beside them."""
    for name, (value, kind) in arguments.items():
        if not isinstance(value, kind):
            wanted, *_ = get_args(kind) or (kind,)
            raise InputError(f"{name}: is of type {type(value).__name__}; give {wanted.__name__}")


def check_search(beam: int, batch: int, length_penalty: float) -> None:
    """Refuse a beam, a batch or a length penalty that no search can have."""
    for name, value, largest in (("beam", beam, MAX_BEAM), ("batch", batch, MAX_BATCH)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise InputError(f"{name} {value!r}: give a whole number from 1 to {largest:,}")
    if not isinstance(length_penalty, int | float) or not abs(length_penalty) <= MAX_PENALTY:
        raise InputError(f"length penalty {length_penalty!r}: give a number from -{MAX_PENALTY:g} to {MAX_PENALTY:g}")


def check_special_ids(special: SpecialIds, model: Transformer, folder: Path) -> None:
    """Refuse special ids that the model of a folder cannot have, and those that leave no room for text."""
    if not special.fit(model.vocabulary, model.config.source_vocabulary):
        raise InputError(
            f"{folder / 'text.json'}: has special ids that are padding, or beyond the model's vocabulary of "
            f"{model.vocabulary:,}, or an end that is banned; copy the text.json it was trained with"
        )
    most = model.config.max_length
    if special.longest(most) < 1:
        raise InputError(
            f"{folder / 'config.yaml'}: max_length {most} leaves no room for text between the special ids of a "
            "sentence; copy config.yaml and text.json of the original model"
        )


def check_speculation(sentences: int, beam: int, engine: Engine) -> None:
    """Refuse sentences ahead (`speculation`) without greedy search or an engine that can verify them."""
    if not isinstance(sentences, int) or not 1 <= sentences <= MAX_SPECULATION:
        raise InputError(f"speculate {sentences!r}: give a whole number from 1 to {MAX_SPECULATION}")
    if sentences > 1 and beam > 1:
        raise InputError(f"speculate {sentences}: this is for greedy search; give beam 1, or leave it out")
    if sentences > 1 and not engine.can_force:
        raise InputError(f"speculate {sentences}: the engine {engine.name} does not have it; use native")
