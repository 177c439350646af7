"""The choice of a transfer mode, keys only or whole rows, and of the joins that share a stage.

A row that travels costs the more the wider it is, and a key does not; a stage costs the same for
any number of joins. So a chain travels as whole rows, and a single join does where its rows are
narrow (docs/decisions/0016-python-stages.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import ArgumentError, suggest
from bsjoin.planner.chain import JoinStep, Stage
from bsjoin.planner.keys import is_collated
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import UNREADABLE, Projection
from bsjoin.spark.arrow import not_exchangeable

TRANSFER, CHAINS = "spark.bsjoin.python.transfer", "spark.bsjoin.python.chains"
_MODES, _SWITCH = ("auto", "keys", "rows"), ("true", "false")

_NARROW = 48
"""The most bytes of a row that a single join lets travel: there both modes cost the same."""
_SAVED = 400
"""By so many more bytes for each further join of a stage, which then is no stage of its own."""

_BYTES: dict[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
    T.DecimalType: 16,
}
_LONG, _TEXT, _ELEMENTS = 8, 40, 4
"""Bytes of other types; of texts, which cost as five longs do; the elements of a list or map."""


def choose(
    planned: PlannedJoin,
    rows: DataFrame,
    before: JoinStep | None,
    between: Projection | None,
    against: str = "",
) -> tuple[Stage | None, bool, str]:
    """Choose for a join whose stream is, or is derived from, the result of ``before``.

    ``between`` are the projections between them; ``against`` says why it cannot share the stage of
    that join, if that is known.

    Returns:
        The stage that ends with the join, or None if its rows cannot travel; whether whole rows
        travel; and why it does not share the stage of the join before, or an empty text if it does
        or there is none.

    Raises:
        ArgumentError: a setting has an unknown value.
        ColumnError: a range join, and a column of the stream that cannot travel to a worker.
    """
    spark = rows.sparkSession
    wanted = _setting(spark, TRANSFER, _MODES)
    chains = _setting(spark, CHAINS, _SWITCH, "true") == "true"
    ranged = planned.plan.predicate is not None
    apart = ""
    if before is not None and before.stage is not None:
        moved = rows is not planned.stream
        apart = against or _apart(planned, before.stage, moved, wanted, chains)
        if not apart:
            found = _found(planned, between)
            if isinstance(found, Mapping):
                given = between or planned.stream
                return before.stage.followed_by(planned, given, found), True, ""
            apart = found
    if not ranged and any(not_exchangeable(field.dataType) for field in rows.schema):
        return None, False, apart
    travels = ranged or wanted == "rows" or (wanted == "auto" and _is_narrow(rows, 1))
    return Stage.of(planned, rows), travels, apart


def _apart(planned: PlannedJoin, before: Stage, moved: bool, wanted: str, chains: bool) -> str:
    """Say why a join does not share the stage of the join before; empty if it does."""
    if not chains:
        return f"{CHAINS} is false"
    if moved:
        return "its rows are sent to partitions first"
    if wanted == "keys" and (planned.plan.predicate is None or not before.is_ranged):
        return f"{TRANSFER} is keys"
    if any(planned.join.lengths):
        return "its keys are of the type CHAR(n), of another length than the table's"
    if any(map(is_collated, planned.join.key_types)):
        return "its keys have a collation"
    if planned.join.nulls_equal is not None:
        return "nulls are equal in its keys"
    first = before.joins[0]
    if (planned.plan.reports, planned.join.cycle) != (first.plan.reports, first.join.cycle):
        return "its figures are read apart from those of the join before"
    if wanted == "auto" and not _is_narrow(before.stream, len(before.joins) + 1):
        return "the rows are wide"
    if planned.stream.is_cached:
        return "the rows between them are cached"
    return ""


def _found(planned: PlannedJoin, between: Projection | None) -> Mapping[str, int] | str:
    """The columns that a join needs in the result before, by name; or why it has them not."""
    columns, join = planned.stream.columns, planned.join
    needed = list(dict.fromkeys([*join.stream_keys, *join.probes, *planned.checked_columns]))
    numbers = [columns.index(name) for name in needed]
    if between is None:
        return dict(zip(needed, numbers, strict=True))
    if between.against:
        return between.against
    below = between.numbers(numbers)
    if below is None:
        return UNREADABLE
    found = {name: n for name, n in zip(needed, below, strict=True) if n is not None}
    computed = [name for name in needed if name not in found]
    return f"{computed[0]!r} is computed between them" if computed else found


def _is_narrow(stream: DataFrame, joins: int) -> bool:
    """Whether rows that travel once cost no more than their keys do for each of the joins."""
    return sum(width(f.dataType) for f in stream.schema) <= _NARROW + _SAVED * (joins - 1)


def _setting(
    spark: SparkSession, name: str, known: Sequence[str], default: str | None = None
) -> str:
    value = str(spark.conf.get(name, default or known[0])).strip().lower()
    if value not in known:
        raise ArgumentError(f"{name}={value!r} is not known. {suggest(value, known)}")
    return value


def width(dtype: T.DataType) -> int:
    """The bytes of a value, as far as its type tells."""
    if isinstance(dtype, T.StructType):
        return sum(width(field.dataType) for field in dtype)
    if isinstance(dtype, T.ArrayType):
        return _ELEMENTS * width(dtype.elementType)
    if isinstance(dtype, T.MapType):
        return _ELEMENTS * (width(dtype.keyType) + width(dtype.valueType))
    if isinstance(dtype, T.StringType | T.BinaryType):
        return _TEXT
    return _BYTES.get(type(dtype), _LONG)
