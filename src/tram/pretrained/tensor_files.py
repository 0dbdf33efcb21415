"""Streaming of large tensor files in blocks of a few megabytes, smaller than the largest tensor.

    tensors = open_tensors(folder)             # model.safetensors, pytorch_model.bin or their shards
    tensors.entries["model.shared.weight"]     # shape and data type
    for block in tensors.blocks("model.shared.weight"): ...

    write_tensors(path, {"tokens.weight": Entry((58_102, 512), torch.float32)}, blocks)

safetensors' own reader maps the whole file into memory, and its writer needs all tensors at once.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import RawIOBase
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tram.errors import InputError
from tram.files import exists, read_json
from tram.model.tensors import check_values, tensor_shapes
from tram.pretrained.torch_files import can_be_mapped, checked_tensors, load_torch_file, release

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
BLOCK = 1 << 21  # values that are in memory at the same time
AGAIN = "use another copy of it"
SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"  # suffix of the index of a sharded file


@dataclass(frozen=True)
class Entry:
    """Shape and data type of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class SafetensorsFile:
    """A safetensors file, read without mapping it into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tensor_shapes(path)  # refuses a file that is truncated or of another kind
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(length))
        header.pop("__metadata__", None)
        self._start = 8 + length
        self._offsets = {name: about["data_offsets"][0] for name, about in header.items()}
        self.entries = {name: Entry(tuple(about["shape"]), self._dtype(name, about)) for name, about in header.items()}

    def _dtype(self, name: str, about: dict[str, Any]) -> torch.dtype:
        if about["dtype"] not in DTYPES:
            raise InputError(
                f"{self.path}: `{name}` has the data type {about['dtype']}; "
                "give a model in float32, float16 or bfloat16"
            )
        return DTYPES[about["dtype"]]

    def blocks(self, name: str) -> Iterator[Tensor]:
        """Yield the values of a tensor in order, a block at a time; the next block replaces the last one."""
        entry = self.entries[name]
        left = prod(entry.shape)
        buffer = torch.empty(min(left, BLOCK), dtype=entry.dtype)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self._start + self._offsets[name])
                while left:
                    block = buffer[: min(left, BLOCK)]
                    _fill(file, block.view(torch.uint8).numpy().data)
                    yield block
                    left -= len(block)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror}); {AGAIN}") from None


def _fill(file: RawIOBase, buffer: memoryview) -> None:
    """Read until the buffer is full."""
    while len(buffer):
        read = file.readinto(buffer)
        if not read:
            raise OSError(0, "the file ends early")
        buffer = buffer[read:]


class TorchFile:
    """A PyTorch file of tensors, mapped into memory if its format allows it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        remedy = "give the model's own weights"
        loaded = checked_tensors(path, load_torch_file(path, remedy, mmap=True), remedy)
        self._tensors = loaded
        self._is_mapped = can_be_mapped(path)
        self.entries = {name: Entry(tuple(value.shape), value.dtype) for name, value in loaded.items()}

    def blocks(self, name: str) -> Iterator[Tensor]:
        """Yield the values of a tensor in order, a block at a time; the next block may replace the last one."""
        tensor = self._tensors[name]
        for block in tensor.reshape(-1).split(BLOCK):
            yield block
            if self._is_mapped and tensor.is_contiguous():  # others were copied
                release(block)


TensorFile = SafetensorsFile | TorchFile


class Tensors:
    """The tensors of one or several files by their names."""

    def __init__(self, files: list[TensorFile], owners: Mapping[str, TensorFile]) -> None:
        self.files = files
        self._owners = owners
        self.entries = {name: file.entries[name] for name, file in owners.items()}

    def blocks(self, name: str) -> Iterator[Tensor]:
        """Yield the values of a tensor in order, a block at a time; refuse values that no model has."""
        self.entry(name)
        file = self._owners[name]
        for block in file.blocks(name):
            check_values(file.path, {name: block})
            yield block

    def entry(self, name: str) -> Entry:
        """Return shape and data type of a tensor; refuse values that no model of tram has."""
        entry = self.entries[name]
        if entry.dtype not in DTYPE_NAMES:
            path, dtype = self.path(name), str(entry.dtype).removeprefix("torch.")
            raise InputError(f"{path}: `{name}` contains {dtype} values; give a model that is not quantised")
        return entry

    def path(self, name: str) -> Path:
        """Return the file that contains a tensor."""
        return self._owners[name].path


def open_tensors(folder: Path) -> Tensors:
    """Return the weights in a folder: safetensors in preference to PyTorch files, one file or shards."""
    for name in (SAFETENSORS, TORCH):
        if exists(folder / name):
            file = _open(folder / name)
            return Tensors([file], dict.fromkeys(file.entries, file))
        if exists(folder / (name + INDEX)):
            return _open_shards(folder, folder / (name + INDEX))
    raise InputError(f"{folder}: has neither {SAFETENSORS} nor {TORCH}; give a folder with the weights of a model")


def _open(path: Path) -> TensorFile:
    return SafetensorsFile(path) if path.suffix == ".safetensors" else TorchFile(path)


def _open_shards(folder: Path, index: Path) -> Tensors:
    try:
        places = read_json(index)["weight_map"]
        names = sorted({Path(str(place)).name for place in places.values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"{index}: is not an index of shards; {AGAIN}") from None
    if missing := [name for name in names if not exists(folder / name)]:
        raise InputError(
            f"{folder / missing[0]}: this shard of the weights is missing; copy it from the original model"
        )
    files = {name: _open(folder / name) for name in names}
    owners = {}
    for tensor, place in places.items():
        file = files[Path(str(place)).name]
        if tensor not in file.entries:
            raise InputError(f"{file.path}: lacks the tensor `{tensor}`, which {index.name} names; {AGAIN}")
        owners[tensor] = file
    return Tensors(list(files.values()), owners)


def write_tensors(path: Path, entries: Mapping[str, Entry], blocks: Callable[[str], Iterable[Tensor]]) -> None:
    """Write a safetensors file; `blocks` returns the values of one tensor after the other, in blocks."""
    # Wider types first, so that every tensor begins at a multiple of its own width.
    names = sorted(entries, key=lambda name: (-entries[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        entry, start = entries[name], end
        end += prod(entry.shape) * entry.dtype.itemsize
        header[name] = {"dtype": DTYPE_NAMES[entry.dtype], "shape": entry.shape, "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name in names:
            left = prod(entries[name].shape)
            for block in blocks(name):
                flat = block.to(entries[name].dtype).contiguous().reshape(-1)
                file.write(flat.view(torch.uint8).numpy().data)
                left -= len(flat)
            assert left == 0, name
