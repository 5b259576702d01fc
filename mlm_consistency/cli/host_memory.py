"""Freed host memory is kept for the next step.

XLA's CPU client allocates and frees the temporaries of every step, hundreds of MiB for long rows.
glibc gives such blocks back to the kernel each time, and the next step faults every page in again:
on MMLU with rows of 1,088 tokens that took half of the time. Accelerators are not concerned.
"""

from __future__ import annotations

import ctypes
import sys

# Numbers of <malloc.h>.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8
KEEP_ALL = 2**31 - 1
TOP_PAD = 64 << 20


def keep_freed_memory() -> bool:
    """Tells glibc to serve large blocks from its heap and to keep what is freed.

    Returns:
      Whether this system has such a setting; elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    settings = (
        (M_MMAP_MAX, 0),
        (M_TRIM_THRESHOLD, KEEP_ALL),
        (M_TOP_PAD, TOP_PAD),
        # Heaps of other threads are unmapped whole when they fall empty, whatever the threshold.
        (M_ARENA_MAX, 1),
    )
    return all(mallopt(name, value) == 1 for name, value in settings)
