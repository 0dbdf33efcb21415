"""Checkpoints: training states on disk, which are written atomically.

A checkpoint is a folder named after its update (`00001000`) with `model.safetensors`, `optimizer.safetensors`,
`position.safetensors` (memories of the documents in progress), `progress.json` and `checksums.json` (sizes and
fingerprints of these files); it gets its name only when it is complete. A damaged checkpoint is renamed to
`00001000.damaged` when a run continues from the one before it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from tram.errors import InputError
from tram.files import exists, is_folder, names_in, read_json, remove, replacing_folder, temporary_for, writing
from tram.fingerprints import checksums, has_checksum
from tram.model.folder import WEIGHTS, load_tensors, load_weights, save_tensors, weights
from tram.model.tensors import FINITE

VERSION = 2  # of a checkpoint; 1: the optimiser's state was numbered, projections were fused


OPTIMIZER, POSITION, PROGRESS = "optimizer.safetensors", "position.safetensors", "progress.json"
PARTS = (WEIGHTS, OPTIMIZER, POSITION, PROGRESS)
CHECKSUMS = "checksums.json"  # of the parts; missing in checkpoints of earlier versions
Count = Annotated[int, Field(ge=0, le=2**53)]


class Standing(BaseModel):
    """The progress of a stage: `progress.json` of a checkpoint."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    update: Count = 0
    tokens: Count = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    best: float | None = None  # score of the best evaluation; lower is better
    best_update: Count | None = None
    waited: Count = 0  # evaluations since then
    ended: bool = False  # by the patience of that time; see `is_out_of`
    evaluation_due: bool = False  # a signal arrived before the evaluation after this update was finished

    def is_out_of(self, patience: int) -> bool:
        """Return whether the stage ends early; the patience may change when a run is continued."""
        return 0 < patience <= self.waited

    def as_dict(self) -> dict[str, Any]:
        """Return the values as JSON values, without `evaluation_due` if false, which earlier versions do not know."""
        return self.model_dump(exclude=set() if self.evaluation_due else {"evaluation_due"})


@dataclass(frozen=True)
class Contents:
    """Everything that a checkpoint contains besides the weights."""

    standing: Standing
    position: dict[str, Any]
    scaler: Any
    tensors: dict[str, Tensor]  # of the position
    optimizer: dict[str, Tensor]
    version: int


