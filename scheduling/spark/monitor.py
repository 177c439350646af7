"""Observes a live Spark cluster: its executors as workers, their metrics, and where tasks ran.

A metric that cannot be, or that stands still while others move, is not believed: the last value is
kept for three looks, then the worker has none.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from cachetools import LRUCache

from scheduling.cost import Price, priced
from scheduling.load import busyness
from scheduling.model import Resources, Snapshot, Task, Utilisation, Worker
from scheduling.protocols import Clock
from scheduling.spark.demand import Caches, CachesSeen, Demand
from scheduling.spark.probe import Reading
from scheduling.spark.seen import Executor, TaskSeen, executors_of, sound

_PERIODS = 10  # X of Eq. 23: the number of cycles for busyness
_KEEP = 1 - 1 / _PERIODS  # of rows and cost in a cycle
_KEPT = 3  # looks for which a value is kept that is not measured again
_STILL = "nothing changed, and others' metrics did"
_EXECUTORS = 1000  # of which rows and seconds are kept


@dataclass
class _Use:
    """The use of a worker, at the last looks."""

    # By whether it was probed: the time, CPU seconds, and seconds of all tasks.
    last: dict[bool, tuple[float, float, float]] = field(default_factory=dict)
    value: Utilisation | None = None
    looks: int = 0  # for which the value was kept
    samples: deque[list[float]] = field(default_factory=lambda: deque(maxlen=_PERIODS))


@dataclass(eq=False)
class SparkMonitor:
    """Snapshots of a live job; see :class:`scheduling.Monitor`.

    ``entries`` returns the executors in the form of Spark's REST API, ``probe`` a reading of each.
    How many tasks are ``expected`` in a cycle determines the slots of an executor. Rows and cost of
    a worker (Eq. 22) are those of about ten cycles in which it had rows: a worker is not forgotten
    because a policy left it.
    """

    entries: Callable[[], Iterable[Mapping[str, Any]]]
    memory_mb: float  # of each; tasks may use ``delta`` of it, as of its CPU
    operator: str
    expected: int
    _: KW_ONLY
    clock: Clock
    prices: Sequence[Price] = ()
    delta: float = 0.8
    probe: Callable[[Sequence[Executor]], Sequence[Reading]] | None = None
    task_cpus: int = 1

    def __post_init__(self) -> None:
        self._demand, self._caches = Demand(self.task_cpus), Caches()
        # Cycles since the last look, and the tasks of the last one.
        self._new = deque[tuple[float, Sequence[TaskSeen]]](maxlen=_PERIODS)
        self._last: Sequence[TaskSeen] = ()
        self._did = LRUCache[str | None, tuple[float, float]](_EXECUTORS)  # their rows and seconds
        self._uses: dict[str, _Use] = {}
        # Of the last look: its result, the executors by worker, and by executor, worker or task the
        # metric that was not believed.
        self.seen: Snapshot | None = None
        self.there: dict[str, Executor] = {}
        self.ignored: dict[str, str] = {}

    def record(self, length_s: float, tasks: Sequence[TaskSeen]) -> None:
        """Record a finished cycle: how long after it the next one began, its tasks. O(tasks)."""
        if not tasks:
            return
        self._last = tasks
        self._new.append((length_s, tasks))
        self._demand.ran(tasks)
        rows = defaultdict[str, float](float)
        for task in tasks:
            if not task.odd and task.rows:
                rows[task.executor] += task.rows
        for executor, count in rows.items():
            before, seconds = self._did.get(executor, (0.0, 0.0))
            self._did[executor] = _KEEP * before + count, _KEEP * seconds + length_s

    def caches(self, count: int, tasks: Sequence[TaskSeen], seen: CachesSeen) -> None:
        """Set what the job has cached after a cycle of ``count`` partitions."""
        host = {one.id: one.host for one in self.there.values()}
        hosts = {one.index: host[one.executor] for one in tasks if one.executor in host}
        self._caches.record(count, hosts, seen)

    def tasks(self, count: int, preferred: Sequence[tuple[str, ...]] = ()) -> tuple[Task, ...]:
        """The partitions as tasks (Eq. 20); ``preferred``: the hosts that store each one's data."""
        workers = self.seen.workers if self.seen else ()
        return self._demand.tasks(self.operator, count, workers, self._caches.of(count), preferred)

    def snapshot(self) -> Snapshot:
        """The executors and their metrics since the last call; see :class:`scheduling.Monitor`."""
        now, (found, self.ignored) = self.clock(), executors_of(self.entries())
        self.there = {one.name: one for one in found}
        workers = self.workers()
        used = self._utilisation(now, workers)
        for length_s, tasks in self._new:
            self._demand.record(length_s, tasks)  # with what a reading has corrected
        self._new.clear()
        ran = {f"{self.operator}-{task.index}": task for task in self._last}
        self.ignored |= {name: task.odd for name, task in ran.items() if task.odd}
        at = {worker.executor_id: worker.id for worker in workers}
        placement = {name: at[one.executor] for name, one in ran.items() if one.executor in at}
        usage = self._demand.usage()
        did = {one: self._did[one.executor_id] for one in workers if one.executor_id in self._did}
        self._caches.keep({worker.host for worker in workers})
        self.seen = Snapshot(
            now,
            workers,
            utilisation=used,
            tuples={one.id: rows for one, (rows, _) in did.items()},
            cost={one.id: one.price_per_s * seconds for one, (_, seconds) in did.items()},
            busyness=busyness({name: list(use.samples) for name, use in self._uses.items()}),
            placement=placement,
            usage={name: usage[i] for name in placement if (i := ran[name].index) in usage},
        )
        return self.seen

    def workers(self, without: Collection[str] = ()) -> tuple[Worker, ...]:
        """The executors of the last look, ``without`` some ids of Spark, as workers ``host/id``.

        A worker has a slot for each task at a time; of more tasks, which run in turns, it may get
        twice its even share: of light ones more fit on a worker than of heavy ones. A price table
        that gives slots goes before that.
        """
        found = [one for one in self.there.values() if one.id not in without]
        tasks, slots = self.expected, [one.cores // self.task_cpus for one in found]
        at_a_time = sum(slots)
        turns = 2 * math.ceil(tasks / at_a_time) if 0 < at_a_time < tasks else 1
        workers = []
        for one, count in zip(found, slots, strict=True):
            named: dict[str, Any] = {"host": one.host, "executor_id": one.id, "delta": self.delta}
            size = Resources(one.cores, self.memory_mb)
            workers.append(Worker(one.name, size, count * turns, **named))
        return priced(workers, self.prices)

    def _utilisation(self, now: float, workers: Sequence[Worker]) -> dict[str, Utilisation]:
        """Return the new value of each worker, or its last one for some looks."""
        readings = self.probe([*self.there.values()]) if self.probe else ()
        read = {one.executor: one for one in readings}
        ran = {task.executor for _, tasks in self._new for task in tasks}
        self._uses = {one.id: self._uses.get(one.id, _Use()) for one in workers}
        found = {}
        for one in workers:
            known = read.get(one.executor_id), one.executor_id in ran
            found[one.id] = self._measured(now, one, *known)
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
        self, now: float, worker: Worker, reading: Reading | None, ran: bool
    ) -> Utilisation | str:
        """The utilisation since the last look; or why there is none, empty at the first look."""
        executor, probed, capacity = self.there[worker.id], reading is not None, worker.capacity
        told, memory = (now, executor.run_s, executor.run_s), executor.memory
        if reading is not None:
            told = sound(reading.time_s), sound(reading.cpu_s), executor.run_s
            memory = sound(reading.memory_mb, capacity.memory_mb)
        if not told[1] - told[0] < math.inf:  # one of them is NaN
            return f"CPU time {told[1]!r} at {told[0]!r}"
        last = self._uses[worker.id].last
        before = last.get(probed)
        if before is None or told[0] != before[0]:
            last[probed] = told
        if before is None or (probed and told[0] == before[0]):  # the same reading says nothing
            return ""
        seconds, spent, tasks_s = (new - old for new, old in zip(told, before, strict=True))
        if seconds < 0 or spent < 0:
            return f"{spent:.3g} s of CPU time in {seconds:.3g} s"
        if not memory >= 0:
            return f"share of memory {memory!r}"
        cpu = sound(spent, seconds * capacity.cpu_cores)
        if not cpu >= 0 or not (spent or probed or not ran):
            return _STILL
        if probed:
            self._demand.read(executor.id, spent, tasks_s)
        return Utilisation(min(1.0, cpu), min(1.0, memory))
