"""Refusals: a status and a sentence for the client."""

from tram.errors import one_line


class Problem(Exception):
    """A request that is refused: its HTTP status, and one sentence for the client."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        self.message = one_line(message)  # it may repeat what the client sent
        super().__init__(self.message)
        self.status = status
        self.retry_after = retry_after


class KeyProblem(Problem):
    """A key that is missing or wrong; DeepL has one status for both."""


class QuotaExceeded(Problem):
    """The characters of the day are used up; DeepL has a status of its own for it."""


def missing(name: str) -> Problem:
    """Return the refusal of a request that lacks a parameter, in LibreTranslate's words."""
    return Problem(400, f"Invalid request: missing {name} parameter")


def too_long(size: int, limit: int) -> Problem:
    """Return the refusal of a text that is too long, in LibreTranslate's words."""
    return Problem(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")
