"""Spark types as Arrow types, exactly as Spark's Python workers expect them.

An answer whose Arrow type differs in a field's name or nullability would be cast by the worker,
a copy of everything; so the types are Spark's own, taken once on the driver.
"""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type

from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.storage.spark_schema import read_spark_schema

# Before Spark 4.3 there is no such argument, and UTC is the default.
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
)


def arrow_fields(schema: T.StructType) -> list[pa.Field]:
    """The Arrow fields of a Spark schema, timestamps in UTC."""
    return [
        pa.field(field.name, to_arrow_type(field.dataType, **_UTC), nullable=field.nullable)
        for field in schema.fields
    ]


def not_exchangeable(dtype: T.DataType) -> str | None:
    """Why a column of this type cannot travel to a worker and back; None if it can."""
    try:
        arrow_fields(T.StructType([T.StructField("column", dtype)]))
    except (PySparkException, TypeError, ValueError) as error:
        return str(error)
    return None


def check_storable(schema: T.StructType) -> None:
    """Refuse columns that cannot travel to and from Spark's Python workers.

    Raises:
        ColumnError: names the column and its type.
    """
    for field in schema.fields:
        if (why := not_storable(field)) is not None:
            raise ColumnError(
                f"the column {field.name!r} of the table has the type "
                f"{field.dataType.simpleString()}, which cannot be cached: {why}. "
                "Leave it out with select=[...], or cast it"
            )


def not_storable(field: T.StructField) -> str | None:
    """Why a column cannot travel to and from Spark's Python workers; None if it can."""
    if _has(field.dataType, (T.UserDefinedType, T.VariantType)):
        return "Spark does not exchange it with Python as a nested value"
    if _has(field.dataType, (T.NullType,)) and not isinstance(field.dataType, T.NullType):
        return "the void inside it has no values that Arrow could hold"
    try:
        alone = T.StructType([field])
        arrow_fields(alone)
        read_spark_schema(alone.json())  # as it is read when the table is opened
    except (PySparkException, TypeError, ValueError) as error:
        return str(error)
    return None


def _has(dtype: T.DataType, kinds: tuple[type[T.DataType], ...]) -> bool:
    if isinstance(dtype, kinds):
        return True
    if isinstance(dtype, T.ArrayType):
        return _has(dtype.elementType, kinds)
    if isinstance(dtype, T.MapType):
        return _has(dtype.keyType, kinds) or _has(dtype.valueType, kinds)
    if isinstance(dtype, T.StructType):
        return any(_has(field.dataType, kinds) for field in dtype.fields)
    return False


def schema_of_ddl(schema: T.StructType | str) -> pa.Schema:
    """The Arrow schema of a Spark schema, or of its text, for a source.

    Raises:
        ArgumentError: the text cannot be read, or there is no session that could read it.
    """
    if isinstance(schema, str):
        try:
            found = T.StructType.fromDDL(schema)
            if isinstance(found, T.StructType):
                return pa.schema(arrow_fields(found))
            reason = "it names no columns"
        except PySparkException as error:
            reason = str(error)
        except (AssertionError, AttributeError, RuntimeError, TypeError):
            reason = "Spark reads such texts, and no session is active here"
        raise ArgumentError(
            f"schema={schema!r}: {reason}. Give a pyarrow.Schema, or a text such as "
            '"id bigint, name string" after the session was made'
        )
    if not isinstance(schema, T.StructType):
        raise ArgumentError(f"schema={schema!r}: give a StructType, not a {type(schema).__name__}")
    return pa.schema(arrow_fields(schema))
