"""From ranges of rows to pairs, in slices of bounded size.

A batch of probes may match far more rows than fit in memory. So answers are kept as ranges, two
numbers a probe, and turned into pairs only as fast as they are used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["expand", "pairs"]

Int64s = NDArray[np.int64]


def expand(firsts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """All of the pairs at once.

    Args:
        firsts: int64[m], first row of each range.
        counts: int64[m], how many rows it has, 0 or more.

    Returns:
        int64[p] and int64[p]: positions of the ranges, and rows, in this order.

    Complexity: O(m + p).
    """
    positions = np.repeat(np.arange(len(firsts), dtype=np.int64), counts)
    # Where the pairs of a range begin in the output, against where its rows begin.
    offsets = firsts - (np.cumsum(counts) - counts)
    rows = offsets.take(positions)
    rows += np.arange(len(positions), dtype=np.int64)
    return positions, rows


def pairs(firsts: Int64s, stops: Int64s, max_pairs: int) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs of all ranges, in slices; a long range is split like any other.

    Args:
        firsts: int64[m], first row of each probe's range.
        stops: int64[m], one past its last row; nothing matches where it is not above the first.
        max_pairs: the most pairs of a slice, 1 or more.

    Yields:
        int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for each
        probe. Every slice but the last has ``max_pairs`` pairs; none is empty.

    Raises:
        ValueError: where ``max_pairs`` is below 1.

    Complexity: O(m + pairs) time, O(m + max_pairs) memory.

    Example:
        >>> ranges = pairs(np.array([7, 3]), np.array([9, 5]), 3)
        >>> [(probes.tolist(), rows.tolist()) for probes, rows in ranges]
        [([0, 0, 1], [7, 8, 3]), ([1], [4])]
    """
    if max_pairs < 1:
        raise ValueError(f"max_pairs must be 1 or more, not {max_pairs}")
    counts = np.maximum(stops - firsts, 0)
    probes = np.flatnonzero(counts)
    counts = counts.take(probes)
    firsts = firsts.take(probes)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, max_pairs):
        end = min(begin + max_pairs, total)
        # The ranges that this slice of the output touches, cut where it begins and ends.
        low = int(np.searchsorted(ends, begin, "right"))
        high = int(np.searchsorted(ends, end, "left")) + 1
        skipped = np.maximum(begin - (ends[low:high] - counts[low:high]), 0)
        taken = np.minimum(ends[low:high], end) - (ends[low:high] - counts[low:high]) - skipped
        positions, rows = expand(firsts[low:high] + skipped, taken)
        yield probes.take(positions + low), rows
