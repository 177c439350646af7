"""A join as a generator, ``inline(matches(...))``, which the jar's planner answers by the index.

``Matches.java`` has the meaning of :func:`bsjoin.join`, whatever types the columns have. Names,
nullability and all that is above and below are Spark's.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin.metrics.lines import plain
from bsjoin.metrics.observing import label_of
from bsjoin.plan import Predicate, StoredTable
from bsjoin.planner.chain import JoinStep, remember, step_of
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import register
from bsjoin.planner.references import with_table_columns
from bsjoin.runtimes.jvm.attach import call, function
from bsjoin.spark import sql
from bsjoin.spark.session import is_connect
from bsjoin.spark.workers import check_workers, workers_python

_READ = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
)
_FAR = 10**40
_NEVER = "raise_error('bsjoin.join was planned without its index')"
"""An argument that Spark cannot evaluate in advance, as it would if all others are constants."""


def why_not(planned: PlannedJoin) -> str | None:
    """Why no expression can carry a join out; None if one can."""
    table = planned.plan.table
    if not isinstance(table, StoredTable):
        return "the cache is incremental"
    if not table.location.is_local:
        if str(table.location) != table.location.url:
            return "the URL of the table has a secret, which a plan would show"
        if workers_python(planned.stream.sparkSession) is None:
            return (
                "the table is behind a URL, and only the server knows the Python that copies its "
                "files: set spark.sql.execution.pyspark.python"
            )
    for column, field in zip(planned.join.columns, planned.read, strict=True):
        if not isinstance(field.dataType, _READ):
            kind = field.dataType.simpleString()
            return f"the column {column!r} of type {kind} is not read in the JVM"
    where = planned.join.where
    if where is not None and where.in_python and not where.is_filter:
        return f"the condition where={where.text!r} calls a Python function"
    return None


def apply(planned: PlannedJoin, rows: DataFrame) -> DataFrame:
    """Put a join behind the stream: see :meth:`bsjoin.runtimes.base.Runtime.apply`."""
    result, join = with_table_columns(_joined(planned, rows), planned), planned.join
    where = join.where
    if where is not None:
        condition = where.condition
        if not where.is_filter:
            # Where.java: a part of the join, and no filter.
            most = {} if where.most is None else {"most": where.most}
            name = function("where", how=where.how, once=True, **most)
            condition = F.call_function(name, condition)
        result = result.where(condition)
    what = "looks keys up" if planned.plan.predicate is None else "searches ranges"
    before = step_of(rows)
    follows = before is not None and before.planned.plan.runtime == "jvm"
    runs = f"Spark's generated code {what}" + ", in the pass of the join before" * follows
    step = JoinStep(planned, runs)
    if where is None:
        return remember(result, step)
    register(result, step)
    return result


def _joined(planned: PlannedJoin, rows: DataFrame) -> DataFrame:
    table, join = planned.plan.table, planned.join
    assert isinstance(table, StoredTable)
    if not table.location.is_local:
        check_workers(rows.sparkSession)
    probes = (
        sql.cast(sql.column(name), dtype)
        for name, dtype in zip(join.probes, planned.probe_types, strict=True)
    )
    matches = call(
        "matches",
        *join.key_values(sql.column),
        *probes,
        _NEVER,
        **_specification(planned, table),
    )
    # A left join is told by the specification: inline_outer would make the mark nullable.
    return rows.selectExpr("*", f"inline({matches})")


def _specification(planned: PlannedJoin, table: StoredTable) -> dict[str, Any]:
    plan, join, spark = planned.plan, planned.join, planned.stream.sparkSession
    found: dict[str, Any] = {
        "path": table.location.url,
        "newest": table.newest,
        "epoch": table.epoch,
        "version": table.version or 0,
        "on": [column.to_json() for column in table.keys],
        "how": join.how,
        "columns": join.columns,
        "fields": T.StructType(list(planned.fields)).jsonValue(),
    }
    if plan.marks:
        found["marks"] = True
    if join.where is not None and not join.where.is_filter:
        found["checked"] = True  # so that what is cached of a join without a condition is another
    if join.safe_keys:
        found["nulls_equal"] = join.nulls_equal
    if plan.aggregates:
        found["agg"] = [[one.function, one.column, one.wraps] for one in plan.aggregates]
        found["types"] = T.StructType(list(planned.read)).jsonValue()
    if table.max_staleness_us:
        found["staleness"] = table.max_staleness_us
    if not table.location.is_local:
        # The driver of a cluster may not have the Python that its executors have.
        pythons = [workers_python(spark), None if is_connect(spark) else sys.executable]
        found["python"] = list(dict.fromkeys(filter(None, pythons)))
    if plan.reports:
        found["label"] = plain(label_of(plan, planned.stream, join.cycle))
    if join.ranged is not None and plan.predicate is not None:
        ranged = join.ranged
        found["ranged"] = [ranged.names, ranged.types, ranged.closed, *[True] * ranged.ordered]
        found["search"] = _condition(plan.predicate)
        if plan.how in ("inner", "left") and plan.predicate.take != "all":
            found["search"]["take"] = plan.predicate.take
        if plan.predicate.boxes:
            found["boxes"] = [_condition(one) for one in plan.predicate.boxes]
            found["boxed"] = json.loads(plan.predicate.box_columns)
    return found


def _condition(predicate: Predicate) -> dict[str, Any]:
    """A range condition, as ``RangeLookup.java`` reads it."""
    found: dict[str, Any] = {"kind": predicate.kind}
    if predicate.kind == "band":
        found |= {
            "before": _width(-predicate.before, predicate),
            "after": _width(predicate.after, predicate),
            "closed": predicate.closed,
        }
    elif predicate.kind == "asof":
        found |= {"direction": predicate.direction, "exact": predicate.exact}
        if predicate.tolerance is not None:
            found["tolerance"] = _width(predicate.tolerance, predicate)
    else:
        found["closed"] = predicate.closed
    if predicate.n > 1:
        found["n"] = predicate.n
    return found


def _width(size: Fraction | float, predicate: Predicate) -> int | str:
    """By how much a point is moved: the bits of a double, else units of the point's last digit."""
    if predicate.floating:
        (bits,) = struct.unpack("<q", struct.pack("<d", size))
        return int(bits)
    if isinstance(size, float):  # infinite: further than any two points are apart
        return str(_FAR if size > 0 else -_FAR)
    units = math.floor(size)
    if units == size:
        return str(units)
    return f"{10 * units + 5}e-1"  # all fractions of a unit are between the same two points
