"""Options that several commands share; those that say which model translates, and how, are `ModelOptions`."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

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
        min=-10,
        max=10,
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


class EngineKind(StrEnum):
    """What computes the translations."""

    auto = "auto"
    torch = "torch"
    native = "native"


class PrecisionKind(StrEnum):
    """In what the products of the translations are computed."""

    float32 = "float32"
    int8 = "int8"


Engine = Annotated[
    EngineKind,
    typer.Option(help="What computes: native is for CPUs, torch for every device; auto: native where it is possible."),
]
Precision = Annotated[
    PrecisionKind | None,
    typer.Option(
        help="Precision of the products; int8, of the native engine, is faster and rounds. By default float32; int8 "
        "for the model that comes with tram, which loses less than 0.1 BLEU by it."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Threads that compute. By default as many as torch uses; tram serve: 1."),
]
Batch = Annotated[int, typer.Option(min=1, max=100_000, help="Sentences, or documents, that are translated at once.")]


class History(StrEnum):
    """What the target memory reads of earlier sentences."""

    generated = "generated"
    gold = "gold"
    none = "none"


@dataclass(frozen=True)
class ModelOptions:
    """Which model translates, and how: what `console.load_translator` needs."""

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
    """Give a command the fields of its parameter `options: ModelOptions` as options of their own."""
    hints = get_type_hints(ModelOptions, include_extras=True)
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["options"]
    shared = {
        name: field.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, field in inspect.signature(ModelOptions).parameters.items()
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{name: given[name] for name in own}, options=ModelOptions(**{name: given[name] for name in shared}))

    first = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.values()]
    parameters = [*first, *shared.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__
    return run
