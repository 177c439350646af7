"""Selects the row groups that can contain some keys, by their statistics: bounds and nulls."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bsjoin.values.python_values import in_calendar

# The minimum and the maximum; None: unknown; EMPTY: only nulls.
MinMax = tuple[Any, Any] | str | None
EMPTY = "empty"


@dataclass(frozen=True)
class AskedKeys:
    """The keys of a look-up in one column.

    Args:
        values: those that are not null, sorted; None: bounds cannot exclude one of them (NaN).
        null: whether one is null.
    """

    values: list[Any] | None
    null: bool


def statistics_of(
    metadata: Any, leaf: int, dtype: pa.DataType, converted: Callable[[pa.Array], pa.Array]
) -> tuple[list[MinMax], list[bool]]:
    """The bounds of a column in every row group of a file, and whether it may be null there.

    ``converted`` makes values of the table's type of the statistics, in the same order.
    """
    groups = range(metadata.num_row_groups)
    known = [metadata.row_group(i).column(leaf).statistics for i in groups]
    nulls = [one is None or not one.has_null_count or one.null_count > 0 for one in known]
    if metadata.schema.column(leaf).physical_type == "INT96":  # whose order is not defined
        return [None for _ in groups], nulls
    return [_bounds(one, dtype, converted) for one in known], nulls


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
        both = [_value(one) for one in (statistics.min, statistics.max)]
        least, greatest = comparable(converted(pa.array(both, dtype)))
        return (least, greatest) if least <= greatest else None  # NaN, or a writer's mistake
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        return None  # for example a text that was truncated inside a character


def _value(value: Any) -> Any:
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


def comparable(values: pa.Array) -> list[Any]:
    """Values in a form that Python orders as Parquet does; texts are any bytes."""
    if pa.types.is_string(values.type):
        values = values.view(pa.binary())
    found: list[Any] = values.to_pylist()
    return found


def asked_keys(column: pa.ChunkedArray) -> AskedKeys:
    """The keys in the order of statistics."""
    known = column.drop_null()
    # Files whose bounds are known have no value outside of Python's calendar.
    values = comparable(known.filter(in_calendar(known)).combine_chunks())
    has_nan = any(value != value for value in values)
    return AskedKeys(None if has_nan else sorted(values), column.null_count > 0)


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
