"""`tram export`: convert model folders to other formats."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import report, translated
from tram.cli.options import CorpusFormat, Json, check_outputs

app = typer.Typer(
    help="Export a model: for transformers, as an adapter, in int8.", no_args_is_help=True, rich_markup_mode=None
)

Model = Annotated[Path, typer.Argument(help="Model folder, or output folder of `tram train`.")]
Out = Annotated[Path, typer.Argument(help="Folder to write; it must not exist yet.")]


class AdapterPrecision(StrEnum):
    """Data types of an adapter's weights."""

    float16 = "float16"
    float32 = "float32"


@app.callback()
def _group() -> None:
    """Export a model: for transformers, as an adapter, in int8."""


@app.command()
def hf(
    model: Model,
    out: Out,
    without_context: Annotated[
        bool, typer.Option("--without-context", help="Leave out the memory, which transformers does not support.")
    ] = False,
) -> None:
    """Write a folder that transformers can load.

    The tokeniser is included if the model was imported.
    """
    from tram.pretrained.export import export_hf

    export_hf(model, out, without_context)
    print(out)


@app.command()
def adapter(
    run: Annotated[Path, typer.Argument(help="Output folder of a finetuning with finetune.freeze: base.")],
    out: Out,
    base: Annotated[
        Path | None, typer.Option(help="Model that the finetuning started from; by default that of its config.")
    ] = None,
    precision: Annotated[AdapterPrecision, typer.Option(help="Data type of the weights.")] = AdapterPrecision.float16,
) -> None:
    """Write only the memory of a finetuned model.

    Use it with --adapter, together with the model that the finetuning started from.
    """
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
    """Write a self-contained model folder.

    It contains the best model of a run, or a base model merged with its adapter.
    """
    from tram.model.folder import check_text, find_model
    from tram.pretrained.folders import check_output_folder
    from tram.translation.translator import Translator

    check_output_folder(out)
    check_text(find_model(model))
    Translator.load(model, adapter=adapter).save(out)
    print(out)


@app.command()
def int8(
    model: Model,
    out: Out,
    check: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Documents and their reference translations, to compare int8 with float32."),
    ] = None,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Quantise the weights of a model to int8.

    The model folder is a quarter of the size, and the native engine translates faster with it.
    """
    from tram.data.corpus import read_parallel
    from tram.evaluation.metrics import results_json, score_systems, scores_table
    from tram.model.folder import check_text, find_model
    from tram.pretrained.folders import check_output_folder
    from tram.translation.translator import Translator

    check_output_folder(out)
    check_outputs([json_path], check or ())
    check_text(find_model(model))
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
