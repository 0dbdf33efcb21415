"""Random damage: to bytes, to YAML and JSON values, to what is at a path at all."""

import glob
import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

NUMBERS = "-1 0 1 2 1e9 1e400 -1e400 .nan nan NaN .inf Infinity null ~ true no '' [] {} [[[]]] 0x_ 0o9 1_000 1:60"
SIGNS = "2026-11-31 2026-11-30 *a << ../../x / . | > % @ ` --- ... # F64 BF16 F8_E4M3 é"
STRANGE = [
    *NUMBERS.split(" "),
    *SIGNS.split(" "),
    *('""', "{a: {b: c}}", "10000000000000000000000", "9" * 5000, "a" * 300, "[" * 1000, "{" * 1000, "- - -", "? :"),
    *("!!int ''", "!!float x", "!!binary x", "!!set {a, b}", "!!python/name:os.system", "&a [*a]", "!!omap [a: 1]"),
    *('"\\U00110000"', '"\\ud800"', '"a\\0b"', "\x00", "\ufeff", "\u2028", "\x1b[2J", "\x85", "\t", "\r"),
    *("0x" + "f" * 5000, "0b" + "1" * 20000, "0" + "7" * 5000, "59:" * 3000 + "59", "-0.0", "5e-324", "1e308"),
    *("18446744073709551616", "9223372036854775807", "-9223372036854775809", "1.0e+9", "0.1e1", "1_0.5_0"),
    *("!!timestamp x", "!!bool x", "!!null x", "!!str {}", "!!map []", "!!seq {}", "!!pairs [a: 1]", "! a", "!<x> a"),
    *(
        "%YAML 9.9\n---",
        "%TAG ! x:\n---",
        "--- a\n--- b",
        "{? a}",
        "{a, a: 1}",
        "[a: 1, b]",
        "? [a, b]\n: c",
        "{[a]: b}",
    ),
    *("/dev/zero", "/dev/null", "config.yaml", "base.yaml", "~", "~root/x", "file:///x", "-", "con", "a" * 100_000),
    *("{x: &b [0, 0], y: *b}", "{&a a: *a}", "<<: {seed: 1}", "{<<: [{a: 1}, {b: 2}]}", "𝔘𝔫𝔦", "ｓｅｅｄ", "٣", "１２"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 1e308, 5e-324, 10**18, 10**30, float("nan"), float("inf")),
    *(2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 1e-300),
    *("", "x", "\0", "9" * 50, "\ud800", "float32", "F32", "I64", "../x", "é", "\n", "x" * 5000, "nan", "1"),
    *([], {}, [0], [None], {"x": 1}, [[[[]]]], [1, 2, 3], ["\ud800"], {"": {}}, {"\ud800": 1}, [[0] * 50] * 50),
]
STRANGE_NAMES = [
    *("b\nad", "b\udcffad", " bad ", "b\x1b[2Jad", "ünï ✓", "{bad}", "%s", "b\\ad", "[b]*?", "bad.json", "b'\"ad"),
    *("😀", "a" * 200, "bad\u202e", "b\rad", "bad\t", "~", "$HOME", "nothing", "model.safetensors"),
]


def alias_bomb(draw: random.Random) -> str:
    """Return a few lines of YAML that would be very long if they were written out."""
    fold = draw.choice(["[{0}]", "{{{0}}}"])
    lines = ["a0: &a0 [x, x]" if fold[0] == "[" else "a0: &a0 {x: 1}"]
    for number in range(1, draw.choice([5, 30])):
        names = ", ".join(f"*a{number - 1}" if fold[0] == "[" else f"k{i}: *a{number - 1}" for i in range(9))
        lines.append(f"a{number}: &a{number} {fold.format(names)}")
    key = draw.choice(["train", "finetune", "seed", "model", "freeze", "x"])
    return "\n".join((*lines, f"{key}: *a{len(lines) - 1}"))


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


ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "cp037", "utf-7", "cp1252")
LINE_ENDS = ("\r\n", "\r", "\x85", "\u2028", "\n\n", "\n\0", "\x0b", "")


