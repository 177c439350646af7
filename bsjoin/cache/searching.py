"""A range condition carried out on one segment: which rows of its key each probe matches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin._plan import Search
from bsjoin.index import (
    IntervalIndex,
    SortedRows,
    add_saturated,
    codes,
    later_float,
    later_int,
    nearest,
    pairs,
    reach,
)
from bsjoin.store.ranged import RangeIndex, codes_of

__all__ = ["matches"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def matches(
    search: Search,
    ranges: RangeIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
    max_pairs: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs of a batch of probes and a segment's rows.

    Args:
        search: the condition.
        ranges: the segment's range index.
        probes: the m points; or starts and ends.
        low: int64[m], first row of each probe's key.
        high: int64[m], one past its last row; the same as ``low`` where there is none.
        max_pairs: the most pairs at a time.

    Yields:
        int64[p] and int64[p]: positions of probes, ascending, and rows; at most ``max_pairs``.
    """
    if probes[0].null_count:  # null matches nothing
        high = np.where(_missing(probes[0]), low, high)
    if search.kind == "band":
        assert isinstance(ranges, SortedRows)
        yield from pairs(*_band(search, ranges, probes[0], low, high), max_pairs)
    elif search.kind == "asof":
        assert isinstance(ranges, SortedRows)
        rows = _as_of(search, ranges, probes[0], low, high)
        found = np.flatnonzero(rows >= 0)
        if len(found):
            yield found, rows[found]
    else:
        assert isinstance(ranges, IntervalIndex)
        points = [codes_of(probe) for probe in probes]
        if search.kind == "within":
            yield from ranges.stab(points[0], low, high, max_pairs=max_pairs)
        else:
            missing = _missing(probes[1]) if probes[1].null_count else None
            yield from ranges.overlaps(
                points[0], points[1], low, high, missing_ends=missing, max_pairs=max_pairs
            )


def _missing(array: pa.Array) -> Bools:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _floats(array: pa.Array) -> NDArray[np.float64]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def _band(
    search: Search, rows: SortedRows, probes: pa.Array, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """First row and one past the last: Algorithm 5 of the BS-Join paper, for all probes."""
    if search.floating:
        points = _floats(probes)
        lower = codes(add_saturated(points, -float(search.before)))
        upper = codes(add_saturated(points, float(search.after)))
        return rows.band(lower, upper, search.closed, low, high)
    values = codes_of(probes)
    lower, left, none_below = _end(values, -search.before, math.ceil)
    upper, right, none_above = _end(values, search.after, math.floor)
    left |= search.closed in ("both", "left")
    right |= search.closed in ("both", "right")
    # What lies beyond the end of the type has no rows, and no end to leave out.
    firsts = rows.search(lower, "left" if left else "right", low, high)
    stops = rows.search(upper, "right" if right else "left", low, high)
    if none_below is not None:
        clamped = none_below & (lower == np.iinfo(np.int64).min)
        firsts = np.where(clamped, low, firsts)
        firsts = np.where(none_below & ~clamped, high, firsts)
    if none_above is not None:
        clamped = none_above & (upper == np.iinfo(np.int64).max)
        stops = np.where(clamped, high, stops)
        stops = np.where(none_above & ~clamped, low, stops)
    return firsts, np.maximum(firsts, stops)


def _end(
    values: Int64s, delta: Fraction | float, whole: Callable[[Fraction | float], int]
) -> tuple[Int64s, bool, Bools | None]:
    """One end of a band.

    Returns:
        Its codes; whether it is closed in any case, because no code lies on it; and where it
        lies beyond the range of int64, so that the code is the nearest there is.
    """
    if isinstance(delta, float) and math.isinf(delta):
        edge = np.iinfo(np.int64).max if delta > 0 else np.iinfo(np.int64).min
        return np.full(len(values), edge), True, None
    step = whole(delta)
    ends = add_saturated(values, step)
    limit = int(np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min)
    beyond = (ends == limit) & (values != limit - step)
    return ends, step != delta, beyond if step and beyond.any() else None


def _as_of(search: Search, rows: SortedRows, probes: pa.Array, low: Int64s, high: Int64s) -> Int64s:
    """At most one row for each probe, or -1."""
    tolerance = search.tolerance
    if search.floating:
        values = _floats(probes)
        points = codes(values)
        limits = None
        if tolerance is not None or search.direction == "nearest":
            limits = reach(values, None if tolerance is None else float(tolerance))
        later = later_float(rows.values, points)
    else:
        points = codes_of(probes)
        limits = None
        if tolerance is not None and not (isinstance(tolerance, float) and math.isinf(tolerance)):
            limits = reach(points, math.floor(tolerance))
        later = later_int(rows.values, points)
    return nearest(
        rows,
        points,
        low,
        high,
        direction=search.direction,
        exact=search.exact,
        reach=limits,
        later=later,
    )
