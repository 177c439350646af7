"""The runtime of Spark's generated code: look-ups in stored tables, entirely in the JVM.

A join becomes a generator (:mod:`bsjoin.runtimes.jvm.joins`), which the planner of the jar
(:mod:`bsjoin.runtimes.jvm.jar`) answers from the same files as the Python workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.plan import Search, SourceTable, StoredTable
from bsjoin.planner.chain import JoinStep
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.runtimes.jvm.attach import attached, lacks_planner
from bsjoin.runtimes.jvm.joins import is_read, joined
from bsjoin.runtimes.jvm.routing import by_rule, unsupported_route
from bsjoin.spark.workers import workers_python

__all__ = [
    "attached",
    "by_rule",
    "description",
    "joined",
    "lacks_planner",
    "unsupported",
    "unsupported_route",
]


def unsupported(
    spark: SparkSession,
    table: StoredTable | SourceTable,
    search: Search | None,
    fields: Sequence[T.StructField],
) -> str | None:
    """Why no expression can carry a join out; None if one can.

    Args:
        spark: the session.
        table: where the rows are.
        search: the range condition; None without one.
        fields: the columns to bring.
    """
    if not isinstance(table, StoredTable):
        return "the cache is incremental"
    if not table.location.is_local:
        if str(table.location) != table.location.url:
            return "the URL of the table has a secret, which a plan would show"
        if workers_python(spark) is None:
            return (
                "the table is behind a URL, and only the server knows the Python that copies its "
                "files: set spark.sql.execution.pyspark.python"
            )
    if search is not None and search.ranked:
        return "the range columns are strings, binary or decimals of more than 18 digits"
    for field in fields:
        if not is_read(field.dataType):
            kind = field.dataType.simpleString()
            return f"the column {field.name!r} of type {kind} is not read in the JVM"
    return None


def description(planned: PlannedJoin, before: JoinStep | None) -> str:
    """How a join runs, for :func:`bsjoin.explain`.

    Args:
        planned: the join.
        before: the one that its stream is the direct result of; None if there is none.
    """
    what = "looks keys up" if planned.plan.search is None else "searches ranges"
    follows = before is not None and before.planned.plan.runtime.name == "jvm"
    return f"Spark's generated code {what}" + ", in the pass of the join before" * follows
