"""Metrics that the tasks of a Python stage send to the driver, with Spark's accumulators.

A task knows the query and the number of the micro-batch: Spark sets them as properties of its jobs.
What tasks send is with the driver before the job ends, and so before Spark reports the micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from bsjoin.metrics.observing import ObservedCycle
from bsjoin.metrics.tasks import Adding, TaskMetrics, received
from bsjoin.spark.session import is_connect, retained

if TYPE_CHECKING:
    from pyspark import SparkContext  # the package of a mere Connect client has none

# What Spark calls the properties.
_QUERY, _RUN, _BATCH = "sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"


def sender(
    stream: DataFrame, cycle: ObservedCycle | None, name: str
) -> Callable[[str], None] | None:
    """Return a function that sends the metrics of joins of these rows, named as Spark would.

    Returns:
        A function for workers, which takes the line of a task at its end. None where
        Spark has to observe them: in a cycle, whose driver asks for its own, and under Spark
        Connect, whose client receives no accumulators.
    """
    spark = stream.sparkSession
    if is_connect(spark) or not (stream.isStreaming or cycle is None):
        return None
    received.remember(retained(spark))
    accumulator = _accumulator(spark.sparkContext)

    def send(line: str) -> None:
        task = TaskContext.get()
        if task is None:
            return
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return  # not in a micro-batch: nobody asks
        metrics = TaskMetrics(
            query=query,
            run=task.getLocalProperty(_RUN) or "",
            batch=int(batch),
            stage=task.stageId(),
            partition=task.partitionId(),
            attempt=task.taskAttemptId(),
            name=name,
            line=line,
        )
        accumulator.add([metrics])

    return send


@cache
def _accumulator(context: SparkContext) -> Any:
    return context.accumulator(received, Adding())  # type: ignore[arg-type]
