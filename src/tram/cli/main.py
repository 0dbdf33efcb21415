"""The `tram` command: its subcommands and their error handling.

Each subcommand imports what it needs, so that `tram --help` stays fast.
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
from tram.cli.console import join_option_values
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


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from tram import __version__

        print(f"tram {__version__}")
        raise typer.Exit


# click's UsageError: newer versions of typer bundle click, older ones import it
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Stopped(BaseException):
    """A signal to stop the command. Not a KeyboardInterrupt, which typer would swallow."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on the first SIGINT (Ctrl-C) or SIGTERM, so that temporary files and workers are cleaned up."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once
        raise Stopped(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored: nohup, or a job in the background
                before[number] = signal.signal(number, stop)
    except ValueError:  # not in the main thread: the calling program handles signals
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_usage_error(error: Any) -> None:
    """Print a usage error as one sentence; for a command without arguments, print its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = "tram" if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    print(f"tram: {message}; see `{command} --help`", file=sys.stderr)


def main() -> None:
    """Run the command: bad input is one sentence and exit code 2, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # print file names that are not valid UTF-8 unchanged
    try:
        with stoppable():
            code = app(join_option_values(sys.argv[1:]), prog_name="tram", standalone_mode=False)
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
        print(f"tram: {character} cannot be written as {error.encoding}; use UTF-8", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("tram: out of memory; give less input or smaller settings", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # standard output on a full disk, for example
        no_permission = isinstance(error, PermissionError)
        remedy = "change its permissions" if no_permission else "free some space or choose another location"
        print(f"tram: {error}; {remedy}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
