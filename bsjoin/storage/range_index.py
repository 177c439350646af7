"""The range index of a segment: the rows of each key, sorted by their range column.

Inside each key's run of rows the range column is ascending. A table for points (bands, as-of)
stores the codes and their directory (:class:`bsjoin.index.SortedRows`); a table for intervals
also stores the tree of last points (:class:`bsjoin.index.IntervalIndex`), and the place of each
row in its key's order, if it is built to take one of several intervals by that order. Values
without a code of 64 bits, texts and long decimals, are encoded by their rank among the segment's
distinct values, which are stored too (:class:`bsjoin.index.OrderedDictionary`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import (
    BoxIndex,
    ByteStrings,
    HashIndex,
    IntervalIndex,
    OrderedDictionary,
    SortedRows,
    codes,
    wide_texts,
)
from bsjoin.index.arrays import Bools, Int32s, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.index.sorted_rows import Closed
from bsjoin.storage.spark_schema import LONG_DIGITS

RANGE_CELLS = {
    "points": pa.int64(),
    "point_directory": pa.int32(),
    "tree": pa.int64(),
    "empty": pa.int64(),
    "places": pa.int32(),
    "ends": pa.int64(),
    "text": pa.uint8(),
    "prefixes": pa.int64(),
}
"""All arrays that a range index may have, by their names in a file."""

_POINTS, _INTERVALS = ("points", "point_directory"), ("tree", "empty")
_PLACES, _RANKS = ("places",), ("ends", "text", "prefixes")
RANGE_LAYOUTS = (
    _POINTS,
    (*_POINTS, *_INTERVALS),
    (*_POINTS, *_RANKS),
    (*_POINTS, *_INTERVALS, *_RANKS),
    (*_POINTS, *_INTERVALS, *_PLACES),
    (*_POINTS, *_INTERVALS, *_PLACES, *_RANKS),
)
"""The arrays of each kind of range index: points or intervals, with places, with ranked values."""


@dataclass(frozen=True, eq=False)
class RangeIndex:
    """The index that a range join searches in one segment.

    Args:
        rows: the rows, indexed by points or by intervals.
        ranks: the distinct values of ranked columns; None (default) if values have codes.
        places: int32[n]: the place of each row of intervals among those of its key, in the order
            of ``order_by`` and of all columns; None (default) in a table that was not built for it.
        boxes: the rows by several ranges at once; None (default) for none. It has a file of its
            own, and is checked by itself.

    Example:
        >>> codes = RangeCodes.of([pa.array([10, 20, 15])])
        >>> index = index_ranges(codes, np.array([0, 2]), None)
        >>> index.starts.search(np.array([11]), "left", np.array([0]), np.array([2])).tolist()
        [1]
    """

    rows: SortedRows | IntervalIndex
    ranks: OrderedDictionary | None = None
    places: Int32s | None = None
    boxes: BoxIndex | None = None

    @property
    def starts(self) -> SortedRows:
        """The rows by their points, or by the starts of their intervals."""
        return self.rows.starts if isinstance(self.rows, IntervalIndex) else self.rows

    @property
    def closed(self) -> Closed | None:
        """The ends that belong to the intervals; None for points."""
        return self.rows.closed if isinstance(self.rows, IntervalIndex) else None

    def cells(self) -> dict[str, NDArray[Any]]:
        """The arrays to be stored, by name."""
        assert self.starts.directory is not None
        arrays: list[NDArray[Any]] = [self.starts.values, self.starts.directory]
        names = [*_POINTS]
        if isinstance(self.rows, IntervalIndex):
            arrays += [self.rows.tree, self.rows.empty]
            names += _INTERVALS
        if self.places is not None:
            arrays += [self.places]
            names += _PLACES
        if self.ranks is not None:
            arrays += [self.ranks.texts.offsets, self.ranks.texts.data, self.ranks.prefixes]
            names += _RANKS
        return dict(zip(names, arrays, strict=True))

    @classmethod
    def of_cells(cls, cells: dict[str, NDArray[Any]], closed: Closed | None) -> RangeIndex:
        """The inverse of :meth:`cells`.

        Raises:
            ValueError: ``closed`` is given for points, or missing for intervals.
        """
        if (closed is None) == ("tree" in cells):
            raise ValueError(f"closed is {closed!r} for {', '.join(cells)}")
        starts = SortedRows(cells["points"], cells["point_directory"])
        rows: SortedRows | IntervalIndex = starts
        if closed is not None:
            rows = IntervalIndex(starts, cells["tree"], cells["empty"], closed)
        ranks = None
        if "ends" in cells:
            ranks = OrderedDictionary(ByteStrings(cells["ends"], cells["text"]), cells["prefixes"])
        return cls(rows, ranks, cells.get("places"))

    def validate(self, runs: Int32s) -> None:
        """Check everything that a search relies on.

        Args:
            runs: int32[n], the number of rows with the same key from this row on, itself included.

        Raises:
            ValueError: names the violated invariant and the position.

        Complexity: O(n + bytes of ranked values) time, O(1) memory.
        """
        self.rows.validate(runs)
        if self.places is not None:
            _validate_places(self.places, runs)
        if self.ranks is None:
            return
        self.ranks.validate()
        last = 2 * len(self.ranks.texts) - 1  # the code of the greatest value
        for begin, end in chunks(self.starts.rows):
            values = self.starts.values[begin:end]
            wrong = (values < 1) | (values > last) | (values & 1 == 0)
            refuse(wrong, begin, "the point has no stored value at row")
            if isinstance(self.rows, IntervalIndex):
                lasts = self.rows.tree[begin:end]
                wrong = (lasts < 0) | (lasts > last)
                wrong &= (lasts != LEAST) & (lasts != GREATEST)
                refuse(wrong, begin, "the last point has no stored value at row")


def _validate_places(places: Int32s, runs: Int32s) -> None:
    """Check that places are those of rows of a run."""
    if len(places) != len(runs):
        raise ValueError(f"there are {len(places)} places for {len(runs)} rows")
    for begin, end in chunks(len(runs)):
        # A run counts down to 1 at its last row: where its first row is, a row does not know.
        refuse(places[begin:end] < 0, begin, "the place is negative at row")


def is_ranked(dtype: pa.DataType) -> bool:
    """Whether values of a type are encoded by their rank among the stored values."""
    if pa.types.is_decimal128(dtype):
        return bool(dtype.precision > LONG_DIGITS)
    return bool(_is_text(dtype))


def _is_text(dtype: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string)
    return any(kind(dtype) for kind in (*kinds, pa.types.is_large_binary))


def codes_of(array: pa.Array) -> Int64s:
    """Order-preserving codes of a column; arbitrary for null values.

    Args:
        array: integers, floating-point numbers, decimals of up to 18 digits, dates, timestamps.

    Raises:
        TypeError: the type is ranked.
    """
    dtype = array.type
    if is_ranked(dtype):
        raise TypeError(f"{dtype} has no code of 64 bits")
    if pa.types.is_decimal128(dtype):
        # The low word of each number; the high word only repeats the sign.
        return np.ascontiguousarray(words_of(array)[:, 0])
    if pa.types.is_floating(dtype):
        return codes(np.asarray(array.to_numpy(zero_copy_only=False)))
    width = dtype.bit_width // 8
    data = np.frombuffer(array.buffers()[1], f"i{width}")
    return codes(data[array.offset :][: len(array)])


def words_of(array: pa.Array) -> Int64s:
    """The numbers of a column of decimals: int64[m, 2], low and high word of each."""
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return words[array.offset :][: len(array)]


def texts_of(array: pa.Array) -> ByteStrings:
    """The byte strings by which a ranked column is ranked; arbitrary for null values."""
    if pa.types.is_decimal128(array.type):
        return wide_texts(words_of(array))
    _, ends, data = array.buffers()
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if ends is None:  # an array without elements may have no buffers
        return ByteStrings(np.zeros(1, np.int64), np.zeros(0, np.uint8))
    return ByteStrings(
        np.frombuffer(ends, np.int64 if large else np.int32)[array.offset :][: len(array) + 1],
        np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8),
    )


def run_starts(index: HashIndex) -> Int64s:
    """The first row of each key's run, ascending."""
    if index.runs is None:
        return np.arange(index.rows)
    starts = np.ones(index.rows, np.bool_)
    starts[1:] = index.runs[:-1] == 1  # a run counts down to 1 at its last row
    return np.flatnonzero(starts)


