"""Range conditions in Spark's SQL: what is checked of a pair of rows where no index answers it.

An expression means exactly what the index means by a condition. Null points and starts never match,
a null end is no bound, an empty interval matches nothing; numbers are compared and moved in a type
in which nothing is rounded, and beyond its limits a band is cut off; times are moved by elapsed
microseconds, whatever the time zone. An expression may be null where it is not true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import Band, Condition, Overlaps, Within
from bsjoin.errors import KeyTypeError
from bsjoin.planner.keys import digits_together, is_floating, is_integer
from bsjoin.planner.range_columns import width_in_units
from bsjoin.spark import sql
from bsjoin.storage.spark_schema import MAX_DIGITS
from bsjoin.values.widths import Width

_KEPT_DIGITS = 6
"""So many digits after the point Spark keeps in a sum, however many are before it."""
_SECOND = 10**6

Typed = tuple[str, T.DataType]


def condition_sql(
    when: Condition,
    stream: Mapping[str, Typed],
    table: Mapping[str, Typed],
    *,
    overlaps: bool = False,
) -> str:
    """A condition, any but an as-of join, as a boolean expression over the columns of both sides.

    Of each column a side has how it is called in SQL, and its type. Of intervals that an index has
    found, since they share a point (``overlaps``), what is left to check; empty for nothing.

    Raises:
        KeyTypeError: numbers with so many digits that Spark cannot add a width to them exactly.
    """
    ours = [stream[name] for name in when.stream_columns]
    theirs = [table[name] for name in when.table_columns]
    scale = _Scale([dtype for _, dtype in (*ours, *theirs)])
    values = [scale.read(*one) for one in (*ours, *theirs)]
    if isinstance(when, Band):
        return _band(when, scale, *values)
    if isinstance(when, Within):
        return _within(when, *values)
    assert isinstance(when, Overlaps)
    if when.relation == "meets":  # the index of these has both ends of all
        shared = _not_empty(when, *values)
    else:
        shared = "" if overlaps else _overlaps(when, *values)
    return _all(shared, _relation(when, scale, *values))


def _band(when: Band, scale: _Scale, point: str, value: str) -> str:
    low, high = _equal(when.closed in ("both", "left")), _equal(when.closed in ("both", "right"))
    before = scale.units(when.before, "before")
    return _all(
        f"{point} IS NOT NULL",
        f"{value} IS NOT NULL",
        scale.compared(value, f">{low}", point, -before),
        scale.compared(value, f"<{high}", point, scale.units(when.after, "after")),
    )


def _within(when: Within, point: str, start: str, end: str) -> str:
    low, high = _equal(when.closed in ("both", "left")), _equal(when.closed in ("both", "right"))
    touch = _equal(when.closed == "both")
    return _all(
        f"{point} >{low} {start}",
        f"({end} IS NULL OR ({point} <{high} {end} AND {start} <{touch} {end}))",
    )


def _not_empty(when: Overlaps, start: str, end: str, begin: str, stop: str) -> str:
    touch = _equal(when.closed == "both")
    return _all(
        f"{start} IS NOT NULL",
        f"{begin} IS NOT NULL",
        f"({end} IS NULL OR {start} <{touch} {end})",
        f"({stop} IS NULL OR {begin} <{touch} {stop})",
    )


def _overlaps(when: Overlaps, start: str, end: str, begin: str, stop: str) -> str:
    touch = _equal(when.closed == "both")
    return _all(
        _not_empty(when, start, end, begin, stop),
        f"({end} IS NULL OR {begin} <{touch} {end})",
        f"({stop} IS NULL OR {start} <{touch} {stop})",
    )


def _relation(when: Overlaps, scale: _Scale, start: str, end: str, begin: str, stop: str) -> str:
    """What makes an overlap the relation: neither interval is empty."""
    relation = {
        "overlaps": "",
        "contains": f"{start} <= {begin} AND ({end} IS NULL OR {stop} <= {end})",
        "within": f"{begin} <= {start} AND ({stop} IS NULL OR {end} <= {stop})",
        "equals": f"{start} = {begin} AND {end} <=> {stop}",
        "meets": f"({end} = {begin} OR {stop} = {start})",
    }[when.relation]
    if when.at_least is None:
        return relation
    width = scale.units(when.at_least, "at_least")
    long = (
        f"({one} IS NULL OR ("
        + _all(*(scale.compared(one, ">=", other, width) for other in (start, begin)))
        + "))"
        for one in (end, stop)
    )
    return _all(relation, *long)


def _equal(belongs: bool) -> str:
    return "=" if belongs else ""


def _all(*conditions: str) -> str:
    return " AND ".join(filter(None, conditions))


class _Scale:
    """How columns of a family are compared, and moved by a width."""

    def __init__(self, types: list[T.DataType]):
        first = types[0]
        self._dtype: T.DataType = first
        if is_floating(first):
            self._dtype = T.DoubleType()
        elif any(isinstance(dtype, T.DecimalType) for dtype in types):
            after = max(one.scale for one in types if isinstance(one, T.DecimalType))
            self._dtype = T.DecimalType(digits_together(types), after)
        elif is_integer(first):
            self._dtype = T.LongType()

    def read(self, column: str, dtype: T.DataType) -> str:
        """A column as it is compared with others."""
        if isinstance(dtype, T.TimestampType):
            return f"unix_micros({column})"
        if isinstance(dtype, T.DateType):
            return f"unix_date({column})"
        return column if dtype == self._dtype else sql.cast(column, self._dtype)

    def units(self, width: Width, argument: str) -> Fraction | float:
        """A width in ones, days, microseconds, or units of the last digit."""
        dtype = self._dtype
        units = width_in_units(width, dtype, argument)
        if (
            units not in (0, math.inf, -math.inf)
            and isinstance(dtype, T.DecimalType)
            and dtype.precision == MAX_DIGITS
            and dtype.scale > _KEPT_DIGITS
        ):
            raise KeyTypeError(
                f"{argument}={width!r} is checked for each pair of rows, and added to numbers that "
                f"need {MAX_DIGITS} digits together, {dtype.scale} of them after the point: Spark "
                "would round the sum. Cast a column to fewer digits"
            )
        return units

    def compared(self, value: str, sign: str, other: str, width: Fraction | float) -> str:
        """``value sign other + width`` for values that are not null."""
        if width == 0:
            return f"{value} {sign} {other}"
        # Whether all is on the right side of a sum that is beyond the limits of the type.
        everything = sign.startswith("<") == (width > 0)
        is_double = isinstance(self._dtype, T.DoubleType)
        furthest = math.inf if is_double else 2 * self._limit + 2
        if not -furthest < width < furthest:
            return "true" if everything else "false"
        if is_double:
            return f"{value} {sign} {other} + {_double(float(width))}"
        # No value is between two that differ by one unit.
        step = math.floor(width) if sign in ("<=", ">") else math.ceil(width)
        for piece in _pieces(step, self._limit):
            other = self._moved(other, piece)
        return f"coalesce({value} {sign} {other}, {str(everything).lower()})"

    @property
    def _limit(self) -> int:
        dtype = self._dtype
        return int(10**dtype.precision) - 1 if isinstance(dtype, T.DecimalType) else 2**63 - 1

    def _moved(self, value: str, step: int) -> str:
        """A value some units further; null beyond the limits of the type."""
        dtype = self._dtype
        if isinstance(dtype, T.TimestampNTZType):
            seconds, rest = divmod(abs(step), _SECOND)
            sign = "-" * (step < 0)
            return f"try_add({value}, INTERVAL '{sign}{seconds}.{rest:06}' SECOND)"
        if isinstance(dtype, T.DecimalType):
            whole, part = divmod(abs(step), 10**dtype.scale)
            digits = f".{part:0{dtype.scale}}" if dtype.scale else ""
            text = f"'{'-' * (step < 0)}{whole}{digits}'"
            return sql.try_cast(f"try_add({value}, {sql.cast(text, dtype)})", dtype)
        return f"try_add({value}, bigint({step}))"


def _pieces(step: int, limit: int) -> Iterator[int]:
    """A number as a sum of numbers within a limit."""
    while step:
        piece = max(-limit, min(limit, step))
        yield piece
        step -= piece


def _double(value: float) -> str:
    return sql.cast(f"'{value!r}'", T.DoubleType())
