"""Columns that are never null: for Spark, where the DataFrame API has no word for it.

An inner join keeps the nullability of the table's columns. A field of a nullable struct is
nullable to Spark even behind a filter that the struct is there; a ``coalesce`` with any
constant of the type is not. The constant is never used.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

_EPOCH = datetime.datetime(1970, 1, 1)
_CONSTANTS: dict[type[T.DataType], Any] = {
    T.BooleanType: False,
    T.ByteType: 0,
    T.ShortType: 0,
    T.IntegerType: 0,
    T.LongType: 0,
    T.FloatType: 0.0,
    T.DoubleType: 0.0,
    T.DecimalType: Decimal(0),
    T.StringType: "",
    T.BinaryType: b"",
    T.DateType: _EPOCH.date(),
    T.TimestampType: _EPOCH.replace(tzinfo=datetime.UTC),
    T.TimestampNTZType: _EPOCH,
    T.DayTimeIntervalType: datetime.timedelta(0),
}
if hasattr(T, "TimeType"):
    _CONSTANTS[T.TimeType] = datetime.time()


def as_not_null(value: Column, field: T.StructField) -> Column:
    """The value, not nullable to Spark if the field says that it never is."""
    if field.nullable:
        return value
    constant = _constant(field.dataType)
    return value if constant is None else F.coalesce(value, constant)


def may_hold(given: T.DataType, other: T.DataType) -> bool:
    """Whether values of another type are of the given one, and have no nulls where it has none.

    >>> strict, loose = T.ArrayType(T.LongType(), False), T.ArrayType(T.LongType(), True)
    >>> may_hold(loose, strict), may_hold(strict, loose)
    (True, False)
    """
    if isinstance(given, T.ArrayType) and isinstance(other, T.ArrayType):
        nulls = given.containsNull or not other.containsNull
        return nulls and may_hold(given.elementType, other.elementType)
    if isinstance(given, T.MapType) and isinstance(other, T.MapType):
        nulls = given.valueContainsNull or not other.valueContainsNull
        inner = (given.keyType, other.keyType), (given.valueType, other.valueType)
        return nulls and all(may_hold(*pair) for pair in inner)
    if isinstance(given, T.StructType) and isinstance(other, T.StructType):
        return given.names == other.names and all(
            (mine.nullable or not part.nullable) and may_hold(mine.dataType, part.dataType)
            for mine, part in zip(given, other, strict=True)
        )
    return given == other


def _constant(dtype: T.DataType) -> Column | None:
    """Some value of the type that is not null; None for a type that has no such literal."""
    if isinstance(dtype, T.ArrayType):
        return F.array().cast(dtype)
    if isinstance(dtype, T.MapType):
        return F.create_map().cast(dtype)
    if isinstance(dtype, T.StructType):
        inner = [(field.name, _constant(field.dataType)) for field in dtype.fields]
        known = [value.alias(name) for name, value in inner if value is not None]
        return F.struct(*known).cast(dtype) if known and len(known) == len(inner) else None
    if type(dtype) not in _CONSTANTS:
        return None
    return F.lit(_CONSTANTS[type(dtype)]).cast(dtype)
