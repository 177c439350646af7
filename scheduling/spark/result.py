"""Where the tasks of a cycle ran, from the task lists of the stages with a pinned RDD."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.decision import Decision
from scheduling.model import Receipt
from scheduling.spark.demand import TaskSeen, is_sound
from scheduling.spark.internals import StatusStore
from scheduling.spark.pins import Pinned

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
        unplaced: the tasks for which no worker had room, with the reason; Spark placed them.
        idle: the workers without a task, and whether they are released or kept, and why.
        splits: as :attr:`CycleContext.splits`.
        dropped: by partition, the share of its load that should run on other executors and does
            not: the caller cannot spread it, or no other partition runs there.
        ignored: by worker or task, the metrics that were not believed, and why.
        scaling: what the scaler's step said; empty (default) without a scaler.
    """

    decision: Decision | None
    partitions: int
    requested: Mapping[str, str]
    landed: Mapping[str, str]
    workers: Mapping[str, int]
    unplaced: Mapping[str, str] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    dropped: Mapping[int, float] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    scaling: str = ""

    @property
    def share(self) -> float:
        """The share of all tasks, with or without room, that ran as planned; 1 without a plan."""
        return Receipt(self.requested, self.landed, tuple(self.unplaced)).landing_share

    @property
    def reason(self) -> str:
        """Why the tasks run where they do, and what the scaler said."""
        decided = "see the log of scheduling" if self.decision is None else self.decision.reason
        return f"{decided}; {self.scaling}" if self.scaling else decided

    @property
    def summary(self) -> str:
        """One line: what was decided, how much of it happened, what is left over.

        >>> PlacementResult(None, 4, {"join-0": "a"}, {"join-0": "a"}, {"a": 1}, {
        ...     "join-1": "all 1 slots are taken"}).summary
        '4 tasks, 50 % where planned, 1 without room, 0 workers idle; no decision'
        """
        decided = f"{self.decision.action}: {self.reason}" if self.decision else "no decision"
        parts = f"{len(self.splits)} partitions split, " if self.splits else ""
        parts += f"{len(self.dropped)} splits dropped, " if self.dropped else ""
        parts += f"{len(self.ignored)} metrics ignored, " if self.ignored else ""
        return (
            f"{self.partitions} tasks, {100 * self.share:.0f} % where planned, "
            f"{len(self.unplaced)} without room, {parts}{len(self.idle)} workers idle; {decided}"
        )


def tasks_of(status: StatusStore, pinned: Pinned, tag: str) -> tuple[TaskSeen, ...]:
    """The tasks that ran a pinned RDD in jobs with a tag, the last success of each partition."""
    count, until = len(pinned.requested), time.monotonic() + _PATIENCE_S
    while True:
        found: dict[int, TaskSeen] = {}
        attempts, ended = status.attempts(tag)
        attempts = [one for one in attempts if pinned.rdd in one["rddIds"]]
        for attempt in attempts:
            tasks = _finished(status.tasks(attempt["stageId"], attempt["attemptId"]))
            ended &= attempt["status"] not in ("ACTIVE", "PENDING")
            ended &= len(tasks) >= attempt["numCompleteTasks"]
            # A union has other partitions too: which ones belong to this RDD is unknown.
            if attempt["numTasks"] <= count:
                found |= {one.index: one for one in tasks}
        if len(found) >= count or (attempts and ended) or time.monotonic() > until:
            return tuple(found[i] for i in sorted(found))
        time.sleep(0.02)


def _finished(entries: Sequence[Mapping[str, Any]]) -> list[TaskSeen]:
    """The successful tasks. One that a speculative copy overtook ran where it was requested."""
    tasks = [(int(one.get("partitionId", one["index"])), one) for one in entries]
    at = {index: one.get("executorId", "") for index, one in tasks if not one.get("speculative")}
    return [_task(index, one, at) for index, one in tasks if one["status"] == "SUCCESS"]


def _task(index: int, entry: Mapping[str, Any], first: Mapping[int, str]) -> TaskSeen:
    metrics = entry.get("taskMetrics") or {}
    shuffle, source = metrics.get("shuffleReadMetrics") or {}, metrics.get("inputMetrics") or {}

    def total(unit: float, *values: object) -> float:
        """NaN if a value is no metric."""
        return sum(value if is_sound(value) else math.nan for value in values) / unit

    return TaskSeen(
        index,
        entry["executorId"],
        run_s=total(1e3, metrics.get("executorRunTime", entry.get("duration"))),
        rows=total(1, source.get("recordsRead", 0), shuffle.get("recordsRead", 0)),
        cpu_s=total(1e9, metrics.get("executorCpuTime", 0)),
        wait_s=total(1e3, shuffle.get("fetchWaitTime", 0)),
        memory_mb=total(2**20, metrics.get("peakExecutionMemory", 0)),
        shuffle_bytes=total(1, *(shuffle.get(f"{at}BytesRead", 0) for at in ("remote", "local"))),
        requested_at=first.get(index, "") if entry.get("speculative") else "",
    )
