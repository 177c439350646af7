"""A range condition carried out on one segment: which rows of its key each probe matches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin._plan import Search
from bsjoin.cache.probes import Points, points_of
from bsjoin.index import IntervalIndex, SortedRows, nearest, pairs
from bsjoin.store.ranged import RangeIndex, is_ranked

__all__ = ["any_match", "matches"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def matches(
    search: Search,
    index: RangeIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
    max_pairs: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs of a batch of probes and a segment's rows.

    Args:
        search: the condition.
        index: the segment's range index.
        probes: the m points; or starts and ends.
        low: int64[m], first row of each probe's key.
        high: int64[m], one past its last row; the same as ``low`` where there is none.
        max_pairs: the most pairs at a time.

    Yields:
        int64[p] and int64[p]: positions of probes, ascending, and rows; at most ``max_pairs``.
    """
    high = _without_nulls(probes, low, high)
    rows = index.rows
    if isinstance(rows, SortedRows):
        yield from pairs(*_points(search, index, probes[0], low, high), max_pairs)
    elif search.kind == "within":
        points = points_of(probes[0], index).codes
        yield from rows.stab(points, low, high, max_pairs=max_pairs)
    else:
        starts, ends = (points_of(probe, index).codes for probe in probes)
        missing, empty = _ends(rows, probes)
        yield from rows.overlaps(
            starts, ends, low, high, missing_ends=missing, empty=empty, max_pairs=max_pairs
        )


def any_match(
    search: Search, index: RangeIndex, probes: Sequence[pa.Array], low: Int64s, high: Int64s
) -> Bools:
    """Whether each probe has a match: for semi and anti joins.

    Args:
        search: as for :func:`matches`.
        index: as for :func:`matches`.
        probes: as for :func:`matches`.
        low: as for :func:`matches`.
        high: as for :func:`matches`.

    Returns:
        bool[m].

    Complexity: O(log n) a probe, however many rows match.
    """
    high = _without_nulls(probes, low, high)
    rows = index.rows
    if isinstance(rows, SortedRows):
        firsts, stops = _points(search, index, probes[0], low, high)
        return np.asarray(firsts < stops)
    if search.kind == "within":
        return rows.stabs_any(points_of(probes[0], index).codes, low, high)
    starts, ends = (points_of(probe, index).codes for probe in probes)
    missing, empty = _ends(rows, probes)
    return rows.overlaps_any(starts, ends, low, high, missing_ends=missing, empty=empty)


def _without_nulls(probes: Sequence[pa.Array], low: Int64s, high: Int64s) -> Int64s:
    """One past the last row of each probe's key; null matches nothing."""
    return np.where(_missing(probes[0]), low, high) if probes[0].null_count else high


def _missing(array: pa.Array) -> Bools:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _ends(rows: IntervalIndex, probes: Sequence[pa.Array]) -> tuple[Bools | None, Bools | None]:
    """Which intervals of the probes have no end, and which are empty.

    Codes tell which are empty, but for ranks: these are equal for different values that lie
    between the same two stored ones.
    """
    missing = _missing(probes[1]) if probes[1].null_count else None
    if not is_ranked(probes[0].type):
        return missing, None
    is_empty = pc.greater if rows.closed == "both" else pc.greater_equal
    empty = is_empty(*probes).fill_null(False).to_numpy(zero_copy_only=False)
    return missing, np.asarray(empty, np.bool_)


def _points(
    search: Search, index: RangeIndex, probes: pa.Array, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """The rows that match each point: the first, and one past the last."""
    points, rows = points_of(probes, index), index.starts
    if search.kind == "band":
        return _band(search, rows, points, low, high)
    limits = None
    if search.tolerance is not None or (search.floating and search.direction == "nearest"):
        limits = points.reach(search.tolerance)
    found = nearest(
        rows,
        points.codes,
        low,
        high,
        direction=search.direction,
        exact=search.exact,
        reach=limits,
        later=points.later(index) if search.direction == "nearest" else None,
    )
    return found, np.where(found < 0, found, found + 1)


def _band(
    search: Search, rows: SortedRows, points: Points, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """Algorithm 5 of the BS-Join paper, for all probes."""
    lower = points.band_end(-search.before, math.ceil)
    upper = points.band_end(search.after, math.floor)
    left = lower.is_closed or search.closed in ("both", "left")
    right = upper.is_closed or search.closed in ("both", "right")
    # What lies beyond the end of the type has no rows, and no end to leave out.
    firsts = rows.search(lower.codes, "left" if left else "right", low, high)
    stops = rows.search(upper.codes, "right" if right else "left", low, high)
    if lower.beyond is not None:
        clamped = lower.beyond & (lower.codes == np.iinfo(np.int64).min)
        firsts = np.where(clamped, low, firsts)
        firsts = np.where(lower.beyond & ~clamped, high, firsts)
    if upper.beyond is not None:
        clamped = upper.beyond & (upper.codes == np.iinfo(np.int64).max)
        stops = np.where(clamped, high, stops)
        stops = np.where(upper.beyond & ~clamped, low, stops)
    return firsts, np.maximum(firsts, stops)
