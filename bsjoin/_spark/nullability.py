"""Telling Spark that a column is never null, where the DataFrame API has no word for it.

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

__all__ = ["as_not_null"]

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
