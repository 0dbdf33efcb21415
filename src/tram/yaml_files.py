"""Reading of small YAML files; whatever is wrong with a file, the error is an InputError.

values = read_yaml(Path("config.yaml"))
"""

import reprlib
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from tram.errors import InputError
from tram.files import readable_file, reading

MAX_YAML = 200_000  # characters
MAX_BITS = 4096  # of an integer
MAX_EXPANDED = 1_000_000  # characters and values with every alias written out; no file without aliases has so many
FAILURES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)  # of PyYAML itself, for odd values


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file contains."""
    try:
        with reading(path), readable_file(path).open(encoding="utf-8") as file:
            text = file.read(MAX_YAML + 1)
        if len(text) > MAX_YAML:
            raise InputError(f"{path}: is longer than {MAX_YAML:,} characters; give a YAML config")
        values = parse_yaml(text)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give the path of a YAML config") from None
    except ValueError as error:
        raise InputError(f"{path}: cannot be read as text ({error}); give a YAML config") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise InputError(f"{path}:{line}: is not valid YAML ({yaml_problem(error)}); correct that line") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: contains no settings; give a YAML file with `key: value` lines")
    return values


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without huge integers, duplicate keys, and merge keys (`<<`) and aliases that grow."""

    def compose_document(self) -> yaml.Node | None:
        """Return the node of a document; refuse aliases that expand without end, or to far more than a file has."""
        node = super().compose_document()
        if node is not None:
            _expanded_size(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node; say where it is if PyYAML itself fails, as for 2026-11-31, 0x_ and !!int ''."""
        try:
            return super().construct_object(node, deep)
        except FAILURES:
            kind = node.tag.rpartition(":")[2]
            problem = f"a value that cannot be read as {short(kind)}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return an integer; refuse one that Python cannot print, because pydantic would print it in its messages."""
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > MAX_BITS:
            problem = f"an integer of {value.bit_length():,} bits, which is too large"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return value

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse `<<`, and a key that appears twice: PyYAML would silently drop the first of its values."""
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.MarkedYAMLError(problem="`<<` is not supported, use `extends`", problem_mark=key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    problem = f"the key `{short(key.value)}` appears twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))


def _expanded_size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Return how many characters and values a node has with its aliases written out; sizes: of nodes seen before."""
    if id(node) not in sizes:
        sizes[id(node)] = None  # until its parts are counted
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        of_text = isinstance(node, yaml.ScalarNode)
        sizes[id(node)] = 1 + (len(node.value) if of_text else sum(_expanded_size(part, sizes) for part in parts))
    size = sizes[id(node)]
    if size is None:
        raise yaml.MarkedYAMLError(problem="an alias of the value that it is part of", problem_mark=node.start_mark)
    if size > MAX_EXPANDED:
        raise yaml.MarkedYAMLError(problem="aliases that repeat too many values", problem_mark=node.start_mark)
    return size


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text; raise a YAMLError with a mark whatever is wrong with it."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        mark = yaml.Mark("", error.position, text.count("\n", 0, error.position), 0, None, 0)
        raise yaml.MarkedYAMLError(problem=f"it contains U+{error.character:04X}", problem_mark=mark) from None
    try:
        return loader.get_single_data()
    except RecursionError:
        raise yaml.MarkedYAMLError(problem="values nested too deeply", problem_mark=loader.get_mark()) from None
    except FAILURES:
        raise yaml.MarkedYAMLError(problem="no such character", problem_mark=loader.get_mark()) from None


def yaml_problem(error: yaml.YAMLError) -> str:
    """Return what is wrong with a YAML text in a few words."""
    problem, context = (str(getattr(error, name, None) or "") for name in ("problem", "context"))
    whole = context and not context.startswith("while")  # then the problem alone is only its second half
    return short(context.partition(";")[0] if whole else problem)


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxset = 2, 4, 4, 4, 4
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 80, 80, 40


def short_repr(value: Any) -> str:
    """Return the repr of a value, shortened if it is long."""
    return _SHORT.repr(value)


def short(value: Any) -> str:
    """Return a value for an error message, shortened if it is long: a string as it is, other values as their repr."""
    if not isinstance(value, str):
        return short_repr(value)
    return value if len(value) <= 200 else f"{value[:100]}…{value[-50:]}"
