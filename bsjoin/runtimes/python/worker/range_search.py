"""Evaluates a range condition on one segment: the matching rows of each probe's key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import (
    GREATEST,
    Asked,
    Bools,
    BoxIndex,
    Int64s,
    IntervalIndex,
    Sides,
    SortedRows,
    each_in_order,
    first_of_each,
    nearest,
    nearest_rows,
    pairs,
)
from bsjoin.plan import Predicate
from bsjoin.runtimes.python.worker.interval_orders import order_of
from bsjoin.runtimes.python.worker.probes import points_of
from bsjoin.storage.range_index import RangeIndex, is_ranked


def matches(
    predicate: Predicate,
    index: RangeIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
    max_pairs: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs of a batch of probes and a segment's rows.

    Args:
        predicate: the condition.
        index: the segment's range index.
        probes: the m points; or starts and ends; then those of ``predicate.boxes``.
        low: int64[m], first row of each probe's key.
        high: int64[m], one past its last row; equal to ``low`` if there is none.
        max_pairs: the maximum number of pairs at a time.

    Yields:
        int64[p] and int64[p]: positions of probes, ascending, and rows; at most ``max_pairs``.
    """
    if predicate.boxes and index.boxes is not None:
        yield from _in_boxes(predicate, index, index.boxes, probes, low, high, max_pairs)
        return
    probes = probes[: predicate.columns]
    high = _without_nulls(probes, low, high)
    rows = index.rows
    if isinstance(rows, SortedRows):
        yield from _of_points(predicate, index, probes[0], low, high, max_pairs)
        return
    found = rows.pairs(_asked(predicate, index, rows, probes, low, high), max_pairs)
    if predicate.take == "all":
        yield from found
    elif predicate.n == 1:
        yield from first_of_each(found, order_of(predicate, index))
    else:
        yield from each_in_order(found, order_of(predicate, index), max_pairs)


def any_match(
    predicate: Predicate, index: RangeIndex, probes: Sequence[pa.Array], low: Int64s, high: Int64s
) -> Bools:
    """Whether each probe has a match: for semi and anti joins. It takes what :func:`matches` takes.

    Complexity: O(log n) a probe, however many rows match.
    """
    probes = probes[: predicate.columns]
    high = _without_nulls(probes, low, high)
    rows = index.rows
    if isinstance(rows, SortedRows):
        firsts, stops = _points(predicate, index, probes[0], low, high)
        return np.asarray(firsts < stops)
    return rows.any(_asked(predicate, index, rows, probes, low, high))


