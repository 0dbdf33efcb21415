"""Arguments of `tram analyze` that name systems: models with their adapters, files of translations, lists of sizes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.translation.translator import Translator

Languages = tuple[str | None, str | None]  # of source and target; None: those of the model


def system_name(option: str, model: Path | None, other: str, file: Path | None) -> str:
    """Return the name of a system; raise InputError unless exactly one of model and file is given."""
    system = model if file is None else file
    if system is None or (model is not None and file is not None):
        raise InputError(f"give either {option} DIR or {other} FILE: the analysis compares two systems")
    return str(system)


def load(folder: Path, adapter: Path | None, languages: Languages, beam: int | None = None) -> "Translator":
    """Load a model, with an adapter if there is one."""
    from tram.translation.translator import Translator

    return Translator.load(folder, beam=beam, adapter=adapter, source=languages[0], target=languages[1])


def with_adapter(name: str, adapter: Path | None) -> str:
    """Return the name of a system in a report: its model and, if any, its adapter."""
    return name if adapter is None else f"{name} + {adapter}"


def translate_with(
    folder: Path | None, sources: list[list[str]], beam: int, adapter: Path | None, languages: Languages
) -> list[list[str]]:
    """Translate documents with a model."""
    from tram.cli.console import translated

    assert folder is not None
    return translated(load(folder, adapter, languages, beam), sources)


def read_translations(path: Path, references: list[list[str]]) -> list[list[str]]:
    """Read translations from a file and split them into the documents of the reference."""
    from tram.cli.console import split_like
    from tram.data.corpus import read_documents
    from tram.evaluation.metrics import check_aligned

    documents = split_like([document.sentences for document in read_documents(path, None, "target")], references)
    check_aligned(str(path), documents, "the reference", references)
    return documents


def parse_integers(option: str, text: str) -> list[int]:
    """Parse comma-separated positive integers: `100,200` → [100, 200]."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,7}", part) and int(part) for part in parts):
        raise InputError(
            f"{option} {text}: give positive whole numbers below ten million separated by commas, for example 100,200"
        )
    return [int(part) for part in parts]


def parse_named_model(text: str) -> tuple[str, Path]:
    """Parse NAME=DIR: `memory=runs/memory` → ("memory", Path("runs/memory"))."""
    name, sign, folder = text.partition("=")
    if not (name and sign and folder):
        raise InputError(f"--model {text}: give NAME=DIR, for example memory=runs/memory")
    return name, Path(folder)
