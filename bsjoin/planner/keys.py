"""Keys: from columns of any supported type to one 64-bit hash, and what else must be compared.

Both sides of a join are converted to the *table's* type by expressions that Spark evaluates
itself, then hashed with Spark's ``xxhash64``. For a single key of at most 8 bytes that hash is
a bijection, so equal hashes mean equal keys and nothing else need travel to the workers. Text,
binary, long decimals and composite keys are sent along and compared.

A value of the stream that no value of the table's type can equal becomes null, and null never
matches: 5.5 against an int column, or 300 against a tinyint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import KeyTypeError
from bsjoin.spark import sql
from bsjoin.storage.spark_schema import LONG_DIGITS, MAX_DIGITS

__all__ = [
    "KeySide",
    "check_key_types",
    "digits_together",
    "fits_8_bytes",
    "hash_is_exact",
    "hashable",
    "is_binary_collation",
    "is_floating",
    "is_integer",
    "source_key",
    "stream_key",
    "table_key",
    "type_name",
    "type_of",
]

_INTEGER_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 20,
}
_SIMPLE: dict[type[T.DataType], str] = {
    T.BooleanType: "boolean",
    T.FloatType: "floating",
    T.DoubleType: "floating",
    T.BinaryType: "binary",
    T.DateType: "date",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp_ntz",
}


@dataclass(frozen=True)
class KeySide:
    """One side of the join's key, as SQL expressions.

    Args:
        hash: the 64-bit hash; null where a key is null.
        compared: the columns that distinguish keys of equal hash; empty where the hash is exact.
    """

    hash: str
    compared: tuple[str, ...]


def _family(dtype: T.DataType) -> str | None:
    """The family inside which types compare without losing a digit; None: not supported."""
    if type(dtype) in _INTEGER_DIGITS or isinstance(dtype, T.DecimalType):
        return "exact number"
    if isinstance(dtype, T.StringType):
        return "string" if is_binary_collation(dtype) else None
    return _SIMPLE.get(type(dtype))


def type_name(dtype: T.DataType) -> str:
    """The name under which a key's type is stored: that of Spark's JSON schemas."""
    return str(dtype.jsonValue())


def type_of(name: str) -> T.DataType:
    """The type that :func:`type_name` named."""
    field = {"name": "key", "type": name, "nullable": True, "metadata": {}}
    return T.StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def is_integer(dtype: T.DataType) -> bool:
    """Whether values are integers of at most 8 bytes."""
    return type(dtype) in _INTEGER_DIGITS


def is_floating(dtype: T.DataType) -> bool:
    """Whether values are floating-point numbers."""
    return isinstance(dtype, T.FloatType | T.DoubleType)


def is_binary_collation(dtype: T.StringType) -> bool:
    """Whether strings are equal, and ordered, as their bytes are."""
    return getattr(dtype, "collation", "UTF8_BINARY") == "UTF8_BINARY"


def _digits(dtype: T.DataType) -> tuple[int, int]:
    """Digits before and after the point."""
    if isinstance(dtype, T.DecimalType):
        return dtype.precision - dtype.scale, dtype.scale
    return _INTEGER_DIGITS[type(dtype)], 0


def digits_together(types: Sequence[T.DataType]) -> int:
    """The digits that a decimal needs to hold all values of some exact numbers."""
    before, after = zip(*map(_digits, types), strict=True)
    return int(max(before) + max(after))


def check_key_types(
    stream: Sequence[tuple[str, T.DataType]], table: Sequence[tuple[str, T.DataType]]
) -> None:
    """Refuse pairs of key types that do not compare exactly.

    Raises:
        KeyTypeError: names the columns, their types and what to cast.
    """
    for (left, left_type), (right, right_type) in zip(stream, table, strict=True):
        pair = f"{left!r} ({left_type.simpleString()}) = {right!r} ({right_type.simpleString()})"
        for name, dtype in ((left, left_type), (right, right_type)):
            if _family(dtype) is None:
                why = (
                    "a collation that is not binary makes different texts equal"
                    if isinstance(dtype, T.StringType)
                    else "keys are integers, decimals, floating-point numbers, booleans, "
                    "strings, binary, dates and timestamps"
                )
                raise KeyTypeError(
                    f"cannot join on {pair}: the type {dtype.simpleString()} of {name!r} is not "
                    f"supported as a key ({why}). Cast it, or join on something else"
                )
        if _family(left_type) != _family(right_type):
            raise KeyTypeError(
                f"cannot join on {pair}: these types are not of one family, and comparing them "
                "would round or reinterpret values. Cast one side so that both are "
                "integers or decimals, both floating-point, both strings, and so on"
            )
        if _family(left_type) == "exact number":
            together = digits_together([left_type, right_type])
            if together > MAX_DIGITS:
                raise KeyTypeError(
                    f"cannot join on {pair}: comparing them needs {together} digits and "
                    f"a decimal has {MAX_DIGITS}, so Spark itself would round or fail. Cast "
                    "one side to fewer digits"
                )


def fits_8_bytes(dtype: T.DataType) -> bool:
    """Whether values are numbers or times of at most 8 bytes, with decimals of up to 18 digits."""
    if isinstance(dtype, T.DecimalType):
        return dtype.precision <= LONG_DIGITS
    return not isinstance(dtype, T.StringType | T.BinaryType)


def hash_is_exact(types: Sequence[T.DataType]) -> bool:
    """Whether equal hashes of such keys mean equal keys."""
    return not types or (len(types) == 1 and fits_8_bytes(types[0]))


def hashable(schema: T.StructType) -> list[str]:
    """The columns that Spark can hash: all but maps, and what else has no hash."""

    def fits(dtype: T.DataType) -> bool:
        if isinstance(dtype, T.ArrayType):
            return fits(dtype.elementType)
        if isinstance(dtype, T.StructType):
            return all(fits(field.dataType) for field in dtype)
        return not isinstance(dtype, T.MapType | T.VariantType)

    return [field.name for field in schema if fits(field.dataType)]


def _canonical(value: str, dtype: T.DataType, table: T.DataType) -> str:
    """The value in the table's canonical type; null where nothing of that type equals it."""
    if is_floating(table):
        number = sql.cast(value, T.DoubleType())
        return sql.case((f"isnan({number})", "double('NaN')"), otherwise=f"{number} + 0.0D")
    if not isinstance(table, T.DecimalType):
        if isinstance(dtype, T.DecimalType):
            return _if_equal(value, T.LongType())
        return sql.cast(value, T.LongType()) if is_integer(table) else value
    return value if dtype == table else _if_equal(value, table)


