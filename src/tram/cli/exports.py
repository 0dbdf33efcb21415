"""`tram export`: models in the forms of other programs, and as adapters."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import report, translated
from tram.cli.options import CorpusFormat, Json

app = typer.Typer(
    help="Convert model folders: for transformers, to an adapter, to int8, or to one folder.", no_args_is_help=True
)

Model = Annotated[Path, typer.Argument(help="Model folder, or output folder of `tram train`.")]
Out = Annotated[Path, typer.Argument(help="Folder to write; it must not exist yet.")]


class AdapterPrecision(StrEnum):
    """The data type of an adapter's weights."""

    float16 = "float16"
    float32 = "float32"


@app.callback()
def _group() -> None:
    """Convert model folders: for transformers, to an adapter, to int8, or to one folder."""


@app.command()
def hf(
    model: Model,
    out: Out,
    without_context: Annotated[
        bool, typer.Option("--without-context", help="Leave out the memory, which transformers does not know.")
    ] = False,
) -> None:
    """Write a folder that the library transformers loads, with its tokeniser if the model was imported."""
    from tram.pretrained.export import export_hf

    export_hf(model, out, without_context)
    print(out)


@app.command()
def adapter(
    run: Annotated[Path, typer.Argument(help="Output folder of a finetuning with finetune.freeze: base.")],
    out: Out,
    base: Annotated[
        Path | None, typer.Option(help="Model that the finetuning started from; by default as its config says.")
    ] = None,
    precision: Annotated[AdapterPrecision, typer.Option(help="Data type of the weights.")] = AdapterPrecision.float16,
) -> None:
    """Write only the memory of a finetuned model, to be used with --adapter on the model it was finetuned on."""
    import torch

    from tram.pretrained.adapters import export_adapter

    export_adapter(run, out, base, torch.float16 if precision is AdapterPrecision.float16 else torch.float32)
    print(out)


@app.command()
def tram(
    model: Model,
    out: Out,
    adapter: Annotated[Path | None, typer.Option(help="Adapter to merge into the model.")] = None,
) -> None:
    """Write one ordinary model folder: the best model of a run, or a base and its adapter merged."""
    from tram.pretrained.folders import check_output_folder
    from tram.translation.translator import Translator

    check_output_folder(out)
    Translator.load(model, adapter=adapter).save(out)
    print(out)


@app.command()
def int8(
    model: Model,
    out: Out,
    check: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Documents and their reference translations: also print what int8 costs in quality."),
    ] = None,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Write a folder with int8 weights: a quarter of the size, and faster with the native engine."""
    from tram.data.corpus import read_parallel
    from tram.evaluation.metrics import results_json, score_systems, scores_table
    from tram.pretrained.folders import check_output_folder
    from tram.translation.translator import Translator

    check_output_folder(out)
    documents = None if check is None else list(read_parallel(*check, format))
    translator = Translator.load(model)
    exact = None if documents is None else translated(translator, [each.source for each in documents])
    translator.save(out, "int8")
    print(out)
    if documents is not None and exact is not None:
        gold = [each.target for each in documents]
        sources = [each.source for each in documents]
        rounded = translated(Translator.load(out), sources)
        results = score_systems([("float32", exact), ("int8", rounded)], [gold], sources, translator.text)
        report(scores_table(results), results_json(results), json_path)
