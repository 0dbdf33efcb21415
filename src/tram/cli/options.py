"""Options shared by several commands; `ModelOptions` are those that choose a model and how it translates."""

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tram.errors import InputError
from tram.files import exists


def writable(path: Path | None) -> Path | None:
    """Check that a file can be written before the work begins; - is standard output."""
    from tram.files import check_writable

    if path is not None and str(path) != "-":
        check_writable(path)
    return path


def writable_folder(path: Path) -> Path:
    """Check that a folder can be written before the work begins."""
    from tram.files import check_folder_writable

    check_folder_writable(path)
    return path


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse an output that is also read, or that is given twice: one of the two would be lost."""
    from tram.files import writes_through

    reading = {_identity(path) for path in inputs if path is not None and exists(path)}
    writing = set()
    for output in outputs:
        if output is None or str(output) == "-" or writes_through(output):
            continue
        identity = _identity(output)
        if identity in reading:
            raise InputError(f"{output}: is read by this command, and would be replaced; choose another output")
        if identity in writing:
            raise InputError(f"{output}: two results would be written there; choose another output for one of them")
        writing.add(identity)


def _identity(path: Path) -> object:
    """Return what is equal for two names of one file: links, other case; it need not exist."""
    try:
        found = path.stat()
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def finite(value: float | None) -> float | None:
    """Refuse infinities and NaN; typer's range checks let NaN pass."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("give a finite number")
    return value


MANY = 10**9  # upper bound of counts (documents, items, sentences, updates): a larger number is a typing error
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed.")]
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
    typer.Option(
        "--model", help="Model folder, or output folder of `tram train`; by default the model that ships with tram."
    ),
]
Beam = Annotated[int, typer.Option(min=1, max=1000, help="Beam size; 1: greedy search.")]
DefaultBeam = Annotated[
    int | None,
    typer.Option(
        "--beam", min=1, max=1000, help="Beam size; 1: greedy search. By default 5, or that of an imported model."
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=-10,
        max=10,
        callback=finite,
        help="Divide scores by length to this power. By default 1, or that of an imported model.",
    ),
]
SourceLanguage = Annotated[str | None, typer.Option("--source", help="Source language, for a multilingual model.")]
TargetLanguage = Annotated[str | None, typer.Option("--target", help="Target language, for a multilingual model.")]
SourceCode = Annotated[str, typer.Option("--source-language", help="Language code of the source.")]
TargetCode = Annotated[str, typer.Option("--target-language", help="Language code of the target.")]
Adapter = Annotated[
    Path | None, typer.Option("--adapter", help="Adapter for this model, written by `tram export adapter`.")
]


class DataType(StrEnum):
    """Data types of the weights."""

    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


Device = Annotated[str, typer.Option(help="Device to run on: cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[DataType, typer.Option(help="Data type of the weights; the 16-bit types are for GPUs.")]


class EngineKind(StrEnum):
    """Inference engines."""

    auto = "auto"
    torch = "torch"
    native = "native"


class PrecisionKind(StrEnum):
    """Arithmetic of the matrix products in translation."""

    float32 = "float32"
    int8 = "int8"


Engine = Annotated[
    EngineKind,
    typer.Option(help="Inference engine: native (CPU only), torch (any device), or auto (native where possible)."),
]
Precision = Annotated[
    PrecisionKind | None,
    typer.Option(
        help="Arithmetic of the matrix products; int8 needs the native engine and is faster but less exact. By default "
        "float32."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Number of threads. By default as many as torch uses; 1 for `tram serve`."),
]
Batch = Annotated[int, typer.Option(min=1, max=100_000, help="Number of sentences, or documents, translated at once.")]


class History(StrEnum):
    """The target side of the context: generated translations, references (gold), or none."""

    generated = "generated"
    gold = "gold"
    none = "none"


@dataclass(frozen=True)
class ModelOptions:
    """The model and how it translates: the arguments of `console.load_translator`."""

    model: ModelFolder = None
    beam: DefaultBeam = None
    length_penalty: LengthPenalty = None
    source_language: SourceLanguage = None
    target_language: TargetLanguage = None
    adapter: Adapter = None
    device: Device = "cpu"
    dtype: Dtype = DataType.float32
    engine: Engine = EngineKind.auto
    precision: Precision = None
    threads: Threads = None


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `options: ModelOptions` of a command by one command-line option per field."""
    hints = get_type_hints(ModelOptions, include_extras=True)
    other = dict(inspect.signature(command, eval_str=True).parameters)
    del other["options"]
    fields = {
        name: field.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, field in inspect.signature(ModelOptions).parameters.items()
    }

    @functools.wraps(command)
    def run(**values: Any) -> None:
        options = ModelOptions(**{name: values[name] for name in fields})
        command(**{name: values[name] for name in other}, options=options)

    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in other.values()]
    parameters = [*keyword_only, *fields.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__
    return run
