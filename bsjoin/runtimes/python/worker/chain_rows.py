"""Rows on their way through the joins of a stage: references, read as late as possible.

A join adds references to the rows that it finds, and chooses among the rows before it. Columns are
read once, when the rows leave the stage, unless a later join needs them: what a later join drops
is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.index import Int64s
from bsjoin.plan import Call, StageColumn
from bsjoin.runtimes.python.worker.keys import converted
from bsjoin.runtimes.python.worker.row_refs import RowSource, gathered
from bsjoin.runtimes.python.worker.table_rows import TableRows


@dataclass(frozen=True)
class Payload:
    """The payload of one join: the table's columns of m rows.

    Args:
        types: of the columns.
        sources: the sources of the table's rows; their first columns are those of ``types``.
        source: int32[m], the index of each row's source; None if there is only one.
        rows: int64[m], the table's row in the source; -1 for a row without a match.
    """

    types: Sequence[pa.DataType]
    sources: Sequence[RowSource]
    source: NDArray[np.int32] | None
    rows: Int64s
    _read: dict[int, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> Payload:
        """A payload of one or more columns that are computed already."""
        rows = np.zeros(len(columns[0]), np.int64)
        return cls([one.type for one in columns], [], None, rows, dict(enumerate(columns)))

    def take(self, where: Int64s) -> Payload:
        """The same for some of the rows."""
        source = None if self.source is None else self.source.take(where)
        chosen = pa.array(where)
        read = {number: column.take(chosen) for number, column in self._read.items()}
        return Payload(self.types, self.sources, source, self.rows.take(where), read)

    def column(self, number: int) -> pa.Array:
        """One of the columns; null in rows without a match."""
        if number not in self._read:
            (self._read[number],) = self._gathered([number])
        return self._read[number]

    def columns(self) -> list[pa.Array]:
        """All columns."""
        missing = [number for number in range(len(self.types)) if number not in self._read]
        if missing:
            self._read.update(zip(missing, self._gathered(missing), strict=True))
        return [self._read[number] for number in range(len(self.types))]

    def _gathered(self, numbers: list[int]) -> list[pa.Array]:
        if len(self.sources) == 1 and isinstance(self.sources[0], TableRows):
            return self.sources[0].gather(self.rows, numbers)
        there = self.rows >= 0
        if there.all():
            return gathered(self.sources, self.source, self.rows, numbers)
        places = np.flatnonzero(there)
        if not len(places):
            return [pa.nulls(len(there), self.types[number]) for number in numbers]
        found = gathered(
            self.sources,
            None if self.source is None else self.source.take(places),
            self.rows.take(places),
            numbers,
        )
        indices = pa.array(np.cumsum(there) - 1, mask=~there)
        return [column.take(indices) for column in found]


@dataclass(frozen=True)
class Rows:
    """Rows of a stage, between two of its joins.

    Args:
        batch: the rows as Spark has sent them.
        positions: int64[m], the row of the batch that each of these comes from; None for all rows
            in their order.
        payloads: of each join so far; None for one without columns of its table.
    """

    batch: pa.RecordBatch
    positions: Int64s | None = None
    payloads: tuple[Payload | None, ...] = ()

    def __len__(self) -> int:
        return self.batch.num_rows if self.positions is None else len(self.positions)

    def sent(self, number: int) -> pa.Array:
        """A column that Spark has sent."""
        column = self.batch.column(number)
        return column if self.positions is None else column.take(pa.array(self.positions))

    def column(self, wanted: StageColumn) -> pa.Array:
        """A column that Spark has sent, or of a payload."""
        if wanted.join is None:
            found = self.sent(wanted.number)
        else:
            payload = self.payloads[wanted.join]
            assert payload is not None
            found = payload.column(wanted.number)
        return found if wanted.type is None else converted(found, wanted.type)

    def chosen(self, where: Int64s | None) -> Rows:
        """Some of the rows, once or several times; None: all of them."""
        if where is None:
            return self
        positions = where if self.positions is None else self.positions.take(where)
        payloads = tuple(None if one is None else one.take(where) for one in self.payloads)
        return Rows(self.batch, positions, payloads)

    def with_payload(self, payload: Payload | None) -> Rows:
        """The rows behind one more join."""
        return replace(self, payloads=(*self.payloads, payload))


def evaluated(call: Call, column: Callable[[StageColumn], pa.Array]) -> pa.Array:
    """The values of a call in all rows, whose columns are found by ``column``."""
    values = [
        evaluated(one, column)
        if isinstance(one, Call)
        else column(one)
        if isinstance(one, StageColumn)
        else one
        for one in call.values
    ]
    return pc.call_function(call.function, values)


def placeholder(dtype: pa.DataType) -> pa.Array:
    """An array of one value that is not null, nor is anything in it."""
    if pa.types.is_null(dtype):
        return pa.nulls(1)
    if pa.types.is_struct(dtype):
        inside = [placeholder(dtype.field(i).type) for i in range(dtype.num_fields)]
        if not inside:
            return pa.array([{}], dtype)
        return pa.StructArray.from_arrays(inside, fields=list(dtype))
    if pa.types.is_nested(dtype):
        return pa.array([[]], dtype)
    if dtype in (pa.string(), pa.large_string()):
        return pa.array([""], dtype)
    if dtype in (pa.binary(), pa.large_binary()):
        return pa.array([b""], dtype)
    return pa.Array.from_buffers(dtype, 1, [None, pa.py_buffer(bytes(32))])
