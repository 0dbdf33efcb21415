"""The figures of docs/RIVALS.md: accuracy by distance, and cost by the length of the document."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from findings import TERM, Result
from systems import BY_NAME, CONTROL, Family, System

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
    by_system = {result.system: result for result in results}

    def points(system: System, term: bool) -> list[Point]:
        result = by_system[system]
        of = [TERM] if term else result.source_decided
        found = [(distance, result.accuracy(of, [distance])) for distance in result.distances]
        return [(distance, 100 * accuracy.value) for distance, accuracy in found if accuracy is not None]

    rows: list[tuple[str, Callable[[System], list[Point]]]] = [
        ("decided by the source (%)", lambda system: points(system, term=False)),
        ("decided by translations (%)", lambda system: points(system, term=True)),
    ]
    figure, axes = _grid(list(by_system), rows)
    for row, (_, of) in zip(axes, rows, strict=True):
        for panel in row:
            panel.set(ylim=(25, 103))
            if (control := BY_NAME[CONTROL]) in by_system:
                x, y = zip(*of(control), strict=True)
                panel.plot(x, y, color="0.6", linestyle="--", linewidth=1, zorder=0, label="control")
    for panel in axes[-1]:
        panel.set_xlabel("sentences back to the one that decides")
    _finish(axes, [1, 2, 3, 5, 10, 20, 50, 100])
    return figure


def cost_figure(costs: Mapping[System, dict[str, Any]]) -> "Figure":
    """Draw time per sentence and bytes carried by the number of sentences, a column for each family."""

    def points(system: System, key: str) -> list[Point]:
        decoding: dict[str, Any] = costs[system]["decoding"]
        return [(int(sentences), cell[key]) for sentences, cell in decoding.items() if key in cell]

    rows: list[tuple[str, Callable[[System], list[Point]]]] = [
        ("time per sentence (ratio)", lambda system: points(system, "ratio_to_sentence")),
        ("bytes carried", lambda system: points(system, "bytes")),
    ]
    figure, axes = _grid(list(costs), rows)
    for panel in axes[0]:
        panel.set_ylim(bottom=0)
        panel.axhline(1, color="0.6", linestyle="--", linewidth=1, zorder=0, label="sentence model")
    for panel in axes[1]:
        panel.set_yscale("symlog", linthresh=100)  # a block may carry nothing
        panel.set(xlabel="sentences of the document", ylim=(-20, None))
    _finish(axes, [10, 100, 1000])
    return figure


def _grid(
    systems: Sequence[System], rows: Sequence[tuple[str, Callable[[System], list[Point]]]]
) -> tuple["Figure", Any]:
    """Return a figure with a row for each quantity and a column for each family, and its axes."""
    families = [family for family in FAMILIES if any(system.family == family for system in systems)]
    figure, axes = new_figure(len(rows), max(len(families), 1), width=PAGE + 1, height=2.1 * len(rows) + 1.4)
    axes = axes.reshape(len(rows), -1)
    for row, (label, points) in zip(axes, rows, strict=True):
        row[0].set_ylabel(label)
        for panel, family in zip(row, families, strict=False):
            own = [system for system in systems if system.family == family]
            for number, system in enumerate(own):
                if found := points(system):
                    x, y = zip(*found, strict=True)
                    style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                    beside = [value * STEP ** (number - len(own) / 2) for value in x]  # equal values stay visible
                    panel.plot(beside, y, label=system.title, alpha=0.85, **style)
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
