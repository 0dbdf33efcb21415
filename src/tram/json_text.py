"""Reading of JSON; whatever is wrong with a text, the error is a ValueError."""

import json
from collections import Counter
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON text; whatever is wrong with it, deep nesting too, is a ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_once_each)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse a key that appears twice, of which `json` would silently drop the first value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} appears twice")
    return values
