"""Infinite dates and times, which PostgreSQL and DuckDB have and Spark has not.

They become the ends of Spark's calendar, 0001-01-01 and 9999-12-31 (23:59:59.999999): the nearest
values that Spark documents, and that a Python program can receive. Finite values outside of
that calendar stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

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
    if not _has_times(column.type):
        return column
    chunks = [_bounded(pa.concat_arrays([chunk]), infinities) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def ends_in(column: pa.ChunkedArray) -> list[tuple[int, str]]:
    """Find the values of a key column that stand for an infinite one: number and SQL's word."""
    dtype = column.type
    if not pa.types.is_date32(dtype) and not pa.types.is_timestamp(dtype):
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


def _has_times(dtype: pa.DataType) -> bool:
    if pa.types.is_date32(dtype) or pa.types.is_timestamp(dtype):
        return True
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_times(dtype.storage_type)
    return any(_has_times(dtype.field(index).type) for index in range(dtype.num_fields))


def _bounded(array: pa.Array, infinities: Infinities) -> pa.Array:
    dtype = array.type
    if not _has_times(dtype):
        return array
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if pa.types.is_struct(dtype):
        children = [_bounded(array.field(index), infinities) for index in range(dtype.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(dtype), mask=array.is_null())
    if pa.types.is_map(dtype):
        keys, items = _bounded(array.keys, infinities), _bounded(array.items, infinities)
        return pa.MapArray.from_arrays(array.offsets, keys, items, dtype, mask=array.is_null())
    if pa.types.is_fixed_size_list(dtype):
        values = _bounded(array.values, infinities)
        return pa.FixedSizeListArray.from_arrays(values, type=dtype, mask=array.is_null())
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        values = _bounded(array.values, infinities)
        kind = pa.LargeListArray if pa.types.is_large_list(dtype) else pa.ListArray
        return kind.from_arrays(array.offsets, values, dtype, mask=array.is_null())
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(dtype, _bounded(array.storage, infinities))
    return _leaf(array, infinities)


def _leaf(array: pa.Array, infinities: Infinities) -> pa.Array:
    numbers = _numbers(array)
    date = pa.types.is_date32(array.type)
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
