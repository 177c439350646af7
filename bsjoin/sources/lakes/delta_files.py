"""Files of a table of Delta: those of its log, and the rows of those that have changed.

deltalake's own reader of the change data feed refuses column mapping, and makes other values of
times before 1677 and after 2262 that Spark has written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from bsjoin.errors import SourceError
from bsjoin.sources.drivers import driver
from bsjoin.sources.lakes.delta_log import ChangedFile, Commit, log_file
from bsjoin.sources.lakes.lake_versions import with_change
from bsjoin.sources.plain import plain
from bsjoin.sources.types import fitted
from bsjoin.storage.lake_history import CHANGE

Opener = Callable[[str], pa.NativeFile]
Options = Mapping[str, str]

_MOST_COMMITS = 1_000
_MOST_LOG_BYTES = 64 << 20


@dataclass(frozen=True)
class DeltaColumn:
    """A column, as files have it.

    Args:
        physical: its name in files, and in the log's values of partitions.
        type: of its values in the table.
        partition: whether the log has its values, and files have not.
    """

    physical: str
    type: pa.DataType
    partition: bool


def is_told_by_text(dtype: pa.DataType) -> bool:
    """Whether the text that the log has for a value of a partition is read as Delta reads it."""
    kinds = pa.types
    return bool(
        kinds.is_string(dtype)
        or kinds.is_integer(dtype)
        or kinds.is_boolean(dtype)
        or kinds.is_date32(dtype)
        or kinds.is_decimal(dtype)
    )


def commits_between(table: str, options: Options, first: int, last: int) -> list[Commit] | str:
    """The commits from one on, up to another one; or why they are too many.

    Raises:
        SourceError: one is not there any more, or is damaged.
    """
    if last - first > _MOST_COMMITS:
        return f"there are more than {_MOST_COMMITS:,} commits"
    opened, found, size = _opener(table, options), [], 0
    for version in range(first, last + 1):
        text = _read(opened, version, _MOST_LOG_BYTES - size)
        if text is None:
            return f"the log of the commits has more than {_MOST_LOG_BYTES >> 20} MB"
        size += len(text)
        found.append(Commit.parsed(version, text))
    return found


def _read(opened: Opener, version: int, most: int) -> bytes | None:
    """A commit's file; None if it is larger."""
    try:
        with opened(log_file(version)) as stream:
            return bytes(stream.read()) if stream.size() <= most else None
    except FileNotFoundError:
        pass
    raise SourceError(f"commit {version} is not in the table's log any more")


def changed_rows(
    table: str,
    options: Options,
    files: Sequence[ChangedFile],
    columns: Mapping[str, DeltaColumn],
    what: str,
) -> Iterator[pa.RecordBatch]:
    """The rows that came and went, with what happened to them, some at a time."""
    opened = _opener(table, options)
    for file in files:
        with opened(file.path) as stream:
            yield from _rows(stream, file, columns, what)


def _rows(
    stream: pa.NativeFile, file: ChangedFile, columns: Mapping[str, DeltaColumn], what: str
) -> Iterator[pa.RecordBatch]:
    parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    there = parquet.schema_arrow.names
    wanted = {one.physical for one in columns.values() if not one.partition}
    if file.change is None:
        wanted.add(CHANGE)
    # Some column tells how many rows there are.
    read = [name for name in there if name in wanted] or there[:1]
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    constants = {
        name: _constant(file.partition[column.physical], name, column.type, what)
        for name, column in columns.items()
        if column.partition
    }
    for batch in parquet.iter_batches(columns=read):
        arrays = []
        for name, column in columns.items():
            if name in constants:
                arrays.append(pa.repeat(constants[name], len(batch)))
            elif column.physical in there:
                arrays.append(plain(batch.column(column.physical)))
            else:  # the file is older than the column
                arrays.append(pa.nulls(len(batch), column.type))
        table = fitted(pa.table(arrays, names=schema.names), schema, what)
        change = file.change or batch.column(CHANGE)
        for rows in table.combine_chunks().to_batches():
            yield with_change(rows, change, file.version)


def _constant(text: str | None, name: str, dtype: pa.DataType, what: str) -> pa.Scalar[Any]:
    column = pa.table({name: pa.array([text], pa.string())})
    return fitted(column, pa.schema([(name, dtype)]), what).column(0)[0]


def _local(table: str) -> str | None:
    """The folder of a table on this machine; None for another store."""
    if "://" not in table:
        return table
    return url2pathname(urlsplit(table).path) if table.startswith("file:") else None


def _opener(table: str, options: Options) -> Opener:
    if (root := _local(table)) is not None:
        return lambda path: pa.OSFile(os.path.join(root, path))
    handler = driver("deltalake.fs", "delta").DeltaStorageHandler(table, dict(options) or None)
    store = pyarrow.fs.PyFileSystem(handler)
    return lambda path: store.open_input_file(path)
