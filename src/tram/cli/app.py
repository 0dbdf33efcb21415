"""The subcommands of `tram`.

Each subcommand imports what it needs, so that `tram --help` stays fast.
"""

from typing import Annotated

import typer

from tram.cli import analyze, bench, exports, imports, suite
from tram.cli.data import prepare, stats, synthetic
from tram.cli.evaluate import evaluate, score
from tram.cli.serve import serve
from tram.cli.splice import splice
from tram.cli.train import train
from tram.cli.translate import translate

app = typer.Typer(
    name="tram",
    help="Translate whole documents with a small recurrent memory: prepare, train, translate, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich.markdown would double the start-up time
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(short_help="Translate files and keep their layout.")(translate)
app.command(short_help="Serve translations over HTTP.")(serve)
for command in (stats, prepare, train, evaluate, score, suite.contrast, synthetic, splice):
    app.command()(command)
app.add_typer(suite.app, name="suite")
app.add_typer(analyze.app, name="analyze")
app.add_typer(bench.app, name="bench")
app.add_typer(imports.app, name="import")
app.add_typer(exports.app, name="export")

# click's UsageError: newer versions of typer bundle click, older ones import it
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from tram import __version__

        print(f"tram {__version__}")
        raise typer.Exit
