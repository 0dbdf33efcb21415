"""Two models on the same suite: the difference of their shares, paired by item, with an interval over documents.

    differences = compare_suites(read_results("memory.json"), read_results("control.json"))
    print(differences_table(differences))

Input are the files that `tram contrast --json` writes. An item that one of the models leaves unjudged is left out for
both.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tram.errors import InputError
from tram.evaluation.shares import by_document
from tram.evaluation.significance import SAMPLES, SEED, Resampling, interval, p_value


@dataclass(frozen=True)
class ShareDifference:
    """A share minus the baseline's, over the items that both models have; None where nothing can be drawn."""

    items: int
    value: float
    baseline: float
    difference: float
    low: float | None
    high: float | None
    p: float | None


def read_results(path: Path | str) -> dict[str, Any]:
    """Read what `tram contrast --json` wrote."""
    try:
        value = json.loads(Path(path).read_text("utf-8"))
        if isinstance(value, dict) and isinstance(value.get("items"), list):
            return value
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; write it with `tram contrast SUITE --json`") from None
    except (OSError, ValueError):
        pass
    raise InputError(f"{path}: is no result of `tram contrast`; write it with `tram contrast SUITE --json`")


def compare_suites(
    results: Mapping[str, Any], baseline: Mapping[str, Any], documents: Sequence[str | None] | None = None
) -> dict[str, ShareDifference]:
    """Compare two models with the items' own context: shares of right items and, where asked for, of right forms.

    documents: where each item is from, in the order of the suite.
    """
    own, other = judgements(results), judgements(baseline)
    sizes = {len(found) for found in (*own.values(), *other.values())}
    if len(sizes) > 1 or not own.keys() & other.keys():
        raise InputError("the two results are not of one suite; run `tram contrast` on the same suite with both models")
    return {name: difference(own[name], other[name], documents) for name in own if name in other}


def judgements(results: Mapping[str, Any]) -> dict[str, list[bool | None]]:
    """Return for each item whether it is right after its own context, None if unjudged; also its form of address."""
    items = results["items"]
    found = {"right": [_own(item["right"]) for item in items]}
    if any(item.get("expected_form") for item in items):
        found["form"] = [
            None if (shown := _own(item["forms"])) is None else shown == item["expected_form"] for item in items
        ]
    return found


def _own(value: Any) -> Any:
    """Return the entry of the own context, if there are several."""
    return value.get("own") if isinstance(value, Mapping) else value


def difference(
    own: Sequence[bool | None], baseline: Sequence[bool | None], documents: Sequence[str | None] | None = None
) -> ShareDifference:
    """Compare the judgements of two models on the same items."""
    places = documents or [None] * len(own)
    rows = [
        (place, [float(right), float(control), 1.0])
        for place, right, control in zip(places, own, baseline, strict=True)
        if right is not None and control is not None
    ]
    if not rows:
        raise InputError("no item is judged for both models; give a larger suite")
    counts = by_document(rows)
    first, second, items = counts.sum(axis=0)
    low = high = p = None
    if len(counts) > 1:
        sums = Resampling(len(counts), SAMPLES, SEED).sums(counts)
        drawn = (sums[:, 0] - sums[:, 1]) / sums[:, 2]
        (low, high), p = interval(drawn), p_value(drawn)
    return ShareDifference(int(items), first / items, second / items, (first - second) / items, low, high, p)


def differences_table(differences: Mapping[str, ShareDifference]) -> str:
    """Return a line for each share that two models can be compared by."""
    lines = ["minus the baseline, own context, points [95% interval over documents]", ""]
    for name, found in differences.items():
        values = f"{100 * found.value:.1f} - {100 * found.baseline:.1f} = {100 * found.difference:+.1f}"
        if found.low is not None and found.high is not None:
            values += f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}], p = {found.p:.3f}"
        lines.append(f"{name:<8}{found.items:>6,} items  {values}")
    return "\n".join(lines)


def differences_json(differences: Mapping[str, ShareDifference]) -> dict[str, Any]:
    """Return all of it for JSON."""
    return {name: asdict(found) for name, found in differences.items()}
