"""`tram bench`: speed and memory as ratios to a peer."""

from typing import Annotated

import typer

from tram.cli.console import report
from tram.cli.options import Json

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
    """Compare beam search: tokens per second beside a BART of `transformers` of the same size."""
    from tram.bench.peers import table
    from tram.bench.speed import decoding

    rows = decoding(rounds)
    report(table(rows), rows, json_path)


@app.command()
def memory(json_path: Json = None) -> None:
    """Decode 10, 100 and 1,000 sentences: time per sentence and peak memory, beside one long sequence."""
    from tram.bench.memory import memory as run
    from tram.bench.peers import table

    rows = run()
    report(table(rows), rows, json_path)
