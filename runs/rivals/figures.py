"""The figures of docs/RIVALS.md: accuracy by distance, and cost by the length of the document."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from findings import TERM, Result
from systems import BY_NAME, CONTROL, Family

from tram.analysis.plots import COLOURS, PAGE, new_figure, styled
from tram.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES: dict[Family, str] = {
    "window": "sees the sentences before",
    "segment": "sees a segment or the document",
    "carried": "reads a carried state",
}
MARKERS = "osD^vPX"
STEP = 1.04  # between the lines of a panel, horizontally
Point = tuple[int, float]


def accuracy_figure(results: Sequence[Result]) -> "Figure":
    """Draw accuracy by distance: what the source decides above, terms below, a column for each family."""
    rows: list[tuple[str, Callable[[Result], list[str]]]] = [
        ("decided by the source (%)", lambda result: result.source_decided),
        ("decided by translations (%)", lambda _: [TERM]),
    ]

    def points(result: Result, phenomena: list[str]) -> list[Point]:
        found = [(distance, result.accuracy(phenomena, [distance])) for distance in result.distances]
        return [(distance, 100 * accuracy.value) for distance, accuracy in found if accuracy is not None]

    figure, axes = _grid(results, [(label, lambda r, of=of: points(r, of(r))) for label, of in rows])
    control = next((result for result in results if result.name == CONTROL), None)
    for row, (_, of) in zip(axes, rows, strict=True):
        for panel in row:
            panel.set(ylim=(25, 103))
            if control is not None:
                x, y = zip(*points(control, of(control)), strict=True)
                panel.plot(x, y, color="0.6", linestyle="--", linewidth=1, zorder=0, label="control")
    for panel in axes[-1]:
        panel.set_xlabel("sentences back to the one that decides")
    _finish(axes, [1, 2, 3, 5, 10, 20, 50, 100])
    return figure


def cost_figure(results: Sequence[Result]) -> "Figure":
    """Draw time per sentence and bytes carried by the number of sentences, a column for each family."""

    def points(result: Result, key: str) -> list[Point]:
        decoding: dict[str, Any] = result.numbers["costs"]["decoding"]
        return [(int(sentences), cell[key]) for sentences, cell in decoding.items() if key in cell]

    measured = [result for result in results if "costs" in result.numbers]
    figure, axes = _grid(
        measured,
        [
            ("time per sentence (ratio)", lambda r: points(r, "ratio_to_sentence")),
            ("bytes carried", lambda r: points(r, "bytes")),
        ],
    )
    for panel in axes[0]:
        panel.set_ylim(bottom=0)
        panel.axhline(1, color="0.6", linestyle="--", linewidth=1, zorder=0, label="sentence model")
    for panel in axes[1]:
        panel.set_yscale("symlog", linthresh=100)  # a block may carry nothing
        panel.set(xlabel="sentences of the document", ylim=(-20, None))
    _finish(axes, [10, 100, 1000])
    return figure


def _grid(
    results: Sequence[Result], rows: Sequence[tuple[str, Callable[[Result], list[Point]]]]
) -> tuple["Figure", Any]:
    """Return a figure with a row for each quantity and a column for each family, and its axes."""
    families = [family for family in FAMILIES if any(BY_NAME[result.name].family == family for result in results)]
    figure, axes = new_figure(len(rows), max(len(families), 1), width=PAGE + 1, height=2.1 * len(rows) + 1.4)
    axes = axes.reshape(len(rows), -1)
    for row, (label, points) in zip(axes, rows, strict=True):
        row[0].set_ylabel(label)
        for panel, family in zip(row, families, strict=False):
            own = [result for result in results if BY_NAME[result.name].family == family]
            for number, result in enumerate(own):
                if found := points(result):
                    x, y = zip(*found, strict=True)
                    style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                    beside = [value * STEP ** (number - len(own) / 2) for value in x]  # equal values stay visible
                    panel.plot(beside, y, label=result.title, alpha=0.85, **style)
    for panel, family in zip(axes[0], families, strict=False):
        panel.set_title(FAMILIES[family])
    return figure, axes


def _finish(axes: Any, ticks: list[int]) -> None:
    """Give all panels the same horizontal axis, rows the same vertical one, and columns a legend below."""
    for row in axes:
        limits = [panel.get_ylim() for panel in row]
        for panel in row:
            panel.set(xscale="log", ylim=(min(low for low, _ in limits), max(high for _, high in limits)))
            panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            panel.minorticks_off()
    for above, below in zip(axes[0], axes[-1], strict=True):
        lines, labels = above.get_legend_handles_labels()
        below.legend(lines, labels, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.25))


def save_png(figure: "Figure", path: Path) -> None:
    """Write a figure completely or not at all."""
    with styled(), replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=200)
