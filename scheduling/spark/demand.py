"""What the partitions of a job need, from the tasks of its cycles.

The CPU time of a task is the measured share of its useful time (DS2): run time without waiting for
shuffle data. The share is the CPU time of all processes of the executor (the probe's, Python
workers included) over the useful time of its tasks between two readings. Without a probe it is 1,
an upper bound. Demands are kept for each number of partitions, since partition 3 of 8 holds other
rows than partition 3 of 12, and adaptive execution changes the number all the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from scheduling.model import Resources, Task

__all__ = ["CycleSeen", "Demand", "TaskSeen", "is_sound"]

_KEEP = 0.5  # weight of the past
_COUNTS = 16  # numbers of partitions whose demands are kept
_LEAST_USEFUL_S = 0.05  # less tells nothing about the share of CPU time


def is_sound(value: object) -> TypeGuard[float]:
    """Whether a metric is a finite number, at least 0.

    >>> [is_sound(one) for one in (0, 2.5, -1, float("nan"), None, "3")]
    [True, True, False, False, False, False]
    """
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


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
        memory_mb: its peak execution memory in MB; default 0, unknown: Spark says 0 of operators
            that do not tell.
        shuffle_bytes: the bytes that it read from shuffles; default 0.
        requested_at: the executor of its first attempt, if a speculative copy elsewhere finished
            first; default empty.
    """

    index: int
    executor: str
    run_s: float
    rows: float
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

    @property
    def odd(self) -> str:
        """The first metric that cannot be; empty if all can."""
        for name in ("run_s", "rows", "cpu_s", "wait_s", "memory_mb", "shuffle_bytes"):
            if not is_sound(getattr(self, name)):
                return f"{name}={getattr(self, name)!r}"
        return ""


@dataclass(frozen=True)
class CycleSeen:
    """A finished cycle.

    Args:
        length_s: from its beginning to the next one's, or to its end where that came later.
        tasks: one a partition.
    """

    length_s: float
    tasks: tuple[TaskSeen, ...]


@dataclass(frozen=True)
class _Need:
    """The smoothed needs of a partition.

    ``guess`` is of a cycle before the executor's share was known: the executor, and the cores if
    that share were 0 and 1.
    """

    cores: float
    memory_mb: float
    bytes_per_s: float
    guess: tuple[str, float, float] | None = None


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
        self._wait_s: dict[str, float] = {}
        self._share: dict[str, float] = {}
        self._preferred: Sequence[tuple[str, ...]] = ()

    def record(self, cycle: CycleSeen) -> None:
        """Take the tasks of a cycle into account; one with odd metrics keeps what it needed.

        O(tasks).
        """
        count = len(cycle.tasks)
        before = self._needs.pop(count, {})
        if before.keys() != {task.index for task in cycle.tasks}:
            before = {}
        found: dict[int, _Need] = {}
        for task in cycle.tasks:
            if task.odd:
                continue
            name = task.executor
            self._useful_s[name] = self._useful_s.get(name, 0.0) + task.useful_s
            self._wait_s[name] = self._wait_s.get(name, 0.0) + task.wait_s
            least, most = task.cpu_s / cycle.length_s, task.useful_s / cycle.length_s
            need = _Need(
                max(least, most * self._share.get(name, 1.0)),
                task.memory_mb,
                task.shuffle_bytes / cycle.length_s,
                None if name in self._share else (name, least, most),
            )
            found[task.index] = _mixed(before.get(task.index, need), need)
        mean = sum(need.cores for need in found.values()) / max(1, len(found))
        for task in cycle.tasks:
            if task.index not in found:
                found[task.index] = before.get(task.index, _Need(mean, 0.0, 0.0))
        self._needs[count] = found
        self._latest = count
        while len(self._needs) > _COUNTS:
            del self._needs[next(iter(self._needs))]

    def read(self, executor: str, cpu_s: float, tasks_s: float = 0.0) -> None:
        """Take the CPU time of an executor's processes since the last reading into account.

        ``tasks_s`` is the run time of all its tasks, those of other operators and jobs, too, whose
        CPU time is not this operator's. 0 (default): only this operator's tasks ran.

        Needs that were guessed without its share are corrected: on an executor that is throttled,
        the time of a task is many times its CPU time.
        """
        useful_s, wait_s = self._useful_s.pop(executor, 0.0), self._wait_s.pop(executor, 0.0)
        if useful_s < _LEAST_USEFUL_S:
            return
        share = min(1.0, cpu_s / max(useful_s, tasks_s - wait_s))
        self._share[executor] = _KEEP * self._share.get(executor, share) + (1 - _KEEP) * share
        for needs in self._needs.values():
            for index, need in needs.items():
                if need.guess is not None and need.guess[0] == executor:
                    cores = max(need.guess[1], need.guess[2] * self._share[executor])
                    needs[index] = replace(need, cores=cores, guess=None)

    def prefer(self, hosts: Sequence[tuple[str, ...]]) -> None:
        """Set the hosts that store the data of each partition, as the source says."""
        self._preferred = hosts

    def usage(self, index: int) -> Resources | None:
        """What a partition of the last cycle uses; None if it is unknown."""
        need = self._needs.get(self._latest, {}).get(index)
        if need is None:
            return None
        return Resources(min(need.cores, float(self._task_cpus)), need.memory_mb)

    def resources(self, count: int, cores: float) -> list[Resources]:
        """The demand of each of ``count`` partitions on so many cores (0: unknown).

        Of another number than before, each has an even share of the work. Memory is needed while a
        task runs, so a task that waits for its turn needs as much less.
        """
        last, known = self._needs.get(self._latest, {}), self._needs.get(count, {})
        even = _Need(
            sum(need.cores for need in last.values()) / max(count, 1),
            max((need.memory_mb for need in last.values()), default=0.0),
            0.0,
        )
        turns = max(1.0, self._task_cpus * count / cores) if cores else 1.0
        needs = [known.get(i, even) for i in range(count)]
        most = float(self._task_cpus)
        return [Resources(min(need.cores, most), need.memory_mb / turns) for need in needs]

    def tasks(
        self, operator: str, demands: Sequence[Resources], cached: Sequence[Mapping[str, float]]
    ) -> tuple[Task, ...]:
        """The partitions as tasks: their demands, their data, and what is cached of it where."""
        count = len(demands)
        known = self._needs.get(count, {})
        near = self._preferred if len(self._preferred) == count else [()] * count
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

    memory = before.memory_mb
    if now.memory_mb:  # 0 is unknown
        memory = max(mix(before.memory_mb, now.memory_mb), now.memory_mb)
    bytes_per_s = mix(before.bytes_per_s, now.bytes_per_s)
    if (before.guess is None) != (now.guess is None):  # beside what is known a guess is nothing
        return _Need((now if now.guess is None else before).cores, memory, bytes_per_s)
    return _Need(mix(before.cores, now.cores), memory, bytes_per_s, now.guess)
