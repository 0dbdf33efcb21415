"""`tram analyze`: one subcommand for each figure and table of the paper.

Each subcommand imports what it needs, so that `tram --help` stays fast.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tram.cli.analysis_systems import (
    load,
    parse_integers,
    parse_named_model,
    read_translations,
    system_name,
    translate_with,
    with_adapter,
)
from tram.cli.console import exit_on_interrupt
from tram.cli.options import MANY, Adapter, Beam, SourceLanguage, TargetLanguage, finite, writable_folder
from tram.errors import InputError

if TYPE_CHECKING:
    from tram.analysis.report import Report
    from tram.analysis.variants import Recipe

app = typer.Typer(
    help="Make the paper's figures and tables for your own models.", no_args_is_help=True, rich_markup_mode=None
)

Model = Annotated[Path, typer.Option("--model", help="Model folder, or output folder of `tram train`.")]
Output = Annotated[
    Path,
    typer.Option("--output", callback=writable_folder, help="Folder for NAME.json, NAME.svg, NAME.png and NAME.md."),
]
SourceDocuments = Annotated[Path, typer.Argument(help="Source documents.")]
ReferenceDocuments = Annotated[Path, typer.Argument(help="Their reference translations.")]
MaxDocuments = Annotated[
    int | None, typer.Option("--documents", min=1, max=MANY, help="Use only the first N documents.", metavar="N")
]


# Analyses of a trained model: position, attribution, planted, attention; and all of them on one page.


@app.command()
def position(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    output: Output,
    model: Annotated[
        Path | None, typer.Option("--model", help="Model folder, or output folder of `tram train`.")
    ] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Model to compare with.")] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="Translations to use instead of --model.")] = None,
    baseline_hypothesis: Annotated[Path | None, typer.Option(help="Translations to use instead of --baseline.")] = None,
    bin: Annotated[int, typer.Option(min=1, max=MANY, help="Sentences per bin.")] = 10,
    beam: Beam = 5,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
) -> None:
    """Compare s-BLEU with a baseline by position in the document.

    Give each system as a model (--model, --baseline) or as translations (--hypothesis, --baseline-hypothesis).
    """
    from tram.analysis.plots import need_matplotlib
    from tram.analysis.position import bin_starts
    from tram.analysis.position import position as analysis
    from tram.data.corpus import read_parallel

    need_matplotlib()
    if adapter is not None and model is None:
        raise InputError(f"--adapter {adapter}: needs its base; give --model")
    names = (
        with_adapter(system_name("--model", model, "--hypothesis", hypothesis), adapter),
        system_name("--baseline", baseline, "--baseline-hypothesis", baseline_hypothesis),
    )
    documents = list(read_parallel(source, reference))
    references = [document.target for document in documents]
    bin_starts([len(document) for document in references], bin, f"{reference}: ")  # refused before the translation
    sources = [document.source for document in documents]
    languages = source_language, target_language
    system, base = (
        translate_with(folder, sources, beam, memory, languages)
        if file is None
        else read_translations(file, references)
        for folder, file, memory in ((model, hypothesis, adapter), (baseline, baseline_hypothesis, None))
    )
    write_report(analysis(system, base, references, names, size=bin), output)


@app.command()
def attribution(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    model: Annotated[list[Path], typer.Option("--model", help="Model folder; repeat it to compare several models.")],
    output: Output,
    documents: MaxDocuments = None,
    longest: Annotated[int, typer.Option(min=1, max=MANY, help="Put all distances above this into one bin.")] = 100,
    bin: Annotated[int, typer.Option(min=1, max=MANY, help="Distances per bin.")] = 10,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
) -> None:
    """Measure gradients with respect to earlier sentences.

    Reports the gradient of a sentence's loss with respect to earlier sentences, by distance.
    """
    from tram.analysis.attribution import attribution as analysis
    from tram.analysis.scoring import read_test_documents

    if adapter is not None and len(model) > 1:
        raise InputError(f"--adapter {adapter}: is for one --model, not for {len(model)}; give its base alone")
    languages = source_language, target_language
    models = [(with_adapter(str(folder), adapter), load(folder, adapter, languages)) for folder in model]
    test = read_test_documents(source, reference, documents)
    write_report(analysis(models, test, size=bin, longest=longest), output)


@app.command()
def planted(
    suite: Annotated[Path, typer.Argument(help="Contrastive suite with distances, such as that of `tram synthetic`.")],
    model: Model,
    output: Output,
    items: Annotated[int, typer.Option(min=1, max=MANY, help="Maximum number of items per distance.")] = 60,
    longest: Annotated[int, typer.Option(min=2, max=MANY, help="Maximum distance.")] = 20,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
) -> None:
    """Measure how earlier sentences influence items of a suite.

    Reports gradient and effect of the sentences before each item of a contrastive suite in which the distance of the
    deciding sentence is known.
    """
    from tram.analysis.planted import planted as analysis
    from tram.evaluation.suite import read_suite

    all_items = read_suite(suite)
    translator = load(model, adapter, (source_language, target_language))
    name = with_adapter(str(model), adapter)
    write_report(analysis(name, translator, all_items, most=items, longest=longest), output)


class RankOption(StrEnum):
    """The values of --rank."""

    effect = "effect"
    weight = "weight"
    lift = "lift"


@app.command()
def attention(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    model: Model,
    output: Output,
    documents: Annotated[
        int, typer.Option(min=1, max=MANY, help="Search only the first N documents.", metavar="N")
    ] = 10,
    document: Annotated[int | None, typer.Option(min=1, max=MANY, help="Search only this document.")] = None,
    sentences: Annotated[
        tuple[int, int] | None,
        typer.Option(
            min=1, max=MANY, help="Show this pair of an earlier and a later sentence instead of the best pair."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Search only this memory unit, for example decoder.5.self; by default all.")
    ] = None,
    rank: Annotated[
        RankOption,
        typer.Option(
            help="Rank paths by how much less probable the later word is without the earlier one (effect), or by "
            "attention."
        ),
    ] = RankOption.effect,
    reach: Annotated[int, typer.Option(min=1, max=MANY, help="Maximum distance of the two words, in sentences.")] = 3,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
) -> None:
    """Plot the memory's attention and find its strongest paths.

    A path leads from a word to a slot of the memory (update attention) and from there to a later word (output
    attention).
    """
    from tram.analysis.attention import attention as analysis
    from tram.data.corpus import read_parallel

    numbered = dict(enumerate(read_parallel(source, reference), start=1))
    if document is not None and document not in numbered:
        raise InputError(f"{source}: has {len(numbered)} documents; give a --document from 1 to {len(numbered)}")
    chosen = {document: numbered[document]} if document else dict(islice(numbered.items(), documents))
    translator = load(model, adapter, (source_language, target_language))
    name = with_adapter(str(model), adapter)
    report = analysis(name, translator, chosen, sentences=sentences, unit=unit, rank=rank.value, reach=reach)
    write_report(report, output)


@app.command("all")
def analyze_all(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    model: Model,
    output: Output,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Model to compare with, for `position`.")] = None,
    documents: MaxDocuments = None,
    bin: Annotated[int, typer.Option(min=1, max=MANY, help="Sentences per bin of `position` and `attribution`.")] = 10,
    tokens: Annotated[str, typer.Option(help="Document lengths in tokens, for `complexity`.")] = "100,200,500,1000",
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
) -> None:
    """Run all analyses that need no training.

    The page OUTPUT/index.html shows all reports in OUTPUT.
    """
    from tram.analysis.page import write_page
    from tram.model.folder import find_model

    folder = find_model(model).resolve()
    shared: dict[str, Any] = {
        "source_language": source_language,
        "target_language": target_language,
        "adapter": adapter,
    }
    if baseline is not None:
        with skip_on_input_error("position"):
            position(source, reference, output, model=model, baseline=baseline, bin=bin, **shared)
    with skip_on_input_error("attribution"):
        attribution(source, reference, [model], output, documents=documents, bin=bin, **shared)
    with skip_on_input_error("attention"):
        attention(source, reference, model, output, **shared)
    with skip_on_input_error("complexity"):
        complexity(output, model=model, tokens=tokens)
    if (folder.parent / "metrics.jsonl").exists() and folder.parent.name == "finetune":
        with skip_on_input_error("window"):
            window(output, folders=[folder.parent.parent])
    print(write_page(output))


@contextmanager
def skip_on_input_error(name: str) -> Iterator[None]:
    """Skip an analysis that is not possible with these documents or this model, and print the reason."""
    try:
        yield
    except InputError as error:
        print(f"skipping {name}: {error}", file=sys.stderr)


# Analyses of cost and training: complexity, window, memory-size, placement.

DATA = typer.Option("--data", help="Folder of `tram prepare` to train on.")
START = typer.Option("--start", help="Sentence model to finetune; a memory is removed first.")
RUNS = typer.Option("--runs", help="Folder for the trained models; finished ones are not trained again.")
Updates = Annotated[int, typer.Option(min=1, max=MANY, help="Number of updates of each finetuning.")]
DocumentShare = Annotated[
    float,
    typer.Option("--share", min=0, max=1, callback=finite, help="Share of the training documents to train on."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Config with a finetune section; by default the default settings.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the config, as finetune.documents=4."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**63 - 1, help="Random seed of new weights, data order and dropout."),
]


@app.command()
def complexity(
    output: Output,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Measure models with the sizes of this one; by default 256 wide, 4+2 layers."),
    ] = None,
    tokens: Annotated[str, typer.Option(help="Document lengths in tokens.")] = "100,200,500,1000,2000,5000,10000",
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Number of measurements; the median is reported.")] = 3,
    longest: Annotated[
        int | None,
        typer.Option(min=1, max=MANY, help="Maximum tokens for the document model, whose time grows quadratically."),
    ] = None,
) -> None:
    """Measure decoding time and memory by document length.

    Compares a sentence model, a model with a memory and a document model, all with random weights.
    """
    from tram.analysis import complexity as analysis

    shape = None if model is None else analysis.read_shape(model)
    write_report(analysis.complexity(shape, parse_integers("--tokens", tokens), repeats, longest), output)


@app.command()
def window(
    output: Output,
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Output folders of `tram train`.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train a run for each window first; needs --data, --start and --runs.")
    ] = False,
    data: Annotated[Path | None, DATA] = None,
    start: Annotated[Path | None, START] = None,
    runs: Annotated[Path | None, RUNS] = None,
    windows: Annotated[
        str, typer.Option(help="With --train: maximum numbers of sentences between two updates, or `document`.")
    ] = "1,5,10,20,document",
    updates: Updates = 500,
    share: DocumentShare = 1.0,
    config: ConfigFile = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    smooth: Annotated[int, typer.Option(min=1, max=MANY, help="Logged losses per running mean.")] = 25,
) -> None:
    """Compare training losses by optimisation window.

    Uses finished runs or, with --train, trains a run for each window.
    """
    from tram.analysis import window as analysis

    run_folders = list(folders or [])
    if train:
        if data is None or start is None or runs is None:
            raise InputError("--train needs --data, --start and --runs: what to train on, what to finetune, and where")
        recipe = read_recipe(data, start, runs, updates, share, config, overrides, seed)
        with exit_on_interrupt():
            run_folders += analysis.train_windows(recipe, windows.split(","))
    write_report(analysis.window(run_folders, smooth), output)


@app.command("memory-size")
def memory_size(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    data: Annotated[Path, DATA],
    start: Annotated[Path, START],
    runs: Annotated[Path, RUNS],
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of slots.")] = "8,16,32,64,128,512",
    updates: Updates = 500,
    share: DocumentShare = 0.1,
    config: ConfigFile = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    documents: MaxDocuments = None,
    beam: Beam = 5,
) -> None:
    """Compare information gain and s-BLEU by memory size.

    Trains a model for each number of slots; finished models in --runs are used again.
    """
    from tram.analysis import memory_size as analysis
    from tram.analysis.scoring import read_test_documents

    recipe = read_recipe(data, start, runs, updates, share, config, overrides, seed)
    test = read_test_documents(source, reference, documents)
    with exit_on_interrupt():
        write_report(analysis.memory_size(recipe, test, parse_integers("--sizes", sizes), beam), output)


@app.command()
def placement(
    source: SourceDocuments,
    reference: ReferenceDocuments,
    output: Output,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME=DIR", help="A trained model; repeat it. The first is the baseline."),
    ] = None,
    data: Annotated[Path | None, DATA] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--start", help="Sentence model: the baseline, and the model to finetune; a memory is removed first."
        ),
    ] = None,
    runs: Annotated[Path | None, RUNS] = None,
    updates: Updates = 500,
    share: DocumentShare = 0.1,
    config: ConfigFile = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    documents: MaxDocuments = None,
    beam: Beam = 5,
) -> None:
    """Compare BLEU by the sides and layers that have a memory.

    Trains a model for each placement, or compares existing models (--model).
    """
    from tram.analysis import placement as analysis
    from tram.analysis.scoring import read_test_documents

    test = read_test_documents(source, reference, documents)
    if model:
        named = [("sentence model", start)] if start is not None else []
        rows = [analysis.read_row(name, path) for name, path in [*named, *map(parse_named_model, model)]]
        write_report(analysis.placement(rows, test, beam), output)
        return
    if data is None or start is None or runs is None:
        raise InputError("give either --model NAME=DIR for each model, or --data, --start and --runs to train them")
    recipe = read_recipe(data, start, runs, updates, share, config, overrides, seed)
    with exit_on_interrupt():
        write_report(analysis.placement(analysis.train_placements(recipe), test, beam, recipe), output)


def read_recipe(
    data: Path,
    start: Path,
    runs: Path,
    updates: int,
    share: float,
    config: Path | None,
    overrides: list[str] | None,
    seed: int,
) -> "Recipe":
    """Return the recipe that all variants share, with the settings of a config."""
    from tram.analysis.variants import Recipe, finetune_settings

    return Recipe(data, start, runs, updates, share, finetune_settings(config, overrides), seed)


def write_report(report: "Report", output: Path) -> None:
    """Write a report and print the paths of its files."""
    for path in report.write(output):
        print(path)
