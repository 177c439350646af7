"""Observes a live Spark cluster: its executors, their metrics, and where tasks ran.

Workers are executors. Utilisation comes from the probe, which reads the processes of every
executor; without it from the time that Spark's tasks took. Tuples, busy time and the demand of a
task come from the tasks of the cycles that were recorded, smoothed over the last few.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduling.load import busyness
from scheduling.model import Resources, Snapshot, Task, Utilisation, Window, Worker
from scheduling.prices import Price, priced
from scheduling.protocols import Clock
from scheduling.spark.cached import CachesSeen
from scheduling.spark.demand import CycleSeen, Demand
from scheduling.spark.probe import Reading

__all__ = ["SparkMonitor", "workers_of"]

_PERIODS = 10  # X of Eq. 23: the number of cycles for busyness
_LATENCY_S = 1e-6  # the least time of a tuple: a window needs one above zero


class SparkMonitor:
    """Snapshots of a live job; see :class:`scheduling.Monitor`.

    Args:
        executors: returns the executors in the form of Spark's REST API.
        memory_mb: the memory of one executor.
        operator: the name of the operator whose tasks are placed.
        clock: a clock in seconds.
        prices: prices and sizes of executors; default none: each costs 1 $/s.
        delta: the share of an executor that tasks may use (Eq. 17); default 0.8.
        probe: returns a reading of every executor; None (default): only Spark's metrics.
        task_cpus: the cores that Spark reserves for a task (``spark.task.cpus``); default 1.
    """

    def __init__(
        self,
        executors: Callable[[], Sequence[Mapping[str, Any]]],
        memory_mb: float,
        operator: str,
        *,
        clock: Clock,
        prices: Sequence[Price] = (),
        delta: float = 0.8,
        probe: Callable[[Snapshot], Sequence[Reading]] | None = None,
        task_cpus: int = 1,
    ) -> None:
        self._task_cpus = task_cpus
        self._demand = Demand(task_cpus)
        self._executors, self._memory_mb, self._operator = executors, memory_mb, operator
        self._clock, self._prices, self._delta, self._probe = clock, tuple(prices), delta, probe
        self._tasks = 1
        self._new: CycleSeen | None = None
        self._last: CycleSeen | None = None
        self._samples: dict[str, deque[list[float]]] = {}
        self._before: dict[str, tuple[float, float]] = {}  # by executor: time, CPU seconds
        self.snapshot_seen: Snapshot | None = None
        """The last result of :meth:`snapshot`; None before the first."""

    def expect(self, tasks: int) -> None:
        """Set the number of tasks of a cycle, which determines the slots of an executor."""
        self._tasks = tasks

    def record(self, cycle: CycleSeen) -> None:
        """Record a finished cycle."""
        if cycle.tasks:
            self._new = self._last = cycle
            self._demand.record(cycle)

    def prefer(self, hosts: Sequence[tuple[str, ...]]) -> None:
        """Set the hosts that store the data of each partition, as the source says."""
        self._demand.prefer(hosts)

    def caches(self, count: int, at: Mapping[int, str], seen: CachesSeen) -> None:
        """Set what hosts have cached after a cycle.

        Args:
            count: the number of partitions.
            at: the executor of each partition.
            seen: what the job says.
        """
        snapshot = self.snapshot_seen
        workers = () if snapshot is None else snapshot.workers
        host = {str(worker.executor_id): worker.host for worker in workers}
        hosts = {index: host[executor] for index, executor in at.items() if executor in host}
        self._demand.caches(count, hosts, seen)

    def demand(self, tasks: int) -> list[Resources]:
        """The demand of each of ``tasks`` tasks: CPU time per cycle time (Eq. 20), and memory.

        A different number of tasks shares the same work evenly. A demand never exceeds the largest
        executor.
        """
        seen = self.snapshot_seen
        workers = () if seen is None else seen.workers
        found = self._demand.resources(tasks, sum(one.capacity.cpu_cores for one in workers))
        if not workers:
            return found
        cores = max(worker.usable.cpu_cores for worker in workers)
        memory = max(worker.usable.memory_mb for worker in workers)
        return [Resources(min(one.cpu_cores, cores), min(one.memory_mb, memory)) for one in found]

    def tasks(self, count: int) -> tuple[Task, ...]:
        """The partitions of a cycle as tasks: their demands and data."""
        return self._demand.tasks(self._operator, self.demand(count))

    def snapshot(self) -> Snapshot:
        """The executors and their metrics since the last call; see :class:`scheduling.Monitor`."""
        now = self._clock()
        found = list(self._executors())
        workers = workers_of(
            found,
            self._memory_mb,
            self._tasks,
            self._prices,
            self._delta,
            self._task_cpus,
        )
        bare = Snapshot(now, workers)
        used = self._utilisation(now, found, bare)
        for worker in workers:
            kept = self._samples.setdefault(worker.id, deque(maxlen=_PERIODS))
            kept.append([used[worker.id].cpu] if worker.id in used else [])
        self._samples = {worker.id: self._samples[worker.id] for worker in workers}
        seen = Snapshot(
            now,
            workers,
            utilisation=used,
            busyness=busyness({name: list(kept) for name, kept in self._samples.items()}),
            **self._done(workers),
        )
        self.snapshot_seen = seen
        self._demand.keep({worker.host for worker in workers})
        return seen

    def windows(self) -> dict[str, Window]:
        """The metrics of the last cycle, returned once; see :class:`scheduling.Monitor`."""
        cycle, self._new = self._new, None
        if cycle is None:
            return {}
        rows = sum(task.rows for task in cycle.tasks)
        busy_s = sum(task.useful_s for task in cycle.tasks)
        if not rows:
            return {}
        window = Window(
            length_s=cycle.length_s,
            tuples_in=rows,
            tuples_done=rows,
            latency_s=max(busy_s / rows, _LATENCY_S),
            parallelism=len(cycle.tasks),
            buffered=cycle.backlog,
            busy_s=busy_s,
        )
        return {self._operator: window}

    def _done(self, workers: Sequence[Worker]) -> dict[str, dict[str, Any]]:
        """Metrics of the last cycle's tasks: tuples, cost, placement, usage."""
        if self._last is None:
            return {}
        at = {worker.executor_id: worker for worker in workers}
        tuples: dict[str, float] = {}
        placement: dict[str, str] = {}
        usage: dict[str, Resources] = {}
        for task in self._last.tasks:
            worker = at.get(task.executor)
            if worker is None:
                continue
            name = f"{self._operator}-{task.index}"
            tuples[worker.id] = tuples.get(worker.id, 0.0) + task.rows
            placement[name] = worker.id
            usage[name] = Resources(self._demand.cores(task.index), task.memory_mb)
        cost = {
            worker.id: worker.price_per_s * self._last.length_s
            for worker in workers
            if worker.id in tuples
        }
        return {"tuples": tuples, "cost": cost, "placement": placement, "usage": usage}

    def _utilisation(
        self, now: float, found: Sequence[Mapping[str, Any]], bare: Snapshot
    ) -> dict[str, Utilisation]:
        by_executor = {one["id"]: one for one in found}
        probed = {one.executor: one for one in (self._probe(bare) if self._probe else ())}
        used: dict[str, Utilisation] = {}
        for worker in bare.workers:
            metrics, reading = by_executor[worker.executor_id], probed.get(worker.executor_id)
            if reading is not None:
                at, cpu_s = reading.time_s, reading.cpu_s
                last = self._before.get(f"{worker.id} probe")
                if last is not None and at > last[0]:
                    self._demand.read(worker.executor_id or "", cpu_s - last[1])
                memory = reading.memory_mb / self._memory_mb
            else:
                at, cpu_s = now, metrics["totalDuration"] / 1e3
                memory = metrics["memoryUsed"] / max(metrics["maxMemory"], 1)
            # The two kinds of metrics have different clocks.
            name = f"{worker.id} {'probe' if reading else 'tasks'}"
            before = self._before.get(name)
            self._before[name] = at, cpu_s
            if before is not None and at > before[0]:
                share = (cpu_s - before[1]) / ((at - before[0]) * metrics["totalCores"])
                used[worker.id] = Utilisation(_share(share), _share(memory))
        there = bare.by_id
        self._before = {
            name: metrics
            for name, metrics in self._before.items()
            if name.rpartition(" ")[0] in there
        }
        return used


