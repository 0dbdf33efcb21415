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
    """How many times longer four times the size takes; the size doubles until it can be measured.

    4 if the time is linear, 16 if it is quadratic. What is far from 4 is measured again: other processes disturb it.
    """
    while (once := seconds(work(size))) < 0.02:
        size *= 2
    ratios = [seconds(work(4 * size)) / once]
    while min(ratios) > 6 and len(ratios) < 3:
        once = seconds(work(size))
        ratios.append(seconds(work(4 * size)) / once)
    return min(ratios)
