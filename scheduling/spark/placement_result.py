"""Where the tasks of a cycle ran, from the task lists of the stages with a pinned RDD."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from scheduling.controller import Decision
from scheduling.model import Receipt
from scheduling.spark.monitor import TaskSeen
from scheduling.spark.pins import Pinned
from scheduling.spark.status import Status

__all__ = ["PlacementResult", "tasks_of"]

_PATIENCE_S = 1.0  # Spark's metrics of a task arrive shortly after its result


@dataclass(frozen=True)
class PlacementResult:
    """The requested and the observed placement of one cycle.

    Args:
        decision: the controller's decision before the cycle; None if it failed.
        partitions: the number of tasks of the cycle.
        requested: the requested worker of each task; Spark placed the tasks that are missing here.
        landed: the actual worker of each task; empty if Spark's metrics were not available.
        workers: the number of tasks that ran on each worker.
    """

    decision: Decision | None
    partitions: int
    requested: Mapping[str, str]
    landed: Mapping[str, str]
    workers: Mapping[str, int]

    @property
    def share(self) -> float:
        """The share of the requested placements that were met; 1 without requests."""
        return Receipt(self.requested, self.landed).landing_share


def tasks_of(spark: SparkSession, status: Status, pinned: Pinned, tag: str) -> tuple[TaskSeen, ...]:
    """The tasks that ran a pinned RDD, the last success of each partition.

    Args:
        spark: the session.
        status: where task lists come from.
        pinned: what was pinned.
        tag: of the jobs to look at.

    Complexity: a call for each job and stage, and one for the tasks of the stages that matter.
    """
    rdd, count = pinned.rdd, len(pinned.requested)
    tracker: Any = spark.sparkContext._jsc.sc().statusTracker()
    until = time.monotonic() + _PATIENCE_S
    while True:
        found: dict[int, TaskSeen] = {}
        stages, ended = 0, True
        for job in sorted(tracker.getJobIdsForTag(tag)):
            info = tracker.getJobInfo(job)
            ended &= info.isDefined() and str(info.get().status()) != "RUNNING"
            for stage in sorted(info.get().stageIds()) if info.isDefined() else ():
                for attempt in reversed(status.stage(stage)):
                    if rdd not in attempt["rddIds"]:
                        continue
                    tasks = [
                        _task(task)
                        for task in status.tasks(stage, attempt["attemptId"])
                        if task["status"] == "SUCCESS"
                    ]
                    stages += 1
                    ended &= attempt["status"] not in ("ACTIVE", "PENDING")
                    ended &= len(tasks) >= attempt["numCompleteTasks"]
                    # A union has other partitions too: which ones belong to this RDD is unknown.
                    if attempt["numTasks"] <= count:
                        found |= {one.index: one for one in tasks}
        over = stages > 0 and ended
        if len(found) >= count or over or time.monotonic() > until:
            return tuple(found[i] for i in sorted(found))
        time.sleep(0.02)


def _task(entry: Mapping[str, Any]) -> TaskSeen:
    metrics = entry.get("taskMetrics") or {}
    rows = sum(
        metrics.get(kind, {}).get("recordsRead", 0)
        for kind in ("inputMetrics", "shuffleReadMetrics")
    )
    return TaskSeen(
        entry.get("partitionId", entry["index"]),
        entry["executorId"],
        metrics.get("executorRunTime", entry.get("duration", 0)) / 1e3,
        rows,
        entry.get("taskLocality", ""),
    )
