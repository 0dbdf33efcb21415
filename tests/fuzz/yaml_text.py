"""Damage to YAML that knows its structure: values of another kind or size, sections in another place, aliases, doubles.

`damaged_text` of `mutations` damages lines; here the file is read, one or more of its values are changed, and it is
written again in one of the many ways in which YAML can be written.
"""

import copy
import random
from typing import Any

import yaml

from fuzz.mutations import VALUES, damaged_value

# What is inside the bounds of some setting, or just outside: such a value goes further than nonsense does.
NUMBERS: list[Any] = [
    *(0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 47, 48, 49, 63, 64, 65, 100, 255, 256, 500, 501, 1000, 1001, -1, -2, -500),
    *(4096, 2**16 - 1, 2**16, 2**17, 2**17 + 1, 10**5, 10**6, 10**6 + 1, 2**20, 2**20 + 1, 2**31, 10**9, 10**9 + 1),
    *(2**63 - 1, 1e-300, 1e-38, 1e-8, 0.1, 0.5, 0.9, 0.999999999, 1.0, 1.5, 100.0, 1e6, 1e30, 1e38, -0.0, -1e-9),
    *(True, False, None),
]
CONTEXTS = ["memory", "transformer_xl", "compressive", "han", "g_transformer", "zheng", "selective"]
WORDS = [
    *("nothing", "train", "document", "full", "none", "base", "source", "target", "both", "pre", "post", "learned"),
    *("sinusoidal", "sinusoidal-fairseq", "norm", "add", "scaled", "muon", "adamw", "bleu", "float16", "float64"),
    *("int8", "window", "block", "*", "1", "1e-3", "yes", "NULL", "\ud83d", "name with\nnewline", "a/b", ".."),
    *("/dev/stdin", "tokens.*", "[", "\u202e"),
]
KINDS: list[Any] = [
    *({"kind": kind} for kind in (*CONTEXTS, "document", [], 1)),
    *({"kind": "window", "source": 3, "target": 2}, {"kind": "block", "sentences": 2, "tokens": 40}),
    *({"kind": "memory", "slots": 2**17}, {"kind": "transformer_xl", "memory_length": 10**9}),
]
KEYS = [1, None, True, 1.5, ("a", "b"), "extends", "kind"]
TAGS = ["!!str", "!!int", "!!float", "!!seq", "!!map", "!!set", "!!binary", "!!python/object:os.system", "!x"]


def damaged_yaml(draw: random.Random, text: str) -> bytes:
    """Return another YAML file: one that was valid stays valid YAML, mostly."""
    value = yaml.safe_load(text)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        value = _changed(draw, value)
    return _dressed(draw, _written(draw, value))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every section or list with each of its keys or numbers; those with an alias once."""
    found: list[tuple[Any, Any]] = []
    left, seen = [value], set()
    while left:
        each = left.pop()
        if isinstance(each, dict | list) and id(each) not in seen:
            seen.add(id(each))
            keys = list(each) if isinstance(each, dict) else range(len(each))
            found += [(each, key) for key in keys]
            left += [each[key] for key in keys]
    return found


def _changed(draw: random.Random, value: Any) -> Any:
    value = copy.deepcopy(value)
    places = _places(value)
    if not places:
        return draw.choice([*VALUES, *NUMBERS])
    (inside, key), (other, other_key) = draw.choice(places), draw.choice(places)
    match draw.randrange(10):
        case 0 | 1 | 2 | 3:
            inside[key] = draw.choice(NUMBERS)
        case 4:
            inside[key] = draw.choice([*WORDS, *KINDS, *([each] for each in WORDS[:4])])
        case 5:  # the same object at two places: an alias, perhaps of something that contains it
            inside[key] = other
        case 6:
            inside[key], other[other_key] = other[other_key], inside[key]
        case 7:
            if isinstance(inside, dict) and isinstance(other, dict):
                inside[draw.choice([str(other_key), *KEYS])] = other[other_key]
        case 8:
            inside[key] = [inside[key]] * draw.choice([0, 1, 2, 1000]) if draw.random() < 0.5 else {"x": inside[key]}
        case _:
            return damaged_value(draw, value)
    return value


def _written(draw: random.Random, value: Any) -> str:
    """Write a value in one of many styles; what cannot be written, as Python would."""
    style: dict[str, Any] = {
        "default_flow_style": draw.choice([False, False, True, None]),
        "default_style": draw.choice([None, None, None, None, '"', "'", "|", ">"]),
        "canonical": draw.random() < 0.05,
        "indent": draw.choice([2, 4, 9]),
        "width": draw.choice([1, 80, 10**6]),
        "allow_unicode": draw.random() < 0.5,
        "explicit_start": draw.random() < 0.2,
        "explicit_end": draw.random() < 0.1,
        "version": draw.choice([None, None, None, (1, 1), (1, 2)]),
        "tags": draw.choice([None, None, None, {"!": "!x"}, {"!e!": "tag:example.org,2000:"}]),
        "sort_keys": False,
    }
    try:
        return yaml.dump(value, Dumper=draw.choice([yaml.SafeDumper, yaml.SafeDumper, yaml.Dumper]), **style)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):  # numbers beyond reason, or itself inside itself
        return repr(value)[:100_000] if draw.random() < 0.5 else "a: &a\n  b: *a\n"


def _dressed(draw: random.Random, text: str) -> bytes:
    """Return the bytes, sometimes with marks, other line ends, keys that come twice, tags, or a second document."""
    if draw.random() < 0.7:
        return text.encode("utf-8", "surrogatepass")
    lines = text.split("\n")
    line = draw.choice(lines)
    key, colon, rest = line.partition(": ")
    tag = draw.choice(TAGS)
    changed = draw.choice(
        [
            "\ufeff" + text,
            text.replace("\n", "\r\n"),
            text.replace("\n", "\r"),
            f"{text}\n{line}\n",
            text + text,
            f"{text}\n---\n{text}",
            f"{text}...\n{text}",
            text.replace(line, f"{key}: {tag} {rest}", 1),
            text.replace(line, f"{key}: &a {rest}\nx: *a", 1),
            text.replace(line, f"{key}{colon}{rest} # \x07", 1),
            text.replace(line, f"? {key}\n: {rest}", 1),
            text.replace(line, f"{key}: {_endless(draw)}", 1),
            text.replace(line, f"{key}: {_endless(draw)}", 1),
            text.replace("  ", "\t", 1),
            text.replace(line, f"{line[: len(line) - len(line.lstrip())]}<<: *a\n{line}", 1),
            text.replace("\n", "\n\n" * 500, 1),
            "# " + "x" * 150_000 + "\n" + text,
        ]
    )
    return changed.encode(draw.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig"]), "surrogatepass")


def _endless(draw: random.Random) -> str:
    """Return a value whose aliases grow without end: a list in itself, or lists of the list before them."""
    copies, levels = draw.choice([2, 9, 100]), draw.choice([2, 5, 30])
    if draw.random() < 0.3:
        return draw.choice(["&a [*a]", "&a {b: *a}", "&a {kind: memory, layers: [*a]}", "{? &a [*a] : 1}"])
    if draw.random() < 0.5:
        lists = ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * copies)}]" for i in range(1, levels))
        return f"[&a0 [x], {lists}]"
    sections = ", ".join(
        f"k{i}: &a{i} {{{', '.join(f'x{j}: *a{i - 1}' for j in range(copies))}}}" for i in range(1, levels)
    )
    return f"{{k0: &a0 {{x: 1}}, {sections}}}"
