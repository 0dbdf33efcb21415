"""The `tram` command: error handling and signals.

Subcommands are imported after the signal handlers are set, so that Ctrl-C prints one sentence from the start.
"""

import atexit
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from tram.errors import InputError, RunError, one_line
from tram.signals import SIGNALLED, STOP_SIGNALS, handle_stop_signals

# In the message of a RuntimeError of torch, or of the ImportError of a library that cannot be loaded
OUT_OF_MEMORY = ("allocate memory", "out of memory", "failed to map segment")


class Stopped(BaseException):
    """A signal to stop the command. Not a KeyboardInterrupt, which typer would swallow."""

    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, frame: FrameType | None) -> None:
    """End the process at once: before and after a command there is nothing to clean up."""
    with _exiting_if_blocked(SIGNALLED + number), suppress(OSError):  # of a terminal that was closed
        os.write(2, b"tram: stopped\n")
    os._exit(SIGNALLED + number)


@contextmanager
def _exiting_if_blocked(code: int) -> Iterator[None]:
    """Exit if what is written inside takes a second: a pipe is full, and nobody reads from it."""
    if sys.platform == "win32":
        yield
        return
    signal.signal(signal.SIGALRM, lambda *_: os._exit(code))
    signal.alarm(1)
    try:
        yield
    finally:
        signal.alarm(0)


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
    handle_stop_signals(_stop)
    try:
        yield
    finally:
        handle_stop_signals(_end)
        sys.unraisablehook = hook


def _refuse_arguments(error: Any) -> NoReturn:
    """Print a usage error as one sentence; for a command without arguments, print its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        with suppress(OSError):
            error.show()
        _drop_output()
        sys.exit(2)
    command = "tram" if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    _fail(f"{message}; see `{command} --help`", 2)


def _replace_closed_streams() -> None:
    """Open something in the place of closed standard streams (`>&-`), so that no other file gets their numbers.

    Reading from it or printing a result to it is an error; messages are dropped.
    """
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            os.dup2(opened, number)  # worker processes inherit it, unlike what is only opened
            if opened != number:
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (stays open)


def _check_current_folder() -> None:
    """Refuse a folder that was removed under the command: torch cannot be loaded there, and ends the process."""
    try:
        os.getcwd()
    except OSError:
        raise InputError("the current folder was removed; change to another one and run again") from None


def main() -> None:
    """Run the command: bad input is one sentence and exit code 2, never a traceback."""
    handle_stop_signals(_end)
    if sys.platform != "win32":  # at its end, Python frees what torch holds, without handlers; the exit code is known
        atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, STOP_SIGNALS)
    _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # print file names that are not valid UTF-8 unchanged
    from tram.cli.app import UsageError, app
    from tram.cli.console import join_option_values, refuse_empty

    try:
        refuse_empty(sys.argv[1:])
        _check_current_folder()
        with _stoppable():
            code = app(join_option_values(sys.argv[1:]), prog_name="tram", standalone_mode=False)
            sys.stdout.flush()  # Python would do it after the end, where a full disk is no error of this command
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
        code = SIGNALLED + signalled.number
        with _exiting_if_blocked(code), suppress(OSError):
            print("tram: stopped", file=sys.stderr)
        _leave(code)
    except UnicodeEncodeError as error:
        character = error.object[error.start].encode("unicode_escape").decode()
        _fail(f"{character} cannot be written as {error.encoding}; use UTF-8", 2)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        _fail("out of memory; give less input or smaller settings", 1)
    except OSError as error:
        _fail_in_writing(error)


def _fail_in_writing(error: OSError) -> NoReturn:
    """End after an error of the system that no other place expected: standard output on a full disk, for example."""
    if isinstance(error, BrokenPipeError):  # a reader who has seen enough
        _drop_output()
        sys.exit(1)
    if error.errno == errno.EBADF:
        _fail("standard input or output is closed; redirect it, for example to a file", 2)
    denied = isinstance(error, PermissionError)
    remedy = "change its permissions" if denied else "free some space or choose another location"
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    _fail(f"{where}{error.strerror or error}; {remedy}", 2)


def _fail(sentence: str, code: int) -> NoReturn:
    with suppress(OSError):
        print(f"tram: {one_line(sentence)}", file=sys.stderr)
    _drop_output()
    sys.exit(code)


def _drop_output() -> None:
    """Drop what cannot be written: Python would try again at its end, print what goes wrong, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _leave(code: int) -> NoReturn:
    """Exit at once: everything is cleaned up, but Python would take a second to free what torch holds."""
    with _exiting_if_blocked(code):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
