"""As-of: for each probe the row of its slice that is nearest in value.

Rows are sorted by (group, value); the candidates are the last row before the probe and the first
row after it, found by :class:`bsjoin.index.SortedRows`. The tolerance is given as a range of codes
(:func:`bsjoin.index.reach`), so codes are never subtracted. A function compares the distances of
two candidates, because codes of floats and ranks have an order but no distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from bsjoin.index.arrays import Bools, Float64s, Int64s
from bsjoin.index.encoding import floats
from bsjoin.index.sorted_rows import SortedRows

Direction = Literal["backward", "forward", "nearest"]
DIRECTIONS = ("backward", "forward", "nearest")
Later = Callable[[Int64s, Int64s, Int64s], Bools]
"""Given positions of probes, rows before and rows after them: whether the row after is nearer."""


def later_int(values: Int64s, probes: Int64s) -> Later:
    """Compare distances of integers, days or microseconds: exact, without overflow.

    Args:
        values: int64[n], the rows' codes.
        probes: int64[m], the probes' codes.
    """

    def later(positions: Int64s, before: Int64s, behind: Int64s) -> Bools:
        point = probes.take(positions).view(np.uint64)
        back = point - values.take(before).view(np.uint64)
        ahead = values.take(behind).view(np.uint64) - point
        return np.asarray(ahead < back)

    return later


def later_float(values: Int64s, probes: Int64s) -> Later:
    """Compare distances of floats in double precision; infinities as in :func:`bsjoin.index.reach`.

    Args:
        values: int64[n], the rows' codes.
        probes: int64[m], the probes' codes.
    """

    def later(positions: Int64s, before: Int64s, behind: Int64s) -> Bools:
        point = floats(probes.take(positions))
        back = _gap(point, floats(values.take(before)))
        ahead = _gap(floats(values.take(behind)), point)
        both = np.flatnonzero(np.isinf(back) & np.isinf(ahead))
        if both.size:
            # A distance between finite values may overflow a double, half of it does not: so it
            # stays below the distance to an infinity.
            half = point[both] / 2
            back[both] = _gap(half, floats(values.take(before[both])) / 2)
            ahead[both] = _gap(floats(values.take(behind[both])) / 2, half)
        return np.asarray(ahead < back)

    return later


def _gap(above: Float64s, below: Float64s) -> Float64s:
    # Equal infinities give NaN: then the row before is at the probe's value, and none is nearer.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(above - below)


def nearest(
    rows: SortedRows,
    probes: Int64s,
    lows: Int64s | None = None,
    highs: Int64s | None = None,
    *,
    direction: Direction = "backward",
    exact: bool = True,
    reach: tuple[Int64s, Int64s] | None = None,
    later: Later | None = None,
    shifts: Int64s | None = None,
) -> Int64s:
    """Find the nearest row for each probe.

    Args:
        rows: the rows, sorted by (group, value).
        probes: int64[m], codes of the points.
        lows: int64[m], first row of each probe's slice; default 0.
        highs: int64[m], one past its last row; default the number of rows.
        direction: ``"backward"`` (default) for the last row that is not after the probe,
            ``"forward"`` for the first that is not before it, ``"nearest"`` for the nearer of the
            two; if both are equally near, the earlier one. (On one side of the probe only the
            order counts, so a value next to an infinity is nearer to it than a lower one.)
        exact: whether a row with the probe's own value matches; default True.
        reach: the least and the greatest code of a row within the tolerance
            (:func:`bsjoin.index.reach`); ``None`` (default) for any. Floats need it for
            ``"nearest"`` even without a tolerance, because NaN has no distance.
        later: compares the distances of two rows, for ``"nearest"``. ``None`` (default):
            :func:`later_int`, over the codes.
        shifts: as in :meth:`SortedRows.search`; with it, ``"nearest"`` requires ``later``.

    Returns:
        int64[m]: the row, or -1. Among rows with equal values in a slice it is the first one.

    Raises:
        ValueError: the direction is unknown.

    Complexity: two or three searches, O(log n) a probe at worst.

    Example:
        >>> rows = SortedRows.build(np.array([10, 20, 20, 30]))
        >>> nearest(rows, np.array([5, 25, 30])).tolist()
        [-1, 1, 3]
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
    low = np.zeros(len(probes), np.int64) if lows is None else lows
    high = np.full(len(probes), rows.rows) if highs is None else highs
    if not rows.rows:
        return np.full(len(probes), -1)
    before = behind = None
    if direction != "forward":
        before = rows.search(probes, "right" if exact else "left", low, high, shifts) - 1
        before[before < low] = -1
        if reach is not None:
            before[_is_far(rows, before, reach)] = -1
        first_of_equals(rows, before, low, high)
    if direction != "backward":
        behind = rows.search(probes, "left" if exact else "right", low, high, shifts)
        behind[behind >= high] = -1
        if reach is not None:
            behind[_is_far(rows, behind, reach)] = -1
    if before is None or behind is None:
        found = before if behind is None else behind
        assert found is not None
        return found
    best = np.where(before < 0, behind, before)
    two = np.flatnonzero((before >= 0) & (behind >= 0))
    if two.size:
        decide = later or later_int(rows.values, probes)
        ahead = two[decide(two, before[two], behind[two])]
        best[ahead] = behind[ahead]
    return best


def _is_far(rows: SortedRows, found: Int64s, reach: tuple[Int64s, Int64s]) -> Bools:
    values = rows.values.take(found, mode="clip")
    return np.asarray((values < reach[0]) | (values > reach[1]))


def first_of_equals(rows: SortedRows, found: Int64s, low: Int64s, high: Int64s) -> None:
    """Go back, in place, to the first row of the slice that has the same value.

    Args:
        rows: the rows.
        found: int64[m], a row of each slice, or -1.
        low: int64[m], the first row of each slice.
        high: int64[m], one past its last row.
    """
    earlier = np.flatnonzero(found > low)
    at = found[earlier]
    values = rows.values.take(at)
    again = rows.values.take(at - 1) == values
    earlier, values = earlier[again], values[again]
    if earlier.size:
        found[earlier] = rows.search(values, "left", low[earlier], high[earlier])
