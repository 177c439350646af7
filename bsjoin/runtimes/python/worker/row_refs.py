"""Results of look-ups as Arrow arrays, from rows in one or several row sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import Bools, Int64s
from bsjoin.plan import Shape

RUN_TYPE = pa.struct([pa.field("first", pa.int64()), pa.field("count", pa.int64())])
"""The rows of a key: the number of the first, and their count."""


class RowSource(Protocol):
    """A source of rows: a table, the shared cache, or the result of a query."""

    def gather(self, rows: Int64s, numbers: Sequence[int] | None = None) -> list[pa.Array]:
        """The values of the requested columns (or of those numbered) at some rows."""


P = TypeVar("P", bound=RowSource, covariant=True)


@dataclass(frozen=True)
class RowRefs(Generic[P]):
    """References to the rows of m keys.

    Args:
        places: the row sources.
        place: int32[m], the index of each key's row source; None if there is only one.
        first: int64[m], the first row in it.
        counts: int64[m], the number of rows; 0 for a key without rows.
    """

    places: Sequence[P]
    place: NDArray[np.int32] | None
    first: Int64s
    counts: Int64s


def structs(row_type: pa.StructType, rows: RowRefs[RowSource]) -> pa.Array:
    """One struct per key, from its first row; null for a key without rows."""
    missing = rows.counts == 0
    if not missing.any():
        return _structs(row_type, rows.places, rows.place, rows.first, None)
    # An existing row is a placeholder for missing rows.
    there = np.flatnonzero(~missing)
    if not len(there):
        return pa.nulls(len(missing), row_type)
    substitute = int(there[0])
    first = np.where(missing, rows.first[substitute], rows.first)
    place = rows.place
    if place is not None:
        place = np.where(missing, place[substitute], place)
    return _structs(row_type, rows.places, place, first, missing)


def lists(row_type: pa.StructType, rows: RowRefs[RowSource]) -> pa.Array:
    """One list of structs per key; null for a key without rows."""
    ends = np.cumsum(rows.counts)
    total = int(ends[-1])
    if total >= np.iinfo(np.int32).max:
        raise OverflowError(
            f"{len(rows.counts)} keys have {total} rows in total, more than an Arrow batch can "
            "contain: lower spark.sql.execution.arrow.maxRecordsPerBatch"
        )
    first = np.repeat(rows.first - (ends - rows.counts), rows.counts) + np.arange(total)
    place = None if rows.place is None else np.repeat(rows.place, rows.counts)
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        _structs(row_type, rows.places, place, first, None),
        type=_list_type(row_type),
        mask=pa.array(rows.counts == 0),
    )


def answer_type(shape: Shape, row_type: pa.StructType) -> pa.DataType:
    """The Arrow type of a result."""
    if shape == "exists":
        return pa.bool_()
    if shape == "row":
        return row_type
    return RUN_TYPE if shape == "runs" else _list_type(row_type)


def _list_type(row_type: pa.StructType) -> pa.ListType:
    return pa.list_(pa.field("element", row_type, nullable=False))


def _structs(
    row_type: pa.StructType,
    places: Sequence[RowSource],
    place: NDArray[np.int32] | None,
    rows: Int64s,
    missing: Bools | None,
) -> pa.Array:
    columns = gathered(places, place, rows)
    mask = None if missing is None else pa.array(missing)
    if not columns:
        columns = [pa.nulls(len(rows), pa.bool_())]
    return pa.StructArray.from_arrays(columns, fields=list(row_type), mask=mask)


def gathered(
    places: Sequence[RowSource],
    place: NDArray[np.int32] | None,
    rows: Int64s,
    numbers: Sequence[int] | None = None,
) -> list[pa.Array]:
    """The values of columns, by number, at rows of several sources.

    ``place`` has the index of each row's source; None if there is only one.
    """
    if place is None:
        return places[0].gather(rows, numbers)
    order: list[Int64s] = []
    pieces: list[list[pa.Array]] = []
    for number, one in enumerate(places):
        part = np.flatnonzero(place == number)
        if len(part) or (number == len(places) - 1 and not order):
            order.append(part)
            pieces.append(one.gather(rows.take(part), numbers))
    if len(pieces) == 1:
        return pieces[0]
    back = np.empty(len(rows), np.int64)
    back[np.concatenate(order)] = np.arange(len(rows))
    indices = pa.array(back)
    return [pa.concat_arrays(piece).take(indices) for piece in zip(*pieces, strict=True)]
