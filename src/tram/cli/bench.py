"""`tram bench`: speed and memory as ratios to a peer."""

from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import load_translator, report
from tram.cli.options import Json, ModelOptions, with_model_options

app = typer.Typer(
    help="Measure speed as a ratio to a peer, side by side in one run.", no_args_is_help=True, rich_markup_mode=None
)
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Repetitions; the median counts.")]


@app.command()
def train(json_path: Json = None, rounds: Rounds = 7) -> None:
    """Compare training: tokens per second beside a BART of `transformers` of the same size."""
    from tram.bench.peers import table
    from tram.bench.speed import training

    rows = training(rounds)
    report(table(rows), rows, json_path)


@app.command()
def decode(json_path: Json = None, rounds: Rounds = 5) -> None:
    """Compare beam search: tokens per second beside a BART of `transformers` of the same size, and CTranslate2."""
    from tram.bench.peers import table
    from tram.bench.speed import decoding

    rows = decoding(rounds)
    report(table(rows), rows, json_path)


@app.command()
@with_model_options
def document(
    options: ModelOptions,
    text: Annotated[Path, typer.Option("--text", help="Text to translate, one sentence per line.")],
    documents: Annotated[
        int, typer.Option(min=1, max=1000, help="Documents that the text is divided into and translated together as.")
    ] = 1,
    sentences: Annotated[int, typer.Option(min=1, max=100_000, help="Use so many lines of the text.")] = 100,
    rounds: Rounds = 9,
    json_path: Json = None,
) -> None:
    """Translate your own text with every engine, beside CTranslate2 and `transformers`: CPU time per sentence."""
    from tram.bench.documents import documents as run
    from tram.bench.peers import table
    from tram.data.corpus import read_documents

    lines = [sentence for each in read_documents(text) for sentence in each.sentences][:sentences]
    rows = run(load_translator(options), lines, documents, rounds)
    report(table(rows), rows, json_path)


@app.command()
def memory(json_path: Json = None) -> None:
    """Decode 10, 100 and 1,000 sentences: time per sentence and peak memory, beside one long sequence."""
    from tram.bench.memory import memory as run
    from tram.bench.peers import table

    rows = run()
    report(table(rows), rows, json_path)