def workers_of(
    executors: Sequence[Mapping[str, Any]],
    memory_mb: float,
    tasks: int,
    prices: Sequence[Price] = (),
    delta: float = 0.8,
    task_cpus: int = 1,
) -> tuple[Worker, ...]:
    """The workers of a list of executors, without the driver and lost executors.

    A worker's id is ``host/executor``. It has as many slots as it runs tasks at a time. If there
    are more tasks than that, they run in turns, and a worker may get twice its even share: light
    tasks are more on one worker than heavy ones. A price table that gives slots goes before that.

    Args:
        executors: as Spark's REST API gives them.
        memory_mb: of one executor.
        tasks: of a cycle.
        prices: what they cost and hold.
        delta: the share that may be taken.
        task_cpus: the cores that Spark reserves for a task.
    """
    # One that has just come has no address for a moment.
    alive = [
        one
        for one in executors
        if one["isActive"] and one["id"] != "driver" and one["hostPort"].rpartition(":")[0]
    ]
    alive.sort(key=lambda one: (int(one["id"]) if one["id"].isdigit() else 0, one["id"]))
    at_a_time = sum(one["totalCores"] // task_cpus for one in alive)
    turns = 2 * math.ceil(tasks / at_a_time) if 0 < at_a_time < tasks else 1
    found = []
    for one in alive:
        host = one["hostPort"].rpartition(":")[0]
        found.append(
            Worker(
                f"{host}/{one['id']}",
                Resources(one["totalCores"], memory_mb),
                one["totalCores"] // task_cpus * turns,
                host=host,
                executor_id=one["id"],
                delta=delta,
            )
        )
    return priced(found, prices)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
