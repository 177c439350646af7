"""``function``: a table behind a Python function, for example a client of a service."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from bsjoin.errors import ArgumentError, DataError, SourceError
from bsjoin.sources.arguments import check_max_keys, check_unique, positive
from bsjoin.sources.protocol import Source
from bsjoin.sources.timeouts import run_with_timeout
from bsjoin.sources.types import as_schema, fitted, wanted_columns
from bsjoin.values.plain import has_inside


def function(
    fn: Callable[[pa.Table], Any],
    schema: Any,
    *,
    unique: bool = False,
    max_keys: int = 10_000,
    timeout: timedelta | str | float | None = None,
) -> Source:
    """A table behind a Python function.

    Args:
        fn: receives a ``pyarrow.Table`` of distinct keys, without nulls unless the join has
            ``nulls_equal=``, and returns every row of these keys, key columns included, in any
            order: a ``pyarrow.Table`` or ``RecordBatch``, a pandas DataFrame, a list of dicts (a
            column that none of them has is an error), or None for no row. An exception counts as
            transient and is retried, unless it is a ``bsjoin.BSJoinError`` or of the data: a
            ``UnicodeError``, an ``OverflowError``, or one of Arrow's about values and types. It is
            not asked for keys whose text is not UTF-8. The function is sent to the workers by
            cloudpickle: open connections inside it.
        schema: the columns with their types, key columns included: a ``pyarrow.Schema``, a dict of
            names and pyarrow types, a Spark ``StructType``, or its DDL text (``"id bigint, name
            string"``), which needs an active Spark session. A time without a zone that is returned
            for a column with one (``timestamp``) is in UTC.
        unique: whether a key has at most one row; default False.
        max_keys: the maximum number of keys per call; default 10,000.
        timeout: how long one call may take: a timedelta, a text such as "5 seconds", or a number of
            seconds. A late call continues in its thread, and its result is ignored. ``None``
            (default): no limit.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups only, not scans.

    Raises:
        ArgumentError: an argument is invalid.

    Complexity:
        That of the function; rows are converted once, Arrow data without a copy.

    Example:
        >>> names = {1: "one", 2: "two"}
        >>> def numbers(keys):
        ...     ids = keys["id"].to_pylist()
        ...     return [{"id": i, "name": names[i]} for i in ids if i in names]
        >>> source = function(numbers, {"id": pa.int64(), "name": pa.string()}, unique=True)
        >>> source.lookup(pa.table({"id": [2, 3]})).to_pylist()
        [{'id': 2, 'name': 'two'}]
    """
    if not callable(fn):
        raise ArgumentError(f"fn={fn!r}: give a function of a pyarrow.Table of keys")
    check_unique(unique, or_none=False)
    check_max_keys(max_keys)
    timeout_s = None if timeout is None else positive(timeout, "timeout")
    return _Function(fn, _schema(schema), unique, max_keys, timeout_s)


def _schema(schema: Any) -> pa.Schema:
    if not isinstance(schema, pa.Schema | Mapping):
        if not isinstance(schema, str) and not type(schema).__module__.startswith("pyspark."):
            raise ArgumentError(
                f"schema={schema!r}: give a pyarrow.Schema, a dict of names and pyarrow types, a "
                'Spark StructType, or a text such as "id bigint, name string"'
            )
        # Imported only for Spark's own types, on the driver.
        from bsjoin.spark.arrow import schema_of_ddl

        schema = schema_of_ddl(schema)
    found = as_schema(schema)
    if not found.names:
        raise ArgumentError("schema: give at least one column")
    return found


class _Function(Source):
    takes_null_keys = True

    def __init__(
        self,
        fn: Callable[[pa.Table], Any],
        schema: pa.Schema,
        unique: bool,
        max_keys: int,
        timeout_s: float | None,
    ) -> None:
        super().__init__()
        self._fn, self._schema, self._unique = fn, schema, unique
        self.max_keys, self._timeout_s = max_keys, timeout_s

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        names = wanted_columns(self._schema, keys.column_names, columns, repr(self))
        wanted = pa.schema([self._schema.field(name) for name in names])
        if self._timeout_s is None:
            result = self._fn(keys)
        else:
            result = run_with_timeout(self._timeout_s, lambda: self._fn(keys), repr(self))
        table = self._table(result, wanted)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise SourceError(
                f"{self!r} returned the columns {table.column_names}; missing: {missing}"
            )
        return fitted(table, wanted, repr(self))

    def is_unique(self, columns: Sequence[str]) -> bool:
        return self._unique

    def _table(self, result: Any, wanted: pa.Schema) -> pa.Table:
        if result is None:
            return wanted.empty_table()
        if isinstance(result, pa.RecordBatch):
            return pa.Table.from_batches([result])
        if isinstance(result, pa.Table):
            return result
        if type(result).__module__.startswith("pandas."):
            present = {name: result[name] for name in wanted.names if name in result.columns}
            return self._columns(present, wanted, pandas=True)
        if isinstance(result, list) and all(isinstance(row, Mapping) for row in result):
            if not result:
                return wanted.empty_table()
            given = {name for row in result for name in row}
            rows = {
                name: [row.get(name) for row in result] for name in wanted.names if name in given
            }
            return self._columns(rows, wanted, pandas=False)
        raise SourceError(
            f"{self!r} returned a {type(result).__name__}: return a pyarrow.Table or RecordBatch, "
            "a pandas DataFrame, a list of dicts, or None"
        )

    def _columns(self, columns: Mapping[str, Any], wanted: pa.Schema, *, pandas: bool) -> pa.Table:
        arrays = {}
        for name, values in columns.items():
            dtype = wanted.field(name).type
            try:
                # A direct conversion of Python's numbers would cut fractions off.
                kind = getattr(values, "dtype", None)
                is_time = pa.types.is_timestamp(dtype) and getattr(kind, "kind", "") == "M"
                is_whole = pa.types.is_integer(dtype) and not pandas
                if is_whole or is_time or hasattr(kind, "pyarrow_dtype"):
                    arrays[name] = pa.array(values)  # in their own type; it is cast later
                else:
                    if pa.types.is_decimal(dtype) and getattr(kind, "kind", "O") != "O":
                        # Arrow would take the numbers for bytes.
                        raise ValueError(f"it is {kind}: return objects that are decimal.Decimal")
                    if has_inside(dtype, _is_checked):
                        _check(values, pa.list_(dtype))
                    if pa.types.is_floating(dtype) and (kind is None or kind == "object"):
                        values = [float(v) if isinstance(v, Decimal) else v for v in values]
                    arrays[name] = pa.array(values, dtype, from_pandas=pandas or None)
                continue
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                reason = str(error)
            raise DataError(f"{self!r}: the column {name!r} is not of type {dtype}: {reason}")
        return pa.table(arrays)

    def __repr__(self) -> str:
        return f"function({getattr(self._fn, '__qualname__', type(self._fn).__name__)})"


def _is_checked(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_temporal(dtype))


def _check(value: Any, dtype: pa.DataType) -> None:
    """Raise a ``ValueError`` for a fraction where a type has an integer, a number where a time."""
    if pa.types.is_temporal(dtype):
        if isinstance(value, int | float | Decimal | np.number) and value == value:
            raise ValueError(f"{value!r} is a number, and no date or time")
    elif pa.types.is_integer(dtype):
        is_float = isinstance(value, float | Decimal | np.floating)
        if is_float and math.isfinite(value) and value != int(value):
            raise ValueError(f"{value!r} is no whole number")
    elif pa.types.is_struct(dtype) and isinstance(value, Mapping | list | tuple):
        if not isinstance(value, tuple):  # whose items are in the order of the fields
            pairs = dict(value)
            value = [pairs.get(field.name) for field in dtype]
        for field, item in zip(dtype, value, strict=False):
            _check(item, field.type)
    elif pa.types.is_list(dtype) and not isinstance(value, str) and hasattr(value, "__iter__"):
        kind = getattr(getattr(value, "dtype", None), "kind", "")  # of an array
        if kind == "M" or (kind in ("i", "u", "b") and pa.types.is_integer(dtype.value_type)):
            return
        for item in value:
            _check(item, dtype.value_type)
    elif pa.types.is_map(dtype):
        items = value.items() if isinstance(value, Mapping) else value
        pair = pa.struct([("key", dtype.key_type), ("value", dtype.item_type)])
        _check(items, pa.list_(pair))
