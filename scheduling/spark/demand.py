"""What the partitions of a job need, from the tasks of its cycles.

The CPU time of a task is the measured share of its useful time (DS2): run time without waiting for
shuffle data. The share is the CPU time of all processes of the executor (the probe's, Python
workers included) over the useful time of its tasks between two readings. Without a probe it is 1,
an upper bound. Demands are kept for each number of partitions, since partition 3 of 8 holds other
rows than partition 3 of 12, and adaptive execution changes the number all the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduling.model import Resources, Task
from scheduling.spark.cached import Cached, CachesSeen

__all__ = ["CycleSeen", "Demand", "TaskSeen"]

_KEEP = 0.5  # weight of the past
_COUNTS = 16  # numbers of partitions whose demands are kept
_LEAST_USEFUL_S = 0.05  # less tells nothing about the share of CPU time


@dataclass(frozen=True)
class TaskSeen:
    """A finished task.

    Args:
        index: the index of its partition.
        executor: Spark's id of the executor.
        run_s: its run time in seconds.
        rows: the records that it read.
        locality: Spark's locality level, for example "PROCESS_LOCAL"; default empty.
        cpu_s: the CPU time of its thread in the JVM in seconds; default 0. A Python worker's is
            not in it.
        wait_s: the part of the run time that it waited for shuffle data; default 0.
        memory_mb: its peak execution memory in MB; default 0.
        shuffle_bytes: the bytes that it read from shuffles; default 0.
        requested_at: the executor of its first attempt, if a speculative copy elsewhere finished
            first; default empty.
    """

    index: int
    executor: str
    run_s: float
    rows: int
    locality: str = ""
    cpu_s: float = 0.0
    wait_s: float = 0.0
    memory_mb: float = 0.0
    shuffle_bytes: float = 0.0
    requested_at: str = ""

    @property
    def useful_s(self) -> float:
        """The time in which it processed rows, without waiting for input."""
        return max(self.run_s - self.wait_s, self.cpu_s, 0.0)


@dataclass(frozen=True)
class CycleSeen:
    """A finished cycle.

    Args:
        length_s: from its beginning to the next one's, or to its end where that came later.
        tasks: one a partition.
        backlog: tuples that waited when it began.
    """

    length_s: float
    tasks: tuple[TaskSeen, ...]
    backlog: float = 0.0


@dataclass(frozen=True)
class _Need:
    """The smoothed needs of a partition."""

    cores: float
    memory_mb: float
    bytes_per_s: float


class Demand:
    """The needs of partitions, smoothed over cycles.

    Args:
        task_cpus: the cores that Spark reserves for a task (``spark.task.cpus``); default 1.
    """

    def __init__(self, task_cpus: int = 1) -> None:
        self._task_cpus = task_cpus
        self._needs: dict[int, dict[int, _Need]] = {}
        self._latest = 0
        self._useful_s: dict[str, float] = {}
        self._share: dict[str, float] = {}
        self._preferred: Sequence[tuple[str, ...]] = ()
        self._cached = Cached()

    def record(self, cycle: CycleSeen) -> None:
        """Take the tasks of a cycle into account. O(tasks)."""
        count = len(cycle.tasks)
        before = self._needs.pop(count, {})
        if before.keys() != {task.index for task in cycle.tasks}:
            before = {}
        found = {}
        for task in cycle.tasks:
            name = task.executor
            self._useful_s[name] = self._useful_s.get(name, 0.0) + task.useful_s
            cpu_s = max(task.cpu_s, task.useful_s * self._share.get(name, 1.0))
            need = _Need(
                cpu_s / cycle.length_s, task.memory_mb, task.shuffle_bytes / cycle.length_s
            )
            found[task.index] = _mixed(before.get(task.index, need), need)
        self._needs[count] = found
        self._latest = count
        while len(self._needs) > _COUNTS:
            del self._needs[next(iter(self._needs))]

    def read(self, executor: str, cpu_s: float) -> None:
        """Take the CPU time of an executor's processes since the last reading into account."""
        useful_s = self._useful_s.pop(executor, 0.0)
        if useful_s >= _LEAST_USEFUL_S:
            share = min(1.0, cpu_s / useful_s)
            self._share[executor] = _KEEP * self._share.get(executor, share) + (1 - _KEEP) * share

    def prefer(self, hosts: Sequence[tuple[str, ...]]) -> None:
        """Set the hosts that store the data of each partition, as the source says."""
        self._preferred = hosts

    def keep(self, hosts: Collection[str]) -> None:
        """Set the hosts that have executors; what others have cached is gone."""
        self._cached.keep(hosts)

    def caches(self, count: int, hosts: Mapping[int, str], seen: CachesSeen) -> None:
        """Set what the hosts on which the partitions of a cycle ran have cached."""
        self._cached.record(count, hosts, seen)

    def cores(self, index: int) -> float:
        """The cores that a partition of the last cycle uses; 0 if it is unknown."""
        need = self._needs.get(self._latest, {}).get(index)
        return 0.0 if need is None else min(need.cores, float(self._task_cpus))

    def resources(self, count: int, cores: float) -> list[Resources]:
        """The demand of each of ``count`` partitions.

        Of another number than before, each has an even share of the work. Memory is needed while a
        task runs, so a task that waits for its turn needs as much less.

        Args:
            count: the number of partitions.
            cores: the cores of all executors; 0 if they are unknown.
        """
        last = self._needs.get(self._latest, {})
        known = self._needs.get(count, {})
        even = sum(need.cores for need in last.values()) / count
        memory = max((need.memory_mb for need in last.values()), default=0.0)
        turns = max(1.0, self._task_cpus * count / cores) if cores else 1.0
        found = []
        for i in range(count):
            need = known.get(i, _Need(even, memory, 0.0))
            busy = min(need.cores if known else even, float(self._task_cpus))
            found.append(Resources(busy, need.memory_mb / turns))
        return found

    def tasks(self, operator: str, demands: Sequence[Resources]) -> tuple[Task, ...]:
        """The partitions as tasks: their demands, their data, and what is cached of it where."""
        count = len(demands)
        known = self._needs.get(count, {})
        near = self._preferred if len(self._preferred) == count else [()] * count
        cached = self._cached.of(count)
        return tuple(
            Task(
                f"{operator}-{i}",
                operator,
                i,
                demand,
                preferred=near[i],
                input_bytes_per_s=known[i].bytes_per_s if i in known else 0.0,
                cached=cached[i],
            )
            for i, demand in enumerate(demands)
        )


def _mixed(before: _Need, now: _Need) -> _Need:
    def mix(old: float, new: float) -> float:
        return _KEEP * old + (1 - _KEEP) * new

    return _Need(
        mix(before.cores, now.cores),
        max(mix(before.memory_mb, now.memory_mb), now.memory_mb),
        mix(before.bytes_per_s, now.bytes_per_s),
    )
