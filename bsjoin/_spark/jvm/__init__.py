"""The runtime of Spark's generated code: look-ups in stored tables, without a row that leaves the JVM.

A join becomes a few expressions (:mod:`bsjoin._spark.jvm.expressions`) that call the functions of
the jar (:mod:`bsjoin._spark.jvm.attach`), which read the same files as the Python workers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from bsjoin._spark.jvm.attach import attach, jar
from bsjoin._spark.jvm.expressions import joined, unsupported
from bsjoin._spark.planned import PlannedJoin

__all__ = ["jar", "reason_against", "run"]


def reason_against(planned: PlannedJoin) -> str | None:
    """Why a join cannot run in the JVM of this session; None if it can."""
    return unsupported(planned) or attach(planned.stream.sparkSession)


def run(planned: PlannedJoin) -> DataFrame:
    """Put a join that Spark's generated code carries out behind the stream."""
    return joined(planned)
