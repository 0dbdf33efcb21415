"""`tram bench`: speed and memory relative to other toolkits."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import load_translator, report
from tram.cli.options import Json, ModelFolder, ModelOptions, with_model_options

app = typer.Typer(
    help="Compare speed and memory with other toolkits in one run.", no_args_is_help=True, rich_markup_mode=None
)
Quick = Annotated[bool, typer.Option("--quick", help="Leave out the slow systems: the torch engine and transformers.")]
Text = Annotated[Path, typer.Option("--text", help="Text to translate, one sentence per line.")]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Number of repetitions; the median is reported.")]


class Size(StrEnum):
    """Sizes of models with random weights."""

    base = "base"
    small = "small"


@app.command()
def train(json_path: Json = None, rounds: Rounds = 7) -> None:
    """Compare training speed with BART in transformers.

    Both models have the same size and random weights.
    """
    from tram.bench.peers import table
    from tram.bench.speed import training

    rows = training(rounds)
    report(table(rows), rows, json_path)


@app.command()
def decode(
    json_path: Json = None,
    rounds: Rounds = 5,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, max=1000, help="Batch size in sentences; may be repeated.")
    ] = None,
    beam: Annotated[list[int] | None, typer.Option(min=1, max=100, help="Beam size; may be repeated.")] = None,
    size: Annotated[list[Size] | None, typer.Option(help="Model size; may be repeated.")] = None,
    quick: Quick = False,
) -> None:
    """Compare decoding speed with CTranslate2 and transformers.

    Every engine of tram is measured in tokens per second, with models of the same size and random weights.
    """
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
        int, typer.Option(min=1, max=1000, help="Split the text into this many documents, translated together.")
    ] = 1,
    sentences: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of sentences to use.")] = 100,
    rounds: Rounds = 9,
    quick: Quick = False,
    json_path: Json = None,
) -> None:
    """Compare the time to translate your own text.

    Every engine of tram is measured in CPU time per sentence, side by side with CTranslate2 and transformers.
    """
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
    sentences: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of sentences to use.")] = 1000,
    skip: Annotated[int, typer.Option(min=0, max=1_000_000, help="Number of documents to skip first.")] = 0,
    logits: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Number of sentences whose logits are compared.")
    ] = 100,
    json_path: Json = None,
) -> None:
    """Count the sentences that all engines translate alike.

    The translations of every engine are compared with those of the torch engine.
    """
    from itertools import islice

    from tram.bench.identity import identity as run
    from tram.bench.peers import table
    from tram.data.corpus import read_documents

    remaining, documents = sentences, []
    for each in islice(read_documents(text), skip, None):
        documents.append(each.sentences[:remaining])
        remaining -= len(documents[-1])
        if not remaining:
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
    """Measure the time and memory to load a model.

    The model is loaded in float32 and int8, each in a new process, and compared with CTranslate2.
    """
    from tram.bench.load import loading
    from tram.bench.peers import table

    rows = loading(model, sentence, rounds)
    report(table(rows), rows, json_path)


@app.command()
def memory(json_path: Json = None) -> None:
    """Measure decoding time and memory by document length.

    Documents of 10, 100 and 1,000 sentences are decoded with a memory, and as one long sequence for comparison.
    """
    from tram.bench.memory import memory as run
    from tram.bench.peers import table

    rows = run()
    report(table(rows), rows, json_path)
