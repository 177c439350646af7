"""Converts columns of Python values, from row-wise drivers, to Arrow arrays of one type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin._python_values import in_calendar
from bsjoin.errors import SourceError

__all__ = ["array_of", "python_values"]


def array_of(values: Sequence[Any], dtype: pa.DataType, name: str, what: str) -> pa.Array:
    """The values as an array; no value is changed or replaced by null.

    Raises:
        SourceError: a value is not of the type; names the column and the value.
    """
    try:
        return _array(values, dtype)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
        pass
    offender = next(value for value in values if not _is_fine(value, dtype))
    raise SourceError(
        f"{what}: the column {name!r} contains {_short(offender)}, not a {dtype}: correct the "
        f"value, or give the right type with schema={{{name!r}: ...}}"
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
        return pa.array([None if v is None else float(v) for v in values], dtype)
    elif pa.types.is_decimal(dtype):
        _only(kinds, {int, float, Decimal, str})
        return pa.array([None if v is None else _decimal(v) for v in values], dtype)
    elif pa.types.is_string(dtype):
        _only(kinds, {str})
    elif pa.types.is_binary(dtype):
        _only(kinds, {bytes})
    elif pa.types.is_date(dtype):
        _only(kinds, {str} if str in kinds else {dt.date})
        if str in kinds:
            return pc.cast(pa.array(values, pa.string()), dtype)
    elif pa.types.is_timestamp(dtype):
        _only(kinds, {str} if str in kinds else {dt.datetime})
        if str in kinds:
            return pc.cast(pa.array(values, pa.string()), dtype)
    return pa.array(values, dtype)


def _only(kinds: set[type], allowed: set[type]) -> None:
    if not kinds <= allowed:
        raise TypeError


def _decimal(value: Any) -> Decimal:
    # A binary fraction is converted to the decimal with the same printed form.
    number = Decimal(format(value, ".15g") if isinstance(value, float) else value)
    if not number.is_finite():
        raise ValueError
    return number


def python_values(keys: pa.Table, *, finite: bool = False) -> list[tuple[Any, ...]]:
    """The keys as tuples of Python values, without dates outside of Python's calendar.

    Args:
        keys: the keys, without nulls.
        finite: leave out NaN and infinities, which MySQL lacks; default False.
    """
    kept = pa.chunked_array([pa.array([True] * len(keys), pa.bool_())])
    for column in keys.columns:
        kept = pc.and_(kept, in_calendar(column))
        if finite and pa.types.is_floating(column.type):
            kept = pc.and_(kept, pc.is_finite(column))
    columns = keys.filter(kept).columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
