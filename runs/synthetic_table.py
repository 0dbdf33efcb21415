"""The tables of runs/synthetic.sh and runs/synthetic-sweep.sh, as Markdown, from the JSON files of `tram contrast`.

python runs/synthetic_table.py FOLDER [--output docs/SYNTHETIC.md]
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tram.analysis.report import markdown_table
from tram.analysis.window import last_update
from tram.evaluation.accuracy import Accuracy
from tram.files import write_text

Cells = dict[str, dict[str, Accuracy]]  # phenomenon → distance → accuracy

SYSTEMS = {
    "sentence": "Sentence model: nothing but the sentence at hand",
    "memory": "Memory model, full gradient depth",
    "reset": "The same, its memory reset before each item",
    "other": "The same, with the context of another item of the same phenomenon and distance",
}


DEPTH_1 = """\
Gradients of depth 1 reach the update with the sentence before and no farther. They teach a memory to take in what the
next sentence needs; what is taken in then lasts, because an update adds to what is there. So the tables above differ
little: everything is asked about at distance 1, too. Where nothing is ever asked sooner than three sentences after it
was decided, no gradient tells the update what to take in. What can still be learned is to read what updates keep by
accident, which is something, and not enough. The same trainings on such documents, and a suite of distance 3:"""


def read(path: Path) -> Cells:
    """The cells of a result."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["by_phenomenon_and_distance"]
    return {
        phenomenon: {
            distance: Accuracy(cell["right"], cell["items"], cell["chance"]) for distance, cell in cells.items()
        }
        for phenomenon, cells in found.items()
    }


def added(cells: Cells, phenomena: list[str], distance: str) -> Accuracy:
    """Several phenomena at one distance together."""
    parts = [cells[phenomenon][distance] for phenomenon in phenomena]
    items = sum(part.items for part in parts)
    return Accuracy(sum(part.right for part in parts), items, sum(part.chance * part.items for part in parts) / items)


def shown(accuracy: Accuracy) -> str:
    """Per cent, and the interval."""
    low, high = accuracy.interval
    return f"{100 * accuracy.value:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def system_table(cells: Cells) -> str:
    """A row for each phenomenon, a column for each distance."""
    distances = list(next(iter(cells.values())))
    rows = [[name, f"{100 * next(iter(row.values())).chance:.0f}", *map(shown, row.values())]
            for name, row in cells.items()]  # fmt: skip
    return markdown_table(["phenomenon", "chance", *distances], rows)


def sweep_table(results: dict[str, Cells], phenomena: list[str]) -> str:
    """A row for each variant, a column for each distance."""
    distances = list(next(iter(next(iter(results.values())).values())))
    rows = [[name, *(shown(added(cells, phenomena, distance)) for distance in distances)]
            for name, cells in results.items()]  # fmt: skip
    return markdown_table(["variant", *distances], rows)


def three_table(results: dict[str, Cells]) -> str:
    """A row for each variant, a column for each phenomenon, at the one distance that there is."""
    phenomena = list(next(iter(results.values())))
    rows = [[f"depth {name.partition('-')[2]}", *(shown(cells[each]["3"]) for each in phenomena)]
            for name, cells in results.items()]  # fmt: skip
    return markdown_table(["variant", *phenomena], rows)


def training(run: Path) -> str:
    """How long a stage took: the last line of its metrics that says so."""
    last = last_update(run)
    minutes = last["seconds"] / 60
    return f"{last['update']:,} updates, {last['tokens'] / 1e6:.2f} million target tokens, {minutes:.1f} minutes"


def page(folder: Path) -> str:
    """All that is there."""
    parts = [
        "# Does it remember?",
        "Per cent of the items of `suite.jsonl` whose right translation the model finds more probable than every wrong"
        " one (95% interval, Wilson), by the number of sentences back to the one that decides. Documents, suite and"
        " models come from `runs/synthetic.sh` and `runs/synthetic-sweep.sh`; no test sentence stands in the training"
        " data.",
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
            f"From the same sentence model, {training(run)} each.",
            f"Decided on the source side ({', '.join(decided)}):",
            sweep_table(sweep, decided),
            "Decided on the target side only (term; chance 50):",
            sweep_table(sweep, ["term"]),
        ]
    if three := {name: cells for name, cells in found.items() if name.startswith("three")}:
        parts += [
            "## What depth 1 cannot learn",
            DEPTH_1,
            three_table(three),
        ]
    return "\n\n".join(parts) + "\n"


def order(path: Path) -> tuple[bool, str, int]:
    """Depths first, their slots in order of size, then the sides."""
    name, _, slots = path.stem.partition("-slots-")
    return not slots, name, int(slots or 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.output:
        write_text(options.output, page(options.folder))
    else:
        print(page(options.folder))
