"""The paper's figure on convergence: training loss for several optimisation windows (sentences between two updates).

    window([Path("runs/window-1"), Path("runs/window-20")]).write(Path("analysis"))     # runs of `tram train`
    window(train_windows(recipe, ["1", "20", "document"]))                              # or train them here

The paper says that larger windows converge faster and more stably. An update of a larger window also covers more
tokens, so the report shows the loss by tokens as well, and the spread with and without a correction for it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.analysis.variants import Recipe, Variant, Window, train_all
from tram.config import Config, checked
from tram.data.text_files import Lines
from tram.errors import InputError
from tram.evaluation.significance import Values
from tram.files import regular_file
from tram.json_text import parse_json
from tram.yaml_files import read_yaml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Training loss by optimisation window"
SMOOTH = 25  # logged losses per running mean


@dataclass(frozen=True)
class LossCurve:
    """The training losses of one run. updates, tokens, loss: (points,) each; tokens: target tokens since the start."""

    name: str
    folder: Path
    updates: Values
    tokens: Values
    loss: Values  # in nats per target token, without label smoothing

    @property
    def tokens_per_update(self) -> float:
        """The mean number of target tokens per update."""
        return float(self.tokens[-1] / self.updates[-1])


@dataclass(frozen=True)
class LastHalf:
    """Statistics of the loss in the last half of a run's updates."""

    loss: float  # mean
    spread: float  # root mean square distance from the running mean
    spread_per_token: float  # spread × √(tokens per update)


def read_curve(run: Path) -> LossCurve:
    """Read the losses of a run's finetuning stage."""
    path = run / "finetune" / "metrics.jsonl"
    config = checked(Config, read_yaml(run / "config.yaml"), str(run / "config.yaml"))
    if config.finetune is None:
        raise InputError(f"{run / 'config.yaml'}: has no finetune stage and so no window; give a run that has one")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; give an output folder of `tram train` with finetuning")
    keys = ("update", "tokens", "nll")  # other rows are evaluations on held-out documents
    rows = [row for row in read_metrics(path) if row.keys() >= set(keys)]
    if len(rows) < 2:
        raise InputError(f"{path}: has too few losses for a curve ({len(rows)}); train with a smaller log_every")
    try:
        columns = [np.array([row[key] for row in rows], dtype=np.float64) for key in keys]
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{path}: has an update, tokens or nll that is not a number; give another run") from None
    return LossCurve(window_name(config.finetune.window), run, *columns)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a metrics.jsonl."""
    rows = []
    for number, line in Lines(regular_file(path)):
        try:
            rows.append(dict(parse_json(line)))
        except (ValueError, TypeError):
            raise InputError(
                f"{path}:{number}: is not JSON; remove this line, which may be incomplete because a run was killed"
            ) from None
    return rows


def last_update(stage: Path) -> dict[str, Any]:
    """Return the last row of a stage's metrics.jsonl that logs an update: its number, and tokens and seconds so far."""
    return [line for line in read_metrics(stage / "metrics.jsonl") if "seconds" in line][-1]


def window_name(window: Window) -> str:
    """Return the name of a window for the report."""
    if window == "document":
        return "full document"
    minimum, maximum = window
    return str(minimum) if minimum == maximum else f"{minimum} to {maximum}"


def parse_window(text: str) -> Window:
    """Parse a window: `5` is one drawn from 1 to 5, as in the paper; `document` is the whole document."""
    if text == "document":
        return "document"
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise InputError(f"window `{text}`: give a number of sentences of at least 1, or `document`")
    return 1, int(text)


def train_windows(recipe: Recipe, windows: Sequence[str]) -> list[Path]:
    """Train a run for each window that is not trained yet, and return the folders of all of them."""
    need_matplotlib()  # before an hour of training
    memory = recipe.start_model.memory or recipe.memory()
    chosen = [parse_window(text) for text in windows]
    default = recipe.settings.window  # a run with it is shared with the other analyses
    variants = [Variant(memory, None if each == default else each) for each in chosen]
    train_all(recipe, variants)
    return [recipe.folder(variant) for variant in variants]


