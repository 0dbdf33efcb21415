"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[Path | None, typer.Option("--json", help="Also write the result here as JSON; - for standard output.")]
CorpusFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Document format: blank, d, starts, tsv, bars, iwslt, sgml, wmtxml, jsonl. By default detected.",
    ),
]
ModelFolder = Annotated[
    Path | None,
    typer.Option("--model", help="Model folder, or output folder of `tram train`; by default the model of tram."),
]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept in the search; 1: greedy search.")]
LengthPenalty = Annotated[float, typer.Option(help="Scores are divided by length to this power.")]


class History(StrEnum):
    """What the target memory reads of earlier sentences."""

    generated = "generated"
    gold = "gold"
    none = "none"
