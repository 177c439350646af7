"""``delta``: a table of Delta Lake, read by deltalake, without Spark's jars."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin._secrets import hidden, secrets_in, secrets_of
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources.arguments import check_texts, located
from bsjoin.sources.drivers import driver
from bsjoin.sources.lakes import delta_files
from bsjoin.sources.lakes.delta_files import DeltaColumn
from bsjoin.sources.lakes.delta_log import changed_files
from bsjoin.sources.lakes.delta_schema import PHYSICAL, columns_in, other_to_spark
from bsjoin.sources.lakes.lake_table import LakeTable
from bsjoin.sources.lakes.lake_versions import LakeChanges
from bsjoin.sources.lakes.ranges import Ranges
from bsjoin.sources.protocol import Source
from bsjoin.sources.table import Declared
from bsjoin.sources.types import sparkable
from bsjoin.storage.lake_columns import DELTA_NUMBER
from bsjoin.storage.source_version import SourceVersion
from bsjoin.values.plain import plain

_DIGITS_OF_DOUBLE, _LARGEST_OF_DOUBLE = 15, 1 << 53  # exact
# Those of readers that leave the files of a commit as they are read here.
_FEATURES = {
    "columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck",
}  # fmt: skip
_MAPPING = "delta.columnMapping.mode"
_GIVEN_BY_DELTA = re.compile("col-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Spark writes INT96. As nanoseconds, times before 1677 and after 2262 would be others.
_SETTINGS = {"datafusion.execution.parquet.coerce_int96": "us"}


def delta(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool | None = None,
    max_keys: int = 10_000,
) -> Source:
    """A table of Delta Lake, read by the library deltalake: without Spark's jars for Delta.

    The rows, columns and types are those of ``spark.read.format("delta").load(path)``: deletion
    vectors, column mapping and partitions are followed. A table with a feature that the library
    does not know is refused, as is one that was converted from Iceberg, whose files have columns by
    number.

    A look-up reads only files whose statistics in the table's log admit one of the keys, and of
    them the row groups that do, unless deletion vectors or row tracking are enabled. Keys of
    floating-point numbers, decimals of more than 15 digits, times before 1685 and after 2254,
    booleans, binary values, ``CHAR(n)`` and texts with a collation read all files: sort or
    partition the table by another column of the key. A new version is seen within three seconds, a
    folder that was deleted and written again within 60; the columns and types stay those of the
    call: one that is gone or renamed is an error.

    Args:
        path: the table's folder, or a URL that deltalake knows, such as ``s3://bucket/table``,
            ``abfss://...`` or ``gs://...``.
        version: the number of the version to read, always the same. ``None`` (default): the newest
            one.
        storage_options: credentials and settings of the store, as deltalake documents them. No
            message shows the credentials. ``None`` (default): those of the environment.
        schema: Arrow types for some or all columns, to which the values are cast; a value that does
            not fit is an error. Texts that Spark pads (``CHAR(n)``) or compares by a collation need
            one, also where no join selects them: ``pyarrow.string()``, for ``array<char(5)>``
            ``pyarrow.list_(pyarrow.string())``. ``None`` (default): the types of the table.
        unique: whether a key has at most one row. ``None`` (default): False, because the format
            does not guarantee it.
        max_keys: the maximum number of keys per look-up; default 10,000.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: an argument is invalid.
        SourceError: from its schema, look-ups and scans: deltalake is missing (``pip install
            "bsjoin[delta]"``), or the table cannot be read.

    Complexity: A look-up of n keys costs O(n log n), O(files) for their statistics, and reads the
        files that may have a key, in at most 32 ranges of keys.

    Example:
        >>> delta("/srv/customers", version=17)
        delta('/srv/customers', version=17)
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ArgumentError(f"path={path!r}: give the folder of a table, or a URL")
    options = check_texts(storage_options, "storage_options")
    return _Delta(located(path, "path"), options, schema, unique, max_keys, version)


