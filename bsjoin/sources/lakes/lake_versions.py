"""What has changed between two versions of a table of Delta or Iceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.storage.lake_history import CHANGE, COMMIT

_FEW_BYTES = 1 << 20  # of files
_MOST_BYTES = 32 << 20  # of rows


class LakeChanges:
    """What has changed between two versions; it is read where it is scanned, again each time.

    Args:
        table: the source.
        columns: which are read, in this order.
        read: reads them, with :data:`CHANGE` and :data:`COMMIT`.
        size: of the files that have them, in bytes; None if it is not known.
    """

    def __init__(
        self,
        table: Any,
        columns: Sequence[str],
        read: Callable[[], Iterator[pa.RecordBatch]],
        size: int | None,
    ):
        self._table, self._columns, self._read, self._size = table, columns, read, size

    def scan(self) -> Iterator[pa.RecordBatch]:
        """The rows that came or went, with :data:`CHANGE` and :data:`COMMIT`, some at a time."""
        schema, table = self._schema(), self._table
        yield from table._scanned(lambda: table._fitted(schema, self._read()))

    def few(self) -> pa.Table | None:
        """The rows of :meth:`scan`, at once; None if they are many, or their files large."""
        if self._size is None or self._size > _FEW_BYTES:
            return None
        read: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in self.scan():
                read.append(batch)
                size += batch.nbytes
                if size > _MOST_BYTES:  # a small file may have many rows
                    return None
        finally:
            self.close()
        return pa.Table.from_batches(read, self._schema())

    def _schema(self) -> pa.Schema:
        fields = [self._table.schema.field(name) for name in self._columns]
        return pa.schema([*fields, pa.field(CHANGE, pa.string()), pa.field(COMMIT, pa.int64())])

    def close(self) -> None:
        """Forget what is open of the table."""
        self._table.close()


def with_change(batch: pa.RecordBatch, change: pa.Array | str, commit: int) -> pa.RecordBatch:
    """Rows with what happened to them.

    >>> rows = pa.record_batch({"k": [1]})
    >>> with_change(rows, "insert", 7).to_pylist()
    [{'k': 1, '_change_type': 'insert', '_commit_version': 7}]
    """
    if isinstance(change, str):
        change = pa.repeat(pa.scalar(change), len(batch))
    commits = pa.repeat(pa.scalar(commit, pa.int64()), len(batch))
    names = [*batch.schema.names, CHANGE, COMMIT]
    return pa.RecordBatch.from_arrays([*batch.columns, change, commits], names=names)
