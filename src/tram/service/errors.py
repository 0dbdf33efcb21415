"""What a client is told when its request cannot be answered."""


class Problem(Exception):
    """A refusal with its HTTP status; the message is one sentence for the client."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def missing(name: str) -> Problem:
    """Return the refusal of a request that lacks a parameter, in LibreTranslate's words."""
    return Problem(400, f"Invalid request: missing {name} parameter")


def too_long(size: int, limit: int) -> Problem:
    """Return the refusal of a text that is too long, in LibreTranslate's words."""
    return Problem(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")