def _if_equal(value: str, dtype: T.DataType) -> str:
    converted = sql.try_cast(value, dtype)
    return sql.case((f"{converted} = {value}", converted))


def _side(values: Sequence[str], table: Sequence[T.DataType]) -> KeySide:
    if not values:  # a pure range join: all rows have the same, empty key
        return KeySide("0L", ())
    compared: tuple[str, ...] = ()
    if not hash_is_exact(table):
        # The hash of a value of at most 8 bytes is a bijection and easier to compare than
        # the value: no NaN, no -0.0, no time zone.
        compared = tuple(
            f"xxhash64({value})" if fits_8_bytes(dtype) else value
            for value, dtype in zip(values, table, strict=True)
        )
    known = " AND ".join(f"({value}) IS NOT NULL" for value in values)
    return KeySide(sql.case((known, f"xxhash64({', '.join(values)})")), compared)


def table_key(values: Sequence[str], types: Sequence[T.DataType]) -> KeySide:
    """The table's side of the key."""
    pairs = zip(values, types, strict=True)
    return _side([_canonical(value, dtype, dtype) for value, dtype in pairs], types)


def stream_key(
    values: Sequence[str], types: Sequence[T.DataType], table: Sequence[T.DataType]
) -> KeySide:
    """The stream's side of the key, comparable with the table's."""
    triples = zip(values, types, table, strict=True)
    return _side([_canonical(*triple) for triple in triples], table)


def source_key(
    values: Sequence[str], types: Sequence[T.DataType], table: Sequence[T.DataType]
) -> KeySide:
    """The stream's side of a key that is looked up in a source.

    Its ``compared`` columns are the values to look up, in exactly the table's types; floating-point
    ones are canonical. The hash is that of :func:`table_key`.
    """
    triples = zip(values, types, table, strict=True)
    exact = [_exactly(*triple) for triple in triples]
    return KeySide(table_key(exact, table).hash, tuple(exact))


def _exactly(value: str, dtype: T.DataType, table: T.DataType) -> str:
    """The value in the table's type; null where nothing of that type equals it."""
    value = _canonical(value, dtype, table)  # a long or a double, where it is a number
    narrow = isinstance(table, T.ByteType | T.ShortType | T.IntegerType | T.FloatType)
    return _if_equal(value, table) if narrow else value