def re_encoded(draw: random.Random, data: bytes) -> bytes:
    """Write a whole text in another encoding, or with other line ends."""
    text = data.decode("utf-8", "replace")
    if draw.random() < 0.5:
        return text.encode(draw.choice(ENCODINGS), "replace")
    return text.replace("\n", draw.choice(LINE_ENDS)).encode()


def damaged_text(draw: random.Random, text: str) -> str:
    """Give some lines of YAML strange values, keys, places or indentation."""
    if draw.random() < 0.02:
        return f"{text}\n{alias_bomb(draw)}\n"
    lines = text.split("\n")
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(lines))
        key, colon, _ = lines[at].partition(":")
        match draw.randrange(7):
            case 0 | 1:
                lines[at] = f"{key}{colon} {draw.choice(STRANGE)}"
            case 2:
                lines[at] = f"{draw.choice(STRANGE)}: {draw.choice(STRANGE)}"
            case 3:
                lines[at] = " " * draw.randrange(6) + lines[at].lstrip()
            case 4:
                lines.insert(draw.randrange(len(lines)), lines.pop(at))
            case 5:
                lines.insert(draw.randrange(len(lines)), lines[at])
            case _:
                lines[at] = draw.choice(STRANGE)
    return "\n".join(lines)


def damaged_value(draw: random.Random, value: Any) -> Any:  # noqa: PLR0911, PLR0912 (one for each kind of damage)
    """Replace, remove, rename or add one value somewhere inside a JSON value."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        other = draw.choice(list(value))
        match draw.randrange(9):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                return {(f"{name}x" if name == key else name): each for name, each in value.items()}
            case 2:
                return {**value, draw.choice(["", "x", "\0", str(key) * 2]): draw.choice(VALUES)}
            case 3:
                return {**value, key: value[other], other: value[key]}
            case _:
                return {**value, key: damaged_value(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at, other = draw.randrange(len(value)), draw.randrange(len(value))
        match draw.randrange(10):
            case 3:  # the order of merges, for example
                return draw.sample(value, len(value))
            case 4:
                return [value[other if n == at else at if n == other else n] for n in range(len(value))]
            case 5:
                return value[:at] + value[at:] * draw.choice([2, 2, 100])
            case 6:
                return [*value[:at], value[other], *value[at + 1 :]]
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, draw.choice(VALUES)]
            case 2:
                return value[::-1]
            case _:
                return [*value[:at], damaged_value(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value and draw.random() < 0.5:
        at = draw.randrange(len(value))
        return value[:at] + draw.choice(["", " ", "\0", "\ud800", value[:at], "é", "\n"]) + value[at + 1 :]
    if isinstance(value, int) and draw.random() < 0.5:
        return value + draw.choice([-1, 1, 2, -value, value, 1000])
    return draw.choice(VALUES)


def damaged_json(draw: random.Random, data: bytes) -> bytes:
    """Damage one value of a JSON text, its text or its bytes."""
    match draw.randrange(10):
        case 0 | 1:
            return damaged_bytes(draw, data)
        case 2:
            return _strange_json(draw, data)
        case _:
            value = json.loads(data)
            for _ in range(draw.choice([1, 1, 2])):
                value = damaged_value(draw, value)
            return json.dumps(value, ensure_ascii=draw.random() < 0.9).encode("utf-8", "surrogatepass")


def _strange_json(draw: random.Random, data: bytes) -> bytes:
    """Return JSON text of which programs differ in what they make: doubled keys, nesting, numbers, marks."""
    text = data.decode()
    at = draw.randrange(len(text) + 1)
    depth = draw.choice([100, 5000, 100_000])
    inserted = draw.choice(
        [
            "[" * depth,
            '{"a":' * depth,
            "1" + "0" * 5000,
            "1e400",
            "-",
            "NaN",
            '"\\ud800"',
            '"\\u0000"',
            "//",
            ",",
            "\ufeff",
        ]
    )
    value = json.loads(data)
    return draw.choice(
        [
            text[:at] + inserted + text[at:],
            "[" * depth + text + "]" * depth,
            "\ufeff" + text,
            text + text,
            text.replace("{", '{"version": 1, "version": [], ', 1),
            text.replace(":", f": {inserted}, ", 1) if isinstance(value, dict) else inserted,
            text.replace(":", ": " + "[" * depth + "]" * depth + ', "z":', 1),
            " " * depth,
            "null",
        ]
    ).encode(draw.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32"]), "surrogatepass")


def misplaced_folder(draw: random.Random, path: Path) -> None:
    """Put something else where a folder is, or hide it, or give it another name."""
    match draw.randrange(7):
        case 0:
            shutil.rmtree(path)
        case 1:
            shutil.rmtree(path)
            path.write_bytes(draw.choice([b"", b"{}", b"x"]))
        case 2:
            shutil.rmtree(path)
            path.symlink_to(draw.choice([path.name, "no such folder", "/dev/zero", "/dev/null", "/proc/self", ".."]))
        case 3:
            shutil.rmtree(path)
            os.mkfifo(path)
        case 4:
            shutil.rmtree(path)
            path.mkdir()
        case 5:
            path.chmod(0)
        case _:
            renamed = path.with_name(draw.choice([path.name + "x", path.name.lstrip("0") or "0", "9" * 30, "٣"]))
            if renamed != path:
                shutil.rmtree(renamed, ignore_errors=True)  # of an earlier case
                path.rename(renamed)


def cluttered(draw: random.Random, folder: Path, files: list[Path]) -> None:
    """Add something that does not belong into a folder, under a name that may be mistaken for what does."""
    other = draw.choice(files)
    number = draw.choice(["99999999", "00000099", "00000000", "4", "00000004", "９", "1" * 200])
    path = folder / draw.choice(
        [
            *(
                number,
                f"{other.name}.tmp",
                f".{other.name}.0123456789abcdef.tmp",
                f".{number}.tmp",
                f"{number}.damaged",
            ),
            *(f"x{other.suffix}", other.name.upper(), ".", "adapter.safetensors", "data.json", "\udcff", " ", "\n"),
        ]
    )
    if path.exists():
        return
    match draw.randrange(6):
        case 0:
            path.mkdir()
        case 1:
            path.write_bytes(b"")
        case 2:
            path.write_bytes(other.read_bytes())
        case 3:
            os.mkfifo(path)
        case 4:
            path.symlink_to(draw.choice(["/dev/zero", path.name, str(folder), str(other)]))
        case _:
            shutil.copytree(other.parent, path, ignore=shutil.ignore_patterns(glob.escape(path.name)))  # not itself


def misplaced(draw: random.Random, path: Path, others: list[Path], endless: tuple[str, ...]) -> None:
    """Put something else where a file is: nothing, a folder, a link, a device, another file, or something endless."""
    small = [each for each in others if each.is_file() and each.stat().st_size < 1 << 24]
    other = draw.choice([each for each in small if each.stat().st_mode & 0o400])

    def link(target: Path | str) -> Callable[[], None]:
        return lambda: path.symlink_to(target)

    def listen() -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))

    ways: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "empty": path.touch,
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "loop": link(path.name),
        "link to nothing": link("no such file"),
        "link to a folder": link("."),
        "link to another": link(other),
        "/dev/zero": link("/dev/zero"),
        "/dev/null": link("/dev/null"),
        "another": lambda: path.write_bytes(content),
        "huge": lambda: os.truncate(path, 1 << 42),
        "unreadable": lambda: (path.write_bytes(data), path.chmod(0)),
        "zeros": lambda: path.write_bytes(b"\0" * draw.choice([1, 8, 100, 4096])),
        "below": lambda: (path.mkdir(), (path / path.name).write_bytes(data)),
    }
    if len(str(path)) < 100:
        ways["socket"] = listen
    name = draw.choice([name for name in ways if name not in {"pipe", "huge"} or name in endless])
    data, content = path.read_bytes(), other.read_bytes()
    path.unlink()
    if name == "huge":
        path.write_bytes(data)
    ways[name]()
