"""`tram splice`: compose training documents in which context decides from real sentences."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.cli.console import pairs
from tram.cli.options import MANY, CorpusFormat, Seed, SourceCode, TargetCode, check_outputs, finite
from tram.errors import InputError

if TYPE_CHECKING:
    from tram.splice.folder import Kind


def splice(
    out: Annotated[Path, typer.Argument(help="Folder to write: two files per kind, and train.* with all documents.")],
    train: Annotated[
        list[str],
        typer.Option(
            "--train", metavar="SOURCE TARGET", help="Aligned documents to take sentences from; may be repeated."
        ),
    ],
    documents: Annotated[int, typer.Option(min=1, max=MANY, help="Number of documents of each kind.")] = 10_000,
    kinds: Annotated[
        str, typer.Option(help="What context decides. NAME=COUNT sets the number of documents of one kind.")
    ] = "pronouns,address,terms",
    max_characters: Annotated[
        int,
        typer.Option(min=20, max=100_000, help="Maximum length of a source sentence; short sentences train faster."),
    ] = 75,
    replaced: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=finite,
            help='Share of the sentences with "it" that are made from sentences with a noun phrase.',
        ),
    ] = 0.5,
    seed: Seed = 1,
    source_language: SourceCode = "en",
    target_language: TargetCode = "de",
    format: CorpusFormat = None,
) -> None:
    """Compose training documents from real sentences.

    In each small document, context decides a translation: a pronoun agrees with an earlier noun, the form of address
    stays the same, or a term keeps its translation.
    """
    from tram.files import check_folder_writable, locked
    from tram.progress import Progress
    from tram.splice.folder import write_folder

    wanted = _parse_kinds(kinds, documents)
    corpora = pairs("--train", train)
    written = [out / f"{name}.{code}" for name in ("train", *wanted) for code in (source_language, target_language)]
    check_outputs(written, [path for pair in corpora for path in pair])
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


def _parse_kinds(kinds: str, documents: int) -> "dict[Kind, int]":
    """Parse the number of documents of each kind, such as "pronouns=24000,address"."""
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
