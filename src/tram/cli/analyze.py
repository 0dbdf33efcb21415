"""`tram analyze`: one subcommand for each figure and table of the paper.

What a subcommand needs is imported inside it, so that `tram --help` answers at once.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.analysis.report import Report

app = typer.Typer(help="The paper's figures and tables, for your own models.", no_args_is_help=True)

Model = Annotated[Path, typer.Option("--model", help="Model folder, or the output folder of `tram train`.")]
Output = Annotated[Path, typer.Option("--output", help="Folder for NAME.json, NAME.svg, NAME.png and NAME.md.")]


# Looking into a model: position, attribution, attention; and all of them on one page.

Given = Annotated[Path, typer.Argument(help="Source documents.")]
Right = Annotated[Path, typer.Argument(help="Their right translations.")]
First = Annotated[int | None, typer.Option("--documents", min=1, help="Use only the first so many documents.")]


@app.command()
def position(
    source: Given,
    reference: Right,
    output: Output,
    model: Annotated[Path | None, typer.Option("--model", help="Model folder, or the output of `tram train`.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Model to compare with.")] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="Translations, instead of --model.")] = None,
    baseline_hypothesis: Annotated[Path | None, typer.Option(help="Translations, instead of --baseline.")] = None,
    bin: Annotated[int, typer.Option(min=1, help="Sentences in a bin.")] = 10,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept in the search; 1: greedy.")] = 5,
) -> None:
    """s-BLEU difference to a baseline by the sentence's index in its document."""
    from tram.analysis.plots import need_matplotlib
    from tram.analysis.position import position as analysis
    from tram.data.corpus import read_parallel

    need_matplotlib()
    system = one_of("--model", model, "--hypothesis", hypothesis)
    other = one_of("--baseline", baseline, "--baseline-hypothesis", baseline_hypothesis)
    documents = list(read_parallel(source, reference))
    gold = [document.target for document in documents]
    sources = [document.source for document in documents]
    found, base = (
        translated_by(folder, sources, beam) if file is None else read_translations(file, gold)
        for folder, file in ((model, hypothesis), (baseline, baseline_hypothesis))
    )
    finish(analysis(found, base, gold, (system, other), size=bin), output)


@app.command()
def attribution(
    source: Given,
    reference: Right,
    model: Annotated[list[Path], typer.Option("--model", help="Model folder; several are compared.")],
    output: Output,
    documents: First = None,
    longest: Annotated[int, typer.Option(min=1, help="Distances beyond this share one range.")] = 100,
    bin: Annotated[int, typer.Option(min=1, help="Distances in a range.")] = 10,
) -> None:
    """Gradient of a sentence's loss with respect to earlier sentences, by distance."""
    from tram.analysis.attribution import attribution as analysis
    from tram.data.corpus import read_parallel
    from tram.translation.translator import Translator

    models = [(str(folder), Translator.load(folder)) for folder in model]
    texts = list(read_parallel(source, reference))[:documents]
    finish(analysis(models, texts, size=bin, longest=longest), output)


@app.command()
def planted(
    suite: Annotated[Path, typer.Argument(help="Items that tell their distance, such as those of `tram synthetic`.")],
    model: Model,
    output: Output,
    items: Annotated[int, typer.Option(min=1, help="Most items of a distance.")] = 60,
    longest: Annotated[int, typer.Option(min=2, help="The farthest distance looked at.")] = 20,
) -> None:
    """Gradient and worth of the sentences before each item of a contrastive suite, by planted distance."""
    from tram.analysis.planted import planted as analysis
    from tram.evaluation.suite import read_suite
    from tram.translation.translator import Translator

    read = read_suite(suite)
    finish(analysis(str(model), Translator.load(model), read, most=items, longest=longest), output)


class Rank(StrEnum):
    """What paths are ranked by."""

    effect = "effect"
    weight = "weight"
    lift = "lift"


