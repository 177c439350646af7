"""Executors and tasks in Spark's status store, as records.

A metric that cannot be (missing, negative, NaN, infinite, no number) is NaN in a record.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scheduling.spark.internals import StatusStore

_METRICS = ("run_s", "rows", "cpu_s", "wait_s", "memory_mb", "shuffle_bytes")
_PATIENCE_S = 1.0  # Spark's metrics of a task arrive shortly after its result


def sound(value: object, unit: float = 1.0) -> float:
    """A metric in a unit: a finite number, at least 0; else NaN."""
    good = isinstance(value, int | float) and 0 <= value < math.inf and unit
    return value / unit if good else math.nan  # type: ignore[operator]


@dataclass(frozen=True)
class Executor:
    """An executor: where a partition should run, or one that is there.

    Args:
        host: Spark's name of the host.
        id: Spark's id of the executor.
        cores: how many tasks it runs at once, where a task takes one; default 1.
        run_s: the run time of all its ended tasks in seconds; NaN: unknown; default 0.
        running: how many tasks run; default 0.
        memory: the share of its memory for data that is in use; NaN: unknown; default 0.
        profile: Spark's id of its resource profile; default None.
    """

    host: str
    id: str
    cores: int = 1
    run_s: float = 0.0
    running: int = 0
    memory: float = 0.0
    profile: int | None = None

    @property
    def name(self) -> str:
        """Its name as a worker in plans and price tables: ``host/id``."""
        return f"{self.host}/{self.id}"

    @property
    def location(self) -> str:
        """The preferred location in Spark's format, which Spark splits at the first underscores."""
        return f"executor_{self.host.replace('_', '-')}_{self.id}"


def executors_of(
    entries: Iterable[Mapping[str, Any]],
) -> tuple[tuple[Executor, ...], dict[str, str]]:
    """The executors that live, by their ids in order; and why others cannot be workers.

    ``entries`` are as of Spark's REST API. The driver is none, nor is what has no address yet.
    """
    found, odd = list[Executor](), dict[str, str]()
    for one in entries:
        name, cores = one.get("id"), one.get("totalCores")
        host = str(one.get("hostPort") or "").rpartition(":")[0]
        if not (one.get("isActive") and host) or name == "driver":
            continue
        if not (isinstance(name, str) and name and sound(cores) >= 1):
            odd[f"executor {name}"] = f"id={name!r}, totalCores={cores!r}: it is no worker"
            continue
        if one.get("isExcluded"):
            odd[f"executor {name}"] = "Spark has excluded it after failures: it is no worker"
            continue
        run_s, running = sound(one.get("totalDuration"), 1e3), sound(one.get("activeTasks"))
        memory = sound(one.get("memoryUsed"), sound(one.get("maxMemory")) or 1.0)
        seen = int(sound(cores)), run_s, int(max(0.0, running)), memory
        found.append(Executor(host, name, *seen, one.get("resourceProfileId")))
    found.sort(key=lambda one: (int(one.id) if one.id.isdigit() else 0, one.id))
    return tuple(found), odd


@dataclass(frozen=True)
class TaskSeen:
    """A finished task."""

    index: int  # of its partition
    executor: str  # Spark's id
    run_s: float
    rows: float  # that it read
    cpu_s: float = 0.0  # of its thread in the JVM: a Python worker's is not in it
    wait_s: float = 0.0  # for shuffle data, within run_s
    memory_mb: float = 0.0  # peak execution memory; 0 is unknown: not all operators tell
    shuffle_bytes: float = 0.0  # that it read
    requested_at: str = ""  # the first attempt's executor, where a copy elsewhere overtook it

    @property
    def useful_s(self) -> float:
        """The time in which it processed rows."""
        return max(self.run_s - self.wait_s, self.cpu_s, 0.0)

    @cached_property
    def odd(self) -> str:
        """The first metric that cannot be; empty if all can."""
        found = ((name, getattr(self, name)) for name in _METRICS)
        return next((f"{name}={one!r}" for name, one in found if not sound(one) >= 0), "")


def tasks_of(status: StatusStore, rdd: int, count: int, tag: str) -> tuple[TaskSeen, ...]:
    """The last success of each of the ``count`` partitions of an RDD, in jobs with a tag."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        found: dict[int, TaskSeen] = {}
        attempts, ended = status.attempts(tag)
        attempts = [one for one in attempts if rdd in one["rddIds"]]
        attempts.sort(key=lambda one: one["attemptId"])  # of a stage; a later one counts
        for attempt in attempts:
            tasks = finished(status.tasks(attempt["stageId"], attempt["attemptId"]))
            ended &= attempt["status"] not in ("ACTIVE", "PENDING")
            ended &= len(tasks) >= attempt["numCompleteTasks"]
            # A union has other partitions too: which ones belong to this RDD is unknown.
            if attempt["numTasks"] <= count:
                found |= {one.index: one for one in tasks}
        if len(found) >= count or (attempts and ended) or time.monotonic() > until:
            return tuple(found[i] for i in sorted(found))
        time.sleep(0.02)


def finished(entries: Sequence[Mapping[str, Any]]) -> list[TaskSeen]:
    """The successful tasks. One that a speculative copy overtook ran where it was requested."""
    tasks = [(int(one.get("partitionId", one["index"])), one) for one in entries]
    first = {i: one.get("executorId", "") for i, one in tasks if not one.get("speculative")}
    return [
        _task(i, one, first.get(i, "") if one.get("speculative") else "")
        for i, one in tasks
        if one["status"] == "SUCCESS"
    ]


def _task(index: int, entry: Mapping[str, Any], requested_at: str) -> TaskSeen:
    metrics = entry.get("taskMetrics") or {}
    shuffle, source = metrics.get("shuffleReadMetrics") or {}, metrics.get("inputMetrics") or {}
    read = (shuffle.get(f"{at}BytesRead", 0) for at in ("remote", "local"))
    return TaskSeen(
        index,
        entry["executorId"],
        run_s=sound(metrics.get("executorRunTime", entry.get("duration")), 1e3),
        rows=sound(source.get("recordsRead", 0)) + sound(shuffle.get("recordsRead", 0)),
        cpu_s=sound(metrics.get("executorCpuTime", 0), 1e9),
        wait_s=sound(shuffle.get("fetchWaitTime", 0), 1e3),
        memory_mb=sound(metrics.get("peakExecutionMemory", 0), 2**20),
        shuffle_bytes=sum(map(sound, read)),
        requested_at=requested_at,
    )
