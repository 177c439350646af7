"""Observes a live Spark cluster: its executors, their metrics, and where tasks ran.

Workers are executors. Utilisation comes from the probe, without it from the time that Spark's
tasks took; rows, cost and demand from the tasks of the cycles that were recorded.

A metric that cannot be, or that stands still while others move, is not believed: the last value is
kept for three looks, then the worker has none. :attr:`SparkMonitor.ignored` says which and why.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduling.load import busyness
from scheduling.model import Resources, Snapshot, Task, Utilisation, Worker
from scheduling.prices import Price, priced
from scheduling.protocols import Clock
from scheduling.spark.demand import Caches, CachesSeen, CycleSeen, Demand, forget, is_sound
from scheduling.spark.probe import Reading

__all__ = ["SparkMonitor", "workers_of"]

_PERIODS = 10  # X of Eq. 23: the number of cycles for busyness
_KEEP = 1 - 1 / _PERIODS  # of rows and cost in a cycle
_KEPT = 3  # looks for which a value is kept that is not measured again
_STILL = "nothing changed, and others' metrics did"
_EXECUTORS = 1000  # of which rows and seconds are kept


class SparkMonitor:
    """Snapshots of a live job; see :class:`scheduling.Monitor`.

    ``executors`` returns the executors in the form of Spark's REST API, ``probe`` a reading of
    each; without it there are only Spark's metrics. Each executor has ``memory_mb``, of which tasks
    may use ``delta``, as of its CPU. A task of ``operator`` reserves ``task_cpus`` cores.

    Rows and cost of a worker (Eq. 22) are those of about ten cycles in which it had rows, and stay
    while it has none: a worker is not forgotten because a policy left it.
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
        self._executors, self._memory_mb, self._operator = executors, memory_mb, operator
        self._clock, self._prices, self._delta, self._probe = clock, tuple(prices), delta, probe
        self._task_cpus, self._count = task_cpus, 1
        self._demand, self._caches = Demand(task_cpus), Caches()
        self._last: CycleSeen | None = None
        self._did: dict[str, tuple[float, float]] = {}  # by executor its rows and seconds
        self._ran: frozenset[str] = frozenset()  # executors of the tasks since the last look
        self._samples: dict[str, deque[list[float]]] = {}
        # By worker and whether it is probed the last time, CPU seconds and seconds of all tasks; by
        # worker the last value, and for how many looks it was kept.
        self._before: dict[tuple[str, bool], tuple[float, float, float]] = {}
        self._used: dict[str, tuple[Utilisation, int]] = {}
        self.snapshot_seen: Snapshot | None = None
        """The last result of :meth:`snapshot`; None before the first."""
        self.ignored: dict[str, str] = {}
        """By executor, worker or task: the metric that was not believed at the last look."""

    def expect(self, tasks: int) -> None:
        """Set the number of tasks of a cycle, which determines the slots of an executor."""
        self._count = tasks

    def record(self, cycle: CycleSeen) -> None:
        """Record a finished cycle. O(tasks)."""
        if not (cycle.tasks and is_sound(cycle.length_s) and cycle.length_s > 0):
            return
        self._last = cycle
        self._ran = frozenset(task.executor for task in cycle.tasks)
        self._demand.record(cycle)
        rows: dict[str, float] = {}
        for task in cycle.tasks:
            if not task.odd and task.rows:
                rows[task.executor] = rows.get(task.executor, 0.0) + task.rows
        for executor, count in rows.items():
            before, seconds = self._did.pop(executor, (0.0, 0.0))
            self._did[executor] = _KEEP * before + count, _KEEP * seconds + cycle.length_s
        forget(self._did, _EXECUTORS)

    def prefer(self, hosts: Sequence[tuple[str, ...]]) -> None:
        """Set the hosts that store the data of each partition, as the source says."""
        self._demand.preferred = hosts

    def caches(self, count: int, at: Mapping[int, str], seen: CachesSeen) -> None:
        """Set what the job has cached after a cycle; ``at``: the executor of each partition."""
        host = {str(worker.executor_id): worker.host for worker in self._workers}
        hosts = {index: host[executor] for index, executor in at.items() if executor in host}
        self._caches.record(count, hosts, seen)

    @property
    def _workers(self) -> tuple[Worker, ...]:
        return () if self.snapshot_seen is None else self.snapshot_seen.workers

    def demand(self, tasks: int) -> list[Resources]:
        """The demand of each of ``tasks`` tasks: CPU time per cycle time (Eq. 20), and memory."""
        return self._demand.resources(tasks, self._workers)

    def tasks(self, count: int) -> tuple[Task, ...]:
        """The partitions of a cycle as tasks: their demands and data."""
        return self._demand.tasks(self._operator, self.demand(count), self._caches.of(count))

    def snapshot(self) -> Snapshot:
        """The executors and their metrics since the last call; see :class:`scheduling.Monitor`."""
        now, self.ignored = self._clock(), {}
        found = list(self._executors())
        for one in found:
            if _counts(one) and (why := _unusable(one)):
                self.ignored[f"executor {one.get('id')}"] = f"{why}: it is no worker"
        workers = workers_of(
            found, self._memory_mb, self._count, self._prices, self._delta, self._task_cpus
        )
        samples = self._samples
        self._samples = {one.id: samples.get(one.id, deque(maxlen=_PERIODS)) for one in workers}
        used = self._utilisation(now, {one.get("id"): one for one in found}, workers)
        placement, usage = self._placed(workers)  # with what a reading has corrected
        self._ran = frozenset()
        for name, kept in self._samples.items():
            kept.append([used[name].cpu] if name in used else [])
        did = {one: self._did[one.executor_id] for one in workers if one.executor_id in self._did}
        self.snapshot_seen = Snapshot(
            now,
            workers,
            utilisation=used,
            tuples={one.id: rows for one, (rows, _) in did.items()},
            cost={one.id: one.price_per_s * seconds for one, (_, seconds) in did.items()},
            busyness=busyness({name: list(kept) for name, kept in self._samples.items()}),
            placement=placement,
            usage=usage,
        )
        self._caches.keep({worker.host for worker in workers})
        return self.snapshot_seen

    def _placed(self, workers: Sequence[Worker]) -> tuple[dict[str, str], dict[str, Resources]]:
        """Where the last cycle's tasks ran, of the workers that are there, and what they use."""
        at = {worker.executor_id: worker.id for worker in workers}
        placement: dict[str, str] = {}
        usage: dict[str, Resources] = {}
        for task in () if self._last is None else self._last.tasks:
            name = f"{self._operator}-{task.index}"
            if task.odd:
                self.ignored[name] = task.odd
            if task.executor in at:
                placement[name] = at[task.executor]
                if (used := self._demand.usage(task.index)) is not None:
                    usage[name] = used
        return placement, usage

    def _utilisation(
        self, now: float, entries: Mapping[Any, Mapping[str, Any]], workers: Sequence[Worker]
    ) -> dict[str, Utilisation]:
        """What is new of each worker, or its last value for some looks."""
        readings = self._probe(Snapshot(now, tuple(workers))) if self._probe else ()
        read = {one.executor: one for one in readings}
        self._before = {key: at for key, at in self._before.items() if key[0] in self._samples}
        found = {
            one.id: self._measured(
                now, one, entries.get(one.executor_id, {}), read.get(one.executor_id)
            )
            for one in workers
        }
        new = {name: one for name, one in found.items() if isinstance(one, Utilisation)}
        for name, why in found.items():
            if isinstance(why, str) and why and (new or why != _STILL):
                self.ignored[name] = why
        kept = {
            name: (value, looks + (name in self.ignored))
            for name, (value, looks) in self._used.items()
            if name in found and name not in new
        }
        self._used = {name: one for name, one in kept.items() if one[1] <= _KEPT}
        self._used |= {name: (value, 0) for name, value in new.items()}
        return {name: value for name, (value, _) in self._used.items()}

    def _measured(
        self, now: float, worker: Worker, entry: Mapping[str, Any], reading: Reading | None
    ) -> Utilisation | str:
        """The utilisation since the last look; or why there is none, empty at the first look."""
        total_s = _over(entry.get("totalDuration"), 1e3)
        if reading is None:
            at, cpu_s = now, total_s
            memory = _over(entry.get("memoryUsed"), entry.get("maxMemory") or 1)
        else:
            at, cpu_s = reading.time_s, reading.cpu_s
            memory = _over(reading.memory_mb, worker.capacity.memory_mb)
        if not (is_sound(at) and is_sound(cpu_s)):
            return f"CPU time {cpu_s!r} at {at!r}"
        key = worker.id, reading is not None
        before = self._before.get(key)
        if before is None or at != before[0]:
            self._before[key] = at, cpu_s, total_s
        if before is None:
            return ""
        seconds, spent, tasks_s = at - before[0], cpu_s - before[1], total_s - before[2]
        if seconds < 0 or spent < 0:
            return f"{spent:.3g} s of CPU time in {seconds:.3g} s"
        if not is_sound(memory):
            return f"share of memory {memory!r}"
        cpu = _over(spent, seconds * worker.capacity.cpu_cores)
        moved = spent or reading is not None or worker.executor_id not in self._ran
        if not (moved and is_sound(cpu)):
            return _STILL
        if reading is not None:
            known_s = tasks_s if is_sound(tasks_s) else 0.0
            self._demand.read(str(worker.executor_id), spent, known_s)
        return Utilisation(min(1.0, cpu), min(1.0, memory))


