"""Values of Arrow arrays as Python's, whose calendar has the years 1 to 9999 only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ALL = 2**31 - 1
_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31, from 1970
_DAYS_OF_YEAR_0 = 366
_DAY_US = 86_400_000_000


def in_calendar(column: pa.ChunkedArray, *, year_0: bool = False) -> pa.ChunkedArray:
    """Tell the values that Python can express: all but dates and times outside of its calendar.

    Timestamps are of microseconds. With ``year_0`` the calendar has the year 0, too.

    >>> days = pa.chunked_array([pa.array([0, -719_163, 10_000_000], pa.int32()).cast(pa.date32())])
    >>> in_calendar(days).to_pylist(), in_calendar(days, year_0=True).to_pylist()
    ([True, False, False], [True, True, False])
    """
    if pa.types.is_date32(column.type):
        numbers, day = column.cast(pa.int32()), 1
    elif pa.types.is_timestamp(column.type):
        numbers, day = column.cast(pa.int64()), _DAY_US
    else:
        return pa.chunked_array([pa.array([True] * len(column), pa.bool_())])
    # Not by their years: those of Arrow have 16 bits, and begin again.
    first, last = _DAYS[0] - _DAYS_OF_YEAR_0 * year_0, _DAYS[1]
    return pc.and_(
        pc.greater_equal(numbers, first * day), pc.less_equal(numbers, (last + 1) * day - 1)
    )


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
