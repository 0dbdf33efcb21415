"""Helpers shared by the commands: translating with progress, printing results, options with several values."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tram.errors import InputError, LongDocumentError
from tram.progress import plain_warnings

if TYPE_CHECKING:
    from tram.cli.options import ModelOptions
    from tram.translation.lockstep import History
    from tram.translation.translator import Translator


def translated(
    translator: "Translator",
    documents: list[list[str]],
    history: "History" = "generated",
    gold: list[list[str]] | None = None,
) -> list[list[str]]:
    """Translate documents, with progress and with warnings as plain sentences."""
    from tram.progress import Progress

    with plain_warnings(), Progress("translating", sum(map(len, documents)), "sentences") as progress:
        return list(translator.translate_documents(documents, progress.advance, history=history, gold=gold))


@contextmanager
def naming(file: str | Path) -> Iterator[None]:
    """Add the file's name to the error about a document that is too long; translators know only its number."""
    try:
        yield
    except LongDocumentError as error:
        raise InputError(f"{file}, {error}") from None


def load_translator(options: "ModelOptions", speculate: int = 1) -> "Translator":
    """Load the model that the options name; refuse a device that this machine does not have.

    speculate: see `Translator.load`.
    """
    import torch

    from tram.translation.limits import check_device
    from tram.translation.translator import Translator

    check_device(options.device, name="--device")
    with plain_warnings():
        return Translator.load(
            options.model,
            options.device,
            getattr(torch, options.dtype),
            options.beam,
            options.length_penalty,
            source=options.source_language,
            target=options.target_language,
            adapter=options.adapter,
            engine=options.engine,
            precision=options.precision,
            threads=options.threads,
            speculate=speculate,
        )


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Exit with a message, without a traceback, if a signal interrupts training."""
    from tram.signals import SIGNALLED
    from tram.training.signals import Interrupted

    try:
        yield
    except Interrupted as interrupted:
        with suppress(OSError):  # of a terminal that was closed
            print("stopped; run the same command again to continue", file=sys.stderr)
        raise typer.Exit(SIGNALLED + interrupted.number) from None


def split_like(documents: list[list[str]], reference: list[list[str]]) -> list[list[str]]:
    """Split a file of plain lines, which was read as one document, into the documents of the reference."""
    if len(documents) != 1 or len(reference) == 1 or len(documents[0]) != sum(map(len, reference)):
        return documents
    lines = iter(documents[0])
    return [[next(lines) for _ in document] for document in reference]


def report(table: str, value: Any, json_path: Path | None) -> None:
    """Print a result as a table; write it as JSON if a path is given (`-`: print JSON instead of the table)."""
    from tram.files import write_json

    if json_path is not None and str(json_path) == "-":
        print(json.dumps(value, indent=2, ensure_ascii=False))
        return
    print(table)
    if json_path is not None:
        write_json(json_path, value)


VALUE_SEPARATOR = "\0"
MULTI_VALUE_OPTIONS = {"score": ("-i", "--input"), "prepare": ("--train", "--dev"), "splice": ("--train",)}


def refuse_empty(arguments: list[str]) -> None:
    """Refuse empty arguments: as a path, an empty one would be the current folder."""
    for before, argument in pairwise(["tram", *arguments]):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            raise InputError(f"the argument after {argument or before} is empty; is a variable of the shell not set?")


def join_option_values(arguments: list[str]) -> list[str]:
    r"""Join the values of options that take several, as sacrebleu's -i does: `-i A B` → `-i A\0B`.

    typer supports only a fixed number of values per option.
    """
    options = MULTI_VALUE_OPTIONS.get(arguments[0], ()) if arguments else ()
    result: list[str] = []
    inside = False
    for argument in arguments:
        is_option = argument.startswith("-") and argument != "-"
        if inside and not is_option and result[-1] not in options:
            result[-1] += VALUE_SEPARATOR + argument
        else:
            result.append(argument)
            inside = argument in options if is_option else inside
    return result


def pairs(option: str, values: list[str]) -> list[tuple[Path, Path]]:
    """Return pairs of source and target files; a single file contains both sides."""
    result = []
    for value in values:
        paths = [Path(part) for part in value.split(VALUE_SEPARATOR)]
        if len(paths) > 2:
            raise InputError(
                f"{option} takes a source and a target, not {len(paths)} files; repeat {option} for each pair"
            )
        result.append((paths[0], paths[-1]))
    return result
