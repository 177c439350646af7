"""The versions of a table of Delta or Iceberg, and what has changed between two of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.sources.session import Session
from bsjoin.storage.lake_history import CHANGE, COMMIT
from bsjoin.storage.source_version import SourceVersion

_FEW_BYTES = 1 << 20  # of files
_MOST_BYTES = 32 << 20  # of rows


class LakeVersions:
    """Looks at a table of a lake. One thread calls it.

    Args:
        table: the source: a copy of it is used, which asks for the newest version each time.
    """

    key: tuple[str, ...] = ()
    """Nothing tells a row from all others: the formats have no keys."""

    def __init__(self, table: Any):
        table.schema  # noqa: B018 - its columns stay as they are
        self._table = copy.copy(table)
        self._table._session, self._table.renewed_every_s = Session(), 0.0

    def version(self) -> SourceVersion:
        """The newest version."""
        table = self._table
        found: SourceVersion = table._execute(table._version_of)
        return found

    def numbers(self) -> tuple[str, dict[str, int | None]]:
        """What tells the table from others, and the numbers of its columns by their names.

        A column that is renamed keeps its number; None where the format has none.
        """
        table = self._table
        found: tuple[str, dict[str, int | None]] = table._execute(table._numbers)
        return found

    def at(self, version: str) -> Any:
        """The source at one version, always the same."""
        return self._table._at(version)

    def changes(
        self, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        """What has changed after one version, up to another one; or why that is not told.

        Raises:
            SourceError: the table's log or metadata cannot be read.
        """
        if {CHANGE, COMMIT} & {name.lower() for name in columns}:
            return f"the table has a column {CHANGE} or {COMMIT}, as changes have"
        table = self._table
        found: LakeChanges | str = table._execute(
            lambda opened: table._changed(opened, since, until, columns)
        )
        # What is in a log may be a URL with a secret.
        return scrubbed(found, table._secrets) if isinstance(found, str) else found


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
        """The rows that came or went, with :data:`CHANGE` and :data:`COMMIT`, some at a time.

        Raises:
            SourceError, DataError: they cannot be read.
        """
        schema, table = self._schema(), self._table
        found: Iterator[pa.RecordBatch] = table._scanned(
            lambda: table._fitted(schema, self._read())
        )
        return found

    def few(self) -> pa.Table | None:
        """The rows of :meth:`scan`, at once; None if they are many, or their files large.

        Raises:
            SourceError, DataError: they cannot be read.
        """
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
