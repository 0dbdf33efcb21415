"""What an analysis gives: numbers for programs, a picture, and a few sentences that say what is seen.

report = position(…)                       # every analysis is a function that gives a Report
report.write(Path("analysis"))             # position.json, .svg, .png and .md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tram.analysis.plots import save_figure, styled
from tram.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Report:
    """The result of one analysis."""

    name: str  # of its files
    title: str
    numbers: dict[str, Any]  # as JSON
    text: str  # Markdown: what is seen, and how it was computed
    draw: Callable[[], "Figure"]

    def write(self, output: Path) -> list[Path]:
        """Write NAME.json, NAME.svg, NAME.png and NAME.md into a folder; gives their paths."""
        paths = {suffix: output / f"{self.name}.{suffix}" for suffix in ("json", "svg", "png", "md")}
        with styled():
            figure = self.draw()
        write_json(paths["json"], {"analysis": self.name, **self.numbers})
        save_figure(figure, paths["svg"], paths["png"])
        write_text(paths["md"], f"# {self.title}\n\n![{self.title}]({self.name}.png)\n\n{self.text.strip()}\n")
        return list(paths.values())


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, the first column to the left and the others to the right."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
