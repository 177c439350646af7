"""Columns of a Parquet file: the types that Spark reads them as, and their values of these types.

Spark goes by the types of Parquet, and ignores the Arrow types that some writers embed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bsjoin.sources.parquet_files.legacy_calendar import rebased
from bsjoin.sources.types import decimal_type, sparkable
from bsjoin.storage.spark_schema import read_spark_schema
from bsjoin.values.plain import is_any_list, list_of, plain

_UTC, _NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
    "FIXED_LEN_BYTE_ARRAY": pa.binary(),
}
_ANNOTATED = {
    "String": pa.string(),
    "Enum": pa.string(),
    "JSON": pa.string(),
    "BSON": pa.binary(),
    "Date": pa.date32(),
    "UUID": pa.binary(),
    "Float16": pa.float32(),
}
_UNSIGNED = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
# The decimal digits of integers, as Spark counts them.
_DIGITS = {pa.int8(): 10, pa.int16(): 10, pa.int32(): 10, pa.int64(): 20}
_ROW = b"org.apache.spark.sql.parquet.row.metadata"
_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"


@dataclass(frozen=True)
class Rules:
    """The settings of a session that change what Spark reads from a Parquet file.

    Args:
        case_sensitive: whether names that differ in case only are different columns.
        time_zone: the session's time zone.
        binary_as_string: whether binary columns are strings.
        infer_ntz: whether timestamps without a zone are read as such.
        infer_partitions: whether the values of partition columns decide their types.
        legacy_times: whether Spark 2's rules for dates and times do, which are not followed.
        merge: whether the table has the columns of all files, or of the first one.
        legacy_datetime: whether dates and timestamps of files without a mark are of the legacy
            calendar.
        legacy_int96: the same for INT96.
        by_number: whether columns that Spark has given numbers are found by them. Default False.
        rebases: whether values of the legacy calendar become those of today's. Default True.
    """

    case_sensitive: bool = False
    time_zone: str = "UTC"
    binary_as_string: bool = False
    infer_ntz: bool = True
    infer_partitions: bool = True
    legacy_times: bool = False
    merge: bool = False
    legacy_datetime: bool = False
    legacy_int96: bool = False
    by_number: bool = False
    rebases: bool = True

    def key(self, name: str) -> str:
        """Return a value that is the same for all spellings of one column."""
        return name if self.case_sensitive else name.lower()


class TypesDifferError(ValueError):
    """A column of a file has a type that Spark does not read as the table's."""


@dataclass(frozen=True)
class Column:
    """A column of a file, or a part of a nested one.

    Args:
        name: as the file spells it.
        type: Spark's; None where it has none.
        declared: the type for messages.
        parts: of a struct, list (one) or map (key and value).
        legacy_zone: the time zone of values of the legacy calendar; None: there are none.
        stored: the physical type of Parquet.
        leaf: the place of the column among those of the file's footer.
        unsigned: whether its integers have no sign.
    """

    name: str
    type: pa.DataType | None
    declared: str
    parts: tuple[Column, ...] = ()
    legacy_zone: str | None = None
    stored: str = ""
    leaf: int = -1
    unsigned: bool = False


def columns_of(metadata: Any, rules: Rules) -> list[Column]:
    """The columns of a file."""
    zones = _legacy_zones(metadata.metadata or {}, rules)
    leaves = iter(range(metadata.num_columns))

    def column(name: str, arrow: pa.DataType) -> Column:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        inside = _inside(arrow)
        if inside is None:
            place = next(leaves)
            leaf = metadata.schema.column(place)
            kind = json.loads(leaf.logical_type.to_json())
            dtype = _leaf_type(leaf, kind, rules)
            words = leaf.physical_type if kind["Type"] == "None" else str(leaf.logical_type)
            is_old = dtype == _UTC or dtype == pa.date32()
            zone = zones[leaf.physical_type == "INT96"] if is_old else None
            unsigned = kind["Type"] == "Int" and not kind["isSigned"]
            return Column(name, dtype, words, (), zone, leaf.physical_type, place, unsigned)
        parts = tuple(column(part, kind) for part, kind in inside)
        dtype = _nested_type(arrow, parts)
        return Column(name, dtype, str(arrow), parts)

    return [column(field.name, field.type) for field in metadata.schema.to_arrow_schema()]


