"""Infinite dates and times, which PostgreSQL and DuckDB have and Spark has not.

They become the ends of Spark's calendar, 0001-01-01 and 9999-12-31 (23:59:59.999999): the nearest
values that Spark documents, and that a Python program can receive. Finite values outside of
that calendar stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.values.plain import has_inside, plain

ENDS: Mapping[str, tuple[int, int]] = {
    "date": (-719_162, 2_932_896),
    "time": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""What stands for -infinity and infinity: days, and microseconds, from 1970."""

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the Gregorian calendar repeats itself


@dataclass(frozen=True)
class Infinities:
    """The infinite values as a driver returns them.

    Args:
        date: the days that mean -infinity and infinity.
        time: the microseconds that mean -infinity and infinity.
        least: smaller microseconds are those of a time after 294247-01-10, less 2**64, which the
            driver has not noticed; None (default) if it has no such fault.
    """

    date: tuple[int, int]
    time: tuple[int, int]
    least: int | None = None


def bounded(column: pa.ChunkedArray, infinities: Infinities) -> pa.ChunkedArray:
    """A column with finite dates and times, inside lists, structs and maps as well.

    Raises:
        OverflowError: a time is beyond Spark's range, or that of its unit; the message is the time.
    """
    if not has_inside(column.type, _is_time):
        return column
    chunks = [plain(chunk, partial(_leaf, infinities)) for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else column


def ends_in(column: pa.ChunkedArray) -> list[tuple[int, str]]:
    """Find the values of a key column that stand for an infinite one: number and SQL's word."""
    dtype = column.type
    if not _is_time(dtype):
        return []
    ends = ENDS["date" if pa.types.is_date32(dtype) else "time"]
    numbers = _numbers(column)
    return [
        (end, word)
        for end, word in zip(ends, ("-infinity", "infinity"), strict=True)
        if pc.any(pc.equal(numbers, end)).as_py()
    ]


def _numbers(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())


def _is_time(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_date32(dtype) or pa.types.is_timestamp(dtype))


def _leaf(infinities: Infinities, array: pa.Array) -> pa.Array:
    if not _is_time(array.type):
        return array
    date, numbers = pa.types.is_date32(array.type), _numbers(array)
    codes = infinities.date if date else infinities.time
    unit = 1 if date else _MICROSECONDS.get(array.type.unit)
    for code, end in zip(codes, ENDS["date" if date else "time"], strict=True):
        infinite = pc.equal(numbers, code)
        if pc.any(infinite).as_py():
            if unit is None:
                raise OverflowError("an infinite time in nanoseconds")
            end //= unit
            numbers = pc.if_else(infinite, pa.scalar(end, numbers.type), numbers)
    if not date and infinities.least is not None:
        wrapped = pc.less(numbers, infinities.least)
        if pc.any(wrapped).as_py():
            raise OverflowError(_far_time(numbers.filter(wrapped)[0].as_py() + (1 << 64)))
    return numbers.cast(array.type)


def _far_time(microseconds: int) -> str:
    """The text of a time after Python's calendar.

    >>> _far_time(9_224_318_015_999_999_999)
    '294276-12-31 23:59:59.999999'
    """
    days, rest = divmod(microseconds, 86_400_000_000)
    cycles, day = divmod(days, _CYCLE_DAYS)
    near = datetime(1970, 1, 1) + timedelta(days=day, microseconds=rest)
    return f"{near.year + cycles * _CYCLE_YEARS}{near.isoformat(' ')[4:]}"
