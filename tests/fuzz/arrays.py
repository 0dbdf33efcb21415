"""Random damage to files of tensors and arrays, most of which stay valid files: other shapes, types, names, numbers."""

import io
import json
import math
import random
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fuzz.mutations import STRANGE, damaged_bytes, damaged_json

SIZES = {
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8, "BOOL": 1},
    **{"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "F4": 1, "F6_E2M3": 1},
}
NUMBERS = [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e30, -0.0, 1e-45]
NPY = [
    *((b"<i8", b"<u8"), (b"<i8", b"<f8"), (b"<i8", b">i8"), (b"<u2", b"<i2"), (b"<u2", b"|O "), (b"<u2", b"<u4")),
    *((b"(", b"(-"), (b"(", b"(2,"), (b"(", b"(9"), (b"(", b"(99999999"), (b"False", b"True "), (b",)", b",9)")),
    *((b"{", b"["), (b"'shape'", b"'shapf'"), (b"<u2", b"<M8"), (b"<i8", b"<c8"), (b"(", b"(" * 500), (b"(", b"(0x")),
    *((b"\x93NUMPY\x01", b"\x93NUMPY\x02"), (b"\x93NUMPY\x01", b"\x93NUMPY\x03"), (b"\x93NUMPY\x01", b"\x93NUMPY\x09")),
]
DTYPES = ["<u2", "<u4", "<i8", ">i8", "<i4", "<u8", "<f4", "<f8", "<f2", "<c16", "|b1", "|u1", "|S3", "<U2", "<M8[s]"]


@dataclass(frozen=True)
class Entry:
    """A tensor of a safetensors file."""

    name: str
    dtype: str
    shape: list[int]
    data: bytes


def damaged_safetensors(draw: random.Random, data: bytes) -> bytes:
    """Damage the bytes, the header, the offsets, or the tensors of a file that stays valid."""
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], data[8 + size :]
    match draw.randrange(9):
        case 0:
            return damaged_bytes(draw, data)
        case 1:
            header = damaged_json(draw, header)
        case 4:
            header, body = _other_text(draw, header, body)
        case 2:
            length = draw.choice([0, 1, 8, size - 1, size + 1, 10**8 - 8, 10**8 + 1, 2**31, 2**63, 2**64 - 1])
            return length.to_bytes(8, "little") + draw.choice([header, b"", b"{}"]) + body
        case 3:
            header = _other_offsets(draw, header)
        case _:
            return _valid(draw, header, body)
    return len(header).to_bytes(8, "little") + header + body


def _other_offsets(draw: random.Random, header: bytes) -> bytes:
    """Overlap two tensors, leave a gap, turn offsets round, or point behind the end."""
    value = json.loads(header)
    names = [name for name in value if name != "__metadata__"]
    if not names:
        return header
    one, two = value[draw.choice(names)], value[draw.choice(names)]
    start, end = one["data_offsets"]
    one["data_offsets"] = draw.choice(
        [two["data_offsets"], [end, start], [start + 4, end + 4], [0, 2**64 - 1], [2**64, 1], [-4, 0], [start], [0, 0]]
    )
    if draw.random() < 0.3:
        one["shape"] = draw.choice([[2**63, 2], [2**32, 2**32], [0, 2**63], [-1], [1] * 100, [], [1.5], None])
    return json.dumps(value).encode()


