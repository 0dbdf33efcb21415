"""The result of an analysis: numbers as JSON, a figure, and a page of Markdown that describes them.

report = position(…)                       # every analysis is a function that returns a Report
report.write(Path("analysis"))             # position.json, .svg, .png and .md
"""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tram.analysis.plots import save_figure, styled
from tram.files import write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A heading, which ends at the end of its line, also inside lists and quotations
HEADING = re.compile(r"(?:(?:[-+*]|\d+[.)])\s+|>\s*)*#{1,6}(?:\s|$)")
# The space before a word that would start a list, a heading or a quotation at the start of a line
UNBREAKABLE_SPACE = re.compile(r" (?=>|(?:[-+*#=]+|\d+[.)])(?: |$))")
PLACEHOLDER = "\0"


@dataclass(frozen=True)
class Report:
    """The result of one analysis."""

    name: str  # stem of its files
    title: str
    numbers: dict[str, Any]  # written as JSON
    text: str  # Markdown: the findings and the method
    draw: Callable[[], "Figure"]

    def write(self, output: Path) -> list[Path]:
        """Write NAME.json, NAME.svg, NAME.png and NAME.md into a folder and return their paths."""
        paths = {suffix: output / f"{self.name}.{suffix}" for suffix in ("json", "svg", "png", "md")}
        with styled():
            figure = self.draw()
        write_json(paths["json"], {"analysis": self.name, **self.numbers})
        save_figure(figure, paths["svg"], paths["png"])
        write_text(paths["md"], f"# {self.title}\n\n![{self.title}]({self.name}.png)\n\n{wrap_markdown(self.text)}\n")
        return list(paths.values())


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with the first column aligned left and the others right."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def wrap_markdown(text: str, width: int = 120) -> str:
    """Wrap paragraphs and list items at a width in characters; tables, headings and pictures stay as they are."""
    return "\n\n".join(_wrap_block(block, width) for block in re.split(r"\n\s*\n", text.strip()))


def _wrap_block(block: str, width: int) -> str:
    if block.startswith(("|", "#", "![")):
        return block
    return "\n".join(_wrap_paragraph(item, width) for item in re.split(r"\n(?=- )", block))


def _wrap_paragraph(text: str, width: int) -> str:
    if HEADING.match(text):
        return text
    indent = "  " if text.startswith("- ") else ""
    glued = UNBREAKABLE_SPACE.sub(PLACEHOLDER, " ".join(text.split()))
    lines = textwrap.fill(glued, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace(PLACEHOLDER, " ")
