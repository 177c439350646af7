"""Reports of functions for ``foreachBatch``, from a Connect server to their client.

Such a function runs in a process of the server, and shares with the client the session alone. There
it keeps a temporary view for each run of a query, with a row for each of the last micro-batches;
and one more view lists the runs, those that came last at the end. They go with the session.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.spark import compat

_RUNS = "bsjoin_reports"
_RUN = T.StructType([T.StructField("run", T.StringType())])
_REPORT = T.StructType(
    [T.StructField("batch", T.LongType()), T.StructField("report", T.StringType())]
)
_MOST = 10_000
_KEPT = 64
"""Of how many runs a session has reports."""


def active_session() -> SparkSession:
    """The active session: in a process of a server that begins, the client's."""
    return SparkSession.active()


def claimed(spark: SparkSession) -> list[str]:
    """Spark's ids of the runs that report to a session."""
    return [str(run) for (run,) in _rows(spark, _RUNS, _RUN)]


def claim(spark: SparkSession, run: str) -> None:
    """Say that a run reports; the reports of runs long before it go."""
    runs = [*claimed(spark), run]
    for old in runs[:-_KEPT]:
        with contextlib.suppress(ValueError):  # no id
            spark.catalog.dropTempView(_name(old))
    _put(spark, _RUNS, _RUN, [(one,) for one in runs[-_KEPT:]])


def write(spark: SparkSession, run: str, reports: Mapping[int, str]) -> None:
    """Put reports in the place of those that a run has made before."""
    _put(spark, _name(run), _REPORT, list(reports.items()))


def read(query: Any, run: str) -> dict[int, str]:
    """The last reports of a run by the number of the micro-batch; none where it makes none.

    A query knows its session; that of a progress is the active one.
    """
    try:
        spark = compat.session_of(query) or SparkSession.active()
    except PySparkException:  # no session is active here
        return {}
    return dict(_rows(spark, _name(run), _REPORT))


def _name(run: str) -> str:
    return f"bsjoin_report_{uuid.UUID(run).hex}"


def _put(spark: SparkSession, name: str, schema: T.StructType, rows: Sequence[Any]) -> None:
    spark.createDataFrame(rows, schema).createOrReplaceTempView(name)


def _rows(spark: SparkSession, name: str, schema: T.StructType) -> list[Any]:
    """The rows of a view; none if there is no such view, or it is another's."""
    try:
        found = spark.table(name)
        if [field.dataType for field in found.schema] != [field.dataType for field in schema]:
            return []
        return [row for row in found.limit(_MOST).collect() if None not in row]
    except AnalysisException:
        return []
