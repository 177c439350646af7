"""Range columns: how they are searched, which types suit a condition, widths in their units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import AsOf, Band, Closed, Condition, Overlaps, Within, chooses
from bsjoin.errors import ArgumentError, KeyTypeError
from bsjoin.index import GREATEST, LEAST
from bsjoin.plan import Predicate
from bsjoin.planner.columns import Names
from bsjoin.planner.keys import (
    digits_together,
    is_binary_collation,
    is_floating,
    is_integer,
    type_of,
)
from bsjoin.planner.sort_columns import sort_columns
from bsjoin.spark import sql
from bsjoin.storage import RangeColumns
from bsjoin.storage.spark_schema import LONG_DIGITS, MAX_DIGITS
from bsjoin.values.sort_order import SortOrder
from bsjoin.values.widths import Width, is_duration, size_of

_INTEGER_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10}
_TIMES = (T.TimestampType, T.TimestampNTZType)


def _searched(dtype: T.DataType) -> T.DataType | None:
    """The type in which a column is searched; None for one that cannot be."""
    if is_integer(dtype):
        return T.LongType()
    if is_floating(dtype):
        return T.DoubleType()
    if isinstance(dtype, T.StringType):
        return dtype if is_binary_collation(dtype) else None
    return dtype if isinstance(dtype, (T.DecimalType, T.BinaryType, T.DateType, *_TIMES)) else None


def _family(dtype: T.DataType) -> str:
    if is_integer(dtype) or isinstance(dtype, T.DecimalType):
        return "exact number"
    return "floating-point number" if is_floating(dtype) else type(dtype).__name__


def range_columns(when: Condition, schema: T.StructType, table: Names) -> RangeColumns:
    """Return the columns that a table for this condition is sorted by.

    Raises:
        ColumnError: the table has no such column.
        KeyTypeError: a column cannot be searched, or sorted by.
    """
    names = [table.find(name, "when") for name in when.table_columns]
    given = [schema[name].dataType for name in names]
    types = []
    for name, dtype in zip(names, given, strict=True):
        found = _searched(dtype)
        if found is None:
            raise KeyTypeError(_unsearchable(name, dtype))
        types.append(found)
    if len(types) == 2:
        common = _common(given) if _family(types[0]) == _family(types[1]) else None
        if common is None:
            raise KeyTypeError(
                f"the interval's ends {names[0]!r} ({given[0].simpleString()}) and {names[1]!r} "
                f"({given[1].simpleString()}) have types of different families, or need more than "
                f"{MAX_DIGITS} digits together: cast one of them"
            )
        types = [_searched(common) or common] * 2
    order_by = when.order_by if chooses(when) else ()
    return RangeColumns(
        tuple(names),
        tuple(str(t.jsonValue()) for t in types),
        searched_ends(when),
        sort_columns(order_by, schema, table, "order_by"),
        ordered=needs_places(when),
    )


def searched_ends(when: Condition) -> Closed | None:
    """Which ends belong to intervals in the index; None for points."""
    return when.searched_ends if isinstance(when, Within | Overlaps) else None


def needs_places(when: Condition) -> bool:
    """Whether a condition compares rows of a key that are not neighbours in the table."""
    return isinstance(when, Within) and when.take not in ("all", "latest_start")


def _common(types: Sequence[T.DataType]) -> T.DataType | None:
    """The decimal that holds all of some exact numbers, else the type they share; None if none."""
    scale = max(map(_digits_after, types))
    if not any(isinstance(dtype, T.DecimalType) for dtype in types):
        return types[0]
    digits = max(map(_digits_before, types)) + scale
    return T.DecimalType(digits, scale) if digits <= MAX_DIGITS else None


def _unsearchable(name: str, dtype: T.DataType) -> str:
    why = ""
    if isinstance(dtype, T.StringType):
        why = " (a collation that is not binary has an order of its own)"
    return (
        f"the range column {name!r} has the type {dtype.simpleString()}{why}; range conditions "
        "take integers, decimals, floating-point numbers, dates, timestamps, strings and binary. "
        "Cast it"
    )


def check_range_types(
    when: Condition, stream: Sequence[tuple[str, T.DataType]], table: RangeColumns
) -> None:
    """Refuse columns that do not compare exactly, and widths that do not suit them.

    Raises:
        KeyTypeError: names the columns and their types.
        ArgumentError: a width is no number, or no duration, where it has to be.
    """
    wanted, types = type_of(table.types[0]), [dtype for _, dtype in stream]
    for name, dtype in stream:
        if _searched(dtype) is None:
            raise KeyTypeError(_unsearchable(name, dtype))
        why = None
        if any(_family(one) != _family(wanted) for one in types):
            why = "they are not of one family"
        elif _family(dtype) == "exact number" and digits_together([*types, wanted]) > MAX_DIGITS:
            why = f"together they need more than {MAX_DIGITS} digits"
        elif _is_beyond(dtype, wanted) and table.closed not in (None, "left"):
            why = (
                f"the stream's has more digits than fit into a bigint, and closed={table.closed!r} "
                "needs the numbers beside its ends. Cast the table's column to decimal(20,0)"
            )
        if why is not None:
            raise KeyTypeError(
                f"cannot compare {name!r} ({dtype.simpleString()}) with {table.names[0]!r} "
                f"({wanted.simpleString()}): {why}. Cast one side"
            )
    if isinstance(wanted, T.StringType | T.BinaryType) and _needs_distance(when):
        raise KeyTypeError(
            f"{when!r}: the columns are {wanted.simpleString()}, which has an order but no "
            "distances; a Band, a tolerance, direction='nearest' and at_least need columns that "
            "can be subtracted: numbers, dates, timestamps"
        )
    if isinstance(wanted, T.StringType) and (isinstance(when, Within) and when.take == "shortest"):
        innermost = str(SortOrder(when.end_col, nulls_last=True))
        raise KeyTypeError(
            f"{when!r}: the columns are {wanted.simpleString()}, which has an order but no "
            f'lengths. Of intervals that are nested, take="latest_start" with '
            f"order_by={innermost!r} takes the innermost"
        )
    if isinstance(when, Band):
        width_in_units(when.before, wanted, "before")
        width_in_units(when.after, wanted, "after")
    elif isinstance(when, AsOf) and when.tolerance is not None:
        width_in_units(when.tolerance, wanted, "tolerance")
    elif isinstance(when, Overlaps) and when.at_least is not None:
        width_in_units(when.at_least, wanted, "at_least")


def predicate_of(when: Condition, table: RangeColumns, stream: T.StructType) -> Predicate:
    """Return the predicate that checks a condition, in the units of encoded values.

    The condition has passed :func:`check_range_types`, its columns as both sides spell them.
    """
    points = type_of(table.types[0])
    probes = probe_type(points, [stream[name].dataType for name in when.stream_columns])
    alike: dict[str, Any] = {
        "floating": isinstance(points, T.DoubleType),
        "finer": _finer_digits(points, probes),
    }
    if isinstance(when, Band):
        return Predicate(
            kind="band",
            before=width_in_units(when.before, probes, "before"),
            after=width_in_units(when.after, probes, "after"),
            closed=when.closed,
            **alike,
        )
    if isinstance(when, AsOf):
        tolerance = None
        if when.tolerance is not None:
            found = width_in_units(when.tolerance, probes, "tolerance")
            tolerance = None if found == math.inf else found
        return Predicate(
            kind="asof",
            direction=when.direction,
            tolerance=tolerance,
            exact=when.exact,
            n=when.n,
            **alike,
        )
    if isinstance(when, Within):
        return Predicate(kind="within", closed=when.closed, take=when.take, **alike)
    return Predicate(kind="overlaps", closed=when.searched_ends, **alike)


def _is_beyond(dtype: T.DataType, wanted: T.DataType) -> bool:
    """Whether the stream may have numbers beyond those of the table's bigint."""
    long = isinstance(wanted, T.LongType) and isinstance(dtype, T.DecimalType)
    return long and _digits_before(dtype) > LONG_DIGITS


