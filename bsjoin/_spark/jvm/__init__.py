"""The runtime of Spark's generated code: look-ups in stored tables, entirely in the JVM.

A join becomes a few expressions (:mod:`bsjoin._spark.jvm.lookups`) that call the functions of
the jar (:mod:`bsjoin._spark.jvm.jar`), which read the same files as the Python workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import Search, SourceTable, StoredTable
from bsjoin._spark.jvm.attach import attached
from bsjoin._spark.jvm.functions import is_read
from bsjoin._spark.jvm.lookups import Lookups
from bsjoin._spark.jvm.routes import by_rule, unsupported_route
from bsjoin._spark.workers import workers_python

__all__ = [
    "Lookups",
    "attached",
    "by_rule",
    "description",
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


def description(lookups: Lookups) -> str:
    """How the last of several joins runs, for :func:`bsjoin.explain`."""
    alone = "Spark's generated code looks keys up"
    if lookups.lookups[-1].planned.plan.search is not None:
        alone = "Spark's generated code searches ranges"
    return f"{alone}, in the pass of the join before" if len(lookups.lookups) > 1 else alone
