"""Comparison of two models on the same suite: the difference of their shares, paired by item, with intervals.

    differences = compare_suites(read_results("memory.json"), read_results("control.json"))
    print(differences_table(differences))

The input is files written by `tram contrast --json`. Items that are unjudged for one of the models are left out for
both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError, field_validator

from tram.errors import InputError
from tram.evaluation.address import SHARES
from tram.evaluation.shares import Formula, by_document
from tram.evaluation.significance import SAMPLES, SEED, Resampling, Values, interval, p_value
from tram.files import read_json


@dataclass(frozen=True)
class ShareDifference:
    """A share minus the baseline's, over the items (or documents) of both; None where resampling is not possible."""

    items: int
    value: float
    baseline: float
    difference: float
    low: float | None
    high: float | None
    p: float | None


class _Judged(BaseModel):
    """What a comparison reads of an item: judgements, or one for each kind of context."""

    right: bool | dict[str, bool | None] | None
    expected_form: str | None = None
    forms: str | dict[str, str | None] | None = None


class _Results(BaseModel):
    items: list[_Judged]
    suite_fingerprint: str | None = None  # of its items; missing in results of earlier versions
    context: str | None = None


Count = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class _Counts(BaseModel):
    counts: dict[str, list[list[Count]]]  # a row for each document

    @field_validator("counts")
    @classmethod
    def _are_tables(cls, counts: dict[str, list[list[float]]]) -> dict[str, list[list[float]]]:
        if not counts.keys() >= {rows for rows, _ in SHARES.values()}:
            raise ValueError("lacks counts")
        if any(len(set(map(len, rows))) > 1 for rows in counts.values()):
            raise ValueError("has rows of different lengths")
        return counts


class _Address(BaseModel):
    own: _Counts


class _Measures(BaseModel):
    address: _Address


class _Evaluation(BaseModel):
    measures: _Measures
    documents: str | None = None  # fingerprint of the sources and references; missing in results of earlier versions


def read_results(path: Path | str, about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read a result of `tram contrast --json`.

    about: `suite_fingerprint` and `context` of the result that it is to be compared with; refuse another suite, or the
    judgements of another context.
    """
    value = _read_json(path, "tram contrast SUITE --json")
    if not _fits(value, _Results):
        raise InputError(f"{path}: is not a result of `tram contrast`; write it with `tram contrast SUITE --json`")
    if about is not None:
        if _differ(value.get("suite_fingerprint"), about["suite_fingerprint"]):
            raise InputError(f"{path}: is a result on another suite; run `tram contrast` on one suite with both models")
        # With all contexts, the judgement of an item is that with its own one.
        contexts = ["own" if each == "all" else each for each in (value.get("context"), about["context"])]
        if _differ(*contexts):
            raise InputError(
                f"{path}: is a result with the context `{contexts[0]}`, not `{contexts[1]}`; "
                "run `tram contrast` with the same --context for both models"
            )
    return dict(value)


def read_address(path: Path | str, documents: str | None = None) -> dict[str, Any]:
    """Read the form of address from a result of `tram evaluate --json`.

    documents: the fingerprint of the sources and references, to refuse a result on others.
    """
    value = _read_json(path, "tram evaluate SOURCE REFERENCE --json")
    if _fits(value, _Evaluation):
        if _differ(value.get("documents"), documents):
            raise InputError(f"{path}: is a result on other documents; evaluate both models on the same files")
        return dict(value["measures"]["address"])
    raise InputError(f"{path}: has no form of address; write it with `tram evaluate --measures address --json`")


def _fits(value: Any, kind: type[BaseModel]) -> bool:
    try:
        kind.model_validate(value, strict=True)
    except ValidationError:
        return False
    return True


def _differ(one: str | None, other: str | None) -> bool:
    """Return whether two results say that they are about different things; those of earlier versions do not say it."""
    return None not in (one, other) and one != other


def _read_json(path: Path | str, command: str) -> Any:
    try:
        return read_json(Path(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; write it with `{command}`") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); write it again with `{command}`") from None


def compare_suites(
    results: Mapping[str, Any], baseline: Mapping[str, Any], documents: Sequence[str | None] | None = None
) -> dict[str, ShareDifference]:
    """Compare two models with the items' own context: shares of correct items and, if available, of correct forms.

    documents: the document of each item, in the order of the suite.
    """
    own, other = judgements(results), judgements(baseline)
    sizes = {len(judged) for judged in (*own.values(), *other.values())}
    if len(sizes) > 1 or not own.keys() & other.keys():
        raise InputError("the two results are not of one suite; run `tram contrast` on the same suite with both models")
    return {name: difference(own[name], other[name], documents) for name in own if name in other}


def judgements(results: Mapping[str, Any]) -> dict[str, list[bool | None]]:
    """Return, for each item, whether it is correct with its own context (None: unjudged); also its form of address.

    form: whether a translation shows the expected form; form if shown: the same, None if it shows no form.
    """
    items = results["items"]
    judged = {"right": [_own(item["right"]) for item in items]}
    if any(item.get("expected_form") for item in items):
        shown = [_own(item.get("forms")) for item in items]
        expected = [item.get("expected_form") for item in items]
        right = [form == each for form, each in zip(shown, expected, strict=True)]
        judged["form"] = [None if form is None else each for form, each in zip(expected, right, strict=True)]
        judged["form if shown"] = [None if form is None else each for form, each in zip(shown, right, strict=True)]
    return judged


def _own(value: Any) -> Any:
    """Return the entry of the item's own context, if there are several."""
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


def compare_address(own: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, ShareDifference]:
    """Compare the form of address of two models on the same documents, from results of `tram evaluate --json`."""
    differences = {}
    for name, (rows, formula) in SHARES.items():
        first, second = (np.asarray(value["own"]["counts"][rows], dtype=np.float64) for value in (own, baseline))
        if first.shape != second.shape:
            raise InputError("the two results are not of the same documents; evaluate both models on the same files")
        compared = _paired(first, second, formula)
        if compared is not None:
            differences[name] = compared
    return differences


def _paired(first: Values, second: Values, formula: Formula) -> ShareDifference | None:
    """Compare a share of two models. first, second: (documents, statistics), of the same documents."""
    size = first.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        value, control = float(formula(first.sum(axis=0))), float(formula(second.sum(axis=0)))
        if np.isnan(value) or np.isnan(control):
            return None
        sums = Resampling(len(first), SAMPLES, SEED).sums(np.hstack([first, second]))
        drawn = formula(sums[:, :size]) - formula(sums[:, size:])
    drawn = drawn[~np.isnan(drawn)]
    (low, high), p = interval(drawn), p_value(drawn)
    return ShareDifference(len(first), value, control, value - control, low, high, p)


def differences_table(differences: Mapping[str, ShareDifference], unit: str = "items") -> str:
    """Return a table with a line for each share; unit: what was counted."""
    lines = ["minus the baseline, own context, points [95% interval over documents]", ""]
    for name, each in differences.items():
        values = f"{100 * each.value:.1f} - {100 * each.baseline:.1f} = {100 * each.difference:+.1f}"
        if each.low is not None and each.high is not None:
            values += f" [{100 * each.low:+.1f}, {100 * each.high:+.1f}], p = {each.p:.3f}"
        lines.append(f"{name:<12}{each.items:>6,} {unit}  {values}")
    return "\n".join(lines)


def differences_json(differences: Mapping[str, ShareDifference]) -> dict[str, Any]:
    """Return the differences as values that `json` can write."""
    return {name: asdict(each) for name, each in differences.items()}
