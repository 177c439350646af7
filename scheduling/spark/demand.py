"""What the partitions of a job need, and what hosts have cached for them, from its cycles.

The CPU time of a task is a share of its useful time (DS2), run time without waiting for shuffle
data: what the probe reads of its executor, over the useful time of all its tasks; without a probe
1, an upper bound. Needs are kept by number of partitions: with another one each has other rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeGuard

from cachetools import LRUCache

from scheduling.model import Resources, Task, Worker
from scheduling.model.checks import unchecked

__all__ = ["Caches", "CachesSeen", "CycleSeen", "Demand", "EntriesSeen", "TaskSeen", "is_sound"]

_KEEP = 0.5  # weight of the past
_COUNTS = 16  # numbers of partitions of which something is kept
_LEAST_USEFUL_S = 0.05  # less tells nothing about the share of CPU time
_METRICS = ("run_s", "rows", "cpu_s", "wait_s", "memory_mb", "shuffle_bytes")


def is_sound(value: object) -> TypeGuard[float]:
    """Whether a metric is a finite number, at least 0."""
    return isinstance(value, int | float) and 0 <= value < math.inf


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
        return next((f"{name}={one!r}" for name, one in found if not is_sound(one)), "")


@dataclass(frozen=True)
class CycleSeen:
    """A finished cycle: its tasks, one a partition, and how long after it the next one began."""

    length_s: float
    tasks: tuple[TaskSeen, ...]


def _mixed(old: float, new: float) -> float:
    return _KEEP * old + (1 - _KEEP) * new


@dataclass(frozen=True)
class _Need:
    """The smoothed needs of a partition."""

    cores: float = 0.0
    memory_mb: float = 0.0
    bytes_per_s: float = 0.0
    # Before the share of its executor is known: that, and the cores if the share were 0 and 1.
    guess: tuple[str, float, float] | None = None

    def after(self, before: _Need) -> _Need:
        cores, memory_mb = _mixed(before.cores, self.cores), before.memory_mb
        if (before.guess is None) != (self.guess is None):  # beside what is known a guess is none
            cores = (before if before.guess is None else self).cores
        if self.memory_mb:  # 0 is unknown
            memory_mb = max(_mixed(memory_mb, self.memory_mb), self.memory_mb)
        guess = None if before.guess is None else self.guess
        return _Need(cores, memory_mb, _mixed(before.bytes_per_s, self.bytes_per_s), guess)


class Demand:
    """The needs of partitions, smoothed over cycles; a task takes ``task_cpus`` cores at most."""

    def __init__(self, task_cpus: int = 1) -> None:
        self._task_cpus, self._latest = task_cpus, 0
        self._needs = LRUCache[int, dict[int, _Need]](_COUNTS)
        self._useful_s, self._wait_s = (
            defaultdict[str, float](float),
            defaultdict[str, float](float),
        )
        self._share: dict[str, float] = {}
        self.preferred: Sequence[tuple[str, ...]] = ()  # hosts that store a partition's data

    def record(self, cycle: CycleSeen) -> None:
        """Take a cycle into account; a task with odd metrics keeps what it needed. O(tasks)."""
        count, length_s = len(cycle.tasks), cycle.length_s
        before = self._needs.get(count, {})
        if before.keys() != {task.index for task in cycle.tasks}:
            before = {}
        found: dict[int, _Need] = {}
        for task in cycle.tasks:
            if task.odd:
                continue
            name, least, most = task.executor, task.cpu_s / length_s, task.useful_s / length_s
            self._useful_s[name] += task.useful_s
            self._wait_s[name] += task.wait_s
            cores = max(least, most * self._share.get(name, 1.0))
            guess = None if name in self._share else (name, least, most)
            need = _Need(cores, task.memory_mb, task.shuffle_bytes / length_s, guess)
            found[task.index] = need.after(before.get(task.index, need))
        mean = _Need(sum(need.cores for need in found.values()) / max(1, len(found)))
        odd = {one.index: before.get(one.index, mean) for one in cycle.tasks if one.odd}
        self._latest, self._needs[count] = count, found | odd

    def read(self, executor: str, cpu_s: float, tasks_s: float = 0.0) -> None:
        """Take the CPU time of an executor's processes since the last reading into account.

        ``tasks_s``: of all its tasks, also of other jobs; 0: no other ran. What was guessed without
        its share is corrected: on a throttled one a task runs for many times its CPU time.
        """
        useful_s, wait_s = self._useful_s.pop(executor, 0.0), self._wait_s.pop(executor, 0.0)
        if useful_s < _LEAST_USEFUL_S:
            return
        share = min(1.0, cpu_s / max(useful_s, tasks_s - wait_s))
        share = self._share[executor] = _mixed(self._share.get(executor, share), share)
        for needs in self._needs.values():
            for index, need in needs.items():
                if need.guess is not None and need.guess[0] == executor:
                    cores = max(need.guess[1], need.guess[2] * share)
                    needs[index] = replace(need, cores=cores, guess=None)

    def usage(self, index: int) -> Resources | None:
        """What a partition of the last cycle uses; None if it is unknown."""
        need = self._needs.get(self._latest, {}).get(index)
        if need is None:
            return None
        return _resources(min(need.cores, self._task_cpus), need.memory_mb)

    def resources(self, count: int, workers: Sequence[Worker] = ()) -> list[Resources]:
        """The demand of each of ``count`` partitions: never more than the largest worker has.

        Of another number than before, each has an even share of the work. Tasks that run in turns
        need as much less memory.
        """
        last, known = self._needs.get(self._latest, {}).values(), self._needs.get(count, {})
        cores = sum(need.cores for need in last) / max(count, 1)
        even = _Need(cores, max((need.memory_mb for need in last), default=0.0))
        at_once = sum(worker.capacity.cpu_cores for worker in workers)
        turns = max(1.0, self._task_cpus * count / at_once) if at_once else 1.0
        most = min(self._task_cpus, max((w.usable.cpu_cores for w in workers), default=math.inf))
        most_mb = max((worker.usable.memory_mb for worker in workers), default=math.inf)
        needs = (known.get(i, even) for i in range(count))
        return [_resources(min(n.cores, most), min(n.memory_mb / turns, most_mb)) for n in needs]

    def tasks(
        self, operator: str, demands: Sequence[Resources], cached: Sequence[Mapping[str, float]]
    ) -> tuple[Task, ...]:
        """The partitions as tasks: their demands, their data, and what is cached of it where."""
        known, count = self._needs.get(len(demands), {}), len(demands)
        near = self.preferred if len(self.preferred) == count else [()] * count
        return tuple(
            unchecked(
                Task,
                id=f"{operator}-{i}",
                operator=operator,
                index=i,
                demand=demand,
                preferred=near[i],
                input_bytes_per_s=known.get(i, _Need()).bytes_per_s,
                cached=cached[i],
            )
            for i, demand in enumerate(demands)
        )


def _resources(cores: float, memory_mb: float) -> Resources:
    return unchecked(Resources, cpu_cores=float(cores), memory_mb=memory_mb)


@dataclass(frozen=True)
class EntriesSeen:
    """The cache of the host where a partition ran.

    Args:
        held_bytes: of all its entries, those of other partitions included.
        loaded: how many entries the partition has loaded in this cycle.
    """

    held_bytes: float
    loaded: int


@dataclass(frozen=True)
class CachesSeen:
    """What a job says of its caches after a cycle.

    Args:
        table_bytes: what each host loads once, whichever partitions it runs; default 0.
        entries: by partition, the cache of entries on its host; default none.
    """

    table_bytes: float = 0.0
    entries: Mapping[int, EntriesSeen] = field(default_factory=dict, hash=False)


@dataclass
class _Host:
    """What a host has cached: the table or not, and entries, by number of partitions and these."""

    has_table: bool = False
    held_bytes: float = 0.0
    loaded: LRUCache[int, Any] = field(default_factory=lambda: LRUCache(_COUNTS))


class Caches:
    """The bytes that hosts have cached for partitions, so that a move has its true price.

    Of a table every partition has an even share: those of a host load it once. Entries are those of
    the partitions that loaded them, in proportion.
    """

    def __init__(self) -> None:
        self._table_bytes, self._hosts = 0.0, dict[str, _Host]()

    def keep(self, hosts: Collection[str]) -> None:
        """Set the hosts that have executors; the others are forgotten."""
        self._hosts = {name: self._hosts.get(name, _Host()) for name in sorted(hosts)}

    def record(self, count: int, hosts: Mapping[int, str], seen: CachesSeen) -> None:
        """Take a cycle of ``count`` partitions into account, which ran on ``hosts``."""
        self._table_bytes, held = seen.table_bytes, defaultdict[str, float](float)
        for partition, name in hosts.items():
            host = self._hosts[name]
            host.has_table |= seen.table_bytes > 0
            if (entries := seen.entries.get(partition)) is not None:
                held[name] = host.held_bytes = max(held[name], entries.held_bytes)
                host.loaded.setdefault(count, defaultdict(float))[partition] += entries.loaded

    def of(self, count: int) -> list[dict[str, float]]:
        """By host, what is cached there of each of ``count`` partitions; see ``Task.cached``."""
        share = self._table_bytes * min(1.0, max(1, len(self._hosts)) / count)
        table = {name: share for name, host in self._hosts.items() if share and host.has_table}
        if not any(count in host.loaded for host in self._hosts.values()):
            return [table] * count  # one for all: a search looks at it once
        found = [dict(table) for _ in range(count)]
        for name, host in self._hosts.items():
            loaded = host.loaded.get(count, {})
            total = sum(loaded.values())
            for partition, entries in loaded.items():
                # Where nothing was loaded the entries were there before, and are anybody's.
                size = host.held_bytes * (entries / total if total else 1 / len(loaded))
                if size and partition < count:
                    found[partition][name] = found[partition].get(name, 0.0) + size
        return found
