"""Collect the measurements of this folder in docs/pretrained.json, and write them to docs/PRETRAINED.md.

    python runs/pretrained/table.py suite SUITE.jsonl OUT.jsonl         only the items of distances up to 5
    python runs/pretrained/table.py gather docs/pretrained.json [--synthetic FOLDER] [--sizes FILE] [--speed FILE]
    python runs/pretrained/table.py page docs/pretrained.json docs/PRETRAINED.md

FOLDER is that of run.sh; the files are those of sizes.py and speed.py. Results that are not given do not change.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from tram.analysis.report import markdown_table, wrap_markdown
from tram.analysis.window import last_update
from tram.evaluation.accuracy import Accuracy
from tram.files import read_json, write_json, write_text
from tram.model.folder import WEIGHTS, find_model, load_tensors

LONGEST = 5  # sentences to the deciding one
START = "<!-- Written by `python runs/pretrained/table.py page docs/pretrained.json docs/PRETRAINED.md`. -->"
END = "<!-- End of what the script writes. -->"


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, paths in {"suite": ("suite", "out"), "gather": ("out",), "page": ("results", "page")}.items():
        command = commands.add_parser(name)
        for path in paths:
            command.add_argument(path, type=Path)
        for option in ("--synthetic", "--sizes", "--speed") if name == "gather" else ():
            command.add_argument(option, type=Path)
    given = parser.parse_args()
    if given.command == "suite":
        lines = given.suite.read_text(encoding="utf-8").splitlines(keepends=True)
        write_text(given.out, "".join(line for line in lines if json.loads(line)["distance"] <= LONGEST))
    elif given.command == "gather":
        results = read_json(given.out) if given.out.exists() else {}
        if given.synthetic is not None:
            results["synthetic"] = synthetic(given.synthetic)
        results |= {name: read_json(getattr(given, name)) for name in ("sizes", "speed") if getattr(given, name)}
        write_json(given.out, results)
        print(page(results))
    else:
        before, _, rest = given.page.read_text(encoding="utf-8").partition(START)
        write_text(given.page, f"{before}{START}\n\n{page(read_json(given.results))}\n\n{END}{rest.partition(END)[2]}")


def synthetic(folder: Path) -> dict[str, Any]:
    """Return the numbers of run.sh: costs, accuracies, and the number of bit-identical tensors of the base."""
    before, after = (load_tensors(find_model(folder / name) / WEIGHTS) for name in ("base", "memory"))
    cells = {name: read_json(folder / f"{name}.json")["by_phenomenon_and_distance"] for name in ("sentence", "memory")}
    return {
        "costs": {"sentence": cost(folder / "sentence" / "train"), "memory": cost(folder / "memory" / "finetune")},
        "base tensors": len(before),
        "equal tensors": sum(torch.equal(after[name], value) for name, value in before.items()),
        "adapter bytes": (folder / "adapter" / "memory.safetensors").stat().st_size,
        "cells": cells,
        "contexts": read_json(folder / "memory.json")["contexts"],
    }


def cost(stage: Path) -> dict[str, Any]:
    """Return updates, target tokens and seconds of a stage."""
    return {name: last_update(stage)[name] for name in ("update", "tokens", "seconds")}


def page(results: dict[str, Any]) -> str:
    """Return the section with every result that there is."""
    writers = {"synthetic": synthetic_part, "sizes": sizes_part, "speed": speed_part}
    return wrap_markdown("\n\n".join(writers[name](value) for name, value in results.items()))


def synthetic_part(found: dict[str, Any]) -> str:
    """Return the section about generated documents."""
    costs = {
        name: f"{each['update']:,} updates, {each['tokens'] / 1e6:.2f} million target tokens"
        for name, each in found["costs"].items()
    }
    systems = {"the base, frozen": found["cells"]["sentence"], "with the memory": found["cells"]["memory"]}
    rows = []
    for phenomenon in systems["the base, frozen"]:
        for system, cells in systems.items():
            values = [Accuracy(cell["right"], cell["items"], cell["chance"]) for cell in cells[phenomenon].values()]
            rows.append([phenomenon, f"{100 * values[0].chance:.0f}", system, *map(percent, values)])
    distances = next(iter(systems["the base, frozen"].values()))
    header = ["phenomenon", "chance", "model", *(f"distance {each}" for each in distances)]
    return (
        "### A memory on a frozen Marian model, on generated documents\n\n"
        "`runs/pretrained/run.sh` trains a small Marian model on sentences, exports it for `transformers`, imports it "
        "again, freezes it and trains a memory on it. Percentage of items for which the reference translation is more "
        "probable than every incorrect one (95% interval), by the distance in sentences to the deciding one:\n\n"
        f"{markdown_table(header, rows)}\n\n"
        f"The base: {costs['sentence']}. The memory: {costs['memory']}, an adapter of "
        f"{found['adapter bytes'] / 1e6:.2f} MB. Of the {found['base tensors']} tensors of the base, "
        f"{found['equal tensors']} are bit-identical afterwards."
    )


def percent(accuracy: Accuracy) -> str:
    """Format an accuracy with its interval."""
    low, high = accuracy.interval
    return f"{100 * accuracy.value:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def sizes_part(found: dict[str, Any]) -> str:
    """Return the section about time and memory."""
    rows = []
    for size, steps in found.items():
        file = steps["file"]["megabytes"]
        for step, numbers in steps.items():
            if step != "file":
                peak = numbers["megabytes"]
                speed = f"{numbers['tokens/s']:,.0f}" if "tokens/s" in numbers else ""
                rows.append([f"{size}, {file:,} MB", step, f"{peak:,}", f"{peak / file:.2f}", speed])
    return (
        "### Real sizes\n\n"
        "Models with random weights in the sizes of real models (`runs/pretrained/sizes.py`), on one thread. The peak "
        "is the maximum resident set size of the process (`ru_maxrss`), including libraries and mapped pages of "
        "files.\n\n" + markdown_table(["model, weights", "step", "peak, MB", "of the file", "tokens/s"], rows)
    )


def speed_part(found: dict[str, Any]) -> str:
    """Return the section about decoding."""
    rows = [
        [row["model"], f"{row['tokens/s']:,.0f}", f"{row['its tokens/s']:,.0f}", f"{row['ratio']:.2f}"]
        for row in found["rows"]
    ]
    return (
        "### Decoding\n\n"
        f"An imported Marian model of the size {found['size']} with random weights, compared with `generate` of "
        "`transformers` on the same model and sentences; both alternate in one run on one thread "
        "(`runs/pretrained/speed.py`):\n\n" + markdown_table(["", "tram, tokens/s", "transformers", "ratio"], rows)
    )


if __name__ == "__main__":
    main()