@dataclass(frozen=True)
class Checkpoint:
    """A complete training state on disk."""

    folder: Path

    @property
    def update(self) -> int:
        """The update after which it was written."""
        return int(self.folder.name)

    def progress(self) -> dict[str, Any]:
        """Return the contents of progress.json."""
        path = self.folder / PROGRESS
        try:
            progress: dict[str, Any] = dict(read_json(path))
        except (OSError, ValueError, TypeError):
            raise InputError(
                f"{path}: is missing or damaged; remove the folder {self.folder} to continue before it"
            ) from None
        return progress

    def check(self, parts: Iterable[str] = PARTS) -> None:
        """Refuse a file with another content than was written, if the checksums are known."""
        if not is_folder(self.folder):
            raise InputError(f"{self.folder}: is not a folder; remove it to continue without it")
        path = self.folder / CHECKSUMS
        if not exists(path):
            return
        try:
            known = dict(read_json(path))
            for part in parts:
                path = self.folder / part
                if not has_checksum(path, known.get(part)):
                    raise ValueError
        except (OSError, ValueError, TypeError):
            raise InputError(
                f"{path}: is missing or damaged; remove the folder {self.folder} to continue without it"
            ) from None

    def check_weights(self) -> None:
        """Refuse damaged weights, whatever became of the other files."""
        self.check([WEIGHTS])

    def load_weights(self, into: nn.Module) -> None:
        """Load the weights, whatever became of the other files; damaged ones are an InputError."""
        self.check_weights()
        load_weights(into, self.folder / WEIGHTS)

    def load(self) -> Contents:
        """Return the contents of all files but the weights; the error for a damaged file names it."""
        self.check()
        progress = self.progress()
        version, position, scaler = (progress.pop(key, None) for key in ("version", "position", "scaler"))
        try:
            standing = Standing(**progress)
            if standing.update != self.update:
                raise ValueError(f"it is of update {standing.update}")
            if version not in (None, *range(1, VERSION + 1)) or not isinstance(position, dict):
                raise ValueError("it has no valid version and position")
        except (ValueError, TypeError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise self.refusal(PROGRESS, reason) from None
        tensors, optimizer = (load_tensors(self.folder / part, largest=FINITE) for part in (POSITION, OPTIMIZER))
        return Contents(standing, position, scaler, tensors, optimizer, version or 1)

    def refusal(self, part: str, reason: object) -> InputError:
        """Return the error for a file that does not belong to this run or is damaged."""
        path = self.folder / part
        return InputError(f"{path}: is not of this run ({reason}); remove {self.folder.name} to continue before it")


class Checkpoints:
    """The checkpoints of one stage, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Checkpoint]:
        """Return every complete checkpoint."""
        names = names_in(self.folder)
        return [Checkpoint(self.folder / name) for name in names if name.isascii() and name.isdigit()]

    def at(self, update: int) -> Checkpoint:
        """Return the checkpoint of an update."""
        return Checkpoint(self.folder / f"{update:08}")

    def last_regular(self, number: int, every: int) -> list[Checkpoint]:
        """Return the last checkpoints at multiples of `every`, which do not depend on interruptions of the run."""
        return [each for each in self.all() if each.update % every == 0][-number:] if number else []

    def save(
        self,
        update: int,
        model: nn.Module,
        optimizer: Mapping[str, Tensor],
        position: Mapping[str, Tensor],
        progress: dict[str, Any],
    ) -> None:
        """Write a complete checkpoint, or nothing."""
        with replacing_folder(self.at(update).folder) as temporary:
            save_tensors(temporary / WEIGHTS, weights(model))
            save_tensors(temporary / OPTIMIZER, optimizer)
            save_tensors(temporary / POSITION, position)
            (temporary / PROGRESS).write_text(json.dumps(progress, indent=2) + "\n", encoding="utf-8")
            (temporary / CHECKSUMS).write_text(
                json.dumps(checksums(temporary, PARTS), indent=2) + "\n", encoding="utf-8"
            )

    def prune(self, keep: int, best: int | None, average: int = 0, every: int = 1) -> None:
        """Remove incomplete checkpoints, and all but the last few, the best and those to average."""
        needed = {each.folder for each in (*self.all()[-keep:], *self.last_regular(average, every))}
        for checkpoint in self.all():
            if checkpoint.folder not in needed and checkpoint.update != best:
                _remove(checkpoint.folder)
        for name in names_in(self.folder):
            if (temporary_for(name) or "").isdigit():
                _remove(self.folder / name)

    def set_aside(self, checkpoint: Checkpoint) -> Path:
        """Rename a damaged checkpoint, so that it is ignored from now on, and return its new path."""
        aside = checkpoint.folder.with_name(f"{checkpoint.folder.name}.damaged")
        _remove(aside)
        with writing(checkpoint.folder):
            os.rename(checkpoint.folder, aside)
        return aside


def _remove(path: Path) -> None:
    with writing(path):
        remove(path)


def average(checkpoints: list[Checkpoint], into: nn.Module) -> None:
    """Set a model's parameters to the mean of several checkpoints; one that is damaged is an InputError."""
    parameters = dict(into.named_parameters())
    means = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    with torch.no_grad():
        for checkpoint in checkpoints:
            checkpoint.load_weights(into)
            for name, parameter in parameters.items():
                means[name].add_(parameter, alpha=1 / len(checkpoints))
        for name, parameter in parameters.items():
            parameter.copy_(means[name])
