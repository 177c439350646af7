"""Where the tasks of a cycle ran: the task lists of the stages that held a pinned RDD."""

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

_PATIENCE_S = 1.0  # Spark's figures of a task come a little after its result


@dataclass(frozen=True)
class PlacementResult:
    """What was asked for in one cycle, and what was seen.

    Args:
        decision: what the controller did before the cycle, and why; None where it failed.
        partitions: tasks of the cycle.
        asked: by task, the worker it was to run on; a task that is not there was left to Spark.
        landed: by task, the worker it ran on; empty where Spark's figures did not come.
        workers: by worker, how many tasks ran there.
    """

    decision: Decision | None
    partitions: int
    asked: Mapping[str, str]
    landed: Mapping[str, str]
    workers: Mapping[str, int]

    @property
    def share(self) -> float:
        """The share of the tasks asked for that landed; 1 where none was asked for."""
        return Receipt(self.asked, self.landed).landing_share


def tasks_of(spark: SparkSession, status: Status, pinned: Pinned, tag: str) -> tuple[TaskSeen, ...]:
    """The tasks that ran a pinned RDD, the last success of each partition.

    Args:
        spark: the session.
        status: where task lists come from.
        pinned: what was pinned.
        tag: of the jobs to look at.

    Complexity: a call for each job and stage, and one for the tasks of the stages that matter.
    """
    rdd, count = pinned.rdd, len(pinned.asked)
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
                    # A union has other partitions, too: which ones are ours is not told.
                    if attempt["numTasks"] <= count:
                        found |= {one.index: one for one in tasks}
        over = stages > 0 and ended
        if len(found) >= count or over or time.monotonic() > until:
            return tuple(found[i] for i in sorted(found))
        time.sleep(0.02)


def _task(told: Mapping[str, Any]) -> TaskSeen:
    metrics = told.get("taskMetrics") or {}
    rows = sum(
        metrics.get(kind, {}).get("recordsRead", 0)
        for kind in ("inputMetrics", "shuffleReadMetrics")
    )
    return TaskSeen(
        told.get("partitionId", told["index"]),
        told["executorId"],
        metrics.get("executorRunTime", told.get("duration", 0)) / 1e3,
        rows,
        told.get("taskLocality", ""),
    )