def _other_text(draw: random.Random, header: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Write the same header otherwise: names twice, other blanks, odd metadata, more bytes than it speaks of."""
    value = json.loads(header)
    if not value:
        return header + b" ", body
    name = draw.choice(list(value))
    text = header.decode().rstrip()
    metadata = {"version": 1, "model": None, "sentences": [], "x": {"y": "z"}, "a" * 10_000: "b", "\ud800": "\ud800"}
    return draw.choice(
        [
            (f"{text[:-1]}, {json.dumps(name)}: {json.dumps(value[name])}}}".encode(), body),
            (f'{text[:-1]}, "x": {json.dumps(value[name])}}}'.encode(), body),
            (json.dumps(value, indent=draw.choice([0, 1, 8])).encode(), body),
            (header + b" " * draw.choice([1, 7, 8, 100_000]), body),
            (b" " + header, body),
            (b"\n" + header, body),
            (header + b"\0", body),
            (json.dumps({key: value[key] for key in draw.sample(list(value), len(value))}).encode(), body),
            (
                json.dumps(value | {"__metadata__": draw.choice([metadata, [], "x", None, {"version": "2"}])}).encode(),
                body,
            ),
            (header, body + b"\0" * draw.choice([1, 4, 4096])),
            (header, body[: -draw.choice([1, 4, 8])]),
            (header, body[::-1]),
            (json.dumps(value | {name: {**dict(value[name]), "extra": 1}}).encode(), body),
            (
                json.dumps(value | {"empty": {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]}}).encode(),
                body,
            ),
            (json.dumps({"__metadata__": value.get("__metadata__", {})}).encode(), b""),
        ]
    )


def _valid(draw: random.Random, header: bytes, body: bytes) -> bytes:
    """Change tensors and metadata, and write a valid file."""
    value = json.loads(header)
    metadata = value.pop("__metadata__", None)
    entries = [
        Entry(name, each["dtype"], each["shape"], body[slice(*each["data_offsets"])]) for name, each in value.items()
    ]
    for _ in range(draw.choice([1, 1, 2])):
        entries = _other_entries(draw, entries)
    if metadata is not None and draw.random() < 0.15:
        key = draw.choice(list(metadata))
        metadata[key] = draw.choice([*STRANGE[:60], "", "99", " 1 ", "١", "1.0", "-1", str(2**63), "9" * 5000])
    if draw.random() < 0.05:
        metadata = draw.choice([None, {}, {"x": "y"}])
    return written(entries, metadata)


def written(entries: list[Entry], metadata: Any = None) -> bytes:
    """Return a safetensors file."""
    value: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    start = 0
    for entry in entries:
        end = start + len(entry.data)
        value[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [start, end]}
        start = end
    header = json.dumps(value).encode()
    return len(header).to_bytes(8, "little") + header + b"".join(entry.data for entry in entries)


def _other_entries(draw: random.Random, entries: list[Entry]) -> list[Entry]:  # noqa: PLR0911, PLR0912 (one for each kind)
    if not entries:
        return [Entry(draw.choice(["", "x", "a/b", "memory/lengths"]), "F32", [1], b"\0\0\0\0")]
    at = draw.randrange(len(entries))
    before, entry, after = entries[:at], entries[at], entries[at + 1 :]
    other = draw.choice(entries)
    match draw.randrange(12):
        case 0:
            return before + after
        case 11:  # rows of documents together with their number
            return _other_rows(draw, entries)
        case 1:
            name = draw.choice(["", "x", "é", entry.name + "/lengths", entry.name + "x", "a" * 3000, entry.name[:-1]])
            return [*before, replace(entry, name=name), *after]
        case 2:
            return [*entries, replace(other, name=draw.choice(["", "x", other.name + "/lengths", other.name + ".x"]))]
        case 3:  # the values of another one
            return [*before, replace(other, name=entry.name), *after]
        case 4:
            return [*before, replace(entry, shape=_other_shape(draw, entry.shape)), *after]
        case 5:
            return [*before, _of_type(entry, draw.choice(list(SIZES))), *after]
        case 6:
            dtype = draw.choice(list(SIZES))
            return [_of_type(each, dtype) for each in entries]
        case 7:  # more or fewer rows
            return [*before, _resized(draw, entry), *after]
        case 8:  # the same bytes as another type
            for dtype in draw.sample(list(SIZES), len(SIZES)):
                if len(entry.data) == math.prod(entry.shape) * SIZES[dtype]:
                    return [*before, replace(entry, dtype=dtype), *after]
            return entries
        case 9:
            return [*before, _with_number(draw, entry), *after]
        case _:
            return [_with_number(draw, each, everywhere=True) for each in entries]


def _other_shape(draw: random.Random, shape: list[int]) -> list[int]:
    count = math.prod(shape)
    return draw.choice([shape[::-1], [count], [1, *shape], [*shape, 1], [1, count], [count, 1], [*shape, 1, 1, 1]])


def _other_rows(draw: random.Random, entries: list[Entry]) -> list[Entry]:
    """Give a value of a state that differs in length between documents more or fewer rows."""
    by_name = {entry.name: entry for entry in entries}
    found = [name for name, entry in by_name.items() if f"{name}/lengths" in by_name and entry.shape and entry.data]
    if not found:
        return entries
    name = draw.choice(found)
    entry, lengths = by_name[name], by_name[f"{name}/lengths"]
    rows = draw.choice([0, 1, 2, entry.shape[0] * 2, 100, 1000])
    size = len(entry.data) // entry.shape[0] * rows
    data = (entry.data * (rows // entry.shape[0] + 1))[:size]
    by_name[name] = replace(entry, shape=[rows, *entry.shape[1:]], data=data)
    by_name[lengths.name] = replace(lengths, data=rows.to_bytes(8, "little") * (len(lengths.data) // 8))
    return list(by_name.values())


def _of_type(entry: Entry, dtype: str) -> Entry:
    """Return a tensor of another type, with zeros, or ones for text that holds indices."""
    return replace(entry, dtype=dtype, data=bytes(math.prod(entry.shape) * SIZES[dtype]))


def _resized(draw: random.Random, entry: Entry) -> Entry:
    if not entry.shape:
        return replace(entry, shape=[0], data=b"")
    shape = [*entry.shape]
    axis = draw.randrange(len(shape))
    shape[axis] = draw.choice([0, 1, shape[axis] + 1, shape[axis] * 2, max(shape[axis] - 1, 0)])
    size = math.prod(shape) * SIZES.get(entry.dtype, 4)
    return replace(
        entry, shape=shape, data=(entry.data * (size // max(len(entry.data), 1) + 1))[:size].ljust(size, b"\0")
    )


def _with_number(draw: random.Random, entry: Entry, everywhere: bool = False) -> Entry:
    """Put a number that is not finite or very large into a tensor."""
    number = draw.choice(NUMBERS)
    packed = {
        "F64": struct.pack("<d", number),
        "F32": struct.pack("<f", number),
        "F16": struct.pack("<e", number if abs(number) < 6e4 or not math.isfinite(number) else 6e4),
        "BF16": struct.pack("<f", number)[2:],
    }.get(entry.dtype, draw.choice([b"\xff" * 8, b"\x7f" * 8, b"\0" * 8])[: SIZES.get(entry.dtype, 1)])
    count = len(entry.data) // len(packed)
    if not count:
        return entry
    if everywhere:
        return replace(entry, data=packed * count)
    at = draw.randrange(count) * len(packed)
    return replace(entry, data=entry.data[:at] + packed + entry.data[at + len(packed) :])


def damaged_state_dict(draw: random.Random, data: bytes) -> bytes:
    """Damage the bytes of a PyTorch file, or write tensors of other types, shapes, layouts and names."""
    try:
        tensors = dict(torch.load(io.BytesIO(data), weights_only=True))
    except Exception:
        return damaged_bytes(draw, data)
    if draw.random() < 0.3:
        return damaged_bytes(draw, data)
    for _ in range(draw.choice([1, 1, 2])):
        name = draw.choice(list(tensors))
        tensors[name] = _other_tensor(draw, tensors[name], draw.choice(list(tensors.values())))
        if draw.random() < 0.2:
            tensors[draw.choice(["", "x", 1, None, f"{name}{name}", str(name).replace("0", "1")])] = tensors.pop(name)
    saved = io.BytesIO()
    wrapped = draw.choice([tensors, tensors, tensors, {"model": tensors}, {"state_dict": tensors}, [tensors], None])
    torch.save(wrapped, saved, _use_new_zipfile_serialization=draw.random() < 0.8)
    return saved.getvalue()


def _other_tensor(draw: random.Random, value: Any, other: Any) -> Any:
    if (
        not isinstance(value, torch.Tensor)
        or not value.numel()
        or value.layout != torch.strided
        or value.is_meta
        or value.is_quantized
    ):
        return other
    first = value.flatten()[:1].float()
    return draw.choice(
        [
            lambda: first.expand(*value.shape),
            lambda: first.expand(10**6, 10**6),
            lambda: first.expand(2**40),
            lambda: value.to(draw.choice([torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.bool])),
            lambda: value.to(torch.complex64),
            value.to_sparse,
            lambda: value.to("meta"),
            lambda: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8),
            lambda: torch.nn.Parameter(value.float()),
            lambda: value.t() if value.dim() == 2 else value.reshape(-1, 1),
            lambda: value[:0],
            lambda: value.repeat(*([2] * max(value.dim(), 1))),
            lambda: value.float() * draw.choice(NUMBERS),
            lambda: draw.choice([None, 1, "x", [], {}, [value], {"a": value}]),
            lambda: other,
        ]
    )()


def damaged_npy(draw: random.Random, data: bytes) -> bytes:
    """Damage the bytes, the header or the numbers of an npy file, or write another array."""
    start = data.index(b"\n") + 1
    match draw.randrange(6):
        case 0:
            return damaged_bytes(draw, data)
        case 1:
            body = bytearray(data[start:])
            for _ in range(draw.choice([1, 2, 10])):
                if body:
                    at = draw.randrange(len(body))
                    body[at] = draw.choice([0, 1, 127, 128, 255])
            return data[:start] + bytes(body)
        case 2:
            old, new = draw.choice(NPY)
            return data[:start].replace(old, new) + data[start:]
        case 3:  # a header of any length
            header = draw.choice(STRANGE).encode("utf-8", "surrogatepass")[:60000]
            return data[:8] + len(header).to_bytes(2, "little") + header + data[start:]
        case _:
            return _other_array(draw, data)


def _other_array(draw: random.Random, data: bytes) -> bytes:
    """Write a valid file with other numbers, another type, another shape or another kind of array."""
    array = np.load(io.BytesIO(data))
    match draw.randrange(12):
        case 8 | 9 if len(array) > 1:  # offsets that decrease, go beyond the end, or are one off from here on
            array = _other_numbers(draw, array.copy())
        case 10:
            array = draw.choice([array.astype(array.dtype.newbyteorder(">")), np.asfortranarray([array, array])])
        case 0:
            with np.errstate(all="ignore"):
                array = array.astype(draw.choice(DTYPES))
        case 1:
            array = array.reshape(draw.choice([(1, -1), (-1, 1), (1, 1, -1)]))
        case 2:
            array = draw.choice([array[:-1], array[1:], array[:0], np.concatenate([array, array[-1:]]), array[::-1]])
        case 3:
            array = np.array(draw.choice([0, 1, 2**40]), np.int64)
        case 4 if len(array):
            array = array.copy()
            bounds = np.iinfo(array.dtype)
            array[draw.randrange(len(array))] = draw.choice([bounds.min, bounds.max, 0, 1, array[-1]])
        case 5:
            array = np.zeros(len(array), [("a", array.dtype), ("b", "<f4")])
        case 6:
            packed = io.BytesIO()
            np.savez(packed, array)
            return packed.getvalue()
        case _:
            array = np.array([{}, None], dtype=object)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _other_numbers(draw: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    at, other = draw.randrange(len(array)), draw.randrange(len(array))
    match draw.randrange(4):
        case 0:
            array[[at, other]] = array[[other, at]]
        case 1:
            array[at] += draw.choice([1, 2, 1000])
        case 2:
            array[at:] += 1
        case _:
            array[1:] = np.sort(array[1:])[::-1]
    return array
