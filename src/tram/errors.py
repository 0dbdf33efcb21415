"""Exceptions whose messages are shown to the user.

Code that finds bad input raises `InputError` with one sentence that names the file, the line and the remedy; the
command line prints the sentence and exits with code 2. `RunError` is for work that fails although its input is valid;
the exit code is 1. `check_types` is for arguments of Python's users.
"""

import errno
from typing import Any, Self, get_args

LONGEST = 1900  # characters of a message: names and values in it come from files


def one_line(text: str) -> str:
    """Return a message on one line of bounded length; characters that a terminal would act upon are escaped."""
    text = _shortened(text)  # a message can be as long as a file
    return _shortened("".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text))


def _shortened(text: str) -> str:
    half = LONGEST // 2 - 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


class _UserError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class InputError(_UserError):
    """Bad input; the message is one sentence for the user."""


class LongDocumentError(InputError):
    """A document that is longer than what a model's context can read as a whole."""


class UnreadableError(InputError):
    """A file that the system did not read this time, for want of memory or permission; it need not be damaged."""

    @classmethod
    def of(cls, path: object, error: OSError) -> Self:
        """Return the error for what the system said about a file."""
        remedies = {
            errno.EACCES: "change its permissions",
            errno.EPERM: "change its permissions",
            errno.EMFILE: "raise the limit on open files (ulimit -n) and run again",
            errno.ENOMEM: "free some memory and run again",
            errno.EIO: "check the disk, or use another copy of it",
        }
        remedy = remedies.get(error.errno or 0, "check the path")
        return cls(f"{path}: cannot be read ({error.strerror or error}); {remedy}")


class RunError(_UserError):
    """Work that cannot continue, such as a training that diverged; the message is one sentence for the user."""


def write_problem(path: object, error: OSError) -> str:
    """Return one sentence that says why `path` could not be written."""
    remedies = {
        errno.ENOSPC: "free some space on the disk and run again",
        errno.EDQUOT: "free some space in your quota and run again",
        errno.EMFILE: "raise the limit on open files (ulimit -n) and run again",
        errno.EFBIG: "raise the limit on file sizes (ulimit -f) and run again",
        errno.EACCES: "choose another location or change its permissions",
        errno.EPERM: "choose another location or change its permissions",
        errno.EROFS: "choose a writable location",
        errno.ENOTDIR: "part of this path is a file; choose another location",
        errno.EEXIST: "part of this path is a file; choose another location",
        errno.ENAMETOOLONG: "choose a shorter name",
    }
    reason = error.strerror or str(error)
    return f"{path}: cannot be written ({reason}): {remedies.get(error.errno or 0, 'choose another location')}"


def check_types(**arguments: tuple[object, Any]) -> None:
    """Refuse arguments of another type than the one beside them: a class, abstract or not, or a union."""
    for name, (value, kind) in arguments.items():
        if not isinstance(value, kind):
            wanted, *_ = get_args(kind) or (kind,)
            raise InputError(f"{name}: is of type {type(value).__name__}; give {wanted.__name__}")
