"""The one exception that is a user's mistake and not ours.

Whoever finds bad input raises `InputError` with one sentence that names the file, the line and the remedy;
the command line prints it and exits with code 2.
"""


class InputError(Exception):
    """Bad input: the message is one sentence for the user."""
