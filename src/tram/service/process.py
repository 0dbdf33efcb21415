"""Settings of a process that serves for long. They change how long requests take, not their results."""

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
LARGEST_KEPT, MOST_KEPT = 4_000_000, 64_000_000  # bytes


def settle() -> None:
    """Prepare for requests, when the model is loaded.

    Every step of the engine needs the same large blocks of memory: those up to `LARGEST_KEPT` are kept when they are
    freed, up to `MOST_KEPT` in all, instead of being returned to the system, which would have to zero new pages. And
    the garbage collector no longer looks at the model's objects, which stay.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
    gc.collect()
    gc.freeze()
