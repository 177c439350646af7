"""The orders by which a join takes one of the intervals that contain a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import GREATEST, ByteStrings, Int64s, IntervalIndex, codes, floats
from bsjoin.index.encoding import SIGN
from bsjoin.plan import Predicate
from bsjoin.storage.range_index import RangeIndex

Order = Callable[[Int64s], Sequence[NDArray[Any]]]

_PIECE = 8


def order_of(predicate: Predicate, index: RangeIndex) -> Order:
    """Return a function from rows to the numbers by which they are ordered, column by column."""
    intervals, places, take = index.rows, index.places, predicate.take
    assert isinstance(intervals, IntervalIndex)
    starts, lasts = intervals.starts.values, intervals.tree
    if take == "latest_start":  # rows with the same start are in their order
        return lambda rows: (~starts.take(rows), rows)
    if places is None:
        raise ValueError("the index does not have the places of its rows")
    if take == "first":
        return lambda rows: (places.take(rows),)
    if take == "earliest_end":
        return lambda rows: (lasts.take(rows), places.take(rows))
    return lambda rows: (
        *_lengths(index, intervals, rows, predicate.floating),
        places.take(rows),
    )


def _lengths(
    index: RangeIndex, intervals: IntervalIndex, rows: Int64s, floating: bool
) -> Sequence[Int64s]:
    """Numbers in the order of the lengths; the greatest for an interval without an end."""
    starts, lasts = intervals.starts.values.take(rows), intervals.tree.take(rows)
    endless = lasts == GREATEST
    if index.ranks is not None:
        ends = np.where(endless, starts, lasts)
        between = _between(index.ranks.texts, starts >> 1, ends >> 1)
        return [endless.astype(np.int64), *between]  # any length may have an end
    if not floating:
        length = _signed(lasts.view(np.uint64) - starts.view(np.uint64))
        return [np.where(endless, GREATEST, length)]
    # Without its end, an interval of codes ends one before it.
    ends = lasts if intervals.closed in ("both", "right") else lasts + ~endless
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = floats(np.where(endless, 0, ends)) - floats(starts)
    return [np.where(endless, GREATEST, codes(lengths))]


def _between(texts: ByteStrings, starts: Int64s, ends: Int64s) -> Sequence[Int64s]:
    """Numbers in the order of what is between decimals, or between binary values.

    A binary value is a fraction, its first byte the first one behind the point: filled up with
    zeros, values of any size are numbers of as many bytes.
    """
    pieces = [[texts.piece(rows, number) for number in (0, 1)] for rows in (starts, ends)]
    if any((counts > _PIECE).any() for _, (_, counts) in pieces):
        return [_long_between(texts, starts, ends)]
    (first, other), (first_end, other_end) = ([words for words, _ in some] for some in pieces)
    rest = other_end.view(np.uint64) - other.view(np.uint64)
    borrow = (other_end < other).view(np.uint8)
    return [_signed(first_end.view(np.uint64) - first.view(np.uint64) - borrow), _signed(rest)]


def _long_between(texts: ByteStrings, starts: Int64s, ends: Int64s) -> Int64s:
    """The same of values of more than 16 bytes, one by one."""
    found = np.empty(len(starts), object)
    for place, rows in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        start, end = (texts.bytes(row).tobytes() for row in rows)
        size = max(len(start), len(end))
        below, above = (int.from_bytes(value.ljust(size, b"\0")) for value in (start, end))
        found[place] = max(0, above - below).to_bytes(size).rstrip(b"\0")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _signed(numbers: NDArray[np.uint64]) -> Int64s:
    """Signed numbers in the order of unsigned ones."""
    return (numbers ^ SIGN).view(np.int64)
