"""`tram import`: convert models of other toolkits."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.options import SourceCode, TargetCode

app = typer.Typer(
    help="Convert models of other toolkits to model folders.", no_args_is_help=True, rich_markup_mode=None
)


class Sides(StrEnum):
    """Sides of a model with a memory."""

    source = "source"
    target = "target"
    both = "both"


@app.callback()
def _group() -> None:
    """Convert models of other toolkits to model folders."""


@app.command()
def authors(
    checkpoint: Annotated[Path, typer.Argument(help="State dict written by the authors' code.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    heads: Annotated[int, typer.Option(min=1, max=10_000, help="Number of attention heads.")] = 8,
    side: Annotated[Sides, typer.Option(help="Memory that the model uses; the other one is dropped.")] = Sides.both,
    vocab: Annotated[Path | None, typer.Option(help="The checkpoint's vocabulary; needs --codes.")] = None,
    codes: Annotated[Path | None, typer.Option(help="The checkpoint's BPE codes; needs --vocab.")] = None,
    source_language: SourceCode = "en",
    target_language: TargetCode = "de",
) -> None:
    """Convert a checkpoint of the paper's authors.

    Without --vocab and --codes, the model folder has no text pipeline and translates ids only.
    """
    from tram.pretrained.authors import import_authors

    import_authors(checkpoint, out, heads, side.value, vocab, codes, source_language, target_language)
    print(out)


@app.command()
def hf(
    model: Annotated[str, typer.Argument(metavar="FOLDER|REPO", help="Folder, or name of a repository to download.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    source: Annotated[str | None, typer.Option(help="Source language.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language; can also be chosen later.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the repository.")] = None,
) -> None:
    """Convert a Hugging Face translation model.

    Supported are Marian (OPUS-MT), BART, mBART-50, M2M100 and NLLB.
    """
    from tram.pretrained.hf import import_hf

    for note in import_hf(model, out, source, target, revision).notes:
        print(f"note: {note}", file=sys.stderr)
    print(out)
