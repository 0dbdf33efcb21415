"""The exception for bad user input.

Code that finds bad input raises `InputError` with one sentence that names the file, the line and the remedy; the
command line prints the sentence and exits with code 2.
"""


class InputError(Exception):
    """Bad input; the message is one sentence for the user."""
