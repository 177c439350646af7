"""GS-BFD: greedy best-fit decreasing, all or nothing per job; prices are not looked at.

Assumes jobs of equal executors, here the tasks of an operator, and one number for a size:
(1 - theta) x cores + theta x memory in GB. Source: the scheduler for Spark on clouds that CETSA and
LBA-CE compare themselves with (section 4.4 there).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from sortedcontainers import SortedList

from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.model.checks import check, one_of, share
from scheduling.room import Room

__all__ = ["GSBFD"]

_MB_PER_GB = 1024


@dataclass(frozen=True)
class GSBFD:
    """Fill the workers with the least free, job by job, the largest job first.

    Args:
        theta: the weight of memory against cores, in [0, 1]; default 0.25.
        jobs: what is placed completely or not at all: ``"operator"``, ``"graph"`` or ``"task"``.

    Complexity: O(jobs x workers + tasks x log workers).
    """

    theta: float = 0.25
    jobs: Literal["operator", "graph", "task"] = "operator"
    name: ClassVar[str] = "gs-bfd"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        check(self, theta=share, jobs=one_of("operator", "graph", "task"))

    def _size(self, cores: float, memory_mb: float) -> float:
        return (1 - self.theta) * cores + self.theta * memory_mb / _MB_PER_GB

    def _jobs(self, graph: JobGraph) -> list[Sequence[Task]]:
        jobs: dict[str, Iterable[Sequence[Task]]] = {
            "operator": graph.operators.values(),
            "graph": [graph.tasks],
            "task": [(task,) for task in graph.tasks],
        }

        def size(job: Sequence[Task]) -> float:
            return sum(self._size(task.demand.cpu_cores, task.demand.memory_mb) for task in job)

        return sorted(jobs[self.jobs], key=lambda job: -size(job))

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the jobs by size; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        size = [self._size(free[1], free[2]) for free in room.free]
        queue: SortedList[tuple[float, int]] = SortedList((size[i], i) for i in room.open)
        for job in self._jobs(graph):
            waiting, touched = list(job), []
            for rank, (_, i) in enumerate(list(queue)):
                here = [task for task in waiting if self._placed(room, task, i, rank)]
                if here:
                    touched.append(i)
                    waiting = [task for task in waiting if task.id not in room.at]
                if not waiting:
                    break
            lacking = f"{len(waiting)} of the {len(job)} tasks of its job have no room"
            for task in job if waiting else ():
                if task.id in room.at:
                    room.release(task)
                room.leave(task, f"{lacking}: all or nothing" if job[1:] else "no worker has room")
            for i in touched:
                queue.remove((size[i], i))
                size[i] = self._size(room.free[i][1], room.free[i][2])
                if room.free[i][0]:
                    queue.add((size[i], i))
        return room.plan(self.name)

    def _placed(self, room: Room, task: Task, i: int, rank: int) -> bool:
        return room.first(task, (i,), lambda _, i: f"the worker with the {rank + 1}. least free")
