"""Keys: from columns of any supported type to one 64-bit hash, and what else must be compared.

Both sides of a join are converted to the *table's* type by expressions that Spark evaluates
itself, then hashed with Spark's ``xxhash64``. For a single key of at most 8 bytes that hash is
a bijection, so equal hashes mean equal keys and nothing else need travel to the workers. Text,
binary, long decimals and composite keys are sent along and compared.

A text with a collation is converted to its collation key, which is binary and equal exactly where
Spark takes the texts for equal.

A value of the stream that no value of the table's type can equal becomes null, and null never
matches: 5.5 against an int column, or 300 against a tinyint.

Keys that are null-safe have one more key behind them, a number whose bits say which of them are
null. So a null is told from every value, and the index needs no place for nulls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import KeyTypeError
from bsjoin.spark import sql
from bsjoin.spark.collations import collation_key
from bsjoin.storage.spark_schema import LONG_DIGITS, MAX_DIGITS

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
_COLLATED = re.compile(r"string collate (\w+)(?: \S+)?", re.ASCII)
"""The type of a text with a collation; a manifest has the version of its rules, too."""

NullsEqual = Sequence[bool] | None
"""Which keys are null-safe; None where the index has no row with a null key."""


@dataclass(frozen=True)
class KeySide:
    """One side of the join's key, as SQL expressions.

    Args:
        hash: the 64-bit hash; null where a key is null that is not null-safe.
        compared: the columns that distinguish keys of equal hash; empty where the hash is exact.
    """

    hash: str
    compared: tuple[str, ...]


def _family(dtype: T.DataType) -> str | None:
    """The family inside which types compare without losing a digit; None: not supported."""
    if type(dtype) in _INTEGER_DIGITS or isinstance(dtype, T.DecimalType):
        return "exact number"
    if isinstance(dtype, T.StringType):
        return type_name(dtype)
    return _SIMPLE.get(type(dtype))


def type_name(dtype: T.DataType) -> str:
    """The name under which a type is stored: that of Spark's JSON schemas, and of a collation."""
    if isinstance(dtype, T.StringType) and is_collated(dtype):
        return f"string collate {dtype.collation}"
    return str(dtype.jsonValue())


def type_of(name: str) -> T.DataType:
    """The type that :func:`type_name` named."""
    if found := _COLLATED.fullmatch(name):
        return T.StringType(found[1])
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


def is_collated(dtype: T.DataType) -> bool:
    """Whether values are texts of which different ones may be equal."""
    return isinstance(dtype, T.StringType) and not is_binary_collation(dtype)


def _digits(dtype: T.DataType) -> tuple[int, int]:
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
                raise KeyTypeError(
                    f"cannot join on {pair}: the type {dtype.simpleString()} of {name!r} is not "
                    "supported as a key (keys are integers, decimals, floating-point numbers, "
                    "booleans, strings, binary, dates and timestamps). Cast it, or join on "
                    "something else"
                )
        if _family(left_type) != _family(right_type):
            if isinstance(left_type, T.StringType) and isinstance(right_type, T.StringType):
                raise KeyTypeError(
                    f"cannot join on {pair}: their collations differ, so that one takes texts for "
                    "equal that the other tells apart; Spark itself compares no such columns. "
                    f"Cast one side to the other's type, or give it that collation, as by "
                    f"F.collate({left!r}, {right_type.collation!r})"
                )
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


def hash_is_exact(types: Sequence[T.DataType], nulls_equal: NullsEqual = None) -> bool:
    """Whether equal hashes of such keys mean equal keys."""
    if nulls_equal is not None:
        return False
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
    if is_collated(table):
        return collation_key(value)
    if not isinstance(table, T.DecimalType):
        if isinstance(dtype, T.DecimalType):
            return _if_equal(value, dtype, T.LongType())
        return sql.cast(value, T.LongType()) if is_integer(table) else value
    return value if dtype == table else _if_equal(value, dtype, table)


def _if_equal(value: str, given: T.DataType, dtype: T.DataType) -> str:
    converted = sql.try_cast(value, dtype)
    # Compared in the value's own type: a type for both may have fewer of its digits.
    return sql.case((f"{sql.try_cast(converted, given)} = {value}", converted))


