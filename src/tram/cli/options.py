"""Options that several commands share."""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def writable(path: Path | None) -> Path | None:
    """Refuse a file that could not be written, before the work for it begins; - is standard output."""
    from tram.files import check_writable

    if path is not None and str(path) != "-":
        check_writable(path)
    return path


def writable_folder(path: Path) -> Path:
    """Refuse a folder that could not be written, before the work for it begins."""
    from tram.files import check_folder_writable

    check_folder_writable(path)
    return path


def finite(value: float | None) -> float | None:
    """Refuse NaN, which is neither too small nor too large for any range."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("give a finite number")
    return value


MANY = 10**9  # documents, items, sentences, updates: more is a slip of the keyboard
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed; another seed makes another choice.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", callback=writable, help="Also write the result here as JSON; - for standard output."),
]
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
Beam = Annotated[int, typer.Option(min=1, max=1000, help="Hypotheses kept in the search; 1: greedy search.")]
DefaultBeam = Annotated[
    int | None,
    typer.Option(
        "--beam", min=1, max=1000, help="Hypotheses kept in the search; 1: greedy search. By default 5, or as imported."
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=-100,
        max=100,
        callback=finite,
        help="Scores are divided by length to this power. By default 1, or as imported.",
    ),
]
SourceLanguage = Annotated[
    str | None, typer.Option("--source", help="Language of the source, for a model that knows several.")
]
TargetLanguage = Annotated[
    str | None, typer.Option("--target", help="Language of the target, for a model that knows several.")
]
Adapter = Annotated[
    Path | None, typer.Option("--adapter", help="Memory for this model, written by `tram export adapter`.")
]


class DataType(StrEnum):
    """In what the weights are held and computed with."""

    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[DataType, typer.Option(help="Data type of the weights; the 16-bit types are for GPUs.")]
Batch = Annotated[int, typer.Option(min=1, max=100_000, help="Sentences, or documents, that are translated at once.")]


class History(StrEnum):
    """What the target memory reads of earlier sentences."""

    generated = "generated"
    gold = "gold"
    none = "none"
