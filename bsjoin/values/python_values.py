"""Values of Arrow arrays as Python's, whose calendar has the years 1 to 9999 only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ALL = 2**31 - 1


def in_calendar(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tell the values that Python can express: all but dates and times outside of its calendar.

    >>> days = pa.chunked_array([pa.array([0, 10_000_000], pa.int32()).cast(pa.date32())])
    >>> in_calendar(days).to_pylist()
    [True, False]
    """
    if not pa.types.is_temporal(column.type) or pa.types.is_duration(column.type):
        return pa.chunked_array([pa.array([True] * len(column), pa.bool_())])
    year = pc.year(column)
    return pc.and_(pc.greater_equal(year, dt.MINYEAR), pc.less_equal(year, dt.MAXYEAR))


def shown(value: pa.Scalar) -> str:
    """A value in a message or as a label; a null as in SQL.

    >>> shown(pa.scalar(7)), shown(pa.scalar(3 * 10**17, pa.timestamp("us", "UTC")))
    ('7', '11476-08-15 05:20:00.000000Z')
    """
    return _text(value, str) if value.is_valid else "null"


def reprs(array: pa.Array) -> list[str]:
    """The ``repr`` of each value."""
    try:
        return [repr(value) for value in array.to_pylist()]
    except (ValueError, OverflowError):
        return [_text(value, repr) for value in array]


def _text(value: pa.Scalar, of: Callable[[Any], str]) -> str:
    """A text of the Python value; what Arrow itself prints where Python has no such value."""
    try:
        return of(value.as_py())
    except (ValueError, OverflowError):
        pass
    text: str = pa.array([value], value.type).to_string(
        indent=0, window=_ALL, container_window=_ALL, skip_new_lines=True
    )
    return text.removeprefix("[").removesuffix("]") if text.startswith("[") else text
