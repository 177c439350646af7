"""Memory that a process does not need any more goes back to the system.

Allocators keep what was freed, for each thread and in pieces between others. A process that does
the same work again and again in new threads so grows for a long time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache

import pyarrow as pa

_SHARE = 0.01  # of the time that this may take

_not_before_s = 0.0


def give_back() -> None:
    """Give back what Arrow and the C library hold, unless that was done a moment ago.

    It takes half a millisecond in a process of 100 MB, and longer in larger ones.
    """
    global _not_before_s
    began_s = time.monotonic()
    if began_s < _not_before_s:
        return
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)
    ended_s = time.monotonic()
    _not_before_s = ended_s + (ended_s - began_s) / _SHARE


@cache
def _trim() -> Callable[[int], object] | None:
    """The function of glibc; None for other C libraries, or where Python cannot call it."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # a Python may be built without

        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return None
    return trim
