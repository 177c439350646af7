"""The orders by which a join takes one of the intervals that contain a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.errors import DataError
from bsjoin.index import (
    GREATEST,
    ByteStrings,
    IntervalIndex,
    codes,
    difference_wide,
    floats,
)
from bsjoin.index.encoding import SIGN
from bsjoin.plan import Predicate
from bsjoin.storage.range_index import RangeIndex

__all__ = ["order_of"]

Int64s = NDArray[np.int64]
Order = Callable[[Int64s], Sequence[NDArray[Any]]]

_PIECE = 8


def order_of(predicate: Predicate, index: RangeIndex) -> Order:
    """Return a function from rows to the numbers by which they are ordered, column by column.

    Args:
        predicate: which interval it takes.
        index: the intervals.

    Raises:
        ValueError: the index has no places of rows, which this order needs.
    """
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
        texts = index.ranks.texts
        ends = _words(texts, np.where(endless, starts, lasts) >> 1)
        low, high = difference_wide(ends, _words(texts, starts >> 1))
        parts = [np.where(endless, GREATEST, _signed(part)) for part in (high, low)]
        return [endless.astype(np.int64), *parts]  # all addresses have the greatest length, too
    if not floating:
        length = _signed(lasts.view(np.uint64) - starts.view(np.uint64))
        return [np.where(endless, GREATEST, length)]
    # Without its end, an interval of codes ends one before it.
    ends = lasts if intervals.closed in ("both", "right") else lasts + ~endless
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = floats(np.where(endless, 0, ends)) - floats(starts)
    return [np.where(endless, GREATEST, codes(lengths))]


def _words(texts: ByteStrings, rows: Int64s) -> Int64s:
    """The numbers that decimals, or binary values filled up with zeros, are: int64[m, 2].

    Raises:
        DataError: a binary value has more than 16 bytes.
    """
    (high, _), (low, counts) = (texts.piece(rows, number) for number in (0, 1))
    if (counts > _PIECE).any():
        at = int(rows[np.argmax(counts > _PIECE)])
        raise DataError(
            f"an interval has an end of {len(texts.bytes(at))} bytes, and "
            'take="shortest" subtracts binary ends of up to 16 bytes, such as addresses. Shorten '
            'them, or take "latest_start", of nested intervals with order_by="end NULLS LAST"'
        )
    return np.stack([_signed(low.view(np.uint64)), high], axis=1)


def _signed(numbers: NDArray[np.uint64]) -> Int64s:
    """Signed numbers in the order of unsigned ones."""
    return (numbers ^ SIGN).view(np.int64)
