"""Partition columns, whose values are in the names of folders (``column=value``), as in Spark.

The types follow from the values of all folders; ``__HIVE_DEFAULT_PARTITION__`` is null. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa

from bsjoin.errors import SourceError
from bsjoin.sources.parquet_files.legacy_calendar import zone_of

NULL = "__HIVE_DEFAULT_PARTITION__"

_UTC = pa.timestamp("us", "UTC")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DOUBLE = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+))[fFdD]?[\x00-\x20]*",
    re.ASCII,
)
_DATE = re.compile(r"-?\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})(?:\.(\d))?", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?", re.ASCII)
_ESCAPED = re.compile(r"%([0-9a-fA-F]{2})")


@dataclass(frozen=True)
class Partitioning:
    """The partition columns of a folder.

    Args:
        names: their names, in the order of the folders.
        types: their types; None where Spark has one that look-ups do not support.
        raw: per folder with files the values as they are written. Folders that belong to no
            partition are missing: where there are partitions, Spark ignores their files.
    """

    names: tuple[str, ...] = ()
    types: tuple[pa.DataType | None, ...] = ()
    raw: dict[str, tuple[str, ...]] = field(default_factory=dict)


def partitioning_of(
    folders: Iterable[str], *, infer: bool, case_sensitive: bool, what: str
) -> Partitioning:
    """The partition columns of a folder.

    Below it are folders with data files, as relative paths, "" for itself. If nothing is inferred
    of the values, all columns are strings.
    """
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    bases: dict[str, str] = {}
    for folder in sorted(folders):
        base, pairs = _parsed(folder, what)
        bases.setdefault(base.lower(), folder)
        if pairs:
            found[folder] = pairs
    if not found:
        return Partitioning()

    def key(name: str) -> str:
        return name if case_sensitive else name.lower()

    names = {tuple(key(name) for name, _ in pairs): folder for folder, pairs in found.items()}
    for differing, why in ((names, "have different columns"), (bases, "begin at different places")):
        if len(differing) > 1:
            one, other, *_ = sorted(differing.values())
            raise SourceError(
                f"{what}: the partition folders {one!r} and {other!r} {why}; all files of a table "
                "have the same partition columns, each in the folder of its values"
            )
    (columns,) = names
    if len(set(columns)) < len(columns):
        raise SourceError(f"{what}: a partition column occurs twice in the folder {min(found)!r}")
    values = {folder: tuple(value for _, value in pairs) for folder, pairs in found.items()}
    types = [
        _type_of({row[i] for row in values.values()}, infer=infer) for i in range(len(columns))
    ]
    return Partitioning(tuple(n for n, _ in min(found.items())[1]), tuple(types), values)


def _parsed(folder: str, what: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Split a folder into the part before its partitions, and the columns with their values."""
    parts = folder.split("/") if folder else []
    pairs: list[tuple[str, str]] = []
    while parts:
        name, equals, value = parts[-1].partition("=")
        if equals:
            if not name or not value:
                raise SourceError(f"{what}: the folder {folder!r} lacks a column's name or value")
            pairs.append((_unescaped(name), value))
        elif pairs:
            break
        parts.pop()
    return ("/".join(parts) if pairs else folder), tuple(reversed(pairs))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _type_of(values: set[str], *, infer: bool) -> pa.DataType | None:
    """The narrowest type of all values; None: Spark's is one that look-ups lack."""
    values = values - {NULL}
    if not values:
        return None
    if not infer:
        return pa.string()
    return reduce(_wider, map(_inferred, sorted(values)))


def _inferred(value: str) -> pa.DataType | None:
    if _INTEGER.fullmatch(value):
        number = int(value)
        for dtype, bits in ((pa.int32(), 31), (pa.int64(), 63)):
            if -(1 << bits) <= number < 1 << bits:
                return dtype
    if _NUMBER.fullmatch(value):
        _, digits, exponent = Decimal(value).as_tuple()
        assert isinstance(exponent, int)
        zero = not any(digits)
        precision = max(1, len(digits) + (0 if zero else exponent))
        if exponent >= 0 and precision <= 38:
            return pa.decimal128(precision, 0)
    if _DOUBLE.fullmatch(value):
        return pa.float64()
    if _timestamp(_unescaped(value)) is not None:
        return _UTC
    if _days(value) is not None:
        return pa.date32()
    return None if _TIME.fullmatch(value) else pa.string()


def _wider(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    if one == other:
        return one
    kinds = {one, other}
    if kinds == {pa.int32(), pa.int64()}:
        return pa.int64()
    if kinds == {pa.int32(), pa.float64()}:
        return pa.float64()
    if kinds == {pa.date32(), _UTC}:
        return _UTC
    digits = [_digits(kind) for kind in (one, other)]
    if None not in digits and pa.float64() not in kinds:
        return pa.decimal128(max(d for d in digits if d is not None), 0)
    return pa.string()


def _digits(dtype: pa.DataType | None) -> int | None:
    if dtype is not None and pa.types.is_decimal(dtype):
        return int(dtype.precision)
    return {pa.int32(): 10, pa.int64(): 20}.get(dtype)


def _days(value: str) -> int | None:
    try:
        return int(np.datetime64(value, "D").astype(int)) if _DATE.fullmatch(value) else None
    except ValueError:
        return None


def _timestamp(value: str) -> dt.datetime | None:
    found = _TIMESTAMP.fullmatch(value)
    if found is None:
        return None
    try:
        return dt.datetime.fromisoformat(f"{found[1]}T{found[2]}.{found[3] or 0}00000")
    except ValueError:
        return None


def partition_scalar(raw: str, dtype: pa.DataType, time_zone: str) -> pa.Scalar | None:
    """A partition's value, of the text in the folder's name; None if it is none of the type."""
    if raw == NULL:
        return pa.scalar(None, dtype)
    try:
        return pa.scalar(_value(raw, dtype, time_zone), dtype)
    except (ValueError, ArithmeticError, pa.ArrowException, TypeError):
        return None


def _value(raw: str, dtype: pa.DataType, time_zone: str) -> object:
    if pa.types.is_string(dtype):
        return _unescaped(raw)
    if pa.types.is_binary(dtype):
        return raw.encode()
    if pa.types.is_integer(dtype):
        if not _INTEGER.fullmatch(raw):
            raise ValueError(raw)
        return int(raw)
    if pa.types.is_decimal(dtype):
        return Decimal(raw)
    if pa.types.is_floating(dtype):
        found = _DOUBLE.fullmatch(raw)
        if found is None:
            raise ValueError(raw)
        return float.fromhex(found[1]) if "x" in found[1].lower() else float(found[1])
    if pa.types.is_boolean(dtype):
        return {"true": True, "false": False}[raw.lower()]
    if pa.types.is_date(dtype):
        days = _days(raw)
        if days is None:
            raise ValueError(raw)
        return days
    if pa.types.is_timestamp(dtype):
        text = _unescaped(raw)
        at = _timestamp(text if " " in text else f"{text} 00:00:00")
        if at is None:
            raise ValueError(raw)
        return at.replace(tzinfo=zone_of(time_zone)) if dtype.tz else at
    raise ValueError(raw)
