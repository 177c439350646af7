"""The clocks: of all that is compared with the timestamps of micro-batches, and of a host."""

from __future__ import annotations

import time


def now_us() -> int:
    """The time, in microseconds since the epoch."""
    return time.time_ns() // 1000


def host_us() -> int:
    """The time, in microseconds, of a clock that all processes of a host have, and nobody sets.

    It goes on while the host sleeps.
    """
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
