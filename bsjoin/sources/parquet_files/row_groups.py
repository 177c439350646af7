"""Selects the row groups that can contain some keys, by their minimum and maximum statistics."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.values.python_values import in_calendar

__all__ = ["EMPTY", "MinMax", "comparable", "min_max_of", "sorted_keys", "touched"]

# The minimum and the maximum; None: unknown; EMPTY: only nulls.
MinMax = tuple[Any, Any] | str | None
EMPTY = "empty"


def min_max_of(
    metadata: Any, leaf: int, dtype: pa.DataType, converted: Callable[[pa.Array], pa.Array]
) -> list[MinMax]:
    """The bounds of one column in every row group of a file.

    Args:
        metadata: the metadata of the Parquet file.
        leaf: the column's place among those of the file.
        dtype: the type of the statistics.
        converted: makes values of the table's type of them, in the same order.
    """
    # The order of INT96 is not defined.
    known = metadata.schema.column(leaf).physical_type != "INT96"
    return [
        _bounds(metadata.row_group(i).column(leaf).statistics, dtype, converted) if known else None
        for i in range(metadata.num_row_groups)
    ]


def _bounds(
    statistics: Any, dtype: pa.DataType, converted: Callable[[pa.Array], pa.Array]
) -> MinMax:
    if statistics is None:
        return None
    try:
        if not statistics.has_min_max:
            only_nulls = statistics.has_null_count and statistics.num_values == 0
            return EMPTY if only_nulls and not pa.types.is_floating(dtype) else None
        # A finer timestamp is truncated on both sides, like the column.
        both = [_value(v, dtype) for v in (statistics.min, statistics.max)]
        least, greatest = comparable(converted(pa.array(both, dtype)))
        return (least, greatest) if least <= greatest else None  # NaN, or a writer's mistake
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        return None  # for example a text that was truncated inside a character


def _value(value: Any, dtype: pa.DataType) -> Any:
    if pa.types.is_timestamp(dtype):
        nanos = getattr(value, "nanosecond", 0)
        value = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
        if nanos < 0:
            raise ValueError(nanos)
    return value


def comparable(values: pa.Array) -> list[Any]:
    """Values in a form that Python orders as Parquet does; texts are any bytes."""
    if pa.types.is_string(values.type):
        values = values.view(pa.binary())
    found: list[Any] = values.to_pylist()
    return found


def sorted_keys(column: pa.ChunkedArray) -> list[Any] | None:
    """The sorted keys; None if statistics cannot exclude one of them (NaN, or null)."""
    if column.null_count:
        return None
    # Files whose bounds are known have no value outside of Python's calendar.
    values = comparable(column.filter(in_calendar(column)).combine_chunks())
    if any(value != value for value in values):
        return None
    return sorted(values)


def touched(keys: Sequence[Any], bounds: MinMax) -> bool:
    """Whether a key is within the bounds.

    >>> touched([1, 5, 9], (6, 8)), touched([1, 5, 9], (6, 9)), touched([1], None)
    (False, True, True)
    """
    if bounds is None:
        return True
    if isinstance(bounds, str):
        return False
    place = bisect.bisect_left(keys, bounds[0])
    return place < len(keys) and bool(keys[place] <= bounds[1])