def _needs_distance(when: Condition) -> bool:
    if isinstance(when, AsOf):
        return when.direction == "nearest" or when.tolerance is not None
    if isinstance(when, Overlaps):
        return when.at_least is not None
    return isinstance(when, Band)


def _digits_after(dtype: T.DataType) -> int:
    return dtype.scale if isinstance(dtype, T.DecimalType) else 0


def _digits_before(dtype: T.DataType) -> int:
    if isinstance(dtype, T.DecimalType):
        return dtype.precision - dtype.scale
    return _INTEGER_DIGITS.get(type(dtype), 19)


def width_in_units(width: Width, dtype: T.DataType, argument: str) -> Fraction | float:
    """A width in the units of encoded values: ones, days, microseconds, or a decimal's last digit.

    Returns:
        A fraction; a float for floating-point columns, and for an infinite width.

    Raises:
        ArgumentError: the width does not suit the type, or the type cannot have it.
    """
    size = size_of(width)
    if isinstance(size, float):  # infinite: no limit, whatever the type
        return size
    if isinstance(dtype, _TIMES):
        return _whole_microseconds(size, f"{argument}={width!r}")
    if isinstance(dtype, T.DateType):
        days = size / 86_400
        if (days and not is_duration(width)) or days.denominator != 1:
            raise ArgumentError(
                f"{argument}={width!r}: the columns are dates; give whole days as a timedelta or "
                'a text such as "3 days"'
            )
        return days
    if is_duration(width):
        raise ArgumentError(
            f"{argument}={width!r} is a duration and the columns are numbers "
            f"({dtype.simpleString()}): give a number"
        )
    if isinstance(dtype, T.DoubleType):
        return _double(size, f"{argument}={width!r}")
    scaled: Fraction = size * 10 ** _digits_after(dtype)
    return scaled


