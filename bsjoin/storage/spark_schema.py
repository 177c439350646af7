"""A strict reader of Spark's JSON schemas: unknown types reach neither Spark nor Arrow.

Spark's own reader imports the module that a user-defined type names, and so runs code that the
author of the schema chose. The schema of a stored table comes from its folder and is not trusted:
it is validated here first. Pure: no name in the schema is imported or called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.storage.fields import flag, items, shown, text

LONG_DIGITS = 18
"""A decimal of so many digits fits 8 bytes."""

MAX_DIGITS = 38
"""No decimal of Spark has more digits."""

_DEPTH = 64
_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),(-?[0-9]{1,2})\)")
_UNITS = ("day", "hour", "minute", "second")
_INTERVALS = {f"interval {unit}" for unit in _UNITS} | {
    f"interval {first} to {last}" for i, first in enumerate(_UNITS) for last in _UNITS[i + 1 :]
}
_TIME = re.compile(r"time\([0-9]\)")
_SPATIAL = re.compile(r"(?:geometry|geography)(?:\(\w+(?::-?\w+)?(?:, ?\w+)?\))?", re.ASCII)
_PLACE = pa.struct([pa.field("srid", pa.int32(), False), pa.field("wkb", pa.binary(), False)])
_COLLATIONS = "__COLLATIONS"
_COLLATION = re.compile(r"(?:spark|icu)\.\w{1,128}", re.ASCII)


def read_spark_schema(written: str) -> pa.Schema:
    """Read the JSON of a ``StructType``.

    Supported are the types that Spark exchanges with Python through Arrow: numbers, decimals,
    strings (collations included), binary, booleans, dates, times, timestamps, day-time intervals,
    geometry and geography, void, and arrays, maps and structs of them, nested up to 64 deep.

    Returns:
        The columns with the Arrow types that Spark's Python workers exchange.

    Raises:
        ValueError: a type is unknown or user-defined (the message names it and the column), or the
            text is not a valid schema.
    """
    try:
        read = json.loads(written)
    except RecursionError:
        raise ValueError(f"types are nested more than {_DEPTH} deep") from None
    schema = _type(read, "", 0, [])
    if not pa.types.is_struct(schema):
        raise ValueError(f"it describes one value of the type {schema}, not columns")
    return pa.schema(list(schema))


def arrow_type(name: object) -> pa.DataType:
    """The Arrow type of a type that is not nested, by its name in Spark's JSON.

    Raises:
        ValueError: the type is unknown, or its values cannot be stored.

    Example:
        >>> arrow_type("long"), arrow_type("decimal(10,2)")
        (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    if isinstance(name, str):
        if name in _SIMPLE:
            return _SIMPLE[name]
        if found := _DECIMAL.fullmatch(name):
            precision, scale = int(found[1]), int(found[2])
            if 1 <= precision <= MAX_DIGITS and -MAX_DIGITS <= scale <= precision:
                return pa.decimal128(precision, scale)
        if name in _INTERVALS:
            return pa.duration("us")
        if _TIME.fullmatch(name):
            return pa.time64("ns")
        if _SPATIAL.fullmatch(name):
            return _PLACE
    raise ValueError(f"{shown(name)} is not a type of Spark whose values can be stored")


def _type(read: Any, path: str, depth: int, strings: list[str]) -> pa.DataType:
    """A type at a path in the schema; ``strings`` receives the paths to the strings inside."""
    if depth > _DEPTH:
        raise ValueError(f"types are nested more than {_DEPTH} deep")
    if not isinstance(read, dict):
        if read == "string":
            strings.append(path)
        return arrow_type(read)

    def inner(name: str, ending: str) -> pa.DataType:
        return _type(read.get(name), f"{path}.{ending}", depth + 1, strings)

    kind = read.get("type")
    if kind == "struct":
        return pa.struct(list(_fields(read, depth)))
    if kind == "array":
        nullable = flag(read, "containsNull")
        return pa.list_(pa.field("element", inner("elementType", "element"), nullable))
    if kind == "map":
        nullable = flag(read, "valueContainsNull")
        key = pa.field("key", inner("keyType", "key"), nullable=False)
        return pa.map_(key, pa.field("value", inner("valueType", "value"), nullable))
    if kind == "udt":
        raise ValueError("user-defined types are refused: they run code of the schema's author")
    raise ValueError(f"the type {shown(kind)} is not known")


def _fields(read: dict[str, Any], depth: int) -> Iterator[pa.Field]:
    names: set[str] = set()
    for field in items(read, "fields"):
        name = text(field, "name")
        if name in names:
            raise ValueError(f"the column {shown(name)} is there twice")
        names.add(name)
        strings: list[str] = []
        try:
            dtype = _type(field.get("type"), name, depth + 1, strings)
            _check_metadata(field.get("metadata", {}), strings)
            yield pa.field(name, dtype, flag(field, "nullable"))
        except ValueError as error:
            raise ValueError(f"the column {shown(name)}: {error}") from None


def _check_metadata(metadata: Any, strings: Sequence[str]) -> None:
    """Metadata is arbitrary JSON of the user; only collations in it have a meaning."""
    collations = metadata.get(_COLLATIONS, {}) if isinstance(metadata, dict) else None
    if not isinstance(collations, dict):
        raise ValueError(f"its metadata is not an object, or {_COLLATIONS} in it is not one")
    for path, collation in collations.items():
        known = isinstance(collation, str) and _COLLATION.fullmatch(collation)
        if path not in strings or not known:
            raise ValueError(f"{shown(collation)} is not a collation for {shown(path)}")
