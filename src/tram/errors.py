"""The exceptions for the user, whose messages are one sentence.

Code that finds bad input raises `InputError` with one sentence that names the file, the line and the remedy; the
command line prints the sentence and exits with code 2. `RunError` is for work that fails although its input is valid;
the exit code is 1.
"""


class InputError(Exception):
    """Bad input; the message is one sentence for the user."""


class RunError(Exception):
    """Work that cannot continue, such as a training that diverged; the message is one sentence for the user."""
