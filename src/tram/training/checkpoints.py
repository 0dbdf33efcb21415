"""Training states on disk: complete or absent.

A checkpoint is a folder named after its update (`00001000`) with `model.safetensors`, `optimizer.safetensors`,
`position.safetensors` (memories of the documents in progress) and `progress.json`; it gets its name only when it is
complete.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tram.errors import InputError
from tram.files import remove, replacing_folder
from tram.model.folder import WEIGHTS, converted, load_tensors, save_tensors, weights

VERSION = 2  # of a checkpoint; 1: the optimiser's state was numbered, projections were fused


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
        path = self.folder / "progress.json"
        try:
            progress: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise InputError(
                f"{path}: is missing or damaged; remove the folder {self.folder} to continue before it"
            ) from None
        return progress


class Checkpoints:
    """The checkpoints of one stage, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Checkpoint]:
        """Return every complete checkpoint."""
        if not self.folder.exists():
            return []
        return [Checkpoint(path) for path in sorted(self.folder.iterdir()) if path.name.isdigit()]

    def at(self, update: int) -> Checkpoint:
        """Return the checkpoint of an update."""
        return Checkpoint(self.folder / f"{update:08}")

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
            save_tensors(temporary / "optimizer.safetensors", optimizer)
            save_tensors(temporary / "position.safetensors", position)
            (temporary / "progress.json").write_text(json.dumps(progress, indent=2) + "\n", encoding="utf-8")

    def prune(self, keep: int, best: int | None) -> None:
        """Remove all but the last few and the best, and what a kill left incomplete."""
        for checkpoint in self.all()[:-keep]:
            if checkpoint.update != best:
                remove(checkpoint.folder)
        for leftover in self.folder.glob(".*.tmp"):
            remove(leftover)


def average(checkpoints: list[Checkpoint], into: nn.Module) -> None:
    """Set a model's parameters to the mean of several checkpoints."""
    own = dict(into.named_parameters())
    with torch.no_grad():
        for parameter in own.values():
            parameter.zero_()
        for checkpoint in checkpoints:
            tensors = converted(load_tensors(checkpoint.folder / WEIGHTS))
            for name, parameter in own.items():
                parameter.add_(tensors[name].to(parameter), alpha=1 / len(checkpoints))
