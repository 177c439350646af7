"""Nested-loop search: each probe against every row of its range, for dense matches.

A tree skips rows that do not match. If most rows match there is little to skip, and comparing a
whole range in one vectorised step costs less than descending to each row: 1 to 3 nanoseconds per
row instead of 6 to 10, for ranges of 2,000 rows or more of which at least a tenth matches
(docs/decisions/0006-range-index.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bsjoin.index.arrays import Int64s

_LONG = 2048  # rows of a range from which on a separate vectorised step is worthwhile
_DENSE = 0.1
_SAMPLE = 512


def is_dense(values: Int64s, firsts: Int64s, stops: Int64s, least: Int64s) -> bool:
    """Estimate from a sample of pairs whether :func:`scanned` is faster than the tree.

    Args:
        values: int64[n].
        firsts: int64[m], first row of each probe's range.
        stops: int64[m], one past its last row.
        least: int64[m], its threshold.

    Complexity: O(m).
    """
    sizes = np.maximum(stops - firsts, 0)
    ends = np.cumsum(sizes)
    some = int((sizes > 0).sum())
    total = int(ends[-1]) if some else 0
    if total < _LONG * max(some, 1):
        return False
    # Pairs at equal distances, at pseudo-random positions of their ranges.
    pairs = np.linspace(0, total - 1, min(_SAMPLE, total)).astype(np.int64)
    probes = np.searchsorted(ends, pairs, "right")
    places = (pairs * 40_503) % sizes.take(probes)
    late = values.take(firsts.take(probes) + places) >= least.take(probes)
    return bool(late.mean() >= _DENSE)


def scanned(
    values: Int64s, firsts: Int64s, stops: Int64s, least: Int64s, max_pairs: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """The rows of each probe's range whose value is not below its threshold.

    ``max_pairs`` is the maximum number of pairs per slice, 1 or more; for the other arguments see
    :func:`is_dense`.

    Yields:
        int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for each
        probe; 1 to ``max_pairs`` pairs at a time.

    Complexity: O(rows of the ranges) time, O(m + max_pairs) memory.
    """
    held: list[tuple[int, Int64s]] = []
    room = max_pairs
    for probe in np.flatnonzero(firsts < stops).tolist():
        stop, threshold = int(stops[probe]), least[probe]
        for begin in range(int(firsts[probe]), stop, max_pairs):
            rows = np.flatnonzero(values[begin : min(begin + max_pairs, stop)] >= threshold)
            if len(rows) > room:
                yield _joined(held)
                held, room = [], max_pairs
            if len(rows):
                held.append((probe, rows + begin))
                room -= len(rows)
    if held:
        yield _joined(held)


def _joined(held: list[tuple[int, Int64s]]) -> tuple[Int64s, Int64s]:
    probes, rows = zip(*held, strict=True)
    return np.repeat(probes, [len(one) for one in rows]), np.concatenate(rows)
