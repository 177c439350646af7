"""What Spark wrote down of a query's micro-batches: its own times, jobs, stages and tasks.

The stores behind Spark's UI are there without the UI, too. Everything is in milliseconds of the
machine's clock, rounded to one.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["Batch", "Stage", "metrics", "read"]

_BATCH = re.compile(r"runId = (\S+?)(?:<br/>|\s+)batch = (\d+)")
_WAIT_S = 5.0


@dataclass(frozen=True)
class Stage:
    """One stage of a micro-batch.

    Args:
        id: Spark's number.
        begun: when its first task was launched.
        ended: when its last task had ended.
        tasks_ms: how long its tasks took, from launch to end, added up.
        run_ms: how long their work took, added up.
        unpack_ms: how long it took to unpack them, added up.
        tasks: how many there were.
    """

    id: int
    begun: float
    ended: float
    tasks_ms: float
    run_ms: float
    unpack_ms: float
    tasks: int


@dataclass(frozen=True)
class Batch:
    """One micro-batch.

    Args:
        id: Spark's number.
        rows: of the stream.
        durations: Spark's ``durationMs``.
        execution: when the SQL execution of the micro-batch began and ended.
        jobs: when each of its jobs was submitted and had ended.
        stages: what its jobs did.
    """

    id: int
    rows: int
    durations: dict[str, float]
    execution: tuple[float, float]
    jobs: tuple[tuple[float, float], ...]
    stages: tuple[Stage, ...]


def read(spark: SparkSession, query: Any, first: int, count: int) -> list[Batch]:
    """Some micro-batches of a query.

    Args:
        spark: the session; classic Spark.
        query: a ``StreamingQuery``, which may have been stopped.
        first: the number of the first to read.
        count: how many to read.

    Raises:
        RuntimeError: Spark's books do not have them.
    """
    done = {p.batchId: p for p in query.recentProgress if p.numInputRows}
    wanted = range(first, first + count)
    executions = _executions(spark, str(query.runId), wanted)
    missing = [n for n in wanted if n not in done or n not in executions]
    if missing:
        raise RuntimeError(
            f"Spark's books have no micro-batches {missing} of the query {query.runId}: raise "
            "spark.sql.ui.retainedExecutions, or read fewer"
        )
    return [_batch(spark, done[n], executions[n]) for n in wanted]


def _executions(spark: SparkSession, run: str, wanted: range) -> dict[int, Any]:
    """The SQL executions of a run by micro-batch; Spark's books are behind by a moment."""
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    waited = time.monotonic()
    while True:
        listed = store.executionsList()
        found = {}
        for i in range(listed.size()):
            execution = listed.apply(i)
            named = _BATCH.search(execution.description() or "")
            if not named or named[1] != run or int(named[2]) not in wanted:
                continue
            # A micro-batch has two: the one around its planning has no jobs.
            if execution.completionTime().isDefined() and execution.jobs().size():
                found[int(named[2])] = execution
        if len(found) == len(wanted) or time.monotonic() - waited > _WAIT_S:
            return found
        time.sleep(0.05)


def _batch(spark: SparkSession, progress: Any, execution: Any) -> Batch:
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs, stages = [], []
    numbers = execution.jobs().keys().toList()
    for i in range(numbers.size()):
        job = store.job(numbers.apply(i))
        jobs.append((_ms(job.submissionTime()), _ms(job.completionTime())))
        listed = job.stageIds()
        stages += [_stage(store, listed.apply(j)) for j in range(listed.size())]
    return Batch(
        id=progress.batchId,
        rows=progress.numInputRows,
        durations={name: float(ms) for name, ms in progress.durationMs.items()},
        execution=(float(execution.submissionTime()), _ms(execution.completionTime())),
        jobs=tuple(sorted(jobs)),
        stages=tuple(stage for stage in stages if stage is not None),
    )


def _stage(store: Any, number: int) -> Stage | None:
    """A stage; None if it was skipped, since what it makes was there."""
    stage = store.lastStageAttempt(number)
    if not stage.firstTaskLaunchedTime().isDefined():
        return None
    tasks = store.taskList(number, stage.attemptId(), 10_000)
    begun, ended, spent = [], [], 0.0
    for i in range(tasks.size()):
        task = tasks.apply(i)
        started, took = float(task.launchTime().getTime()), float(task.duration().get())
        begun.append(started)
        ended.append(started + took)
        spent += took
    return Stage(
        id=number,
        begun=min(begun),
        ended=max(ended),
        tasks_ms=spent,
        run_ms=float(stage.executorRunTime()),
        unpack_ms=float(stage.executorDeserializeTime()),
        tasks=len(begun),
    )


def metrics(spark: SparkSession, run: str, batch: int) -> dict[str, str]:
    """Spark's SQL metrics of one micro-batch by name, as its UI would print them.

    Args:
        spark: the session; classic Spark.
        run: the query's ``runId``.
        batch: the number of the micro-batch.
    """
    execution = _executions(spark, run, range(batch, batch + 1)).get(batch)
    if execution is None:
        return {}
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    values = store.executionMetrics(execution.executionId())
    found: dict[str, str] = {}
    listed = execution.metrics()
    for i in range(listed.size()):
        metric = listed.apply(i)
        value = values.get(metric.accumulatorId())
        if value.isDefined():
            text = str(value.get())
            found[metric.name()] = text.rsplit("\n", 1)[-1].split(" (")[0]
    return found


def _ms(date: Any) -> float:
    return float(date.get().getTime())
