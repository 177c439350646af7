"""One Parquet file of a table: columns under the table's names and types, and statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from bsjoin.errors import DataError, SourceError
from bsjoin.sources.parquet_files.columns import (
    Column,
    Rules,
    TypesDifferError,
    columns_of,
    converted,
)
from bsjoin.sources.parquet_files.listing import Found
from bsjoin.sources.parquet_files.row_groups import (
    EMPTY,
    AskedKeys,
    MinMax,
    comparable,
    statistics_of,
    touched,
)
from bsjoin.sources.transient import TransientSourceError
from bsjoin.sources.types import fitted
from bsjoin.values.plain import rows_among

# Nanoseconds would end with the year 2262.
FORMAT = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


class ParquetFile:
    """A file, whose footer is read at its first use.

    Args:
        found: where it is.
        filesystem: that of the file.
        constants: the values of its partition columns, by their names in the table; None: the
            folder's name is not of the column's type.
        rules: the session's settings.
        overridden: the columns with a type of the user's.
        what: the source, for messages.
    """

    def __init__(
        self,
        found: Found,
        filesystem: Any,
        constants: Mapping[str, pa.Scalar | None],
        rules: Rules,
        overridden: frozenset[str],
        what: str,
    ) -> None:
        self.found, self.filesystem, self.constants = found, filesystem, constants
        self._rules, self._overridden, self._what = rules, overridden, what
        self.fragment = FORMAT.make_fragment(found.path, filesystem)
        self._columns: dict[str, list[Column]] | None = None
        self._bounds: dict[str, tuple[list[MinMax], list[bool]]] = {}

    @property
    def metadata(self) -> Any:
        """The footer; there may be none yet, where the file is being written."""
        try:
            return self.fragment.metadata
        except (pa.ArrowInvalid, OSError) as error:
            if getattr(error, "errno", None):
                raise
            reason = str(error)
        raise TransientSourceError(
            f"{self._what}: the file {self.found.relative!r} is incomplete, or no Parquet file: "
            f"{' '.join(reason.split())}"
        )

    def column(self, name: str) -> Column | None:
        """The column of the table's name; None if the file has none such."""
        if self._columns is None:
            found: dict[str, list[Column]] = {}
            for column in columns_of(self.metadata, self._rules):
                found.setdefault(self._rules.key(column.name), []).append(column)
            self._columns = found
        columns = self._columns.get(self._rules.key(name), [])
        if len(columns) > 1:
            raise SourceError(
                f"{self._what}: the file {self.found.relative!r} has the columns "
                f"{[column.name for column in columns]}, which Spark does not tell apart: write it "
                "with other names, or set spark.sql.caseSensitive to true"
            )
        return columns[0] if columns else None

    def stored_names(self, wanted: Sequence[str]) -> list[str]:
        """The file's own names of those of the columns that it has."""
        columns = [self.column(name) for name in wanted if name not in self.constants]
        return [column.name for column in columns if column is not None]

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The file's own columns for some of the table's, of all rows."""
        columns = {name: pc.field((name,)) for name in self.stored_names(wanted)}
        yield from self.fragment.scanner(columns=columns).to_batches()

    def array(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """A column of the table, for a batch of the file's rows."""
        name, dtype = field.name, field.type
        if name in self.constants:
            value = self.constants[name]
            if value is None:
                raise DataError(
                    f"{self._what}: the folder of {self.found.relative!r} has a value of the "
                    f"column {name!r} that is no {dtype}, as which the other folders' values were "
                    "read: create the source again, or give the type with "
                    f"schema={{{name!r}: pyarrow.string()}}"
                )
            return pa.repeat(value, batch.num_rows)
        column = self.column(name)
        if column is None:
            return pa.nulls(batch.num_rows, dtype)
        try:
            array = batch.column(column.name)
            if name not in self._overridden:
                return converted(array, column, dtype, self._rules)
            table = pa.table({name: converted(array, column, None, self._rules)})
            place = f"{self._what}: the file {self.found.relative!r}"
            return fitted(table, pa.schema([field]), place).column(0).combine_chunks()
        except TypesDifferError:
            kind: type[SourceError] = SourceError
            reason = f"is a {column.declared} there, which Spark does not read as {dtype}"
        except pa.ArrowException as error:
            kind, reason = DataError, f"has a value that is no {dtype}: {error}"
        raise kind(
            f"{self._what}: the column {name!r} of the file {self.found.relative!r} {reason}, the "
            "type in the first file. Write the files with one type, or read them with "
            f"schema={{{name!r}: ...}}"
        )

    def rows(self, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
        """A batch of the file's rows as rows of the table; raises as :meth:`array` does."""
        arrays = [self.array(batch, field) for field in wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def rows_of(self, batch: pa.RecordBatch, mask: pa.Array, wanted: pa.Schema) -> pa.RecordBatch:
        """Those rows of a batch for which the mask is true, as in :meth:`rows`."""
        if not pc.any(mask).as_py():
            return self.rows(batch.slice(0, 0), wanted)
        try:
            found = batch.filter(mask)
        except pa.ArrowNotImplementedError:  # Arrow does not filter views
            return self.rows(batch, wanted).filter(mask)
        return self.rows(found, wanted)

    def key(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """A key column, as in :meth:`array`; one with a value that does not fit may be any key."""
        try:
            return self.array(batch, field)
        except DataError as error:
            reason = str(error)
        raise SourceError(reason)

    def groups(self, keys: Mapping[str, AskedKeys], schema: pa.Schema) -> list[int]:
        """The row groups that can contain one of the keys."""
        for name, constant in self.constants.items():
            if name in keys and not _can_be(keys[name], constant):
                return []
        groups = list(range(self.metadata.num_row_groups))
        for name, asked in keys.items():
            if asked.values is not None and name not in self.constants:
                bounds, nulls = self._bounds_of(schema.field(name))
                groups = [
                    group
                    for group in groups
                    if touched(asked.values, bounds[group]) or (asked.null and nulls[group])
                ]
        return groups

    def _bounds_of(self, field: pa.Field) -> tuple[list[MinMax], list[bool]]:
        """The bounds of a column in every row group, and whether it may be null there."""
        name = field.name
        if name not in self._bounds:
            column, count = self.column(name), self.metadata.num_row_groups
            bounds: list[MinMax] = [None] * count
            nulls = [True] * count
            if column is None:
                bounds = [EMPTY] * count
            elif column.type is not None and not column.parts and self._keeps_order(column, field):
                bounds, nulls = statistics_of(
                    self.metadata, column.leaf, column.type,
                    lambda values: converted(values, column, field.type, self._rules),
                )  # fmt: skip
            self._bounds[name] = bounds, nulls
        return self._bounds[name]

    def _keeps_order(self, column: Column, field: pa.Field) -> bool:
        """Whether values become those of the table in the same order: other types may not.

        Times of the legacy calendar go back where a zone leaves its local mean time.
        """
        is_cast = field.name in self._overridden and column.type != field.type
        is_rebased = column.legacy_zone is not None and pa.types.is_timestamp(column.type)
        return not (is_cast or is_rebased)


def _can_be(asked: AskedKeys, constant: pa.Scalar | None) -> bool:
    """Whether a key may equal a partition's value; what is of another type equals none."""
    if constant is None:
        return False
    if not constant.is_valid:
        return asked.null
    if asked.values is None:
        return True
    try:
        (value,) = comparable(pa.repeat(constant, 1))
    except (ValueError, OverflowError):  # a date outside of Python's calendar
        return True
    return value != value or touched(asked.values, (value, value))


def matching(
    parts: Sequence[tuple[ParquetFile, pa.RecordBatch]],
    keys: Mapping[str, pa.Array],
    wanted: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The rows of some batches that have one of the keys in each key column.

    For all of them at once, because Arrow makes a hash table of the keys in each call.
    """
    columns = {
        name: pa.chunked_array([file.key(batch, wanted.field(name)) for file, batch in parts])
        for name in keys
    }
    mask = rows_among(columns, keys)
    begin = 0
    for file, batch in parts:
        yield file.rows_of(batch, mask.slice(begin, len(batch)), wanted)
        begin += len(batch)
