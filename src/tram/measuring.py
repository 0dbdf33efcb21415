"""Robust statistics of repeated measurements, and the memory that this process uses and may use."""

import os
import statistics
import sys
from contextlib import suppress
from math import comb
from pathlib import Path

if sys.platform != "win32":
    import resource


def middle_mean(values: list[float]) -> float:
    """Return the interquartile mean: the mean without the smallest and the largest quarter."""
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return a 95% confidence interval of the median by the sign test; its ends are two of the values.

    Fewer than 6 values are too few for 95%; then the smallest and the largest are returned.
    """
    ordered, n = sorted(values), len(values)
    cut, outside = 0, 2.0  # values outside on either side; 2^n times the probability that the median is outside, too
    while cut + 1 < n - cut - 1 and (outside := outside + 2 * comb(n, cut + 1)) <= 0.05 * 2**n:
        cut += 1
    return ordered[cut], ordered[n - 1 - cut]


def peak_megabytes() -> float:
    """Return the peak resident memory of this process so far.

    On Linux this is VmHWM: a new process inherits the `ru_maxrss` of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def available_memory() -> int:
    """Return the bytes of memory that this process may use: those of the machine, or a lower limit set for it."""
    if sys.platform == "win32":
        return 1 << 62  # unknown
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
        with suppress(OSError):  # what the process has already; only on Linux
            limits[-1] -= int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # of a container; ValueError: `max`
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)