def _whole_microseconds(size: Fraction, shown: str) -> Fraction:
    found = size * 10**6
    if found.denominator != 1:
        raise ArgumentError(
            f"{shown}: the columns are timestamps, which have whole microseconds, and a number "
            "means seconds; round it to six digits after the point"
        )
    if not LEAST <= found <= GREATEST:
        raise ArgumentError(
            f"{shown}: Spark's intervals have at most 2**63 - 1 microseconds (292,000 years); give "
            'float("inf") for no limit'
        )
    return found


def _double(size: Fraction, shown: str) -> float:
    try:
        found = float(size)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or (size and not found):
        raise ArgumentError(
            f"{shown}: the columns are floating-point numbers, and a double has no such number; "
            'give float("inf") for no limit, or 0'
        )
    return found


def range_side(*ranged: RangeColumns | None) -> dict[str, str]:
    """A table's range columns as they are searched, in SQL, under the names r0, r1 and so on."""
    given = filter(None, ranged)
    columns = (pair for one in given for pair in zip(one.names, one.types, strict=True))
    casts = (sql.cast(sql.column(name), type_of(dtype)) for name, dtype in columns)
    return {f"r{i}": value for i, value in enumerate(casts)}


def probe_type(points: T.DataType, given: Sequence[T.DataType]) -> T.DataType:
    """The type in which the stream's side is searched: that of the table, with room for more."""
    if not any(isinstance(dtype, T.DecimalType) for dtype in [points, *given]):
        return points
    scale = max(map(_digits_after, [points, *given]))
    digits = max(map(_digits_before, given)) + scale
    if isinstance(points, T.LongType) and digits <= LONG_DIGITS and not scale:
        return points
    return T.DecimalType(LONG_DIGITS if digits <= LONG_DIGITS else MAX_DIGITS, scale)


def _finer_digits(points: T.DataType, probes: T.DataType) -> int:
    """The digits after the point that the stream's side has beyond the table's."""
    return _digits_after(probes) - _digits_after(points)
