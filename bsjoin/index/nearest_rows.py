"""As-of: for each probe the n rows of its slice that are nearest in value.

The rows within reach on either side of a probe are two ranges, of which n rows count at most. All
probes' are put in the order of nearness at once; see :mod:`bsjoin.index.nearest` for distances.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bsjoin.index.arrays import Int64s
from bsjoin.index.nearest import Direction, Later, first_of_equals, later_int
from bsjoin.index.row_order import row_order
from bsjoin.index.row_pairs import expand
from bsjoin.index.sorted_rows import SortedRows


def nearest_rows(
    rows: SortedRows,
    probes: Int64s,
    lows: Int64s,
    highs: Int64s,
    *,
    n: int,
    direction: Direction = "backward",
    exact: bool = True,
    reach: tuple[Int64s, Int64s] | None = None,
    later: Later | None = None,
    shifts: Int64s | None = None,
    max_pairs: int = 1 << 16,
) -> Iterator[tuple[Int64s, Int64s]]:
    """Find the n nearest rows for each probe, nearest first; rows with equal values in their order.

    Up to n rows of each side are put in the order of nearness, and both sides are merged.

    Args:
        rows: as in :func:`nearest`.
        probes: as in :func:`nearest`.
        lows: as in :func:`nearest`.
        highs: as in :func:`nearest`.
        n: how many rows at most.
        direction: as in :func:`nearest`.
        exact: as in :func:`nearest`.
        reach: as in :func:`nearest`; ``None`` (default) for any distance.
        later: as in :func:`nearest`; ``None`` (default) for distances of the codes.
        shifts: as in :func:`nearest`; ``None`` (default) where all probes are at their codes.
        max_pairs: how many pairs at a time at most; it bounds the memory, too, unless one probe
            has more.

    Yields:
        int64[p] and int64[p]: positions of probes, ascending, and rows.

    Complexity: up to five searches a probe, and O(log n) for each row within its reach, of which
    2n count at most.

    Example:
        >>> rows = SortedRows.build(np.array([10, 20, 20, 30]))
        >>> probes, low, high = np.array([25, 5]), np.array([0, 0]), np.array([4, 4])
        >>> [(at, row)] = nearest_rows(rows, probes, low, high, n=3, direction="nearest")
        >>> at.tolist(), row.tolist()
        ([0, 0, 0, 1, 1, 1], [1, 2, 3, 0, 1, 2])
    """
    if not rows.rows:
        return
    (first, last), (behind, stop) = _reached(
        rows, probes, lows, highs, direction, exact, reach, shifts
    )
    many_before, many_behind = np.minimum(last - first, n), np.minimum(stop - behind, n)
    # Of equal values the first rows are taken, but the last of all rows before the probe.
    before = last - many_before
    equals = np.where(many_before > 0, before, -1)
    first_of_equals(rows, equals, lows, highs)
    skipped = np.where(many_before > 0, before - equals, 0)
    decide = later or later_int(rows.values, probes)
    ends = np.cumsum(many_before + many_behind)
    begin = 0
    while begin < len(probes):
        limit = (int(ends[begin - 1]) if begin else 0) + max_pairs
        end = max(begin + 1, int(np.searchsorted(ends, limit, "right")))
        part = slice(begin, end)
        one = _outward(rows, before[part], many_before[part], skipped[part])
        other = expand(behind[part], many_behind[part])
        nearer = _count_nearer(begin, one, behind[part], many_behind[part], decide)
        positions, found = _merged(one, other, nearer, many_before[part], many_behind[part], n)
        positions += begin
        for at in range(0, len(positions), max_pairs):
            some = slice(at, at + max_pairs)
            yield positions[some], found[some]
        begin = end


def _reached(
    rows: SortedRows,
    probes: Int64s,
    low: Int64s,
    high: Int64s,
    direction: Direction,
    exact: bool,
    reach: tuple[Int64s, Int64s] | None,
    shifts: Int64s | None,
) -> tuple[tuple[Int64s, Int64s], tuple[Int64s, Int64s]]:
    """The rows within reach before each probe and behind it, each the first and one past the last.

    A row at the probe's own value is before it, unless only those behind it count.
    """
    first, stop = low, np.maximum(low, high)
    if reach is not None:
        first = rows.search(reach[0], "left", low, high)
        stop = np.maximum(first, rows.search(reach[1], "right", low, high))
    before, behind = (first, first), (stop, stop)
    if direction != "forward":
        last = rows.search(probes, "right" if exact else "left", low, high, shifts)
        before = first, np.clip(last, first, stop)
    if direction != "backward":
        is_first = exact and direction == "forward"
        start = rows.search(probes, "left" if is_first else "right", low, high, shifts)
        behind = np.clip(start, first, stop), stop
    return before, behind


def _outward(
    rows: SortedRows, firsts: Int64s, counts: Int64s, skipped: Int64s
) -> tuple[Int64s, Int64s]:
    """The rows before some probes, from each one outward: equal values ascending, all others not.

    Args:
        rows: the rows.
        firsts: int64[m]: the first row of each probe's.
        counts: int64[m]: how many they are.
        skipped: int64[m]: the rows with the value of the first one are so many rows further ahead.

    Returns:
        int64[p] and int64[p]: positions of the probes, ascending, and rows.
    """
    positions, found = expand(firsts, counts)
    values = rows.values.take(found)
    farthest = rows.values.take(firsts, mode="clip").take(positions)
    found -= np.where(values == farthest, skipped.take(positions), 0)
    return positions, found.take(row_order(positions, ~values))


def _count_nearer(
    begin: int,
    before: tuple[Int64s, Int64s],
    behind: Int64s,
    counts: Int64s,
    later: Later,
) -> Int64s:
    """How many of the rows behind its probe are nearer to it than each row before it.

    ``before`` has the positions of the probes, from ``begin`` on, and their rows; behind each probe
    are ``counts`` rows from ``behind`` on.

    Complexity: a binary search for each row.
    """
    positions, found = before
    first, high = behind.take(positions), counts.take(positions)
    low = np.zeros(len(positions), np.int64)
    while (some := np.flatnonzero(low < high)).size:
        middle = (low.take(some) + high.take(some)) >> 1
        ahead = later(begin + positions.take(some), found.take(some), first.take(some) + middle)
        low[some[ahead]] = middle[ahead] + 1
        high[some[~ahead]] = middle[~ahead]
    return low


def _merged(
    before: tuple[Int64s, Int64s],
    behind: tuple[Int64s, Int64s],
    nearer: Int64s,
    many_before: Int64s,
    many_behind: Int64s,
    n: int,
) -> tuple[Int64s, Int64s]:
    """The first n rows of both sides of some probes, nearest first.

    ``before`` and ``behind`` have the positions of the probes, ascending, and the rows there,
    nearest first; ``nearer`` tells of each row before its probe how many behind it are nearer.
    """
    counts = many_before + many_behind
    starts = np.cumsum(counts) - counts
    # Each row before its probe comes after those of other probes, of its own side, and the nearer.
    others = np.cumsum(many_behind) - many_behind
    places = np.arange(len(nearer)) + others.take(before[0]) + nearer
    found, is_behind = np.empty(int(counts.sum()), np.int64), np.ones(int(counts.sum()), np.bool_)
    is_behind[places] = False
    found[places], found[is_behind] = before[1], behind[1]
    positions = np.repeat(np.arange(len(counts)), counts)
    taken = np.arange(len(found)) - starts.take(positions) < n
    return positions[taken], found[taken]