@app.command()
def attention(
    source: Given,
    target: Right,
    model: Model,
    output: Output,
    documents: Annotated[int, typer.Option(min=1, help="Search so many documents, from the first on.")] = 10,
    document: Annotated[int | None, typer.Option(min=1, help="Search this one document only.")] = None,
    sentences: Annotated[
        tuple[int, int] | None, typer.Option(help="The earlier and the later sentence to show; else the best pair.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="Only this memory, such as decoder.5.self; else all.")] = None,
    rank: Annotated[
        Rank, typer.Option(help="By what the later word loses without the earlier one, or by attention.")
    ] = Rank.effect,
    reach: Annotated[int, typer.Option(min=1, help="How many sentences back the search goes.")] = 3,
) -> None:
    """Maps of update and output attention, and the strongest paths word → slot → later word."""
    from tram.analysis.attention import attention as analysis
    from tram.data.corpus import read_parallel
    from tram.translation.translator import Translator

    found = dict(enumerate(read_parallel(source, target), start=1))
    if document is not None and document not in found:
        raise InputError(f"{source}: has {len(found)} documents; give a --document from 1 to {len(found)}")
    chosen = {document: found[document]} if document else dict(islice(found.items(), documents))
    translator = Translator.load(model)
    finish(
        analysis(str(model), translator, chosen, sentences=sentences, unit=unit, rank=rank.value, reach=reach), output
    )


@app.command("all")
def everything(
    source: Given,
    reference: Right,
    model: Model,
    output: Output,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Model to compare with, for `position`.")] = None,
    documents: First = None,
    bin: Annotated[int, typer.Option(min=1, help="Sentences in a bin of `position` and `attribution`.")] = 10,
    tokens: Annotated[str, typer.Option(help="Tokens of the documents of `complexity`.")] = "100,200,500,1000",
) -> None:
    """All analyses that need no training, and one page, OUTPUT/index.html, with all reports found in OUTPUT."""
    from tram.analysis.page import write_page
    from tram.model.folder import find_model

    found = find_model(model).resolve()
    if baseline is not None:
        with left_out("position"):
            position(source, reference, output, model=model, baseline=baseline, bin=bin)
    with left_out("attribution"):
        attribution(source, reference, [model], output, documents=documents, bin=bin)
    with left_out("attention"):
        attention(source, reference, model, output)
    with left_out("complexity"):
        complexity(output, model=model, tokens=tokens)
    if (found.parent / "metrics.jsonl").exists() and found.parent.name == "finetune":
        with left_out("window"):
            window(output, folders=[found.parent.parent])
    print(write_page(output))


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """An analysis that these documents or this model do not allow is left out, with its reason."""
    try:
        yield
    except InputError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)


def one_of(option: str, model: Path | None, other: str, file: Path | None) -> str:
    """The name of a system that is given as a model or as translations, and not as both."""
    given = model if file is None else file
    if given is None or (model is not None and file is not None):
        raise InputError(f"give either {option} DIR or {other} FILE: the difference is between two systems")
    return str(given)


def translated_by(folder: Path | None, sources: list[list[str]], beam: int) -> list[list[str]]:
    """What a model makes of documents."""
    from tram.cli.console import translated
    from tram.translation.translator import Translator

    assert folder is not None
    return translated(Translator.load(folder, beam=beam), sources)


def read_translations(path: Path, gold: list[list[str]]) -> list[list[str]]:
    """Translations from a file, with the documents of the reference."""
    from tram.cli.console import cut_like
    from tram.data.corpus import read_documents
    from tram.evaluation.metrics import check_aligned

    documents = cut_like([document.sentences for document in read_documents(path, None, "target")], gold)
    check_aligned(str(path), documents, "the reference", gold)
    return documents


# Cost and training: complexity, window, memory-size, placement.

Test = Annotated[Path, typer.Argument(help="Documents to translate and score.")]
Reference = Annotated[Path, typer.Argument(help="Their right translations.")]
Prepared = Annotated[Path, typer.Option("--data", help="Folder made by `tram prepare`, to train on.")]
Start = Annotated[
    Path, typer.Option("--start", help="Model that every variant is finetuned from; a memory is taken off first.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Folder for the trained variants; finished ones are used again.")]
Updates = Annotated[int, typer.Option(help="Updates of each finetuning.")]
ShareOption = Annotated[float, typer.Option("--share", help="Share of the training documents to train on.")]
Settings = Annotated[
    Path | None, typer.Option("--config", help="Train by the finetune section of this config; else by the defaults.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting on top of the config, as finetune.documents=4."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of new weights, the choice of documents, their order and dropout.")]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept in the search; 1: greedy.")]
Documents = Annotated[int | None, typer.Option("--documents", help="Use only the first so many test documents.")]


@app.command()
def complexity(
    output: Output,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Measure models of this one's sizes; else a 256-wide one, 4+2 layers."),
    ] = None,
    tokens: Annotated[str, typer.Option(help="Tokens of the documents.")] = "100,200,500,1000,2000,5000,10000",
    repeats: Annotated[int, typer.Option(help="Repeats; the median counts.")] = 3,
    longest: Annotated[
        int | None, typer.Option(help="Most tokens for the document model, whose time grows with their square.")
    ] = None,
) -> None:
    """Time and memory of decoding against the tokens of a document: sentence, memory and document model."""
    from tram.analysis import complexity as analysis

    shape = None if model is None else analysis.shape_of(model)
    finish(analysis.complexity(shape, numbers("--tokens", tokens), repeats, longest), output)


