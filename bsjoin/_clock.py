"""The clock of everything that is compared with the timestamps of micro-batches."""

from __future__ import annotations

import time


def now_us() -> int:
    """The time, in microseconds since the epoch."""
    return time.time_ns() // 1000
