"""The clusters of the papers, host by host."""

from __future__ import annotations

import math

from scheduling.model import Resources, Worker

__all__ = ["oera", "st_stream", "table_4"]

# Name, cores, MB, $/s, workers (one Small is the master): Table 4 of CETSA and LBA-CE. Table 3
# calls them m, l and xl.
_TABLE_4 = (
    ("m", "Small", 4, 8, 2.417e-3, (2, 3, 4)),
    ("l", "Medium", 8, 12, 4.861e-3, (1, 2, 3, 4)),
    ("xl", "Large", 12, 16, 7.778e-3, (1, 2, 3, 4)),
)
_SLOTS = 4


def table_4(*, delta: float = 0.8) -> tuple[Worker, ...]:
    """The 11 workers of Table 4; the twelfth node, a Small, is the master and takes no task.

    The order is that of the nodes' addresses in Table 3: m2, m3, m4, l1 ... l4, xl1 ... xl4.

    Args:
        delta: the share of a worker that may be taken; 0.8 in the paper.
    """
    return tuple(
        Worker(
            f"{short}{number}",
            Resources(float(cores), gigabytes * 1024.0, math.inf),
            _SLOTS,
            price_per_s=price,
            tier=tier,
            delta=delta,
        )
        for short, tier, cores, gigabytes, price, numbers in _TABLE_4
        for number in numbers
    )


def st_stream(*, slots: int = 8) -> tuple[Worker, ...]:
    """The 7 workers of St-Stream's Table 4: one of 4 cores and 8 GB, six of 2 cores and 4 GB."""
    return tuple(
        Worker(f"S{number}", Resources(cores, cores * 2048.0, math.inf), slots, delta=1.0)
        for number, cores in enumerate((4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0), start=1)
    )


def oera(*, slots: int = 16) -> tuple[Worker, ...]:
    """The 4 supervisors of OERA's section 4.1: 8 cores and 16 GB each."""
    return tuple(
        Worker(f"supervisor{number}", Resources(8.0, 16384.0, math.inf), slots)
        for number in range(1, 5)
    )
