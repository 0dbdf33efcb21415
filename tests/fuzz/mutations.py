"""Random damage: to bytes, to YAML and JSON values, to the headers of safetensors and npy files."""

import json
import random
import struct
from typing import Any

NUMBERS = "-1 0 1 2 1e9 1e400 -1e400 .nan nan NaN .inf Infinity null ~ true no '' [] {} [[[]]] 0x_ 0o9 1_000 1:60"
SIGNS = "2026-11-31 2026-11-30 *a << ../../x / . | > % @ ` --- ... # F64 BF16 F8_E4M3 é"
STRANGE = [
    *NUMBERS.split(" "),
    *SIGNS.split(" "),
    *('""', "{a: {b: c}}", "10000000000000000000000", "9" * 5000, "a" * 300, "[" * 1000, "{" * 1000, "- - -", "? :"),
    *("!!int ''", "!!float x", "!!binary x", "!!set {a, b}", "!!python/name:os.system", "&a [*a]"),
    *('"\\U00110000"', '"\\ud800"', '"a\\0b"', "\x00", "\ufeff", "\u2028"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 1e308, 10**18, 10**30, float("nan"), float("inf")),
    *("", "x", "\0", "9" * 50, "\ud800", "float32", "F32", "I64"),
    *([], {}, [0], [None], {"x": 1}, [[[[]]]], [1, 2, 3]),
]
NPY = [
    *((b"<i8", b"<u8"), (b"<i8", b"<f8"), (b"<i8", b">i8"), (b"<u2", b"<i2"), (b"<u2", b"|O "), (b"<u2", b"<u4")),
    *((b"(", b"(-"), (b"(", b"(2,"), (b"(", b"(9"), (b"(", b"(99999999"), (b"False", b"True "), (b",)", b",9)")),
    *((b"{", b"["), (b"'shape'", b"'shapf'")),
]


def damaged_bytes(draw: random.Random, data: bytes) -> bytes:
    """Flip, cut, double, insert or exchange some bytes."""
    content = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at = draw.randrange(len(content) + 1)
        end = min(at + draw.choice([1, 1, 2, 8, 64, 1000]), len(content))
        match draw.randrange(7):
            case 0:
                if at < len(content):
                    content[at] ^= 1 << draw.randrange(8)
            case 1:
                del content[at:end]
            case 2:
                content[at:at] = content[at:end]
            case 3:
                content[at:at] = draw.randbytes(draw.choice([1, 2, 8, 64]))
            case 4:
                content[at:end] = bytes([draw.choice([0, 255, 10, 32, 128])]) * (end - at)
            case 5:
                del content[at:]
            case _:
                content[at:at] = draw.choice(STRANGE).encode("utf-8", "surrogatepass")
    return bytes(content)


def damaged_text(draw: random.Random, text: str) -> str:
    """Give some lines of YAML strange values, keys, places or indentation."""
    lines = text.split("\n")
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(lines))
        key, colon, _ = lines[at].partition(":")
        match draw.randrange(6):
            case 0 | 1:
                lines[at] = f"{key}{colon} {draw.choice(STRANGE)}"
            case 2:
                lines[at] = f"{draw.choice(STRANGE)}: {draw.choice(STRANGE)}"
            case 3:
                lines[at] = " " * draw.randrange(6) + lines[at].lstrip()
            case 4:
                lines.insert(draw.randrange(len(lines)), lines.pop(at))
            case _:
                lines[at] = draw.choice(STRANGE)
    return "\n".join(lines)


def damaged_value(draw: random.Random, value: Any) -> Any:  # noqa: PLR0911 (one for each kind of damage)
    """Replace, remove, rename or add one value somewhere inside a JSON value."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                return {(f"{name}x" if name == key else name): each for name, each in value.items()}
            case 2:
                return {**value, draw.choice(["", "x", "\0", key * 2]): draw.choice(VALUES)}
            case _:
                return {**value, key: damaged_value(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at = draw.randrange(len(value))
        match draw.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, draw.choice(VALUES)]
            case 2:
                return value[::-1]
            case _:
                return [*value[:at], damaged_value(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, int) and draw.random() < 0.5:
        return value + draw.choice([-1, 1, 2, -value, value, 1000])
    return draw.choice(VALUES)


def damaged_json(draw: random.Random, data: bytes) -> bytes:
    """Damage one value of a JSON text, or its bytes."""
    if draw.random() < 0.3:
        return damaged_bytes(draw, data)
    value = json.loads(data)
    for _ in range(draw.choice([1, 1, 2])):
        value = damaged_value(draw, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def damaged_safetensors(draw: random.Random, data: bytes) -> bytes:
    """Damage the header of a safetensors file and keep its length right, or some numbers, or any bytes."""
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], bytearray(data[8 + size :])
    match draw.randrange(5):
        case 0:
            return damaged_bytes(draw, data)
        case 1:  # numbers that are not finite or very large
            at = draw.randrange(max(len(body) - 8, 1)) // 4 * 4
            number = draw.choice([float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e30])
            body[at : at + 4] = struct.pack("<f", number)
        case 2:  # one tensor has another's name or shape
            value = json.loads(header)
            names = [name for name in value if name != "__metadata__"]
            if len(names) > 1:
                one, two = draw.sample(names, 2)
                value[one], value[two] = value[two], value[one]
            header = json.dumps(value).encode()
        case _:
            header = damaged_json(draw, header)
    return len(header).to_bytes(8, "little") + header + bytes(body)


def damaged_npy(draw: random.Random, data: bytes) -> bytes:
    """Damage the header of an npy file and keep its length, or some numbers, or any bytes."""
    start = data.index(b"\n") + 1
    match draw.randrange(3):
        case 0:
            return damaged_bytes(draw, data)
        case 1:
            body = bytearray(data[start:])
            for _ in range(draw.choice([1, 2, 10])):
                if body:
                    at = draw.randrange(len(body))
                    body[at] = draw.choice([0, 1, 127, 128, 255])
            return data[:start] + bytes(body)
        case _:
            old, new = draw.choice(NPY)
            return data[:start].replace(old, new) + data[start:]
