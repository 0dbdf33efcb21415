"""The command `tram splice`: training documents in which context decides, put together from real sentences."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.cli.console import pairs
from tram.cli.options import MANY, Seed, finite
from tram.errors import InputError

if TYPE_CHECKING:
    from tram.splice.folder import Kind


def splice(
    out: Annotated[Path, typer.Argument(help="Folder to write: one pair of files per kind, train with all of them.")],
    train: Annotated[
        list[str],
        typer.Option("--train", metavar="SOURCE TARGET", help="Aligned documents to take sentences from; repeatable."),
    ],
    documents: Annotated[int, typer.Option(min=1, max=MANY, help="Documents of each kind.")] = 10_000,
    kinds: Annotated[
        str, typer.Option(help="What context decides; NAME=COUNT for another number of documents than --documents.")
    ] = "pronouns,address,terms",
    max_characters: Annotated[
        int, typer.Option(min=20, max=100_000, help="Longest source sentence: short ones teach faster.")
    ] = 75,
    replaced: Annotated[
        float,
        typer.Option(
            min=0, max=1, callback=finite, help='Share of the sentences with "it" in which it replaces a noun phrase.'
        ),
    ] = 0.5,
    seed: Seed = 1,
    source_language: Annotated[str, typer.Option(help="Language code of the source.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language code of the target.")] = "de",
    format: Annotated[str | None, typer.Option(help="Document format; detected if not given.")] = None,
) -> None:
    """Make small training documents from real sentences in which context decides the translation.

    Pronouns that agree with an earlier noun, one form of address, one translation of a term.
    """
    from tram.files import check_folder_writable, locked
    from tram.progress import Progress
    from tram.splice.folder import write_folder

    wanted = _wanted(kinds, documents)
    corpora = pairs("--train", train)
    check_folder_writable(out)
    with locked(out), Progress("mining", unit="sentences") as progress:
        about = write_folder(
            out,
            corpora,
            wanted,
            seed,
            max_characters=max_characters,
            replaced=replaced,
            languages=(source_language, target_language),
            format=format,
            advance=progress.advance,
        )
    for kind, count in about["documents"].items():
        print(f"{kind}: {count['documents']:,} documents, {count['sentences']:,} sentences")


def _wanted(kinds: str, documents: int) -> "dict[Kind, int]":
    """Read "pronouns=24000,address" as the number of documents of each kind."""
    from tram.splice.folder import KINDS

    wanted: dict[Kind, int] = {}
    for part in kinds.split(","):
        name, mark, count = (text.strip() for text in part.partition("="))
        kind = next((kind for kind in KINDS if kind == name), None)
        if kind is None:
            raise InputError(f"--kinds {kinds}: {name!r} is not a kind; choose from {', '.join(KINDS)}")
        if mark and (not re.fullmatch("[0-9]{1,9}", count) or int(count) < 1):
            raise InputError(f"--kinds {kinds}: {count!r} is not a number of documents; write {name}=1000, for example")
        wanted[kind] = int(count) if mark else documents
    return wanted
