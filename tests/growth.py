"""How the time of some work grows with the size of its input."""

import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the quickest of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times longer four times the size takes; the size doubles until it can be measured."""
    while (once := seconds(work(size))) < 0.02:
        size *= 2
    return seconds(work(4 * size)) / once
