"""The `tram` command: its subcommands, and what happens to their errors.

What a subcommand needs is imported inside it, so that `tram --help` answers at once.
"""

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

from tram.cli import analyze, bench, exports, imports, suite
from tram.cli.console import gathered
from tram.cli.data import prepare, stats, synthetic
from tram.cli.evaluate import evaluate, score
from tram.cli.serve import serve
from tram.cli.splice import splice
from tram.cli.train import train
from tram.cli.translate import translate
from tram.errors import InputError, RunError

app = typer.Typer(
    name="tram",
    help="Translate whole documents with a small recurrent memory: prepare, train, translate, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich.markdown takes as long as all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (translate, serve, stats, prepare, train, evaluate, score, suite.contrast, synthetic, splice):
    app.command()(command)
app.add_typer(suite.app, name="suite")
app.add_typer(analyze.app, name="analyze")
app.add_typer(bench.app, name="bench")
app.add_typer(imports.app, name="import")
app.add_typer(exports.app, name="export")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from tram import __version__

        print(f"tram {__version__}")
        raise typer.Exit


# click's, which newer versions of typer bundle and older ones import
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Stopped(BaseException):
    """A signal that ends the command. Not a KeyboardInterrupt, which typer would swallow."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` at Ctrl-C and SIGTERM, so that temporary files and workers are cleaned up; once."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once
        raise Stopped(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored: nohup, or a job in the background
                before[number] = signal.signal(number, stop)
    except ValueError:  # not in the main thread: the program that runs us handles signals
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_usage_error(error: Any) -> None:
    """Print wrong arguments as one sentence; the help of a command that was given none, in full."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = "tram" if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    print(f"tram: {message}; see `{command} --help`", file=sys.stderr)


def main() -> None:
    """Run the command: bad input is one sentence and exit code 2, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files come out as they are on the disk
    try:
        with stoppable():
            code = app(gathered(sys.argv[1:]), prog_name="tram", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        _show_usage_error(error)
        sys.exit(2)
    except InputError as error:
        print(f"tram: {error}", file=sys.stderr)
        sys.exit(2)
    except RunError as error:
        print(f"tram: {error}", file=sys.stderr)
        sys.exit(1)
    except Stopped as signalled:
        print("tram: stopped", file=sys.stderr)
        sys.exit(128 + signalled.number)
    except UnicodeEncodeError as error:
        character = error.object[error.start].encode("unicode_escape").decode()
        print(f"tram: {character} cannot be written as {error.encoding}; use UTF-8 and names in it", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("tram: the memory of this machine is full; give less input or smaller settings", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # standard output on a full disk, for example
        denied = isinstance(error, PermissionError)
        remedy = "change its permissions" if denied else "free some space or choose another location"
        print(f"tram: {error}; {remedy}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
