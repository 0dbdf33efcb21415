"""The style of tram's figures: as wide as a paper's column, legible type, colours for every kind of colour vision.

figure, axes = new_figure()
axes.plot(x, y, color=COLOURS[0])
save_figure(figure, Path("a.svg"), Path("a.png"))
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tram.errors import InputError
from tram.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which is safe for every kind of colour vision; dark colours first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, or two

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text, so it can be searched and uses the page's font
    "svg.hashsalt": "tram",  # the same figure is the same file
    "figure.constrained_layout.use": True,
}


def need_matplotlib() -> None:
    """Raise InputError if matplotlib is missing; called before long computations."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'tram-mt[plots]'") from None


@contextmanager
def styled() -> Iterator[None]:
    """Draw in tram's style inside this context; matplotlib reads the style when something is drawn, not before."""
    need_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def new_figure(rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.4) -> tuple["Figure", Any]:
    """Return a figure that needs no display, and its axes: one, or an array of them."""
    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns)


def new_mosaic(names: list[list[str]], heights: list[float], width: float = PAGE) -> tuple["Figure", dict[str, Any]]:
    """Return a figure and its axes by name; a name in several cells spans them. heights: of the rows, in inches."""
    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        axes: dict[str, Any] = figure.subplot_mosaic(cast(Any, names), height_ratios=heights)
        return figure, axes


def save_figure(figure: "Figure", svg: Path, png: Path) -> None:
    """Write a figure as SVG and as PNG, each file atomically."""
    with styled():
        with replacing(svg) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
        with replacing(png) as temporary:
            figure.savefig(temporary, format="png", dpi=200)
