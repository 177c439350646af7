"""The needs of a job's partitions, and what hosts have cached for them, from its cycles.

The CPU time of a task is a share of its useful time (DS2), run time without waiting for shuffle
data: what the probe reads of its executor, over the useful time of all its tasks; without a probe
1, an upper bound. With another number of partitions each has other rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from scheduling.model import Resources, Task, Worker
from scheduling.model.checks import unchecked
from scheduling.spark.seen import TaskSeen

_COUNTS = 16  # numbers of partitions of which something is kept
_LEAST_USEFUL_S = 0.05  # less tells nothing about the share of CPU time


@dataclass(frozen=True)
class _Need:
    """The needs of a partition in its last cycle."""

    cores: float = 0.0
    memory_mb: float = 0.0
    bytes_per_s: float = 0.0
    known: bool = False  # whether the share of its executor was known: else the cores are a guess


class Demand:
    """The needs of partitions; a task takes ``task_cpus`` cores at most."""

    def __init__(self, task_cpus: int = 1) -> None:
        self._task_cpus, self._needs = task_cpus, LRUCache[int, dict[int, _Need]](_COUNTS)
        self._latest: dict[int, _Need] = {}
        self._worked: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        self._share: dict[str, float] = {}

    def ran(self, tasks: Sequence[TaskSeen]) -> None:
        """Tasks have run that the next reading of their executors is about."""
        for task in tasks:
            if not task.odd:
                useful_s, wait_s = self._worked[task.executor]
                self._worked[task.executor] = useful_s + task.useful_s, wait_s + task.wait_s

    def read(self, executor: str, cpu_s: float, tasks_s: float) -> None:
        """Take the CPU time of an executor's processes since the last reading into account.

        ``tasks_s``: of all its tasks, also of other jobs; NaN: unknown, as if no other ran.
        """
        useful_s, wait_s = self._worked.pop(executor, (0.0, 0.0))
        if useful_s >= _LEAST_USEFUL_S:
            self._share[executor] = min(1.0, cpu_s / max(useful_s, tasks_s - wait_s))

    def record(self, length_s: float, tasks: Sequence[TaskSeen]) -> None:
        """Take a cycle into account; a task with odd metrics keeps what it needed. O(tasks)."""
        before, found = self._needs.get(len(tasks), {}), dict[int, _Need]()
        for task in tasks:
            if not task.odd:
                old, share = before.get(task.index, _Need()), self._share.get(task.executor)
                useful_s = task.useful_s * (1.0 if share is None else share)
                cores = max(task.cpu_s, useful_s) / length_s
                if share is None and old.known:  # beside what is known a guess is none
                    cores = old.cores
                memory_mb = task.memory_mb or old.memory_mb  # 0 is unknown
                known = old.known or share is not None
                found[task.index] = _Need(cores, memory_mb, task.shuffle_bytes / length_s, known)
        mean = _Need(sum(need.cores for need in found.values()) / max(1, len(found)))
        found |= {one.index: before.get(one.index, mean) for one in tasks if one.odd}
        self._latest = self._needs[len(tasks)] = found

    def usage(self) -> dict[int, Resources]:
        """Return what each partition of the last cycle used, where it is known."""
        return {i: self._resources(one.cores, one.memory_mb) for i, one in self._latest.items()}

    def tasks(
        self,
        operator: str,
        count: int,
        workers: Sequence[Worker],
        cached: Sequence[Mapping[str, float]],
        preferred: Sequence[tuple[str, ...]],
    ) -> tuple[Task, ...]:
        """The partitions as tasks: demands, their data, what is cached of it where; O(tasks).

        A task never demands more than the largest worker has. Of another number than before, each
        has an even share of the work. Tasks that run in turns need as much less memory.
        """
        known, last = self._needs.get(count, {}), self._latest.values()
        cores = sum(need.cores for need in last) / max(count, 1)
        even = _Need(cores, max((need.memory_mb for need in last), default=0.0))
        at_once = sum(worker.capacity.cpu_cores for worker in workers)
        turns = max(1.0, self._task_cpus * count / at_once) if at_once else 1.0
        most = max((worker.usable.cpu_cores for worker in workers), default=math.inf)
        most_mb = max((worker.usable.memory_mb for worker in workers), default=math.inf)
        near = preferred if len(preferred) == count else [()] * count
        found = []
        for i in range(count):
            need = known.get(i, even)
            size = self._resources(min(need.cores, most), min(need.memory_mb / turns, most_mb))
            more = {"input_bytes_per_s": need.bytes_per_s, "cached": cached[i]}
            named = {"id": f"{operator}-{i}", "operator": operator, "index": i}
            found.append(unchecked(Task, **named, demand=size, preferred=near[i], **more))
        return tuple(found)

    def _resources(self, cores: float, memory_mb: float) -> Resources:
        used = float(min(cores, self._task_cpus))
        return unchecked(Resources, cpu_cores=used, memory_mb=memory_mb)


@dataclass(frozen=True)
class CachesSeen:
    """The state of a job's caches after a cycle.

    Args:
        table_bytes: what each host loads once, whichever partitions it runs; default 0.
        entries: by partition, the bytes of all entries in its host's cache, and how many entries
            the partition has loaded in this cycle; default none.
    """

    table_bytes: float = 0.0
    entries: Mapping[int, tuple[float, int]] = field(default_factory=dict, hash=False)


class Caches:
    """The bytes that hosts have cached for partitions, so that a move has its true price.

    Of a table every partition has an even share: those of a host load it once. Entries are those of
    the partitions that loaded them, in proportion.
    """

    def __init__(self) -> None:
        self._table_bytes, self._tables = 0.0, set[str]()  # the hosts that have the table
        self._held = dict[str, float]()  # the bytes of entries, by the hosts that there are
        # By number of partitions: by host, the entries that each partition has loaded.
        self._loaded = LRUCache[int, dict[str, Counter[int]]](_COUNTS)

    def keep(self, hosts: Collection[str]) -> None:
        """Set the hosts that have executors; the others are forgotten."""
        self._held = {name: self._held.get(name, 0.0) for name in sorted(hosts)}
        self._tables &= self._held.keys()
        for loaded in self._loaded.values():
            for name in loaded.keys() - self._held.keys():
                del loaded[name]

    def record(self, count: int, hosts: Mapping[int, str], seen: CachesSeen) -> None:
        """Take a cycle of ``count`` partitions into account, which ran on ``hosts``."""
        self._table_bytes, held = seen.table_bytes, defaultdict[str, float](float)
        if seen.table_bytes > 0:
            self._tables |= set(hosts.values())
        for partition, name in hosts.items():
            if partition in seen.entries:
                size, new = seen.entries[partition]
                held[name] = self._held[name] = max(held[name], size)
                self._loaded.setdefault(count, {}).setdefault(name, Counter())[partition] += new

    def of(self, count: int) -> list[dict[str, float]]:
        """By host, what is cached there of each of ``count`` partitions; see ``Task.cached``."""
        share = self._table_bytes * min(1.0, max(1, len(self._held)) / count)
        table = {name: share for name in self._held if share and name in self._tables}
        if not (by_host := self._loaded.get(count)):
            return [table] * count  # one for all: a search looks at it once
        found = [dict(table) for _ in range(count)]
        for name, loaded in by_host.items():
            total = loaded.total()
            for partition, entries in loaded.items():
                # Where nothing was loaded the entries were there before, and are anybody's.
                size = self._held[name] * (entries / total if total else 1 / len(loaded))
                if size and partition < count:
                    found[partition][name] = found[partition].get(name, 0.0) + size
        return found
