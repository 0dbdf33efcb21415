"""The `tram` command: error handling and signals.

Subcommands are imported after the signal handlers are set, so that Ctrl-C prints one sentence from the start.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from tram.errors import InputError, RunError, one_line

Handler = Callable[[int, FrameType | None], Any]
SIGNALLED = 128  # plus the number of the signal: the exit code of what a signal ended
OUT_OF_MEMORY = ("allocate memory", "out of memory")  # in the message of a RuntimeError of torch


class Stopped(BaseException):
    """A signal to stop the command. Not a KeyboardInterrupt, which typer would swallow."""

    def __init__(self, number: int) -> None:
        self.number = number


def _handle_signals(handler: Handler) -> None:
    """Set the handler of Ctrl-C and SIGTERM, unless they are ignored (nohup, or a job in the background)."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            try:
                signal.signal(number, handler)
            except ValueError:  # not in the main thread: the program that runs us handles signals
                return


def _end(number: int, frame: FrameType | None) -> None:
    """End the process at once: before and after a command there is nothing to clean up."""
    os.write(2, b"tram: stopped\n")
    os._exit(SIGNALLED + number)


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise `Stopped`, so that temporary files and workers are cleaned up; the second signal does not wait for that.

    During an import, end at once, as after a kill: libraries swallow what is raised while they import others.
    """
    signal.signal(number, _end)
    if _is_importing(frame):
        _end(number, frame)
    raise Stopped(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


@contextmanager
def _stoppable() -> Iterator[None]:
    def note(ignored: Any) -> None:
        """End at once if Python ignores `Stopped`: it was raised in a finaliser or another callback."""
        if isinstance(ignored.exc_value, Stopped):
            _end(ignored.exc_value.number, None)
        hook(ignored)

    hook = sys.unraisablehook
    sys.unraisablehook = note
    _handle_signals(_stop)
    try:
        yield
    finally:
        _handle_signals(_end)
        sys.unraisablehook = hook


def _refuse_arguments(error: Any) -> NoReturn:
    """Print a usage error as one sentence; for a command without arguments, print its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    command = "tram" if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    _fail(f"{message}; see `{command} --help`", 2)


def main() -> None:
    """Run the command: bad input is one sentence and exit code 2, never a traceback."""
    _handle_signals(_end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # print file names that are not valid UTF-8 unchanged
    from tram.cli.app import UsageError, app
    from tram.cli.console import join_option_values, refuse_empty

    try:
        refuse_empty(sys.argv[1:])
        with _stoppable():
            code = app(join_option_values(sys.argv[1:]), prog_name="tram", standalone_mode=False)
        if isinstance(code, int) and code > SIGNALLED:
            _leave(code)
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        _refuse_arguments(error)
    except InputError as error:
        _fail(str(error), 2)
    except RunError as error:
        _fail(str(error), 1)
    except Stopped as signalled:
        print("tram: stopped", file=sys.stderr)
        _leave(SIGNALLED + signalled.number)
    except UnicodeEncodeError as error:
        character = error.object[error.start].encode("unicode_escape").decode()
        _fail(f"{character} cannot be written as {error.encoding}; use UTF-8", 2)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        _fail("out of memory; give less input or smaller settings", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # standard output on a full disk, for example
        denied = isinstance(error, PermissionError)
        remedy = "change its permissions" if denied else "free some space or choose another location"
        _fail(f"{error}; {remedy}", 2)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"tram: {one_line(sentence)}", file=sys.stderr)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """Exit at once: everything is cleaned up, but Python would take a second to free what torch holds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