def _legacy_zones(marks: dict[bytes, bytes], rules: Rules) -> tuple[str | None, str | None]:
    """The zones of legacy values in the file: of dates and timestamps, and of INT96."""
    if not rules.rebases:
        return None, None
    version = marks.get(_VERSION)
    zone = marks.get(_ZONE, rules.time_zone.encode()).decode()
    if version is None:
        legacy = (rules.legacy_datetime, rules.legacy_int96)
    else:
        legacy = (
            version < b"3.0.0" or _LEGACY_DATETIME in marks,
            version < b"3.1.0" or _LEGACY_INT96 in marks,
        )
    return (zone if legacy[0] else None, zone if legacy[1] else None)


def _inside(arrow: pa.DataType) -> list[tuple[str, pa.DataType]] | None:
    """The parts of a nested type; None for a leaf."""
    if pa.types.is_struct(arrow):
        return [(field.name, field.type) for field in arrow]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_type), ("value", arrow.item_type)]
    if is_any_list(arrow):
        return [("element", arrow.value_type)]
    return None


def _nested_type(arrow: pa.DataType, parts: tuple[Column, ...]) -> pa.DataType | None:
    types = [part.type for part in parts]
    if not types or None in types:
        return None
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(part.name, part.type) for part in parts])
    return pa.map_(*types) if pa.types.is_map(arrow) else pa.list_(types[0])


def _leaf_type(leaf: Any, kind: dict[str, Any], rules: Rules) -> pa.DataType | None:
    name, stored = kind["Type"], leaf.physical_type
    if stored == "INT96":
        return _UTC
    if name == "Int":
        return (_SIGNED if kind["isSigned"] else _UNSIGNED).get(kind["bitWidth"])
    if name == "Decimal":
        return decimal_type(kind["precision"], kind["scale"])
    if name == "Timestamp":
        return _UTC if kind["isAdjustedToUTC"] or not rules.infer_ntz else _NTZ
    if name in ("None", "Null"):  # all values of the latter are null
        as_string = stored == "BYTE_ARRAY" and rules.binary_as_string
        return pa.string() if as_string else _PLAIN.get(stored)
    return _ANNOTATED.get(name)


def has_numbers(metadata: Any) -> bool:
    """Whether Spark has noted numbers of columns in the footer, which it reads others by."""
    return b'"parquet.field.id"' in (metadata.metadata or {}).get(_ROW, b"")


def declared_by_spark(
    metadata: Any,
) -> list[tuple[str, pa.DataType | None, str]] | None:
    """The columns that Spark has noted in the footer, which it believes; None: it has not."""
    written = (metadata.metadata or {}).get(_ROW)
    if written is None:
        return None
    try:
        fields = json.loads(written)["fields"]
    except (ValueError, TypeError, KeyError):  # as Spark does
        return None
    found = []
    for field in fields:
        dtype, words = None, str(field["type"])
        try:
            (read,) = read_spark_schema(json.dumps({"type": "struct", "fields": [field]}))
            # A collation decides which strings are equal; look-ups compare bytes.
            dtype = None if "__COLLATIONS" in field["metadata"] else sparkable(read.type)
        except ValueError as error:
            words = str(error)
        found.append((field["name"], dtype, words))
    return found


def converted(
    array: pa.Array, column: Column, wanted: pa.DataType | None, rules: Rules
) -> pa.Array:
    """A column's values as Spark reads them.

    ``wanted`` is the table's type; None: the column's own, or what Arrow made of it if it has none.

    Raises:
        TypesDifferError: Spark does not read the one as the other.
        pyarrow.ArrowException: a value does not fit.
    """
    if array.type == column.type == wanted and not column.parts and column.legacy_zone is None:
        return array
    array = plain(array)
    if wanted is None:
        wanted = column.type
        if wanted is None:
            return array
    if not column.parts:
        if column.type is None or pa.types.is_nested(wanted):
            raise TypesDifferError
        return _widened(_spark_values(array, column), column, wanted)
    if is_any_list(wanted) and len(column.parts) == 1 and is_any_list(array.type):
        values = converted(array.flatten(), column.parts[0], wanted.value_type, rules)
        return list_of(array, values, wanted)
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        array = _compact(array)
        keys = converted(array.keys, column.parts[0], wanted.key_type, rules)
        items = converted(array.items, column.parts[1], wanted.item_type, rules)
        return pa.MapArray.from_arrays(array.offsets, keys, items, wanted, mask=array.is_null())
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        array = _compact(array)
        children = [_member(array, column, field, rules) for field in wanted]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    raise TypesDifferError


