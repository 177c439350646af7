"""The range part of a segment: rows of a key in the order of their range column, indexed.

Inside each key's run of rows the range column ascends. A table for points (bands, as-of) keeps
its codes and their directory (:class:`bsjoin.index.SortedRows`); one for intervals keeps the
tree of last points beside them (:class:`bsjoin.index.IntervalIndex`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import HashIndex, IntervalIndex, SortedRows, codes
from bsjoin.index.sorted_rows import Closed

__all__ = [
    "RANGE_CELLS",
    "RangeIndex",
    "closed_of",
    "codes_of",
    "concat",
    "from_cells",
    "index_ranges",
    "run_starts",
    "to_cells",
]

RANGE_CELLS = ("points", "point_directory", "tree", "empty")
"""The arrays that a range index has, by their names in a file; points have the first two."""

Int64s = NDArray[np.int64]
RangeIndex = SortedRows | IntervalIndex

_LONG_DIGITS = 18


def codes_of(array: pa.Array) -> Int64s:
    """Order-preserving codes of a column; anything where a value is null.

    Args:
        array: integers, floating-point numbers, decimals of up to 18 digits, dates, timestamps.
    """
    dtype = array.type
    if pa.types.is_decimal128(dtype):
        if dtype.precision > _LONG_DIGITS:
            raise TypeError(f"{dtype} has no code of 64 bits")
        # The low half of each number; the high half only repeats the sign.
        halves = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
        return np.ascontiguousarray(halves[array.offset :][: len(array), 0])
    if pa.types.is_floating(dtype):
        return codes(np.asarray(array.to_numpy(zero_copy_only=False)))
    width = dtype.bit_width // 8
    data = np.frombuffer(array.buffers()[1], f"i{width}")
    return codes(data[array.offset :][: len(array)])


def run_starts(index: HashIndex) -> Int64s:
    """The first row of each key's run, ascending."""
    if index.runs is None:
        return np.arange(index.rows)
    starts = np.ones(index.rows, np.bool_)
    starts[1:] = index.runs[:-1] == 1  # a run counts down to 1 at its last row
    return np.flatnonzero(starts)


def index_ranges(columns: Sequence[pa.Array], slices: Int64s, closed: Closed | None) -> RangeIndex:
    """Index the range columns of rows that are sorted by (key, first range column).

    Args:
        columns: the points; or the starts and the ends, null where open-ended.
        slices: the first row of each key.
        closed: which ends belong to the intervals; None for points.
    """
    starts = codes_of(columns[0])
    if closed is None:
        return SortedRows.build(starts, slices)
    missing = columns[1].is_null().to_numpy(zero_copy_only=False)
    return IntervalIndex.build(
        starts,
        codes_of(columns[1]),
        slices,
        closed=closed,
        missing_ends=missing if missing.any() else None,
    )


def concat(parts: Sequence[RangeIndex], slices: Int64s) -> RangeIndex:
    """Join the indexes of neighbouring segments; no key is in two of them.

    Complexity: O(rows).
    """
    rows = [part.starts if isinstance(part, IntervalIndex) else part for part in parts]
    values = SortedRows.build(np.concatenate([part.values for part in rows]), slices)
    trees = [part for part in parts if isinstance(part, IntervalIndex)]
    return IntervalIndex.concat(trees, values) if trees else values


def to_cells(index: RangeIndex) -> dict[str, tuple[NDArray[Any], pa.DataType]]:
    """The arrays to be stored, by name."""
    starts = index.starts if isinstance(index, IntervalIndex) else index
    cells: dict[str, tuple[NDArray[Any], pa.DataType]] = {
        "points": (starts.values, pa.int64()),
        "point_directory": (starts.directory, pa.int32()),
    }
    if isinstance(index, IntervalIndex):
        cells["tree"] = (index.tree, pa.int64())
        cells["empty"] = (index.empty, pa.int64())
    return cells


def closed_of(index: RangeIndex) -> Closed | None:
    """Which ends belong to its intervals; None for points."""
    return index.closed if isinstance(index, IntervalIndex) else None


def from_cells(cells: dict[str, NDArray[Any]], closed: Closed | None) -> RangeIndex:
    """The inverse of :func:`to_cells`."""
    starts = SortedRows(cells["points"], cells["point_directory"])
    if closed is None:
        return starts
    return IntervalIndex(starts, cells["tree"], cells["empty"], closed)
