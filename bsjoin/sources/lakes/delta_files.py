"""Files of a table of Delta: those of its log, and the rows of those that have changed.

deltalake's own reader of the change data feed refuses column mapping, and makes other values of
times before 1677 and after 2262 that Spark has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs

from bsjoin.errors import SourceError
from bsjoin.sources.drivers import driver
from bsjoin.sources.lakes.delta_log import ChangedFile, Commit, log_file
from bsjoin.sources.lakes.lake_versions import with_change
from bsjoin.sources.parquet_files.columns import Rules
from bsjoin.sources.parquet_files.file import ParquetFile
from bsjoin.sources.parquet_files.listing import Found
from bsjoin.sources.types import fitted
from bsjoin.storage.lake_history import CHANGE

Options = Mapping[str, str]

_RULES = Rules(case_sensitive=True, rebases=False)  # as deltalake reads them
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
    of, others = pa.types, (pa.string(), pa.bool_(), pa.date32())
    return bool(dtype in others or of.is_integer(dtype) or of.is_decimal(dtype))


def commits_between(table: str, options: Options, first: int, last: int) -> list[Commit] | str:
    """The commits from one on, up to another one; or why they are too many."""
    if last - first > _MOST_COMMITS:
        return f"there are more than {_MOST_COMMITS:,} commits"
    store, found, size = _store(table, options), [], 0
    for version in range(first, last + 1):
        text = _read(store, version, _MOST_LOG_BYTES - size)
        if text is None:
            return f"the log of the commits has more than {_MOST_LOG_BYTES >> 20} MB"
        size += len(text)
        found.append(Commit.parsed(version, text))
    return found


def _read(store: pyarrow.fs.FileSystem, version: int, most: int) -> bytes | None:
    """A commit's file; None if it is larger."""
    try:
        with store.open_input_file(log_file(version)) as stream:
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
    store, wanted = _store(table, options), [one.physical for one in columns.values()]
    stored = pa.schema([(one.physical, one.type) for one in columns.values()])
    change = pa.schema([(CHANGE, pa.string())])
    for file in files:
        constants = {
            one.physical: _constant(file.partition[one.physical], name, one.type, what)
            for name, one in columns.items()
            if one.partition
        }
        found = Found(file.path, file.path, file.size, None)
        # Values that do not fit are errors, whatever types Spark's reader of files takes for alike.
        read = ParquetFile(found, store, constants, _RULES, frozenset(wanted), what)
        for batch in read.batches(wanted if file.change else [*wanted, CHANGE]):
            rows = read.rows(batch, stored).rename_columns(list(columns))
            told = file.change or read.rows(batch, change).column(0)
            yield with_change(rows, told, file.version)


def _constant(text: str | None, name: str, dtype: pa.DataType, what: str) -> pa.Scalar[Any]:
    column = pa.table({name: pa.array([text], pa.string())})
    return fitted(column, pa.schema([(name, dtype)]), what).column(0)[0]


def _store(table: str, options: Options) -> pyarrow.fs.FileSystem:
    """The files below the table's folder."""
    if "://" not in table:
        return pyarrow.fs.SubTreeFileSystem(table, pyarrow.fs.LocalFileSystem())
    handler = driver("deltalake.fs", "delta").DeltaStorageHandler(table, dict(options) or None)
    return pyarrow.fs.PyFileSystem(handler)
