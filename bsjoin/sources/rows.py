"""Converts columns of Python values, from row-wise drivers, to Arrow arrays of one type."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.errors import DataError
from bsjoin.values.python_values import in_calendar

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ALL_DIGITS = 1e15  # smaller doubles have a decimal place within their first 15 digits


def array_of(values: Sequence[Any], dtype: pa.DataType, name: str, what: str) -> pa.Array:
    """The values as an array; no value is changed or replaced by null."""
    try:
        return _array(values, dtype)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
        pass
    offender = next(value for value in values if not _is_fine(value, dtype))
    other = f"read it with another type, such as schema={{{name!r}: pyarrow.string()}}"
    if pa.types.is_string(dtype):
        other = f"cast it in query=, or read its bytes by schema={{{name!r}: pyarrow.binary()}}"
    raise DataError(
        f"{what}: the column {name!r} contains {_short(offender)}, not a {dtype}: correct the "
        f"value, or {other}"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _is_fine(value: Any, dtype: pa.DataType) -> bool:
    try:
        _array([value], dtype)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
        return False
    return True


def _array(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}
    if pa.types.is_boolean(dtype):
        _only(kinds, {int, bool})
        if not set(values) <= {0, 1, None}:
            raise ValueError
        return pa.array([None if v is None else bool(v) for v in values], dtype)
    if pa.types.is_integer(dtype):
        _only(kinds, {int})
    elif pa.types.is_floating(dtype):
        _only(kinds, {int, float, Decimal})
        return pa.array([None if v is None else _float(v) for v in values], dtype)
    elif pa.types.is_decimal(dtype):
        _only(kinds, {int, float, Decimal, str})
        return pa.array([None if v is None else decimal_of(v, dtype.scale) for v in values], dtype)
    elif pa.types.is_string(dtype):
        _only(kinds, {str})
    elif pa.types.is_binary(dtype):
        _only(kinds, {bytes})
    elif pa.types.is_temporal(dtype):
        _only(kinds, {dt.date if pa.types.is_date(dtype) else dt.datetime, str})
        if str in kinds:
            texts = [v.isoformat() if isinstance(v, dt.date) else v for v in values]
            return pc.cast(pa.array(texts, pa.string()), dtype)
    return pa.array(values, dtype)


def _only(kinds: set[type], allowed: set[type]) -> None:
    if not kinds <= allowed:
        raise TypeError


def _float(value: Any) -> float:
    number = float(value)
    if type(value) is int and number != value:
        raise ValueError  # it has no such double
    return number


def decimal_of(value: int | float | Decimal | str, scale: int) -> Decimal:
    """The decimal that a number means.

    A binary fraction means its shortest decimal text, or its first 15 digits, as far as every
    double has them, if that text has more decimal places: 0.30000000000000004 is 0.30.

    Raises:
        ValueError: it is not a finite number, or has more decimal places.

    >>> decimal_of(0.1 + 0.2, 2), decimal_of(0.1 + 0.2, 18)
    (Decimal('0.3'), Decimal('0.30000000000000004'))
    """
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError(value)
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if not number.is_finite():
        raise ValueError(value)
    if isinstance(value, float) and abs(value) < _ALL_DIGITS and _places(number) > scale:
        number = Decimal(format(value, ".15g"))
    if _places(number) > scale:  # Arrow rounds some of them to zero
        raise ValueError(value)
    return number


def _places(number: Decimal) -> int:
    """The decimal places without zeros at their end."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # it is finite
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(0, -(exponent + zeros)) if zeros < len(digits) else 0


def python_values(keys: pa.Table) -> list[tuple[Any, ...]]:
    """The keys as tuples of Python values, dates and times as text in ISO 8601 form.

    They have no nulls. Those outside of the years 0 to 9999, NaN and infinities are left out.
    """
    for place, name in enumerate(keys.column_names):
        column = keys.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64()).cast(pa.timestamp("us"))  # in UTC
        if pa.types.is_temporal(column.type):
            fine = in_calendar(column, year_0=True)
            keys = keys.filter(fine).set_column(place, name, column.filter(fine).cast(pa.string()))
        elif pa.types.is_floating(column.type):
            keys = keys.filter(pc.is_finite(column))
    return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