def running_mean(values: Values, width: int) -> Values:
    """Return the centred running mean of values (points,) over `width` of them, over fewer at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    indices, half = np.arange(len(values)), (width - 1) // 2
    first, end = np.maximum(indices - half, 0), np.minimum(indices + half + 1, len(values))
    means: Values = (sums[end] - sums[first]) / (end - first)
    return means


def last_half(curve: LossCurve, smooth: int = SMOOTH) -> LastHalf:
    """Return the mean loss of the last half of the updates and its spread around the running mean."""
    late = curve.updates > curve.updates[-1] / 2
    # At the very end the running mean is one-sided, which on a falling curve would count as spread.
    inside = late & (np.arange(len(late)) < len(late) - (smooth - 1) // 2)
    distances = (curve.loss - running_mean(curve.loss, smooth))[inside if inside.any() else late]
    spread = float(np.sqrt(np.mean(distances**2)))
    return LastHalf(float(curve.loss[late].mean()), spread, spread * math.sqrt(curve.tokens_per_update))


def loss_within(curve: LossCurve, tokens: float) -> float:
    """Return the mean loss over the second half of the first `tokens` target tokens.

    If the first update already has more tokens, return its loss.
    """
    inside = (curve.tokens > tokens / 2) & (curve.tokens <= tokens)
    return float(curve.loss[inside].mean() if inside.any() else curve.loss[0])


def window(runs: Sequence[Path], smooth: int = SMOOTH) -> Report:
    """Return a report that compares runs with different windows."""
    need_matplotlib()
    if not runs:
        raise InputError("no run was given; give output folders of `tram train`, or train runs with --train")
    if smooth < 1:
        raise InputError(f"smooth {smooth}: give the number of losses per running mean, 1 or more")
    curves = [read_curve(run) for run in runs]
    halves = [last_half(curve, smooth) for curve in curves]
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
        for curve, each in zip(curves, halves, strict=True)
    ]
    numbers = {"smooth": smooth, "common_tokens": int(common), "runs": rows}
    return Report("window", TITLE, numbers, describe(curves, halves, smooth), lambda: draw(curves, smooth))


def describe(curves: list[LossCurve], halves: list[LastHalf], smooth: int) -> str:
    """Return the findings, a table and the method as Markdown."""
    common = min(curve.tokens[-1] for curve in curves)
    reached = [loss_within(curve, common) for curve in curves]
    rows = [
        {
            "window": curve.name,
            "updates": f"{curve.updates[-1]:,.0f}",
            "target tokens per update": f"{curve.tokens_per_update:,.0f}",
            "loss, last half": f"{each.loss:.3f}",
            "spread, last half": f"{each.spread:.3f}",
            "spread × √tokens": f"{each.spread_per_token:.2f}",
            f"loss within {common:,.0f} tokens": f"{loss:.3f}",
        }
        for curve, each, loss in zip(curves, halves, reached, strict=True)
    ]
    lines = []
    if len(curves) > 1:
        losses, spreads = [each.loss for each in halves], [each.spread for each in halves]
        corrected = [each.spread_per_token for each in halves]
        lines = [
            f"Window with the lowest loss in the last half of the updates: {_lowest(curves, losses)}.",
            f"With the smallest spread: {_lowest(curves, spreads)}; corrected for the number of tokens: "
            f"{_lowest(curves, corrected, 2)}.",
            f"Within the same number of target tokens ({common:,.0f}, what every run has seen) the lowest loss is that "
            f"of {_lowest(curves, reached)}.",
        ]
    if len({curve.updates[-1] for curve in curves}) > 1:
        lines.append("The runs have different numbers of updates, so their last halves are not the same updates.")
    method = (
        "Method: training loss in nats per target token, without label smoothing, as logged in "
        f"`finetune/metrics.jsonl`. The lines are running means of {smooth} logged losses, the bands one standard "
        "deviation around them. Spread is the root mean square distance of a loss from the running mean in the last "
        "half of the updates. The loss of an update over more tokens varies less whatever the model learns: if that "
        "were the only reason, spread × √tokens would be the same everywhere. The loss within N tokens is the mean "
        "over the second half of the first N tokens. One run each."
    )
    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    return "\n\n".join([" ".join(lines), table, method]).strip()


def _lowest(curves: list[LossCurve], values: list[float], digits: int = 3) -> str:
    best = min(range(len(values)), key=values.__getitem__)
    return f"{curves[best].name} ({values[best]:.{digits}f})"


def draw(curves: list[LossCurve], smooth: int) -> "Figure":
    """Draw the loss by updates and by tokens."""
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