def _side(
    given: Sequence[str], values: Sequence[str], table: Sequence[T.DataType], nulls: NullsEqual
) -> KeySide:
    """The key of values in the table's canonical types.

    ``given`` is what they were made of: null where a value is null, but not the other way round.
    """
    if not values:  # a pure range join: all rows have the same, empty key
        return KeySide("0L", ())
    known, compared = [], []
    for value, own, dtype, is_safe in zip(
        values, given, table, nulls or [False] * len(values), strict=True
    ):
        if is_collated(dtype):  # the key is null where the text is, and costs more
            known += [] if is_safe else [f"({own}) IS NOT NULL"]
        elif not is_safe:
            known.append(f"({value}) IS NOT NULL")
        elif value != own:
            known.append(f"(({value}) IS NOT NULL OR ({own}) IS NULL)")
        # The hash of a value of at most 8 bytes is a bijection and easier to compare than
        # the value: no NaN, no -0.0, no time zone.
        if fits_8_bytes(dtype):
            compared.append(f"xxhash64({value})")
        else:
            compared.append(f"coalesce({value}, {_some(dtype)})" if is_safe else value)
    values = [*values]
    if nulls is not None:
        values.append(_null_keys(given, nulls))
        compared.append(f"xxhash64({values[-1]})")
    if hash_is_exact(table, nulls):
        compared = []
    hashed = f"xxhash64({', '.join(values)})"  # a null leaves the hash of what is before it
    return KeySide(sql.case((" AND ".join(known), hashed)) if known else hashed, tuple(compared))


def _null_keys(given: Sequence[str], nulls: Sequence[bool]) -> str:
    """The number whose bits say which of the null-safe keys are null."""
    bits = [
        sql.case((f"({value}) IS NULL", f"{1 << place}L"), otherwise="0L")
        for place, (value, is_safe) in enumerate(zip(given, nulls, strict=True))
        if is_safe
    ]
    return " + ".join(bits) or "0L"


def _some(dtype: T.DataType) -> str:
    """A value of a type of more than 8 bytes, which is stored for a null."""
    if isinstance(dtype, T.DecimalType):
        return sql.cast("0", dtype)
    return "X''" if isinstance(dtype, T.BinaryType) or is_collated(dtype) else sql.text("")


def table_key(
    values: Sequence[str], types: Sequence[T.DataType], nulls_equal: NullsEqual = None
) -> KeySide:
    """The table's side of the key."""
    pairs = zip(values, types, strict=True)
    own = [_canonical(value, dtype, dtype) for value, dtype in pairs]
    return _side(values, own, types, nulls_equal)


def stream_key(
    values: Sequence[str],
    types: Sequence[T.DataType],
    table: Sequence[T.DataType],
    nulls_equal: NullsEqual = None,
) -> KeySide:
    """The stream's side of the key, comparable with the table's.

    ``nulls_equal`` says which keys are null-safe in this join, of a table that has null-safe keys.
    """
    triples = zip(values, types, table, strict=True)
    return _side(values, [_canonical(*triple) for triple in triples], table, nulls_equal)


def source_key(
    values: Sequence[str],
    types: Sequence[T.DataType],
    table: Sequence[T.DataType],
    nulls_equal: NullsEqual = None,
) -> KeySide:
    """The stream's side of a key that is looked up in a source.

    Its ``compared`` columns are the values to look up, in exactly the table's types; floating-point
    ones are canonical, and null-safe ones may be null. The hash is that of :func:`table_key`.
    """
    triples = zip(values, types, table, strict=True)
    exact = [_exactly(*triple) for triple in triples]
    pairs = zip(exact, table, strict=True)
    own = [_canonical(value, dtype, dtype) for value, dtype in pairs]
    return KeySide(_side(values, own, table, nulls_equal).hash, tuple(exact))


def _exactly(value: str, dtype: T.DataType, table: T.DataType) -> str:
    """The value in the table's type; null where nothing of that type equals it."""
    value = _canonical(value, dtype, table)  # a long or a double, where it is a number
    narrow = isinstance(table, T.ByteType | T.ShortType | T.IntegerType | T.FloatType)
    wide = T.DoubleType() if is_floating(table) else T.LongType()
    return _if_equal(value, wide, table) if narrow else value
