"""Golden numbers of the systems the paper compares with, computed by their authors' own code.

`tests/golden/rivals/NAME.json` describes a model and its arrays, NAME.npz has them. A weight is not stored: it follows
from its name. `Names` says which of our parameters, or which rows of them, an original tensor is. Another file of a
system, whose name begins with the system's, is tested with the same host.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent / "golden" / "rivals"


def golden_files(system: str) -> pytest.MarkDecorator:
    """Run a test with every golden file of a system, as its argument `file`."""
    return pytest.mark.parametrize("file", sorted(path.stem for path in FOLDER.glob(f"{system}*.json")))


class Golden:
    """One golden file."""

    def __init__(self, name: str) -> None:
        self.about: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        self.config: dict[str, Any] = self.about["config"]
        with np.load(FOLDER / f"{name}.npz") as arrays:
            self.arrays = {key: torch.from_numpy(arrays[key]) for key in arrays.files}

    def ids(self, name: str) -> Tensor:
        """Token ids."""
        return self.arrays[name].long()

    def weight(self, name: str) -> Tensor:
        """The weight for a name, as it was when the golden numbers were computed."""
        random = np.random.default_rng(zlib.crc32(name.encode()))
        value = random.standard_normal(self.about["parameters"][name], dtype=np.float32) * np.float32(0.05)
        scale = "norm" in name and name.endswith(("weight", "a_2"))
        return torch.from_numpy(value + np.float32(1)) if scale else torch.from_numpy(value)


class Names:
    """Original tensors by name: each is some of our parameters, or rows of them, on top of each other."""

    def __init__(self, golden: Golden) -> None:
        self.golden = golden
        self.places: dict[str, list[tuple[nn.Parameter, slice]]] = {}

    def add(self, name: str, *parts: nn.Parameter | tuple[nn.Parameter, slice]) -> None:
        """Give our parameters the weights of an original tensor."""
        places = [(part, slice(None)) if isinstance(part, nn.Parameter) else part for part in parts]
        self.places[name] = places
        with torch.no_grad():
            value = self.golden.weight(name)
            for (parameter, rows), piece in zip(places, value.split([len(p[rows]) for p, rows in places]), strict=True):
                parameter[rows] = piece.view_as(parameter[rows])

    def linear(self, name: str, module: nn.Module, rows: slice = slice(None)) -> None:
        """Add the weight of a linear map, or of some of its rows, and the bias if the original has one."""
        for kind in ("weight", "bias"):
            if f"{name}.{kind}" in self.golden.about["parameters"]:
                self.add(f"{name}.{kind}", (getattr(module, kind), rows))

    def norm(self, name: str, module: nn.Module, weight: str = "weight", bias: str = "bias") -> None:
        """Add a layer norm, with the original names of its scale and shift."""
        self.add(f"{name}.{weight}", module.weight)  # type: ignore[arg-type]
        self.add(f"{name}.{bias}", module.bias)  # type: ignore[arg-type]

    def check_gradients(self, expected: dict[str, float | None], tolerance: float = 1e-4) -> None:
        """Compare the norms of all gradients that the original has; every tensor with one must have been added."""
        for name, norm in expected.items():
            if norm is None:
                continue
            parts = [p.grad[rows].flatten() for p, rows in self.places[name] if p.grad is not None]
            found = float(torch.cat(parts).norm()) if parts else 0.0
            assert abs(found - norm) / max(norm, 1e-3) < tolerance, f"{name}: {found}, expected {norm}"


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Compare states or logits."""
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