def workers_of(
    executors: Sequence[Mapping[str, Any]],
    memory_mb: float,
    tasks: int,
    prices: Sequence[Price] = (),
    delta: float = 0.8,
    task_cpus: int = 1,
) -> tuple[Worker, ...]:
    """The workers of executors in the form of Spark's REST API, without the driver and lost ones.

    A worker's id is ``host/executor``. It has as many slots as it runs tasks at a time. If there
    are more tasks than that, they run in turns, and a worker may get twice its even share: light
    tasks are more on one worker than heavy ones. A price table that gives slots goes before that.
    """
    alive = [one for one in executors if _counts(one) and not _unusable(one)]
    alive.sort(key=lambda one: (int(one["id"]) if one["id"].isdigit() else 0, one["id"]))
    at_a_time = sum(int(one["totalCores"]) // task_cpus for one in alive)
    turns = 2 * math.ceil(tasks / at_a_time) if 0 < at_a_time < tasks else 1
    found = []
    for one in alive:
        host, cores = one["hostPort"].rpartition(":")[0], int(one["totalCores"])
        name, slots = f"{host}/{one['id']}", cores // task_cpus * turns
        size = Resources(cores, memory_mb)
        found.append(Worker(name, size, slots, host=host, executor_id=one["id"], delta=delta))
    return priced(found, prices)


def _counts(one: Mapping[str, Any]) -> bool:
    """Whether an entry is of an executor that is there. One that has just come has no address."""
    address = str(one.get("hostPort") or "").rpartition(":")[0]
    return bool(one.get("isActive") and one.get("id") != "driver" and address)


def _unusable(one: Mapping[str, Any]) -> str:
    """Why an executor that is there cannot be a worker; empty if it can."""
    name, cores = one.get("id"), one.get("totalCores")
    if not (isinstance(name, str) and name):
        return f"id={name!r}"
    return "" if is_sound(cores) and cores >= 1 else f"totalCores={cores!r}"


def _over(value: object, unit: object) -> float:
    """A metric in a unit; NaN where either is none."""
    return value / unit if is_sound(value) and is_sound(unit) and unit else math.nan
