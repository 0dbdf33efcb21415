"""The paper's figure on convergence: training loss for several optimisation windows (sentences between two updates).

    window([Path("runs/window-1"), Path("runs/window-20")]).write(Path("analysis"))     # runs of `tram train`
    window(train_windows(recipe, ["1", "20", "document"]))                              # or trained here

The paper says that larger windows converge faster and more stably. An update of a larger window also sees more tokens;
so the loss is shown against tokens, too, and the spread is given both as it is and corrected for that.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.analysis.trainings import Recipe, Variant, Window, train_all
from tram.config import Config, checked, read_yaml
from tram.errors import InputError
from tram.evaluation.significance import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Training loss by optimisation window"
WINDOWS = ("1", "5", "10", "20", "document")
SMOOTH = 25  # logged losses in a running mean


@dataclass(frozen=True)
class Curve:
    """The losses of one run. updates, tokens, loss: (points,) each; tokens: of the target, since the start."""

    name: str
    folder: Path
    updates: Values
    tokens: Values
    loss: Values  # nats per target token, without label smoothing

    @property
    def tokens_per_update(self) -> float:
        """Mean number of target tokens that make an update."""
        return float(self.tokens[-1] / self.updates[-1])


@dataclass(frozen=True)
class Steadiness:
    """What the last half of a run's updates shows."""

    loss: float  # mean
    spread: float  # standard deviation around the running mean
    spread_per_token: float  # that, times the root of the tokens of an update


def read_curve(run: Path) -> Curve:
    """The losses of the finetuning stage of a run, and its window."""
    path = run / "finetune" / "metrics.jsonl"
    config = checked(Config, read_yaml(run / "config.yaml"), str(run / "config.yaml"))
    if config.finetune is None:
        raise InputError(f"{run / 'config.yaml'}: has no finetune stage, so it has no window; give a run that has one")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; give the output folder of a `tram train` with finetuning")
    keys = ("update", "tokens", "nll")
    rows = [
        row for row in read_metrics(path) if row.keys() >= set(keys)
    ]  # the others are looks at the held-out documents
    if len(rows) < 2:
        raise InputError(f"{path}: has too few losses for a curve ({len(rows)}); train with a smaller log_every")
    columns = [np.array([row[key] for row in rows], dtype=np.float64) for key in keys]
    return Curve(window_name(config.finetune.window), run, *columns)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            raise InputError(
                f"{path}:{number}: is no JSON; remove this line, which a kill may have cut short"
            ) from None
    return found


def last_update(stage: Path) -> dict[str, Any]:
    """What a stage's metrics.jsonl says of its last logged update: how many there were, their tokens and seconds."""
    return [line for line in read_metrics(stage / "metrics.jsonl") if "seconds" in line][-1]


def window_name(window: Window) -> str:
    """A window in words; a range of one number is that number."""
    if window == "document":
        return "full document"
    least, most = window
    return str(least) if least == most else f"{least} to {most}"


def parse_window(text: str) -> Window:
    """`5` → a window drawn from 1 to 5, as in the paper; `document` → the whole document."""
    if text == "document":
        return "document"
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"window `{text}`: give a number of sentences from 1 on, or `document`")
    return 1, int(text)


def train_windows(recipe: Recipe, windows: Sequence[str]) -> list[Path]:
    """The folders of a run for each window; those that are missing are trained first."""
    need_matplotlib()  # before an hour of training
    memory = recipe.start_model.memory or recipe.memory()
    chosen = [parse_window(text) for text in windows]
    usual = recipe.settings.window  # so that this run is the one the other analyses train
    variants = [Variant(memory, None if each == usual else each) for each in chosen]
    train_all(recipe, variants)
    return [recipe.folder(variant) for variant in variants]


