"""From ranges of rows to pairs, in slices of bounded size.

A batch of probes may match more rows than fit in memory. So results are kept as ranges, two
numbers per probe, and expanded to pairs lazily.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bsjoin.index.arrays import Int64s


def expand(firsts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """All pairs in two arrays.

    Args:
        firsts: int64[m], first row of each range.
        counts: int64[m], the number of rows in it, 0 or more.

    Returns:
        int64[p] and int64[p]: positions of the ranges, and rows; sorted by position, then row.

    Complexity: O(m + p).
    """
    positions = np.repeat(np.arange(len(firsts), dtype=np.int64), counts)
    # The offset between the first row of a range and its first pair in the output.
    offsets = firsts - (np.cumsum(counts) - counts)
    rows = offsets.take(positions)
    rows += np.arange(len(positions), dtype=np.int64)
    return positions, rows


def pairs(firsts: Int64s, stops: Int64s, max_pairs: int) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs of all ranges, in slices of bounded size; a long range is split.

    Args:
        firsts: int64[m], first row of each probe's range.
        stops: int64[m], one past its last row; an empty range if it is not above the first row.
        max_pairs: the maximum number of pairs per slice, 1 or more.

    Yields:
        int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for each
        probe. Every slice but the last has ``max_pairs`` pairs; none is empty.

    Raises:
        ValueError: ``max_pairs`` is below 1.

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
        # The ranges of this slice of the output, cut at its start and end.
        low = int(np.searchsorted(ends, begin, "right"))
        high = int(np.searchsorted(ends, end, "left")) + 1
        skipped = np.maximum(begin - (ends[low:high] - counts[low:high]), 0)
        taken = np.minimum(ends[low:high], end) - (ends[low:high] - counts[low:high]) - skipped
        positions, rows = expand(firsts[low:high] + skipped, taken)
        yield probes.take(positions + low), rows
