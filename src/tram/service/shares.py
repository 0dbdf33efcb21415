"""How clients share what is limited, so that none of them can take all of it."""


def fits(size: int, own: int, held: int, limit: int, small: int = 0) -> bool:
    """Return whether a client may have more of something: as much as it leaves free for others.

    One client can have half of it, two a third each, and there is always room for a newcomer, who may have what is
    left. What is larger than the limit is accepted alone.
    own, held: what this client and all clients have now; small: what every client may have, whatever the others have.
    """
    if held == 0 or own + size <= small:
        return True
    free = limit - held - size
    return free >= (own + size if own else 0)
