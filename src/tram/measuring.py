"""Measurements of this process that other programs on the machine disturb as little as possible."""

import resource
import statistics
import sys
from math import comb
from pathlib import Path


def middle_mean(values: list[float]) -> float:
    """Return the mean without the smallest and the largest quarter."""
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return two of the values with the median of what they are drawn from between them, in 95 of 100 cases or more.

    By the sign test. Fewer than 6 values are too few for that; then the smallest and the largest are returned.
    """
    ordered, n = sorted(values), len(values)
    cut, outside = 0, 2.0  # how many values on either side lie outside, and 2^n times the probability of fewer
    while cut + 1 < n - cut - 1 and (outside := outside + 2 * comb(n, cut + 1)) <= 0.05 * 2**n:
        cut += 1
    return ordered[cut], ordered[n - 1 - cut]


def peak_megabytes() -> float:
    """Return the peak memory of this process so far.

    Not `ru_maxrss` where Linux has something better: a new process inherits its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
