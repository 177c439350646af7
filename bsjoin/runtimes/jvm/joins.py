"""A join as a generator, ``inline(matches(...))``, which the jar's planner answers by the index.

``Matches.java`` has the meaning of :func:`bsjoin.join`, whatever types the columns have. Names,
nullability and all that is above and below are Spark's.
"""

from __future__ import annotations

import math
import struct
import sys
from fractions import Fraction
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.metrics.observed import label_of
from bsjoin.plan import Search, StoredTable
from bsjoin.planner.keys import is_binary_collation
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.runtimes.jvm.attach import call
from bsjoin.spark import sql
from bsjoin.spark.session import is_connect
from bsjoin.spark.workers import check_workers, workers_python

__all__ = ["is_read", "joined"]

_READ = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
)
_FAR = 10**40
_NEVER = "raise_error('bsjoin.join was planned without its index')"
"""An argument that Spark cannot evaluate in advance, as it would if all others are constants."""


def is_read(dtype: T.DataType) -> bool:
    """Whether columns of a type are read in the JVM."""
    if isinstance(dtype, T.StringType):
        return is_binary_collation(dtype)
    return isinstance(dtype, _READ)


def joined(planned: PlannedJoin) -> DataFrame:
    """The stream's columns, then those that the join brings.

    Args:
        planned: a join for which the package's ``unsupported`` has no objection.

    Raises:
        WorkerEnvironmentError: the table is behind a URL, and the workers' Python cannot run
            bsjoin.
    """
    table, join, stream = planned.plan.table, planned.join, planned.stream
    assert isinstance(table, StoredTable)
    if not table.location.is_local:
        check_workers(stream.sparkSession)
    probes = (value for value, _ in planned.probes(sql.column))
    matches = call(
        "matches",
        *join.key_values(sql.column),
        *probes,
        _NEVER,
        **_specification(planned, table),
    )
    generator = "inline_outer" if join.how == "left" else "inline"
    return stream.selectExpr("*", f"{generator}({matches})")


def _specification(planned: PlannedJoin, table: StoredTable) -> dict[str, Any]:
    plan, join, spark = planned.plan, planned.join, planned.stream.sparkSession
    found: dict[str, Any] = {
        "path": table.location.url,
        "epoch": table.epoch,
        "version": table.version or 0,
        "on": [[column.name, column.type] for column in table.keys],
        "how": join.how,
        "columns": join.columns,
        "fields": T.StructType(list(planned.fields)).jsonValue(),
    }
    if table.max_staleness_us:
        found["staleness"] = table.max_staleness_us
    if not table.location.is_local:
        # The driver of a cluster may not have the Python that its executors have.
        pythons = [workers_python(spark), None if is_connect(spark) else sys.executable]
        found["python"] = list(dict.fromkeys(filter(None, pythons)))
    if plan.reports:
        found["label"] = label_of(plan, planned.stream)
    if join.ranged is not None and plan.search is not None:
        found["ranged"] = [join.ranged.names, join.ranged.types, join.ranged.closed]
        found["search"] = _search(plan.search)
    return found


def _search(search: Search) -> dict[str, Any]:
    """A range condition, as ``RangeLookup.java`` reads it."""
    found: dict[str, Any] = {"kind": search.kind}
    if search.kind == "band":
        found |= {
            "before": _width(-search.before, search),
            "after": _width(search.after, search),
            "closed": search.closed,
        }
    elif search.kind == "asof":
        found |= {"direction": search.direction, "exact": search.exact}
        if search.tolerance is not None and (search.floating or search.tolerance < math.inf):
            found["tolerance"] = _width(search.tolerance, search)
    else:
        found["closed"] = search.closed
    return found


def _width(size: Fraction | float, search: Search) -> int | str:
    """By how much a point is moved: the bits of a double, else units of the point's last digit."""
    if search.floating:
        (bits,) = struct.unpack("<q", struct.pack("<d", size))
        return int(bits)
    if isinstance(size, float):  # infinite: further than any two points are apart
        return str(_FAR if size > 0 else -_FAR)
    units = math.floor(size)
    if units == size:
        return str(units)
    return f"{10 * units + 5}e-1"  # all fractions of a unit are between the same two points