@app.command()
def window(
    output: Output,
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Output folders of `tram train`.")
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train a run for each window first.")] = False,
    data: Annotated[Path | None, typer.Option("--data", help="With --train: folder made by `tram prepare`.")] = None,
    start: Annotated[
        Path | None, typer.Option("--start", help="With --train: model to finetune; a memory is taken off first.")
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="With --train: folder for the runs.")] = None,
    windows: Annotated[
        str, typer.Option(help="With --train: most sentences between two updates, or `document`.")
    ] = "1,5,10,20,document",
    updates: Updates = 500,
    share: ShareOption = 1.0,
    config: Settings = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    smooth: Annotated[int, typer.Option(help="Logged losses in a running mean.")] = 25,
) -> None:
    """Training loss for several optimisation windows, from finished runs or from runs trained here."""
    from tram.analysis import window as analysis
    from tram.analysis.trainings import Recipe, finetune_settings

    found = list(folders or [])
    if train:
        if data is None or start is None or runs is None:
            raise InputError("--train needs --data, --start and --runs: what to train on, what to finetune, and where")
        recipe = Recipe(data, start, runs, updates, share, finetune_settings(config, overrides), seed)
        with goes_on_later():
            found += analysis.train_windows(recipe, windows.split(","))
    finish(analysis.window(found, smooth), output)


@app.command("memory-size")
def memory_size(
    source: Test,
    reference: Reference,
    data: Prepared,
    start: Start,
    runs: Runs,
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of slots.")] = "8,16,32,64,128,512",
    updates: Updates = 500,
    share: ShareOption = 0.1,
    config: Settings = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    documents: Documents = None,
    beam: Beam = 5,
) -> None:
    """Information gain of the memory's attention, and s-BLEU, for memories of several sizes; trains what is missing."""
    from tram.analysis import memory_size as analysis
    from tram.analysis.trainings import Recipe, finetune_settings, read_test

    recipe = Recipe(data, start, runs, updates, share, finetune_settings(config, overrides), seed)
    test = read_test(source, reference, documents)
    with goes_on_later():
        finish(analysis.memory_size(recipe, test, numbers("--sizes", sizes), beam), output)


@app.command()
def placement(
    source: Test,
    reference: Reference,
    output: Output,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME=DIR", help="A finished model; the first is the baseline."),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="To train: folder made by `tram prepare`.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--start", help="The sentence model: baseline, and what to finetune, any memory taken off."),
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="To train: folder for the trained variants.")] = None,
    updates: Updates = 500,
    share: ShareOption = 0.1,
    config: Settings = None,
    overrides: Overrides = None,
    seed: Seed = 1,
    documents: Documents = None,
    beam: Beam = 5,
) -> None:
    """s-BLEU and d-BLEU of memories on other sides and layers: trains what is missing, or takes a list of models."""
    from tram.analysis import placement as analysis
    from tram.analysis.trainings import Recipe, finetune_settings, read_test

    test = read_test(source, reference, documents)
    if model:
        named = [("sentence model", start)] if start is not None else []
        entries = [analysis.listed(name, path) for name, path in [*named, *map(name_and_folder, model)]]
        finish(analysis.placement(entries, test, beam), output)
        return
    if data is None or start is None or runs is None:
        raise InputError("give either --model NAME=DIR for each model, or --data, --start and --runs to train them")
    recipe = Recipe(data, start, runs, updates, share, finetune_settings(config, overrides), seed)
    with goes_on_later():
        finish(analysis.placement(analysis.train_placements(recipe), test, beam, recipe), output)


def finish(report: "Report", output: Path) -> None:
    """Write a report and say where it is."""
    for path in report.write(output):
        print(path)


@contextmanager
def goes_on_later() -> Iterator[None]:
    """A training that the user stops ends with a sentence, not with a traceback."""
    from tram.training.trainer import Interrupted

    try:
        yield
    except Interrupted:
        print("stopped; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None


def numbers(option: str, text: str) -> list[int]:
    """`100,200` → [100, 200]."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: give whole numbers with commas between them, as 100,200") from None


def name_and_folder(text: str) -> tuple[str, Path]:
    """`memory=runs/memory` → its two parts."""
    name, sign, folder = text.partition("=")
    if not (name and sign and folder):
        raise InputError(f"--model {text}: give NAME=DIR, for example memory=runs/memory")
    return name, Path(folder)
