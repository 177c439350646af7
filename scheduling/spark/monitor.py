"""Observes a live Spark cluster: its executors as workers, their metrics, and where tasks ran.

Utilisation comes from the probe, without it from the time that Spark's tasks took; rows, cost and
demand from the cycles that were recorded. A metric that cannot be, or that stands still while
others move, is not believed: the last value is kept for three looks, then the worker has none.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from cachetools import LRUCache

from scheduling.cost import Price, priced
from scheduling.load import busyness
from scheduling.model import Resources, Snapshot, Task, Utilisation, Worker
from scheduling.protocols import Clock
from scheduling.spark.demand import Caches, CachesSeen, CycleSeen, Demand, is_sound
from scheduling.spark.probe import Reading

__all__ = ["SparkMonitor", "workers_of"]

_PERIODS = 10  # X of Eq. 23: the number of cycles for busyness
_KEEP = 1 - 1 / _PERIODS  # of rows and cost in a cycle
_KEPT = 3  # looks for which a value is kept that is not measured again
_STILL = "nothing changed, and others' metrics did"
_EXECUTORS = 1000  # of which rows and seconds are kept


@dataclass
class _Use:
    """How a worker was used, at the last looks."""

    # By whether it was probed: the time, CPU seconds, and seconds of all tasks.
    last: dict[bool, tuple[float, float, float]] = field(default_factory=dict)
    value: Utilisation | None = None
    looks: int = 0  # for which the value was kept
    samples: deque[list[float]] = field(default_factory=lambda: deque(maxlen=_PERIODS))


@dataclass(eq=False)
class SparkMonitor:
    """Snapshots of a live job; see :class:`scheduling.Monitor`.

    ``executors`` returns the executors in the form of Spark's REST API, ``probe`` a reading of
    each. How many tasks are ``expected`` in a cycle determines the slots of an executor. Rows and
    cost of a worker (Eq. 22) are those of about ten cycles in which it had rows, and stay while it
    has none: a worker is not forgotten because a policy left it.
    """

    executors: Callable[[], Sequence[Mapping[str, Any]]]
    memory_mb: float  # of each; tasks may use ``delta`` of it, as of its CPU
    operator: str
    _: KW_ONLY
    clock: Clock
    prices: Sequence[Price] = ()
    delta: float = 0.8
    probe: Callable[[Snapshot], Sequence[Reading]] | None = None
    task_cpus: int = 1

    def __post_init__(self) -> None:
        self.needs, self._caches = Demand(self.task_cpus), Caches()
        self.expected, self._last, self._workers = 1, CycleSeen(0.0, ()), tuple[Worker, ...]()
        self._did = LRUCache[str | None, tuple[float, float]](_EXECUTORS)  # their rows and seconds
        self._ran: frozenset[str] = frozenset()  # executors of the tasks since the last look
        self._uses: dict[str, _Use] = {}
        # Of the last look: its result, the executors as Spark tells them, and by executor, worker
        # or task the metric that was not believed.
        self.snapshot_seen: Snapshot | None = None
        self.found: list[Mapping[str, Any]] = []
        self.ignored: dict[str, str] = {}

    def record(self, cycle: CycleSeen) -> None:
        """Record a finished cycle. O(tasks)."""
        if not (cycle.tasks and is_sound(cycle.length_s) and cycle.length_s > 0):
            return
        self._last, self._ran = cycle, frozenset(task.executor for task in cycle.tasks)
        self.needs.record(cycle)
        rows = defaultdict[str, float](float)
        for task in cycle.tasks:
            if not task.odd and task.rows:
                rows[task.executor] += task.rows
        for executor, count in rows.items():
            before, seconds = self._did.get(executor, (0.0, 0.0))
            self._did[executor] = _KEEP * before + count, _KEEP * seconds + cycle.length_s

    def caches(self, count: int, at: Mapping[int, str], seen: CachesSeen) -> None:
        """Set what the job has cached after a cycle; ``at``: the executor of each partition."""
        host = {worker.executor_id: worker.host for worker in self._workers}
        hosts = {index: host[executor] for index, executor in at.items() if executor in host}
        self._caches.record(count, hosts, seen)

    def demand(self, tasks: int) -> list[Resources]:
        """The demand of each of ``tasks`` tasks: CPU time per cycle time (Eq. 20), and memory."""
        return self.needs.resources(tasks, self._workers)

    def tasks(self, count: int) -> tuple[Task, ...]:
        """The partitions of a cycle as tasks: their demands and data."""
        return self.needs.tasks(self.operator, self.demand(count), self._caches.of(count))

    def snapshot(self) -> Snapshot:
        """The executors and their metrics since the last call; see :class:`scheduling.Monitor`."""
        now, found = self.clock(), list(self.executors())
        faults = {f"executor {one.get('id')}": _fault(one) for one in found}
        self.ignored = {name: f"{why}: it is no worker" for name, why in faults.items() if why}
        workers = self._workers = workers_of(
            found, self.memory_mb, self.expected, self.prices, self.delta, self.task_cpus
        )
        used = self._utilisation(now, {one.get("id"): one for one in found}, workers)
        ran = {f"{self.operator}-{task.index}": task for task in self._last.tasks}
        self.ignored |= {name: task.odd for name, task in ran.items() if task.odd}
        at = {worker.executor_id: worker.id for worker in workers}
        placement = {name: at[one.executor] for name, one in ran.items() if one.executor in at}
        # With what a reading has corrected.
        usage = {name: self.needs.usage(ran[name].index) for name in placement}
        did = {one: self._did[one.executor_id] for one in workers if one.executor_id in self._did}
        self.found, self._ran = found, frozenset()
        self._caches.keep({worker.host for worker in workers})
        self.snapshot_seen = Snapshot(
            now,
            workers,
            utilisation=used,
            tuples={one.id: rows for one, (rows, _) in did.items()},
            cost={one.id: one.price_per_s * seconds for one, (_, seconds) in did.items()},
            busyness=busyness({name: list(use.samples) for name, use in self._uses.items()}),
            placement=placement,
            usage={name: one for name, one in usage.items() if one is not None},
        )
        return self.snapshot_seen

    def _utilisation(
        self, now: float, entries: Mapping[Any, Mapping[str, Any]], workers: Sequence[Worker]
    ) -> dict[str, Utilisation]:
        """What is new of each worker, or its last value for some looks."""
        readings = self.probe(Snapshot(now, tuple(workers))) if self.probe else ()
        read = {one.executor: one for one in readings}
        self._uses = {one.id: self._uses.get(one.id, _Use()) for one in workers}
        found = {}
        for one in workers:
            name = one.executor_id
            found[one.id] = self._measured(now, one, entries.get(name, {}), read.get(name))
        others = any(isinstance(new, Utilisation) for new in found.values())
        for name, new in found.items():
            use = self._uses[name]
            if isinstance(new, Utilisation):
                use.value, use.looks = new, 0
            elif new and (others or new != _STILL):
                self.ignored[name], use.looks = new, use.looks + 1
                use.value = use.value if use.looks <= _KEPT else None
            use.samples.append([] if use.value is None else [use.value.cpu])
        return {name: use.value for name, use in self._uses.items() if use.value is not None}

    def _measured(
        self, now: float, worker: Worker, entry: Mapping[str, Any], reading: Reading | None
    ) -> Utilisation | str:
        """The utilisation since the last look; or why there is none, empty at the first look."""
        probed, total_s = reading is not None, _over(entry.get("totalDuration"), 1e3)
        at, cpu_s = now, total_s
        memory = _over(entry.get("memoryUsed"), entry.get("maxMemory") or 1)
        if reading is not None:
            at, cpu_s = reading.time_s, reading.cpu_s
            memory = _over(reading.memory_mb, worker.capacity.memory_mb)
        if not (is_sound(at) and is_sound(cpu_s)):
            return f"CPU time {cpu_s!r} at {at!r}"
        last = self._uses[worker.id].last
        before = last.get(probed)
        if before is None or at != before[0]:
            last[probed] = at, cpu_s, total_s
        if before is None:
            return ""
        seconds, spent, tasks_s = at - before[0], cpu_s - before[1], total_s - before[2]
        if seconds < 0 or spent < 0:
            return f"{spent:.3g} s of CPU time in {seconds:.3g} s"
        if not is_sound(memory):
            return f"share of memory {memory!r}"
        cpu = _over(spent, seconds * worker.capacity.cpu_cores)
        moved = spent or probed or worker.executor_id not in self._ran
        if not (moved and is_sound(cpu)):
            return _STILL
        if probed:
            self.needs.read(str(worker.executor_id), spent, tasks_s if is_sound(tasks_s) else 0.0)
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

    A worker's id is ``host/executor``. It has a slot for each task at a time; of more tasks, which
    run in turns, it may get twice its even share: of light ones more fit on a worker than of heavy
    ones. A price table that gives slots goes before that.
    """
    alive = [one for one in executors if _fault(one) == ""]
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


def _fault(one: Mapping[str, Any]) -> str | None:
    """Why an executor cannot be a worker; empty if it can, None if it is not there."""
    name, cores, address = one.get("id"), one.get("totalCores"), str(one.get("hostPort") or "")
    if not one.get("isActive") or name == "driver" or not address.rpartition(":")[0]:
        return None  # one that has just come has no address
    if not (isinstance(name, str) and name):
        return f"id={name!r}"
    return "" if is_sound(cores) and cores >= 1 else f"totalCores={cores!r}"


def _over(value: object, unit: object) -> float:
    """A metric in a unit; NaN where either is none."""
    return value / unit if is_sound(value) and is_sound(unit) and unit else math.nan
