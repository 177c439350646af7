"""The choice of a hand-over, keys only or whole rows, and of the joins that share a stage.

A row that travels costs the more the wider it is, and a key does not; a stage costs the same for
any number of joins. So a chain travels as whole rows, and a single join does where its rows are
narrow (docs/decisions/0016-python-stages.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin._spark.arrow import not_exchangeable
from bsjoin._spark.planned_join import PlannedJoin
from bsjoin._spark.python.whole_rows import Stage
from bsjoin.errors import ArgumentError, suggest

__all__ = ["CHAINS", "HANDOVER", "Choice", "choose", "width"]

HANDOVER, CHAINS = "spark.bsjoin.python.handover", "spark.bsjoin.python.chains"
_HANDOVERS, _SWITCH = ("auto", "keys", "rows"), ("true", "false")

_NARROW = 48
"""The most bytes of a row that a single join lets travel: there both hand-overs cost the same."""
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


@dataclass(frozen=True)
class Choice:
    """What was chosen for a join.

    Args:
        stage: the stage that ends with it; None if its rows cannot travel.
        rows: whether whole rows travel.
        apart: why it does not share the stage of the join before; empty if it does, or there is
            none.
    """

    stage: Stage | None
    rows: bool
    apart: str = ""


def choose(planned: PlannedJoin, before: Stage | None, *, moved: bool) -> Choice:
    """Choose for a join.

    Args:
        planned: the join.
        before: the stage that its stream is the direct result of; None without one.
        moved: whether the rows are sent to partitions in between.

    Raises:
        ArgumentError: a setting has an unknown value.
        ColumnError: a range join, and a column of the stream that cannot travel to a worker.
    """
    spark = planned.stream.sparkSession
    wanted = _setting(spark, HANDOVER, _HANDOVERS)
    chains = _setting(spark, CHAINS, _SWITCH, "true") == "true"
    ranged = planned.plan.search is not None
    apart = ""
    if before is not None:
        apart = _apart(planned, before, moved, wanted, chains)
        if not apart:
            return Choice(Stage.of(planned, before), True)
    if not ranged and any(not_exchangeable(f.dataType) for f in planned.stream.schema):
        return Choice(None, False, apart)
    rows = ranged or wanted == "rows" or (wanted == "auto" and _is_narrow(planned.stream, 1))
    return Choice(Stage.of(planned, None), rows, apart)


def _apart(planned: PlannedJoin, before: Stage, moved: bool, wanted: str, chains: bool) -> str:
    """Why a join does not share the stage of the join before; empty if it does."""
    if not chains:
        return f"{CHAINS} is false"
    if moved:
        return "its rows are sent to partitions first"
    if wanted == "keys" and (planned.plan.search is None or not before.is_ranged):
        return f"{HANDOVER} is keys"
    if planned.plan.reports != before.joins[0].plan.reports:
        return "its figures are read, and those of the join before are not"
    if wanted == "auto" and not _is_narrow(before.stream, len(before.joins) + 1):
        return "the rows are wide"
    return ""


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