def running_mean(values: Values, width: int) -> Values:
    """Mean of the values up to half of `width` before and behind each one; at the ends, of those that are there."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places, reach = np.arange(len(values)), (width - 1) // 2
    first, end = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(values))
    means: Values = (sums[end] - sums[first]) / (end - first)
    return means


def steadiness(curve: Curve, smooth: int = SMOOTH) -> Steadiness:
    """How far the losses of the last half of the updates lie from their running mean."""
    late = curve.updates > curve.updates[-1] / 2
    # At the very end the mean is one-sided: on a falling curve that would pass for spread.
    inside = late & (np.arange(len(late)) < len(late) - (smooth - 1) // 2)
    away = (curve.loss - running_mean(curve.loss, smooth))[inside if inside.any() else late]
    spread = float(np.sqrt(np.mean(away**2)))
    return Steadiness(float(curve.loss[late].mean()), spread, spread * math.sqrt(curve.tokens_per_update))


def loss_within(curve: Curve, tokens: float) -> float:
    """Mean loss over the second half of the first so many target tokens; of the first update if it has more."""
    inside = (curve.tokens > tokens / 2) & (curve.tokens <= tokens)
    return float(curve.loss[inside].mean() if inside.any() else curve.loss[0])


def window(runs: Sequence[Path], smooth: int = SMOOTH) -> Report:
    """Compare runs that differ in their window."""
    need_matplotlib()
    if not runs:
        raise InputError("no run was given: name folders of `tram train`, or train them with --train")
    if smooth < 1:
        raise InputError(f"smooth {smooth}: give 1 or more losses for the running mean")
    curves = [read_curve(run) for run in runs]
    steady = [steadiness(curve, smooth) for curve in curves]
    common = min(curve.tokens[-1] for curve in curves)
    rows = [
        {
            "window": curve.name,
            "run": str(curve.folder),
            "updates": int(curve.updates[-1]),
            "tokens_per_update": curve.tokens_per_update,
            "last_half": vars(each),
            "loss_within_common_tokens": loss_within(curve, common),
            "curve": {"update": curve.updates.tolist(), "tokens": curve.tokens.tolist(), "loss": curve.loss.tolist()},
        }
        for curve, each in zip(curves, steady, strict=True)
    ]
    numbers = {"smooth": smooth, "common_tokens": int(common), "runs": rows}
    return Report("window", TITLE, numbers, describe(curves, steady, smooth), lambda: draw(curves, smooth))


def describe(curves: list[Curve], steady: list[Steadiness], smooth: int) -> str:
    """What is seen, a table, and how it was computed."""
    common = min(curve.tokens[-1] for curve in curves)
    reached = [loss_within(curve, common) for curve in curves]
    header = ["window", "updates", "target tokens per update", "loss, last half", "spread, last half",
              "spread × √tokens", f"loss within {common:,.0f} tokens"]  # fmt: skip
    rows = [
        [curve.name, f"{curve.updates[-1]:,.0f}", f"{curve.tokens_per_update:,.0f}", f"{each.loss:.3f}",
         f"{each.spread:.3f}", f"{each.spread_per_token:.2f}", f"{loss:.3f}"]
        for curve, each, loss in zip(curves, steady, reached, strict=True)
    ]  # fmt: skip
    lines = []
    if len(curves) > 1:
        lines = [
            f"Window with the lowest loss in the last half of the updates: {_least(curves, [s.loss for s in steady])}.",
            f"With the smallest spread: {_least(curves, [s.spread for s in steady])}; corrected for the number of "
            f"tokens: {_least(curves, [s.spread_per_token for s in steady], 2)}.",
            f"Within the same number of target tokens ({common:,.0f}, what every run has seen) the lowest loss is that "
            f"of {_least(curves, reached)}.",
        ]
    if len({curve.updates[-1] for curve in curves}) > 1:
        lines.append("The runs have different numbers of updates, so their last halves are not the same updates.")
    return "\n\n".join([
        " ".join(lines),
        markdown_table(header, rows),
        "Method: training loss in nats per target token, without label smoothing, as logged in "
        f"`finetune/metrics.jsonl`. The lines are running means of {smooth} logged losses, the bands one standard "
        "deviation around them. Spread is the root mean square distance of a loss from the running mean in the last "
        "half of the updates. The loss of an update over more tokens varies less whatever the model learns: if that "
        "were the only reason, spread × √tokens would be the same everywhere. The loss within N tokens is the mean "
        "over the second half of the first N tokens. One run each.",
    ]).strip()  # fmt: skip


def _least(curves: list[Curve], values: list[float], digits: int = 3) -> str:
    best = min(range(len(values)), key=values.__getitem__)
    return f"{curves[best].name} ({values[best]:.{digits}f})"


def draw(curves: list[Curve], smooth: int) -> "Figure":
    """Loss against updates, and against tokens."""
    figure, (left, right) = new_figure(1, 2, width=PAGE)
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        mean = running_mean(curve.loss, smooth)
        spread = np.sqrt(running_mean((curve.loss - mean) ** 2, smooth))
        for axes, x in ((left, curve.updates), (right, curve.tokens / 1000)):
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
            axes.plot(x, mean, color=colour, label=curve.name)
    left.set(xlabel="updates", ylabel="training loss (nats per token)")
    right.set(xlabel="target tokens seen (thousands)", xscale="log")
    figure.legend(
        handles=left.get_legend_handles_labels()[0],
        title="sentences between two updates",
        loc="outside upper center",
        ncols=len(curves),
        fontsize=8,
        title_fontsize=8,
        frameon=False,
    )
    return figure
