"""Limits of the settings of a search, of ids, histories and devices, checked before any work."""

from numbers import Integral
from pathlib import Path
from typing import Any, get_args

import torch

from tram.errors import InputError, check_types
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Engine
from tram.translation.lockstep import History
from tram.yaml_files import short_repr

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
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError):
        raise InputError(f"{name} {device}: this machine or this torch has no such device; give cpu") from None


def check_search(beam: int, batch: int, length_penalty: float) -> None:
    """Refuse a beam, a batch or a length penalty that no search can have."""
    for name, value, largest in (("beam", beam, MAX_BEAM), ("batch", batch, MAX_BATCH)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise InputError(f"{name} {value!r}: give a whole number from 1 to {largest:,}")
    if not isinstance(length_penalty, int | float) or not abs(length_penalty) <= MAX_PENALTY:
        raise InputError(f"length penalty {length_penalty!r}: give a number from -{MAX_PENALTY:g} to {MAX_PENALTY:g}")


def check_history(history: str, gold: object, verbatim: object) -> None:
    """Refuse an unknown history, and one of references without them or with rules for spans."""
    if history not in get_args(History):
        raise InputError(f"history {history!r}: give one of {', '.join(get_args(History))}")
    if history == "gold" and gold is None:
        raise InputError("a gold history needs the reference translation of each sentence; give them as `gold`")
    if history == "gold" and verbatim is not None:
        raise InputError("a gold history reads references as they are; leave out `verbatim`")


def check_ids(sentences: Any, vocabulary: int, longest: int) -> None:
    """Refuse anything but lists of 1 to `longest` ids from 1 to below `vocabulary`; 0 is padding."""
    check_types(sentences=(sentences, list | tuple))
    for number, ids in enumerate(sentences, start=1):
        name = f"sentence {number}"
        check_types(**{name: (ids, list | tuple)})
        if not 1 <= len(ids) <= longest:
            raise InputError(f"{name}: has {len(ids):,} ids; give 1 to {longest:,}")
        for each in ids:
            if isinstance(each, bool) or not isinstance(each, Integral) or not 1 <= int(each) < vocabulary:
                raise InputError(
                    f"{name}: {short_repr(each)} is no id; give whole numbers from 1 to {vocabulary - 1:,}"
                )


def check_special_ids(special: SpecialIds, model: Transformer, folder: Path) -> None:
    """Refuse special ids that the model of a folder cannot have, and those that leave no room for text."""
    if not special.fit(model.vocabulary, model.config.source_vocabulary):
        raise InputError(
            f"{folder / 'text.json'}: has special ids that are padding, or beyond the model's vocabulary of "
            f"{model.vocabulary:,}, or an end that is banned, or a padding that is not; copy the text.json it was "
            "trained with"
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
