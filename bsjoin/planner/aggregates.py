"""Aggregates that a band returns instead of its rows: their columns, and the types in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import Band, Condition, without_aggregates
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError
from bsjoin.planner.arguments import JoinCall
from bsjoin.planner.columns import Names
from bsjoin.planner.keys import is_floating, is_integer
from bsjoin.storage.spark_schema import LONG_DIGITS
from bsjoin.values.aggregates import AggregateCall, Function

_MORE = {"sum": (10, 0), "avg": (4, 4)}
"""Digits of the aggregate of a decimal beyond its own: all, and those after the point."""
_UNSEEN = (
    "rows are aggregated without being looked at one by one, so nothing else can be checked of each"
)
_ORDERED = (T.DateType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType)


@dataclass(frozen=True, kw_only=True)
class ResolvedAggregate:
    """An aggregate whose column and type are settled.

    Args:
        name: of its column in the result.
        function: the function; "collect" for the array of all columns of the join.
        column: the number of its column among those of the join; None for ``count(*)``.
        type: of the result.
        wraps: whether a sum of more than 64 bits wraps around; otherwise it is an error.
    """

    name: str
    function: Function | Literal["collect"]
    column: int | None
    type: T.DataType
    wraps: bool

    @property
    def field(self) -> T.StructField:
        """Its column in the result of an inner join."""
        return T.StructField(self.name, self.type, self.function not in ("count", "collect"))


def check_aggregates(conditions: Sequence[Condition], call: JoinCall) -> bool:
    """Whether a join returns aggregates, by the conditions of the call or of the table's build.

    Raises:
        ArgumentError: it has arguments that exclude them.
    """
    found = next((one for one in conditions if isinstance(one, Band) and one.agg), None)
    if found is None:
        return False
    shown, leave = f"agg={dict(found.agg)!r}", "Leave agg out"
    if not call.conditions:
        plain = without_aggregates(found)
        shown, leave = f"the table was built with {shown}, and joined", f"Give when={plain!r}"
    if call.how in ("semi", "anti"):
        raise ArgumentError(
            f"{shown} with how={call.how!r}: such a join has no columns of the table. Leave agg "
            "out, or use how='inner' or 'left'"
        )
    if len(conditions) > 1 or call.where is not None:
        other = "where=" if call.where is not None else "other range conditions"
        raise ArgumentError(
            f"{shown} with {other}: {_UNSEEN}. {leave} and aggregate the result, or leave "
            "the rows out of the table"
        )
    for name, value, why in (
        ("select", call.select, "the result has the aggregates and no column of a single row"),
        ("indicator", call.indicator, "count(*) is above 0 where there is a match"),
    ):
        if value is not None:
            given = list(value) if name == "select" else value
            other = "" if call.conditions else f", or give when={without_aggregates(found)!r}"
            raise ArgumentError(f"{shown} with {name}={given!r}: {why}. Leave {name} out{other}")
    return True


def check_built_aggregates(
    conditions: Sequence[Condition], table: Names, schema: T.StructType
) -> None:
    """Refuse what a table that is built with these conditions cannot aggregate.

    Raises:
        ArgumentError: there are others besides the band.
        ColumnError: the table has no such column.
        KeyTypeError: a column has no such aggregate.
    """
    for one in conditions:
        if not isinstance(one, Band) or not one.agg:
            continue
        if len(conditions) > 1:
            raise ArgumentError(
                f"agg={dict(one.agg)!r} with other range conditions: {_UNSEEN}. Leave agg out"
            )
        for call in one.aggregates.values():
            if call.column is not None:
                column = table.find(call.column, "agg")
                _type_of(call, column, schema[column].dataType)


def resolved_aggregates(
    when: Condition | None, table: Names, schema: T.StructType, stream: Names, spark: SparkSession
) -> tuple[tuple[ResolvedAggregate, ...], tuple[str, ...]]:
    """The aggregates of a band, and the columns of the table that they are of.

    Raises:
        ColumnError: the table has no such column, or a name is taken.
        KeyTypeError: a column has no such aggregate.
    """
    assert isinstance(when, Band)
    wraps = str(spark.conf.get("spark.sql.ansi.enabled")).lower() != "true"
    columns: list[str] = []
    found: list[ResolvedAggregate] = []
    for name, call in when.aggregates.items():
        if name in stream or any(stream.same(name, other.name) for other in found):
            raise ColumnError(
                f"agg: there is a column {name!r} already, of the stream or of agg. Choose another "
                "name"
            )
        number, dtype = None, _type_of(call, "*", T.LongType())
        if call.column is not None:
            column = table.find(call.column, "agg")
            if column not in columns:
                columns.append(column)
            number = columns.index(column)
            dtype = _type_of(call, column, schema[column].dataType)
        found.append(
            ResolvedAggregate(
                name=name, function=call.function, column=number, type=dtype, wraps=wraps
            )
        )
    return tuple(found), tuple(columns)


def _type_of(call: AggregateCall, column: str, dtype: T.DataType) -> T.DataType:
    function = call.function
    if function == "count":
        return T.LongType()
    why = None
    is_number = is_integer(dtype) or is_floating(dtype) or isinstance(dtype, T.DecimalType)
    if isinstance(dtype, T.DecimalType) and dtype.precision > LONG_DIGITS:
        why = f"decimals of more than {LONG_DIGITS} digits do not fit into 64 bits"
    elif not is_number and not (function in ("min", "max") and isinstance(dtype, _ORDERED)):
        others = ", and min and max of dates, timestamps and day-time intervals"
        why = f"bsjoin has these functions of numbers{others}"
    if why is not None:
        raise KeyTypeError(
            f"agg: {call}: the column {column!r} has the type {dtype.simpleString()}, and {why}. "
            "Cast the table's column, or leave agg out and aggregate the result"
        )
    if function in ("min", "max"):
        return dtype
    if isinstance(dtype, T.DecimalType):
        digits, scale = _MORE[function]
        return T.DecimalType(dtype.precision + digits, dtype.scale + scale)
    return T.LongType() if function == "sum" and is_integer(dtype) else T.DoubleType()