def _in_boxes(
    predicate: Predicate,
    index: RangeIndex,
    tree: BoxIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
    max_pairs: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs that the tree finds; which it has of the first condition, not only nearly."""
    boxes, met = _boxes(predicate, index, probes, low, high)
    probes, rows = probes[: predicate.columns], index.rows
    high = _without_nulls(probes, low, high)
    if isinstance(rows, SortedRows):
        firsts, stops = _points(predicate, index, probes[0], low, high)
    else:
        asked = _asked(predicate, index, rows, probes, low, high)
    for which, found in tree.pairs(boxes, low, met, max_pairs):
        if isinstance(rows, SortedRows):
            fits = (found >= firsts[which]) & (found < stops[which])
            which, found = which[fits], found[fits]
        else:
            which, found = rows.those_of(asked, which, found)
        if len(which):
            yield which, found


def _asked(
    predicate: Predicate,
    index: RangeIndex,
    rows: IntervalIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
) -> Asked:
    """What intervals have to be to match."""
    if predicate.kind == "within":
        points = points_of(probes[0], index, predicate.finer).cuts
        return rows.stabbed(points.codes, low, high, points.shifts)
    intervals, details = _intervals(predicate, index, rows, probes)
    return rows.overlapped(*intervals, low, high, **details)


def _boxes(
    predicate: Predicate,
    index: RangeIndex,
    probes: Sequence[pa.Array],
    low: Int64s,
    high: Int64s,
) -> tuple[list[Sides], Int64s]:
    """The boxes of the probes, ends included, and one past the last row that each may meet.

    They may be a code too large.
    """
    boxes, begin = list[Sides](), 0
    for one in (predicate, *predicate.boxes):
        some = probes[begin : begin + one.columns]
        begin += one.columns
        high = _without_nulls(some, low, high)
        points = points_of(some[0], index, one.finer)
        if one.kind == "band":
            sides = points.moved(-one.before).codes, points.moved(one.after).codes
        elif one.kind == "within":
            sides = points.cuts.codes, points.cuts.codes
        else:
            ends = points_of(some[1], index, one.finer).cuts.codes
            sides = points.cuts.codes, np.where(_missing(some[1]), GREATEST, ends)
        boxes.append(sides)
    return boxes, high


def run_of_each(
    predicate: Predicate, index: RangeIndex, probes: Sequence[pa.Array], low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """The rows that match each probe, where they follow each other: those of a band.

    It takes what :func:`matches` takes, and an index of points.

    Returns:
        int64[m] and int64[m]: the first row, and one past the last.
    """
    return _points(predicate, index, probes[0], low, _without_nulls(probes, low, high))


def _without_nulls(probes: Sequence[pa.Array], low: Int64s, high: Int64s) -> Int64s:
    """One past the last row of each probe's key; the first row for null, which matches nothing."""
    return np.where(_missing(probes[0]), low, high) if probes[0].null_count else high


def _missing(array: pa.Array) -> Bools:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _intervals(
    predicate: Predicate, index: RangeIndex, rows: IntervalIndex, probes: Sequence[pa.Array]
) -> tuple[tuple[Int64s, Int64s], dict[str, Any]]:
    """The starts and ends of the probes; and which of them have no end, or are empty.

    Codes show which intervals are empty, except for ranks and finer digits: there, different values
    between the same two stored values have the same code.
    """
    starts, ends = (points_of(probe, index, predicate.finer).cuts for probe in probes)
    missing = _missing(probes[1]) if probes[1].null_count else None
    empty = None
    if index.ranks is not None or is_ranked(probes[0].type) or predicate.finer:
        is_empty = pc.greater if rows.closed == "both" else pc.greater_equal
        found = is_empty(*probes).fill_null(False).to_numpy(zero_copy_only=False)
        empty = np.asarray(found, np.bool_)
    shifts = starts.shifts, ends.shifts
    return (starts.codes, ends.codes), {"missing_ends": missing, "empty": empty, "shifts": shifts}


def _of_points(
    predicate: Predicate,
    index: RangeIndex,
    probes: pa.Array,
    low: Int64s,
    high: Int64s,
    max_pairs: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """The pairs, where rows are points."""
    if predicate.n == 1:
        return pairs(*_points(predicate, index, probes, low, high), max_pairs)
    codes, details = _nearest(predicate, index, probes)
    details |= {"n": predicate.n, "max_pairs": max_pairs}
    return nearest_rows(index.starts, codes, low, high, **details)


def _points(
    predicate: Predicate, index: RangeIndex, probes: pa.Array, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """The rows that match each point: the first, and one past the last."""
    if predicate.kind == "band":
        points = points_of(probes, index, predicate.finer)
        lower, upper = points.moved(-predicate.before), points.moved(predicate.after)
        ends, shifts = (lower.codes, upper.codes), (lower.shifts, upper.shifts)
        return index.starts.band(*ends, predicate.closed, low, high, shifts)
    codes, details = _nearest(predicate, index, probes)
    found = nearest(index.starts, codes, low, high, **details)
    return found, np.where(found < 0, found, found + 1)


def _nearest(
    predicate: Predicate, index: RangeIndex, probes: pa.Array
) -> tuple[Int64s, dict[str, Any]]:
    """The points of an as-of join, and how the nearest rows are found."""
    points = points_of(probes, index, predicate.finer)
    limits = None
    if predicate.tolerance is not None or (predicate.floating and predicate.direction == "nearest"):
        limits = points.reach(predicate.tolerance)
    return points.cuts.codes, {
        "direction": predicate.direction,
        "exact": predicate.exact,
        "reach": limits,
        "later": points.later(index) if predicate.direction == "nearest" else None,
        "shifts": points.cuts.shifts,
    }