class _Delta(LakeTable):
    opened_every_s = 60.0
    missing = "TableNotFoundError"
    stay = ("DeltaProtocolError", "SchemaMismatchError", "TypeError")
    lasting = re.compile(
        "Unsupported table features|Kernel error: Unsupported|catalog-managed table|"
        "Cannot cast column"
    )

    def __init__(self, path: str, options: dict[str, str], *given: Any) -> None:
        self._path, self._options, self._opened_at = path, options, 0.0
        secrets = (*secrets_in(options), *secrets_of(path))
        super().__init__(*given, name="version", secrets=secrets)

    def _open(self) -> Any:
        deltalake = driver("deltalake", "delta")
        if "://" not in self._path and not os.path.isdir(os.path.join(self._path, "_delta_log")):
            raise self._absent("there is no table of Delta in this folder")
        # deltalake decodes what looks like a code in a path.
        place = self._path if "://" in self._path else Path(self._path).as_uri()
        self._opened_at = time.monotonic()
        return deltalake.DeltaTable(
            place, version=self._number, storage_options=self._options or None
        )

    def _renewed(self, table: Any) -> Any:
        # deltalake reads only newer commits, also if those before them were deleted and the table
        # was made anew.
        if time.monotonic() - self._opened_at >= self.opened_every_s:
            return self._open()
        table.update_incremental()
        return table

    def _columns(self, table: Any) -> list[Declared]:
        schema = json.loads(table.schema().to_json())
        if table.metadata().configuration.get(_MAPPING) == "id":
            for column in columns_in(schema):
                name = column.metadata.get(PHYSICAL)
                if name is not None and not _GIVEN_BY_DELTA.fullmatch(name):
                    raise SourceError(
                        f"{self!r}: files have the columns by number ({_MAPPING} = id), as those "
                        f"of a table that was converted from Iceberg, and deltalake reads them by "
                        f"names such as {name!r}, which may be others there: read the table with "
                        "Spark's jars"
                    )
        others = {field["name"]: other_to_spark(field) for field in schema["fields"]}
        return [
            (field.name, None if others[field.name] else sparkable(field.type),
             others[field.name] or str(field.type))
            for field in pa.schema(table.schema().to_arrow())
        ]  # fmt: skip

    def _batches(
        self, table: Any, names: Sequence[str], ranges: Mapping[str, Ranges]
    ) -> Iterator[pa.RecordBatch]:
        selected = ", ".join(map(_quoted, names)) or "1"
        statement = f"SELECT {selected} FROM t"
        tests = [
            _test(name, found, dtype)
            for name, found in ranges.items()
            if (dtype := self._types[name]) is not None and _has_bounds(dtype, found)
        ]
        if tests:
            statement += f" WHERE {' AND '.join(tests)}"
        builder = driver("deltalake", "delta").QueryBuilder(_SETTINGS).register("t", table)
        for batch in pa.RecordBatchReader.from_stream(builder.execute(statement)):
            arrays = [plain(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _count(self, table: Any) -> int | None:
        actions = pa.table(table.get_add_actions())
        if "num_records" not in actions.schema.names or actions.column("num_records").null_count:
            return None
        return int(pc.sum(actions.column("num_records"), min_count=0).as_py())

    def _version_of(self, table: Any) -> SourceVersion:
        # From the newest one on, past the limit: the last one is that of the snapshot. A commit
        # need not tell of itself.
        commits = table.history(1)
        at_ms = commits[-1].get("timestamp") if commits else None
        return SourceVersion(
            f"the Delta table {hidden(self._path)}",
            str(table.version()),
            None if at_ms is None else int(at_ms) * 1000,
            str(table.metadata().id),
        )

    def _numbers(self, table: Any) -> tuple[str, dict[str, int | None]]:
        schema = json.loads(table.schema().to_json())
        numbers = {one.name: one.metadata.get(DELTA_NUMBER) for one in columns_in(schema)}
        return str(table.metadata().id), numbers

    def _changed(
        self, table: Any, since: SourceVersion, until: str, columns: Sequence[str]
    ) -> LakeChanges | str:
        first, last = int(since.version), int(until)
        if first > last:
            raise SourceError(
                f"version {first} of {self!r} is not there any more: the table was restored from a "
                "copy"
            )
        # Which columns there were then.
        then = table if table.version() == last else self.at(until)._open()
        found = _as_in_files(then, dict(self._types_of(then)), columns)
        if isinstance(found, str):
            return found
        commits = delta_files.commits_between(self._path, self._options, first, last)
        if isinstance(commits, str):
            return commits
        base, *after = commits
        if len({base.committed_at_us, since.committed_at_us} - {None}) > 1:
            raise SourceError(
                f"version {first} of {self!r} is not the one that was read: the table was restored "
                "from a copy"
            )
        files = changed_files(after, {one.physical for one in found.values() if one.partition})
        if isinstance(files, str):
            return files
        read = partial(
            delta_files.changed_rows, self._path, self._options, files, found, repr(self)
        )
        sizes = [file.size for file in files]
        size = None if None in sizes else sum(filter(None, sizes))
        return LakeChanges(self.at(until), columns, read, size)

    def _types_of(self, table: Any) -> Iterator[tuple[str, pa.DataType]]:
        """The types of a table's columns; of one that Spark has not, that of this source."""
        for name, dtype, _ in self._columns(table):
            if dtype is not None:
                yield name, dtype
            elif name in self.schema.names:
                yield name, self.schema.field(name).type

    def _message(self, error: Exception) -> str:
        return super()._message(error).partition(" 0: <unknown>")[0]  # without frames of Rust

    def _is_of_data(self, error: Exception) -> bool:
        return isinstance(error, pa.ArrowInvalid) and "non UTF-8 data" in str(error)

    def __repr__(self) -> str:
        path = hidden(self._path) if "://" in self._path else self._path
        version = "" if self._number is None else f", version={self._number}"
        return f"delta({path!r}{version})"


def _as_in_files(
    table: Any, types: Mapping[str, pa.DataType], columns: Sequence[str]
) -> dict[str, DeltaColumn] | str:
    """How files have some columns of a table; or why their values are not read from them."""
    if others := {*(table.protocol().reader_features or ())} - _FEATURES:
        return f"the table has features that may change how files are read: {sorted(others)}"
    metadata = table.metadata()
    mode = metadata.configuration.get(_MAPPING, "none")
    fields = {field["name"]: field for field in json.loads(table.schema().to_json())["fields"]}
    found = {}
    for name in columns:
        if name not in fields or name not in types:
            return f"the column {name!r} is not there any more"
        dtype, partition = types[name], name in metadata.partition_columns
        if partition and not delta_files.is_told_by_text(dtype):
            return f"the table is partitioned by {name!r}, which is {dtype}"
        if mode not in ("none", "name"):
            return f"files do not have the columns by name ({_MAPPING} = {mode})"
        if mode == "name" and dtype.num_fields:
            return f"the columns inside {name!r} are mapped"
        mapped = fields[name]["metadata"].get(PHYSICAL, name) if mode == "name" else name
        found[name] = DeltaColumn(mapped, dtype, partition)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _has_bounds(dtype: pa.DataType, ranges: Ranges) -> bool:
    """Whether the statistics are exact: deltalake takes decimals and times for doubles."""
    if pa.types.is_timestamp(dtype):
        return all(abs(key) < _LARGEST_OF_DOUBLE for ends in ranges.bounds for key in ends)
    return not pa.types.is_decimal(dtype) or dtype.precision <= _DIGITS_OF_DOUBLE


def _test(name: str, ranges: Ranges, dtype: pa.DataType) -> str:
    """The condition that a column is within the ranges, in the SQL of DataFusion."""
    column = _quoted(name)
    if pa.types.is_timestamp(dtype):
        ranges = ranges.wider()  # statistics are cut off to milliseconds
    tests = []
    for low, high in ranges.bounds:
        least = _literal(low, dtype)
        if low == high:
            tests.append(f"{column} = {least}")
        else:
            tests.append(f"({column} >= {least} AND {column} <= {_literal(high, dtype)})")
    if ranges.null:
        tests.append(f"{column} IS NULL")
    return f"({' OR '.join(tests)})"


def _literal(value: Any, dtype: pa.DataType) -> str:
    if pa.types.is_string(dtype):
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    if pa.types.is_decimal(dtype):
        return f"CAST('{value:f}' AS DECIMAL({dtype.precision}, {dtype.scale}))"
    if pa.types.is_date32(dtype):
        return f"arrow_cast({value}, 'Date32')"
    if pa.types.is_timestamp(dtype):
        zone = 'Some("UTC")' if dtype.tz else "None"
        return f"arrow_cast({value}, 'Timestamp(Microsecond, {zone})')"
    return f"{value}"
