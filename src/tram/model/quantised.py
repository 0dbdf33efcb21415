"""int8 matrices: one byte per weight, and one scale per row.

    quantise(model)                     # in place: every linear map and every token table
    tensors = int8_tensors(model)       # as an int8 folder stores them; see `folder`

The modules here replace `nn.Linear` and `nn.Embedding`. They dequantise the weights to float32 at every use, for
engines without int8 products.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SCALE = ".scale"  # suffix of the scales of a stored matrix


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix as int8, (rows, columns), and the scale of each row, (rows)."""
    scales = weight.abs().amax(1).clamp(min=1e-20) / 127
    return (weight / scales[:, None]).round_().clamp_(-127, 127).to(torch.int8), scales


class Int8Matrix(nn.Module):
    """A matrix of int8 weights. values: (rows, columns); scales: (rows)."""

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        super().__init__()
        self.values: Tensor
        self.scales: Tensor
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)

    @property
    def weight(self) -> Tensor:
        """The dequantised matrix, in the data type of its scales."""
        return self.values * self.scales[:, None]


class Int8Linear(Int8Matrix):
    """A linear map with int8 weights."""

    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__(values, scales)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    @property
    def in_features(self) -> int:
        """The number of columns."""
        return self.values.shape[1]

    def forward(self, states: Tensor) -> Tensor:
        """(…, columns) → (…, rows)."""
        return F.linear(states, self.weight, self.bias)


class Int8Embedding(Int8Matrix):
    """A token table with int8 weights."""

    @property
    def num_embeddings(self) -> int:
        """The number of rows."""
        return len(self.scales)

    def forward(self, ids: Tensor) -> Tensor:
        """(…) → (…, columns)."""
        return self.values[ids] * self.scales[ids][..., None]


def quantise(model: nn.Module, known: Mapping[str, Tensor] | None = None) -> None:
    """Replace every linear map and every token table of a model by one with int8 weights.

    known: int8 matrices and their scales by parameter name; None: quantise those of the model
    """
    replacements: dict[int, nn.Module] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Linear | nn.Embedding) and id(module) not in replacements:
            place = f"{name}.weight"
            values, scales = (
                quantised(module.weight.detach()) if known is None else (known[place], known[place + SCALE])
            )
            if isinstance(module, nn.Linear):
                replacements[id(module)] = Int8Linear(values, scales, module.bias)
            else:
                replacements[id(module)] = Int8Embedding(values, scales)
    for parent in list(model.modules()):
        for child, module in list(parent.named_children()):
            if id(module) in replacements:
                setattr(parent, child, replacements[id(module)])


def is_quantised(model: nn.Module) -> bool:
    """Return whether a model has int8 weights."""
    return any(isinstance(module, Int8Matrix) for module in model.modules())


def matrices(model: nn.Module) -> dict[str, Int8Matrix]:
    """Return the int8 matrices by the names that their weights have in a float32 model."""
    return {f"{name}.weight": module for name, module in model.named_modules() if isinstance(module, Int8Matrix)}


def int8_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return everything that an int8 folder stores: matrices, their scales, and all other parameters."""
    tensors = {name: value.detach() for name, value in model.named_parameters()}
    for name, matrix in matrices(model).items():
        tensors |= {name: matrix.values, name + SCALE: matrix.scales}
    return tensors


def int8_shapes(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of an int8 folder of a model with these parameters, on the device `meta`."""
    scales = {
        name + SCALE: value.new_empty(len(value))
        for name, value in parameters.items()
        if name.endswith(".weight") and value.dim() == 2
    }
    return dict(parameters) | scales
