"""`tram import`: models of other programs."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Convert models of other programs to model folders.", no_args_is_help=True, rich_markup_mode=None
)


class Sides(StrEnum):
    """The sides of a model that have a memory."""

    source = "source"
    target = "target"
    both = "both"


@app.callback()
def _group() -> None:
    """Convert models of other programs to model folders."""


@app.command()
def authors(
    checkpoint: Annotated[Path, typer.Argument(help="State dict of the paper's authors' code.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    heads: Annotated[int, typer.Option(min=1, max=10_000, help="Attention heads, which no shape shows.")] = 8,
    side: Annotated[Sides, typer.Option(help="Which memory the model uses; the other one is ignored.")] = Sides.both,
    vocab: Annotated[Path | None, typer.Option(help="Their vocabulary; with --codes, for text.")] = None,
    codes: Annotated[Path | None, typer.Option(help="Their BPE codes; with --vocab.")] = None,
    source_language: Annotated[str, typer.Option(help="Language code of the source.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language code of the target.")] = "de",
) -> None:
    """Convert a checkpoint of the paper's authors."""
    from tram.pretrained.authors import import_authors

    import_authors(checkpoint, out, heads, side.value, vocab, codes, source_language, target_language)
    print(out)


@app.command()
def hf(
    model: Annotated[str, typer.Argument(metavar="FOLDER|REPO", help="Folder, or name of a repository to fetch.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    source: Annotated[str | None, typer.Option(help="Language of the source.")] = None,
    target: Annotated[str | None, typer.Option(help="Language of the target; can also be chosen later.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the repository.")] = None,
) -> None:
    """Convert a Hugging Face translator: Marian (OPUS-MT), BART, mBART-50, M2M100 or NLLB."""
    from tram.pretrained.hf import import_hf

    for note in import_hf(model, out, source, target, revision).notes:
        print(f"note: {note}", file=sys.stderr)
    print(out)
