"""GS-BFD: greedy best-fit decreasing, all or nothing per job.

Assumes jobs of equal executors, here the tasks of an operator, and one number for the size of a
demand and of what is free, (1 - theta) x cores + theta x memory in GB. The worker with the least
free is filled first, so few workers are used; prices are not looked at.

Source: the greedy scheduler for Spark on clouds that CETSA and LBA-CE compare themselves with
(section 4.4 there), theta = 0.25.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.capacity import CapacityLedger

__all__ = ["GSBFD"]

_MB_PER_GB = 1024


@dataclass(frozen=True)
class GSBFD:
    """Fill the workers with the least free, job by job, the largest job first.

    Args:
        theta: the weight of memory against cores, in [0, 1]; default 0.25.
        jobs: the unit that is placed completely or not at all: each ``"operator"`` (default), the
            ``"graph"``, or each ``"task"``.

    Raises:
        ArgumentError: theta is no share, or ``jobs`` is none of the three.

    Complexity: O(jobs x workers x log workers + tasks).
    """

    theta: float = 0.25
    jobs: Literal["operator", "graph", "task"] = "operator"
    name: ClassVar[str] = "gs-bfd"

    def __post_init__(self) -> None:
        if not 0 <= self.theta <= 1:
            raise ArgumentError(f"theta={self.theta!r}: give the weight of memory, in [0, 1]")
        if self.jobs not in ("operator", "graph", "task"):
            raise ArgumentError(f"jobs={self.jobs!r}: give 'operator', 'graph' or 'task'")

    def _size(self, cores: float, memory_mb: float) -> float:
        return (1 - self.theta) * cores + self.theta * memory_mb / _MB_PER_GB

    def _jobs(self, graph: JobGraph) -> list[Sequence[Task]]:
        jobs: list[Sequence[Task]]
        if self.jobs == "graph":
            jobs = [graph.tasks] if graph.tasks else []
        elif self.jobs == "task":
            jobs = [(task,) for task in graph.tasks]
        else:
            jobs = list(graph.operators.values())

        def size(job: Sequence[Task]) -> float:
            return sum(self._size(task.demand.cpu_cores, task.demand.memory_mb) for task in job)

        return sorted(jobs, key=lambda job: -size(job))

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the jobs by size; see :class:`scheduling.Policy`."""
        ledger = CapacityLedger(graph, snapshot)
        for job in self._jobs(graph):
            order = sorted(
                range(len(ledger.workers)),
                key=lambda i: self._size(ledger.cpu[i], ledger.memory[i]),
            )
            waiting = list(job)
            for rank, i in enumerate(order):
                still = []
                for task in waiting:
                    if ledger.slots[i] and ledger.fits(task, i):
                        ledger.place(task, i, f"the worker with the {rank + 1}. least free")
                    else:
                        still.append(task)
                waiting = still
                if not waiting:
                    break
            if waiting:
                for task in job:
                    if task.id in ledger.at:
                        ledger.release(task)
                    ledger.leave(task, self._rolled_back(job, len(waiting)))
        return ledger.plan(self.name)

    def _rolled_back(self, job: Sequence[Task], lacking: int) -> str:
        if len(job) == 1:
            return "no worker has room"
        return f"{lacking} of the {len(job)} tasks of its job have no room: all or nothing"
