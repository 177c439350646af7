"""Comparison of keys with the values that programs store in SQLite.

SQLite has no dates, times, decimals and short floats: a time is one of many texts, a decimal an
integer or a binary fraction. A key's spellings are ranges of an index, in which a function finds
the rows of exactly that key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.sources.rows import decimal_of
from bsjoin.values.python_values import in_calendar

_ALL_DIGITS = 10**15
_EXACT_DIGITS = 14
_INTEGERS = 1 << 63


@dataclass(frozen=True)
class Form:
    """The form in which the keys of a column are compared.

    Args:
        condition: in SQL, with ``{at}`` for the column, ``{key}`` for its number and ``{0}``, ...
            for the values.
        spellings: a list of the ways in which each key may be stored, each as the values.
        width: the number of values.
        variants: the most spellings of one key; default 1.
        expression: what equals the only value, if the condition is just that; default None.
        is_equality: whether SQLite can make an index for it; default False.
        range: the condition where an index has the column; None (default): the same.
    """

    condition: str
    spellings: Callable[[pa.ChunkedArray], Sequence[Sequence[tuple[Any, ...]]]]
    width: int = 1
    variants: int = 1
    expression: str | None = None
    is_equality: bool = False
    range: str | None = None


def form_of(read: str, dtype: pa.DataType) -> Form:
    """The form of a key column."""
    if pa.types.is_decimal(dtype):
        # As long as all digits are exact, the ranges of two keys have nothing in common.
        exact = "{at} BETWEEN {0} AND {1}" if dtype.precision <= _EXACT_DIGITS else None
        return Form(_RANGE.format(of_key=_OF_NUMBER), _decimals, width=3, range=exact)
    if pa.types.is_timestamp(dtype) and dtype.tz is None:
        return Form(_RANGE.format(of_key=_OF_TEXT), _times, width=3, variants=2)
    if pa.types.is_timestamp(dtype):
        return Form(f"{_OF_TEXT} = {{0}}", _instants, expression=_OF_TEXT)
    if pa.types.is_float32(dtype):
        return Form(_RANGE.format(of_key=_OF_NUMBER), _singles, width=3)
    if pa.types.is_date(dtype):
        return Form("{at} = {0}", _dates, expression="{at}", is_equality=True)
    if pa.types.is_binary(dtype) and read != "{}":  # a text, or already bytes
        return Form("{at} IN ({0}, CAST({0} AS TEXT))", _values, is_equality=True)
    at = read.format("{at}")
    exactly = f" AND {at} = {{0}} COLLATE BINARY" if pa.types.is_string(dtype) else ""
    return Form(f"{at} = {{0}}{exactly}", _values, expression=at, is_equality=read == "{}")


# A text that is not UTF-8 reaches no function of Python's, except as bytes.
_OF_TEXT = "bsjoin_key(CASE typeof({at}) WHEN 'text' THEN CAST({at} AS BLOB) END, {key})"
_OF_NUMBER = "bsjoin_key(CASE WHEN typeof({at}) <> 'text' THEN {at} END, {key})"
_RANGE = "{{at}} BETWEEN {{0}} AND {{1}} AND {of_key} = {{2}}"


def _values(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    return [((value,),) for value in column.to_pylist()]


def _dates(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    return _values(column.cast(pa.string()))


def _instants(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    return _values(column.cast(pa.int64()))


def _times(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    numbers = column.cast(pa.int64())
    fine = in_calendar(column, year_0=True)
    texts = pc.if_else(fine, numbers, 0).cast(column.type).cast(pa.string())
    return [
        [(*ends, number) for ends in _ranges(text)] if stored else ()
        for text, number, stored in zip(
            texts.to_pylist(), numbers.to_pylist(), fine.to_pylist(), strict=True
        )
    ]


def _ranges(text: str) -> tuple[tuple[str, str], ...]:
    """The ranges of the texts of a time, from the shortest to the longest.

    >>> _ranges("2024-01-01 10:00:00.000000")[1]
    ('2024-01-01T10', '2024-01-01T10:00:00.000000')
    """
    day, time = text[:10], text[11:].rstrip("0").rstrip(".")
    while time.endswith(":00"):
        time = time.removesuffix(":00")
    return (day if time == "00" else f"{day} {time}", text), (f"{day}T{time}", f"{day}T{text[11:]}")


def _singles(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    values = np.asarray(column, np.float32)
    ends = [np.nextafter(values, np.float32(end)).tolist() for end in (-math.inf, math.inf)]
    texts = [canonical(value, pa.float32()) for value in values.tolist()]
    return [((*each,),) for each in zip(*ends, texts, strict=True)]


def _decimals(column: pa.ChunkedArray) -> Sequence[Sequence[tuple[Any, ...]]]:
    scale = column.type.scale
    return [
        ((*_between(value), _unscaled(format(value, "f"), scale)),) if abs(value) < 10**300 else ()
        for value in column.to_pylist()
    ]


def _between(value: Decimal) -> tuple[int | float, int | float]:
    """The least and the greatest number that mean a decimal."""
    near = float(value)
    if abs(value) >= _ALL_DIGITS:
        whole = value == value.to_integral_value() and abs(value) < _INTEGERS
        both = (near, int(value)) if whole else (near, near)
        return min(both), max(both)
    if not value:
        return 0.0, 0.0
    # Half a unit of the 15th digit.
    half = 0.5 * 10.0 ** (value.adjusted() - 14)
    return math.nextafter(near - half, -math.inf), math.nextafter(near + half, math.inf)


def _unscaled(text: str, scale: int) -> str:
    """The text of a number times 10**scale; empty if it has more decimal places.

    >>> _unscaled("-1.50", 2), _unscaled("1.005", 2)
    ('-150', '')
    """
    whole, _, rest = text.partition(".")
    rest = rest.rstrip("0")
    return "" if len(rest) > scale else str(int(whole + rest.ljust(scale, "0")))


def canonical(value: Any, dtype: pa.DataType, encoding: str = "UTF-8") -> str | int | None:
    """Return the value that all spellings of a key share; None for a value that is no such key.

    SQLite has a value, a text, or its bytes in the database's encoding.

    >>> canonical("1970-01-01 00:00:01", pa.timestamp("us")), canonical(1.1, pa.decimal128(10, 2))
    (1000000, '110')
    """
    if isinstance(value, bytes):
        value = value.decode(encoding, "replace")
    if isinstance(value, str) != pa.types.is_timestamp(dtype):
        return None
    try:
        if isinstance(value, str):
            number: int = pa.scalar(value).cast(dtype).value
            return number
        if pa.types.is_decimal(dtype):
            return _unscaled(format(decimal_of(value, dtype.scale), "f"), dtype.scale) or None
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        return None
    with np.errstate(over="ignore"):  # many doubles are read as one float
        return None if value is None else str(float(np.float32(value)) + 0.0)
