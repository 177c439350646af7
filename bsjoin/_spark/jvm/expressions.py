"""A join as expressions over the functions of the jar: find a row, then get its columns.

``find`` returns the reference of a key's first row, a long, or -1. A column of the table is one more
function of the reference, so a column that is not used is never read, and nothing is boxed. All of
it is one stage of generated code, however many joins follow each other.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import StoredTable
from bsjoin._spark.columns import unused
from bsjoin._spark.metrics import observed
from bsjoin._spark.planned import PlannedJoin

__all__ = ["joined", "unsupported"]

_READ = (
    T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType,
    T.DecimalType, T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType,
    T.DayTimeIntervalType,
)  # fmt: skip
_NULLABLE = (T.StringType, T.BinaryType, T.DecimalType)
"""Types whose functions return null themselves; those of the others are primitive."""

_CATALOG = "bsjoin"
_PIECE_ROWS = 64


def unsupported(planned: PlannedJoin) -> str | None:
    """Why no expression can carry a join out; None if one can."""
    table = planned.plan.table
    if planned.plan.search is not None:
        return "range conditions are searched by Python workers"
    if not isinstance(table, StoredTable):
        return "an incremental cache is queried by Python workers"
    if not table.location.is_local:
        return "a table behind a URL is copied to each host by Python workers"
    for field in planned.fields:
        if not isinstance(field.dataType, _READ):
            return f"the column {field.name!r} is {field.dataType.simpleString()}"
    return None


class _Table:
    """The functions of one table, as columns.

    Args:
        planned: the join.
    """

    def __init__(self, planned: PlannedJoin):
        table = planned.plan.table
        assert isinstance(table, StoredTable)
        self._spec = {
            "path": table.location.path,
            "epoch": table.epoch,
            "version": table.version or 0,
        }
        timed = table.version is None
        self.clock = F.current_timestamp() if timed else F.lit(0).cast("timestamp")

    def call(self, what: str, *arguments: Column, **more: Any) -> Column:
        """One of the functions."""
        name = json.dumps({"what": what, **self._spec, **more}, separators=(",", ":"))
        quoted = name.replace("`", "``")
        return F.call_function(f"{_CATALOG}.`{quoted}`", *arguments)

    def find(self, planned: PlannedJoin) -> Column:
        """The reference of a key's first row; -1 if it is not there, null for a null key."""
        key, types = planned.key, planned.join.key_types
        arguments, keys = [key.hash, self.clock], "hash"
        if len(key.compared) == 1 and isinstance(types[0], T.StringType):
            arguments, keys = [*arguments, *key.compared], "text"
        elif len(key.compared) == 1 and isinstance(types[0], T.BinaryType):
            arguments, keys = [*arguments, *key.compared], "binary"
        elif key.compared:
            fields = [T.StructField(f"k{i}", _compared(t)) for i, t in enumerate(types)]
            arguments.append(F.struct(*(c.alias(f.name) for c, f in zip(key.compared, fields, strict=True))))
            return self.call("find", *arguments, keys=T.StructType(fields).jsonValue(), deterministic=False)
        return self.call("find", *arguments, keys=keys, deterministic=False)

    def get(self, reference: Column, column: str, field: T.StructField, *, there: bool) -> Column:
        """The value of a column.

        Args:
            reference: of the row.
            column: its name in the table.
            field: its type and nullability.
            there: whether every reference is that of a row.
        """
        value = self.call("get", reference, column=column, type=field.dataType.jsonValue())
        if isinstance(field.dataType, _NULLABLE):
            return value
        if field.nullable:
            return F.when(self.call("has", reference, column=column), value)
        return value if there else F.when(reference >= 0, value)


def _compared(dtype: T.DataType) -> T.DataType:
    """What is compared of a key column: its hash, if a hash is exact."""
    long = isinstance(dtype, T.DecimalType) and dtype.precision > 18
    return dtype if long or isinstance(dtype, T.StringType | T.BinaryType) else T.LongType()


def joined(planned: PlannedJoin) -> DataFrame:
    """The stream's columns, then (inner, left) the table's.

    Args:
        planned: an equality join with a stored table, see :func:`unsupported`.
    """
    stream, plan, how, table = planned.stream, planned.plan, planned.plan.how, _Table(planned)
    names = [*stream.columns, *planned.join.names]
    found, row, last = unused(names, "bsjoin_found", "bsjoin_row", "bsjoin_last")
    answers = stream.select("*", table.find(planned).alias(found))
    reference = F.col(found)
    runs = plan.output.shape in ("rows", "runs")
    if how in ("semi", "anti") or (how == "inner" and not runs):
        hit = reference >= 0
        kept = F.coalesce(~hit, F.lit(True)) if how == "anti" else hit
        answers = answers.where(kept)
    if runs:
        count = table.call("count", reference)
        ends = F.when(reference >= 0, reference + count - 1)
        explode = F.explode_outer if how == "left" else F.explode
        answers = answers.select("*", explode(F.sequence(reference, ends)).alias(row))
        reference = F.coalesce(F.col(row), F.lit(-1)) if how == "left" else F.col(row)
    columns = [
        table.get(reference, column, field, there=how == "inner").alias(
            field.name, metadata=field.metadata
        )
        for column, field in zip(plan.output.columns, planned.fields, strict=True)
    ]
    return answers.select("*", *columns).drop(found, row, last)
