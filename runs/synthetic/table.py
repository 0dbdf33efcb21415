"""Tables of runs/synthetic/run.sh and runs/synthetic/sweep.sh as Markdown, from the JSON files of `tram contrast`.

python runs/synthetic/table.py FOLDER [--output docs/SYNTHETIC.md]
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tram.analysis.report import markdown_table, wrap_markdown
from tram.analysis.window import last_update
from tram.evaluation.accuracy import Accuracy
from tram.files import write_text

Cells = dict[str, dict[str, Accuracy]]  # phenomenon → distance → accuracy

SYSTEMS = {
    "sentence": "Sentence model: sees the current sentence only",
    "memory": "Memory model, full gradient depth",
    "reset": "The same model, memory reset before each item",
    "other": "The same model, with the context of another item of the same phenomenon and distance",
}

INTRODUCTION = """\
Percentage of items of `suite.jsonl` for which the model assigns a higher probability to the reference translation than
to every wrong one (95% Wilson interval). Columns: the distance in sentences to the sentence that decides. Documents,
suite and models are made by `runs/synthetic/run.sh` and `runs/synthetic/sweep.sh`; no test sentence occurs in the
training data."""

DEPTH_1 = """\
With gradient depth 1, gradients reach the update with the previous sentence and no further. They teach the memory to
store what the next sentence needs; what is stored then persists, because an update adds to what is there. The tables
above differ little because everything is also needed at distance 1. Where nothing is needed sooner than three sentences
after it was decided, no gradient tells the update what to store. The model can then only learn to read what untrained
updates happen to keep, which helps but is not enough. The same trainings on such documents, with a suite of distance
3:"""


def read(path: Path) -> Cells:
    """Read the cells of a result."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["by_phenomenon_and_distance"]
    return {
        phenomenon: {
            distance: Accuracy(cell["right"], cell["items"], cell["chance"]) for distance, cell in cells.items()
        }
        for phenomenon, cells in found.items()
    }


def pool(cells: Cells, phenomena: list[str], distance: str) -> Accuracy:
    """Return the accuracy of several phenomena together at one distance."""
    parts = [cells[phenomenon][distance] for phenomenon in phenomena]
    items = sum(part.items for part in parts)
    return Accuracy(sum(part.right for part in parts), items, sum(part.chance * part.items for part in parts) / items)


def percent(accuracy: Accuracy) -> str:
    """Format an accuracy with its interval."""
    low, high = accuracy.interval
    return f"{100 * accuracy.value:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def system_table(cells: Cells) -> str:
    """Return a table with a row for each phenomenon and a column for each distance."""
    distances = list(next(iter(cells.values())))
    rows = []
    for name, row in cells.items():
        chance = next(iter(row.values())).chance
        rows.append([name, f"{100 * chance:.0f}", *map(percent, row.values())])
    return markdown_table(["phenomenon", "chance", *distances], rows)


def sweep_table(results: dict[str, Cells], phenomena: list[str]) -> str:
    """Return a table with a row for each variant and a column for each distance."""
    distances = list(next(iter(next(iter(results.values())).values())))
    rows = []
    for name, cells in results.items():
        rows.append([name, *(percent(pool(cells, phenomena, distance)) for distance in distances)])
    return markdown_table(["variant", *distances], rows)


def three_table(results: dict[str, Cells]) -> str:
    """Return a table with a row for each variant and a column for each phenomenon, all at distance 3."""
    phenomena = list(next(iter(results.values())))
    rows = []
    for name, cells in results.items():
        rows.append([f"depth {name.partition('-')[2]}", *(percent(cells[each]["3"]) for each in phenomena)])
    return markdown_table(["variant", *phenomena], rows)


def training(run: Path) -> str:
    """Describe the cost of a stage, from the last update that its metrics log."""
    last = last_update(run)
    minutes = last["seconds"] / 60
    return f"{last['update']:,} updates, {last['tokens'] / 1e6:.2f} million target tokens, {minutes:.1f} minutes"


def page(folder: Path) -> str:
    """Return the page with every result found in a folder."""
    parts = [
        "# Does it remember?",
        INTRODUCTION,
        f"First stage: {training(folder / 'memory' / 'train')}.",
        f"Second stage: {training(folder / 'memory' / 'finetune')}.",
    ]
    for name, title in SYSTEMS.items():
        if (path := folder / f"{name}.json").exists():
            parts += [f"## {title}", system_table(read(path))]
    found = {path.stem: read(path) for path in sorted((folder / "sweep").glob("*.json"), key=order)}
    sweep = {name: cells for name, cells in found.items() if not name.startswith("three")}
    if sweep:
        phenomena = list(next(iter(sweep.values())))
        decided = [name for name in phenomena if name != "term"]
        run = folder / "sweep" / next(iter(sweep)) / "finetune"
        parts += [
            "## Gradient depth, slots and sides",
            f"All variants start from the same sentence model and take {training(run)} each.",
            f"Decided on the source side ({', '.join(decided)}):",
            sweep_table(sweep, decided),
            "Decided on the target side only (term; chance 50):",
            sweep_table(sweep, ["term"]),
        ]
    if three := {name: cells for name, cells in found.items() if name.startswith("three")}:
        parts += ["## What depth 1 cannot learn", DEPTH_1, three_table(three)]
    return wrap_markdown("\n\n".join(parts)) + "\n"


def order(path: Path) -> tuple[bool, str, int]:
    """Return a sort key: variants by depth and number of slots first, then those by side."""
    name, _, slots = path.stem.partition("-slots-")
    return not slots, name, int(slots or 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="output folder of runs/synthetic/run.sh")
    parser.add_argument("--output", type=Path, help="file to write; default: print the page")
    options = parser.parse_args()
    if options.output:
        write_text(options.output, page(options.folder))
    else:
        print(page(options.folder))