@dataclass(frozen=True)
class RangeCodes:
    """The codes of the range columns of some rows: all that the index is made of.

    Args:
        columns: int64[n] each: the codes of the points; or of the starts and the ends.
        missing_ends: bool[n]: which intervals are open-ended; None if none is.
        ranks: the distinct values of ranked columns; None if values have codes.
    """

    columns: tuple[Int64s, ...]
    missing_ends: Bools | None
    ranks: OrderedDictionary | None

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> RangeCodes:
        """Encode range columns: the points; or the starts and the ends, null where open-ended.

        Complexity: O(n); O(n log n) for ranked types.
        """
        ranks, missing = None, None
        if is_ranked(columns[0].type):
            ranks, together = OrderedDictionary.build(
                ByteStrings.concat([texts_of(column) for column in columns])
            )
            coded = np.split(together, len(columns))
        else:
            coded = [codes_of(column) for column in columns]
        if columns[-1].null_count:
            missing = columns[-1].is_null().to_numpy(zero_copy_only=False)
        return cls(tuple(coded), missing, ranks)

    def take(self, rows: Int64s | Int32s) -> RangeCodes:
        """The codes of other rows, or in another order."""
        columns = tuple(column.take(rows) for column in self.columns)
        missing = self.missing_ends
        return RangeCodes(columns, None if missing is None else missing.take(rows), self.ranks)


def index_ranges(
    codes: RangeCodes, slices: Int64s, closed: Closed | None, places: Int32s | None = None
) -> RangeIndex:
    """Index the range columns of rows that are sorted by (key, first range column).

    ``slices`` has the first row of each key; ``places``, of intervals, each row's in its key's
    order.

    Complexity: O(n).
    """
    if closed is None:
        return RangeIndex(SortedRows.build(codes.columns[0], slices), codes.ranks)
    starts, ends = codes.columns
    intervals = IntervalIndex.build(
        starts, ends, slices, closed=closed, missing_ends=codes.missing_ends
    )
    return RangeIndex(intervals, codes.ranks, places)
