"""The runtime of Spark's Python workers, which can run every join.

Two hand-overs: an equality join sends the keys only, a range join whole rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from bsjoin._spark.planned_join import PlannedJoin
from bsjoin._spark.python import keys_only, whole_rows
from bsjoin._spark.workers import check_workers

__all__ = ["description", "run"]


def run(planned: PlannedJoin) -> DataFrame:
    """Put a join that Python workers carry out behind the stream.

    Raises:
        ColumnError: a column of the stream that cannot travel to a worker.
        WorkerEnvironmentError: the workers cannot run it.
    """
    check_workers(planned.stream.sparkSession)
    return keys_only.joined(planned) if _by_keys(planned) else whole_rows.joined(planned)


def description(planned: PlannedJoin) -> str:
    """What the workers do for a join, for :func:`bsjoin.explain`."""
    return f"Python workers receive {'keys' if _by_keys(planned) else 'whole rows'}"


def _by_keys(planned: PlannedJoin) -> bool:
    return planned.plan.search is None