def _member(array: pa.Array, column: Column, field: pa.Field, rules: Rules) -> pa.Array:
    key = rules.key(field.name)
    places = [i for i, part in enumerate(column.parts) if rules.key(part.name) == key]
    if len(places) > 1:
        raise TypesDifferError
    if not places:
        return pa.nulls(len(array), field.type)
    return converted(array.field(places[0]), column.parts[places[0]], field.type, rules)


def _compact(array: pa.Array) -> pa.Array:
    """The array, not as a slice of another."""
    return pa.concat_arrays([array, array[:0]]) if array.offset else array


def _spark_values(array: pa.Array, column: Column) -> pa.Array:
    """The values of a leaf in Spark's type for it."""
    wanted, found = column.type, array.type
    if found != wanted:
        if pa.types.is_null(found):
            return pa.nulls(len(array), wanted)
        if pa.types.is_duration(found) or (
            pa.types.is_timestamp(found) and pa.types.is_integer(wanted)
        ):
            array = array.view(pa.int64())
        elif pa.types.is_string(wanted) or pa.types.is_binary(wanted):
            array = _as_bytes(array, found).view(wanted)
        elif pa.types.is_timestamp(found) and found.unit == "ns":
            # Rounded down, as Spark does with INT96.
            nanos = np.asarray(array.view(pa.int64()).fill_null(0))
            micros = pa.array(nanos // 1000, mask=np.asarray(array.is_null()))
            array = micros.view(pa.timestamp("us"))
        array = array.cast(wanted)
    return array if column.legacy_zone is None else rebased(array, column.legacy_zone)


def _as_bytes(array: pa.Array, found: pa.DataType) -> pa.Array:
    """Spark's strings are any bytes."""
    if pa.types.is_large_string(found):
        array = array.view(pa.large_binary())
    elif pa.types.is_string(found):
        array = array.view(pa.binary())
    return array.cast(pa.binary())


def _widened(array: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    """The values as those of another file's type, where Spark reads the one as the other."""
    found = array.type
    if found == wanted:
        return array
    kinds = {found, wanted}
    if kinds == {pa.string(), pa.binary()}:
        return array.view(wanted)
    if kinds == {_UTC, _NTZ} and column.stored == "INT64":
        return array.cast(wanted)
    is_integer = pa.types.is_integer(found)
    fits = (
        (is_integer and pa.types.is_integer(wanted) and _is_read_as(column, wanted))
        or (is_integer and column.stored == "INT32" and wanted == pa.float64())
        or (found == pa.float32() and wanted == pa.float64())
        or (found == pa.date32() and wanted == _NTZ)
        or (pa.types.is_decimal(wanted) and not column.unsigned and _has_room(found, wanted))
    )
    if not fits:
        raise TypesDifferError
    if column.unsigned and wanted == pa.float64():
        # Spark takes the bits for those of a number with a sign.
        array = array.cast(pa.uint32()).view(pa.int32())
    if pa.types.is_decimal(wanted):
        array = array.cast(pa.decimal256(76, wanted.scale))
    return array.cast(wanted)


def _is_read_as(column: Column, wanted: pa.DataType) -> bool:
    """Integers of 32 bits are read as shorter ones too, if they fit; longer ones are not."""
    is_short = column.stored == "INT32" and column.type != pa.int64()
    return is_short or bool(wanted.bit_width == 64)


def _has_room(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_decimal(found):
        digits = found.precision - found.scale
        return bool(wanted.scale >= found.scale and wanted.precision - wanted.scale >= digits)
    return bool(found in _DIGITS and wanted.precision - wanted.scale >= _DIGITS[found])
