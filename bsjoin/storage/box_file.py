"""The file of a segment's boxes: its rows by several ranges at once.

It is there beside the index if a table is built for several ranges and has keys with many rows:
``<name>.boxes.arrow``, with one row, whose columns are the arrays of
:class:`bsjoin.index.BoxIndex`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bsjoin.index import (
    GREATEST,
    LEAST,
    BoxIndex,
    Sides,
    add_saturated,
    box_shares,
    codes,
    floats,
    last_codes,
)
from bsjoin.index.arrays import Int32s, Int64s
from bsjoin.index.sorted_rows import Closed
from bsjoin.storage.mapped import shown
from bsjoin.storage.range_index import codes_of

FEW_ROWS = 64
"""Of keys that all have so many rows or fewer, a search by one range looks at few rows anyway."""

_SCHEMA = pa.schema({"order": pa.large_list(pa.int32()), "bounds": pa.large_list(pa.int64())})
_CODES = 16
"""A block has so many codes for each dimension: the least and the greatest of 8 entries."""


@dataclass(frozen=True)
class BoxSide:
    """One dimension of boxes.

    Args:
        closed: which ends belong to the intervals of the table; None for points.
        reach: how far below and above a point the stream's ranges go, in units of codes, or as
            doubles; None if they are as long as the table's own.
    """

    closed: Closed | None
    reach: tuple[float, float] | None

    @property
    def columns(self) -> int:
        """How many columns of the table it has."""
        return 1 if self.closed is None else 2


def index_boxes(
    sides: Sequence[BoxSide], columns: Sequence[pa.Array], order: Int32s, starts: Int64s
) -> tuple[BoxIndex, tuple[float, ...]]:
    """Index rows by several ranges.

    Args:
        sides: the dimensions; by the first one the rows of a key are sorted.
        columns: the columns of all dimensions, of rows in any order.
        order: int32[n], the rows in the order of the segment.
        starts: the first row of each key.

    Returns:
        The index; and for each dimension what part of a key's rows the stream's ranges meet.

    Complexity: O(n log n).
    """
    boxes, probes, next_column = list[Sides](), list[Sides](), 0
    for side in sides:
        some = columns[next_column : next_column + side.columns]
        next_column += side.columns
        box = _codes(side, some)
        boxes.append((box[0].take(order), box[1].take(order)))
        probes.append(_probes(side, boxes[-1], pa.types.is_floating(some[0].type)))
    shares = box_shares(boxes, probes, starts)
    return BoxIndex.build(boxes, starts, shares), shares


def _codes(side: BoxSide, columns: Sequence[pa.Array]) -> Sides:
    """The least and the greatest code of each row; of one that matches nothing in wrong order."""
    least = codes_of(columns[0])
    never = columns[0].is_null().to_numpy(zero_copy_only=False)
    greatest = least
    if side.closed is not None:
        missing = columns[1].is_null().to_numpy(zero_copy_only=False)
        greatest, empty = last_codes(least, codes_of(columns[1]), side.closed, missing)
        never = never | empty
    return np.where(never, GREATEST, least), np.where(never, LEAST, greatest)


def _probes(side: BoxSide, boxes: Sides, floating: bool) -> Sides:
    """What the stream may ask for: ranges about the points and starts of the rows."""
    points = boxes[0]
    if side.reach is None:
        return boxes
    below, above = (_moved(points, width, floating) for width in (-side.reach[0], side.reach[1]))
    return below, above


def _moved(points: Int64s, width: float, floating: bool) -> Int64s:
    if math.isinf(width):
        return np.full(len(points), GREATEST if width > 0 else LEAST)
    if floating:
        return codes(add_saturated(floats(points), width))
    return np.asarray(add_saturated(points, math.floor(width)), np.int64)


def check_box_schema(schema: pa.Schema) -> None:
    """Refuse columns that are not those of an index of boxes.

    Raises:
        ValueError: names the columns.
    """
    if not schema.equals(_SCHEMA):
        raise ValueError(f"it contains {shown(schema)}, which is no index of boxes")


def box_batch(index: BoxIndex) -> pa.RecordBatch:
    """An index as a record batch of one row, to be written."""
    cells = (pa.array(index.order), pa.array(index.bounds.ravel()))
    lists = [
        pa.LargeListArray.from_arrays(pa.array([0, len(cell)], pa.int64()), cell) for cell in cells
    ]
    return pa.record_batch(lists, schema=_SCHEMA)


def boxes_of(batch: pa.RecordBatch, dimensions: int) -> BoxIndex:
    """The inverse of :func:`box_batch`, for a schema that has passed :func:`check_box_schema`.

    The invariants are not checked here.

    Raises:
        ValueError: an array is null, or its length is not that of whole blocks.
    """
    if batch.num_rows != 1:
        raise ValueError(f"an index of boxes has one row, not {batch.num_rows}")
    for column in batch.columns:
        if column.null_count or column.values.null_count:
            raise ValueError("there are nulls in it")
    order, bounds = (np.asarray(column[0].values.to_numpy()) for column in batch.columns)
    if len(bounds) % (dimensions * _CODES):
        raise ValueError(f"it has {len(bounds)} bounds for {dimensions} dimensions")
    return BoxIndex(order, bounds.reshape(-1, dimensions, 2, _CODES // 2))
