"""Exceptions whose messages are shown to the user.

Code that finds bad input raises `InputError` with one sentence that names the file, the line and the remedy; the
command line prints the sentence and exits with code 2. `RunError` is for work that fails although its input is valid;
the exit code is 1.
"""

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


class RunError(_UserError):
    """Work that cannot continue, such as a training that diverged; the message is one sentence for the user."""
