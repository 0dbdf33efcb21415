"""`tram bench`: speed and memory as ratios to a peer."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import load_translator, report
from tram.cli.options import Json, ModelFolder, ModelOptions, with_model_options

app = typer.Typer(
    help="Measure speed as a ratio to a peer, side by side in one run.", no_args_is_help=True, rich_markup_mode=None
)
Quick = Annotated[bool, typer.Option("--quick", help="Leave out the slow ones: the torch engine and `transformers`.")]
Text = Annotated[Path, typer.Option("--text", help="Text to translate, one sentence per line.")]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Repetitions; the median counts.")]


class Size(StrEnum):
    """Sizes of models with random weights."""

    base = "base"
    small = "small"


@app.command()
def train(json_path: Json = None, rounds: Rounds = 7) -> None:
    """Compare training: tokens per second beside a BART of `transformers` of the same size."""
    from tram.bench.peers import table
    from tram.bench.speed import training

    rows = training(rounds)
    report(table(rows), rows, json_path)


@app.command()
def decode(
    json_path: Json = None,
    rounds: Rounds = 5,
    batch: Annotated[list[int] | None, typer.Option(min=1, max=1000, help="Sentences; can be repeated.")] = None,
    beam: Annotated[list[int] | None, typer.Option(min=1, max=100, help="Hypotheses; can be repeated.")] = None,
    size: Annotated[list[Size] | None, typer.Option(help="Size of the model; can be repeated.")] = None,
    quick: Quick = False,
) -> None:
    """Compare searches with every engine: tokens per second beside CTranslate2 and a BART of `transformers`."""
    from tram.bench.peers import SIZES, table
    from tram.bench.speed import decoding

    names = dict(zip(Size, SIZES, strict=True))
    rows = decoding(rounds, batch or (16,), beam or (5,), [names[each] for each in size or Size], quick)
    report(table(rows), rows, json_path)


@app.command()
@with_model_options
def document(
    options: ModelOptions,
    text: Text,
    documents: Annotated[
        int, typer.Option(min=1, max=1000, help="Documents that the text is divided into and translated together as.")
    ] = 1,
    sentences: Annotated[int, typer.Option(min=1, max=100_000, help="Use so many lines of the text.")] = 100,
    rounds: Rounds = 9,
    quick: Quick = False,
    json_path: Json = None,
) -> None:
    """Translate your own text with every engine, beside CTranslate2 and `transformers`: CPU time per sentence."""
    from tram.bench.documents import documents as run
    from tram.bench.peers import table
    from tram.data.corpus import read_documents

    lines = [sentence for each in read_documents(text) for sentence in each.sentences][:sentences]
    rows = run(load_translator(options), lines, documents, rounds, quick)
    report(table(rows), rows, json_path)


@app.command()
@with_model_options
def identity(
    options: ModelOptions,
    text: Text,
    sentences: Annotated[int, typer.Option(min=1, max=1_000_000, help="Use so many sentences of the text.")] = 1000,
    skip: Annotated[int, typer.Option(min=0, max=1_000_000, help="Documents of the text to leave out first.")] = 0,
    logits: Annotated[int, typer.Option(min=0, max=1_000_000, help="Compare the logits of so many sentences.")] = 100,
    json_path: Json = None,
) -> None:
    """Translate documents with every engine, and count the sentences that come out as with torch."""
    from itertools import islice

    from tram.bench.identity import identity as run
    from tram.bench.peers import table
    from tram.data.corpus import read_documents

    left, documents = sentences, []
    for each in islice(read_documents(text), skip, None):
        documents.append(each.sentences[:left])
        left -= len(documents[-1])
        if not left:
            break
    rows = run(load_translator(options), documents, logits)
    report(table(rows), rows, json_path)


@app.command()
def load(
    model: ModelFolder = None,
    sentence: Annotated[str, typer.Option(help="Sentence to translate after loading.")] = "This is a sentence.",
    rounds: Rounds = 5,
    json_path: Json = None,
) -> None:
    """Load a model in float32 and int8, each in a process of its own: time and peak memory beside CTranslate2."""
    from tram.bench.load import loading
    from tram.bench.peers import table

    rows = loading(model, sentence, rounds)
    report(table(rows), rows, json_path)


@app.command()
def memory(json_path: Json = None) -> None:
    """Decode 10, 100 and 1,000 sentences: time per sentence and peak memory, beside one long sequence."""
    from tram.bench.memory import memory as run
    from tram.bench.peers import table

    rows = run()
    report(table(rows), rows, json_path)
