"""Measurements of this process that other programs on the machine disturb as little as possible."""

import resource
import statistics
import sys
from pathlib import Path


def middle_mean(values: list[float]) -> float:
    """Return the mean without the smallest and the largest quarter."""
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


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
