"""What the partitions of a job need, and what hosts have cached for them, from its cycles.

The CPU time of a task is a share of its useful time (DS2), run time without waiting for shuffle
data: what the probe reads of all processes of its executor, over the useful time of their tasks.
Without a probe the share is 1, an upper bound. All is kept for each number of partitions: partition
3 of 8 holds other rows than 3 of 12, and adaptive execution changes the number all the time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeGuard

from scheduling.model import Resources, Task, Worker
from scheduling.model.checks import unchecked

__all__ = ["Caches", "CachesSeen", "CycleSeen", "Demand", "EntriesSeen", "TaskSeen", "is_sound"]

_KEEP = 0.5  # weight of the past
_COUNTS = 16  # numbers of partitions of which something is kept
_LEAST_USEFUL_S = 0.05  # less tells nothing about the share of CPU time


def is_sound(value: object) -> TypeGuard[float]:
    """Whether a metric is a finite number, at least 0."""
    return isinstance(value, int | float) and 0 <= value < math.inf


def forget(known: dict[Any, Any], most: int) -> None:
    """Drop the oldest entries beyond some."""
    while len(known) > most:
        del known[next(iter(known))]


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
        for name in ("run_s", "rows", "cpu_s", "wait_s", "memory_mb", "shuffle_bytes"):
            if not is_sound(getattr(self, name)):
                return f"{name}={getattr(self, name)!r}"
        return ""


@dataclass(frozen=True)
class CycleSeen:
    """A finished cycle: its tasks, one a partition, and how long after it the next one began."""

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
    """The needs of partitions, smoothed over cycles; a task takes ``task_cpus`` cores at most."""

    def __init__(self, task_cpus: int = 1) -> None:
        self._task_cpus = task_cpus
        self._needs: dict[int, dict[int, _Need]] = {}
        self._latest = 0
        self._useful_s = defaultdict[str, float](float)
        self._wait_s = defaultdict[str, float](float)
        self._share: dict[str, float] = {}
        self.preferred: Sequence[tuple[str, ...]] = ()
        """The hosts that store the data of each partition, as the source says."""

    def record(self, cycle: CycleSeen) -> None:
        """Take a cycle into account; a task with odd metrics keeps what it needed. O(tasks)."""
        count = len(cycle.tasks)
        before = self._needs.pop(count, {})
        if before.keys() != {task.index for task in cycle.tasks}:
            before = {}
        found: dict[int, _Need] = {}
        for task in cycle.tasks:
            if task.odd:
                continue
            name = task.executor
            self._useful_s[name] += task.useful_s
            self._wait_s[name] += task.wait_s
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
            if task.odd:
                found[task.index] = before.get(task.index, _Need(mean, 0.0, 0.0))
        self._needs[count], self._latest = found, count
        forget(self._needs, _COUNTS)

    def read(self, executor: str, cpu_s: float, tasks_s: float = 0.0) -> None:
        """Take the CPU time of an executor's processes since the last reading into account.

        ``tasks_s`` is the run time of all its tasks, those of other operators and jobs, too, whose
        CPU time is not this operator's; 0: only this operator's tasks ran. Needs that were guessed
        without its share are corrected: where an executor is throttled, the time of a task is many
        times its CPU time.
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

    def usage(self, index: int) -> Resources | None:
        """What a partition of the last cycle uses; None if it is unknown."""
        need = self._needs.get(self._latest, {}).get(index)
        return (
            None if need is None else _resources(min(need.cores, self._task_cpus), need.memory_mb)
        )

    def resources(self, count: int, workers: Sequence[Worker] = ()) -> list[Resources]:
        """The demand of each of ``count`` partitions: never more than the largest worker has.

        Of another number than before, each has an even share of the work. Memory is needed while a
        task runs, so a task that waits for its turn needs as much less.
        """
        last, known = self._needs.get(self._latest, {}), self._needs.get(count, {})
        cores = sum(need.cores for need in last.values()) / max(count, 1)
        even = _Need(cores, max((need.memory_mb for need in last.values()), default=0.0), 0.0)
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
        count, nothing = len(demands), _Need(0.0, 0.0, 0.0)
        known = self._needs.get(count, {})
        near = self.preferred if len(self.preferred) == count else [()] * count
        return tuple(
            unchecked(
                Task,
                id=f"{operator}-{i}",
                operator=operator,
                index=i,
                demand=demand,
                preferred=near[i],
                input_bytes_per_s=known.get(i, nothing).bytes_per_s,
                cached=cached[i],
            )
            for i, demand in enumerate(demands)
        )


def _resources(cores: float, memory_mb: float) -> Resources:
    return unchecked(Resources, cpu_cores=float(cores), memory_mb=memory_mb)


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


class Caches:
    """The bytes that hosts have cached for partitions, so that a move has its true price.

    Of a table every partition has an even share, so that a host's even share of the partitions
    loads it once. Entries are those of the partitions that loaded them, in proportion.
    """

    def __init__(self) -> None:
        self._hosts: frozenset[str] = frozenset()
        self._table_bytes = 0.0
        self._open: set[str] = set()  # hosts that have the table
        self._held: dict[str, float] = {}
        self._loaded: dict[int, dict[tuple[int, str], float]] = {}

    def keep(self, hosts: Collection[str]) -> None:
        """Forget the hosts that have no executor any more."""
        self._hosts = frozenset(hosts)
        self._open &= self._hosts
        self._held = {host: size for host, size in self._held.items() if host in self._hosts}
        for count, loaded in self._loaded.items():
            there = {key: entries for key, entries in loaded.items() if key[1] in self._hosts}
            self._loaded[count] = there

    def record(self, count: int, hosts: Mapping[int, str], seen: CachesSeen) -> None:
        """Take a cycle of ``count`` partitions into account, which ran on ``hosts``."""
        self._table_bytes = seen.table_bytes
        if seen.table_bytes:
            self._open.update(hosts.values())
        held: dict[str, float] = {}
        loaded = self._loaded.pop(count, {})
        for partition, entries in seen.entries.items():
            if (host := hosts.get(partition)) is not None:
                held[host] = max(held.get(host, 0.0), entries.held_bytes)
                key = partition, host
                loaded[key] = loaded.get(key, 0.0) + entries.loaded
        self._held |= held
        self._loaded[count] = loaded
        forget(self._loaded, _COUNTS)

    def of(self, count: int) -> list[dict[str, float]]:
        """By host, what is cached there of each of ``count`` partitions; see ``Task.cached``."""
        share = self._table_bytes * min(1.0, max(1, len(self._hosts)) / count)
        table = dict.fromkeys(sorted(self._open), share) if share else {}
        loaded = self._loaded.get(count)
        if not loaded:
            return [table] * count  # one for all: a search looks at it once
        found = [dict(table) for _ in range(count)]
        total, users = defaultdict[str, float](float), defaultdict[str, int](int)
        for (_, host), entries in loaded.items():
            total[host] += entries
            users[host] += 1
        for (partition, host), entries in loaded.items():
            # Where nothing was loaded the entries were there before, and are anybody's.
            part = entries / total[host] if total[host] else 1 / users[host]
            size = self._held.get(host, 0.0) * part
            if size and partition < count:
                found[partition][host] = found[partition].get(host, 0.0) + size
        return found
