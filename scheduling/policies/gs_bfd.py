"""GS-BFD, a scheduler for Spark on clouds; CETSA and LBA-CE are compared with it (section 4.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from sortedcontainers import SortedList

from scheduling.model import JobGraph, Snapshot, Task
from scheduling.model.checks import Share
from scheduling.policies.baselines import Greedy
from scheduling.room import Room

_MB_PER_GB = 1024


@dataclass(frozen=True)
class GSBFD(Greedy):
    """Fill the workers with the least free, job by job, the largest job first.

    Args:
        theta: the weight of memory against cores, in [0, 1]; default 0.25.
        jobs: what is placed completely or not at all: ``"operator"``, ``"graph"`` or ``"task"``.

    Complexity: O(jobs x workers + tasks x log workers).
    """

    theta: Share = 0.25
    jobs: Literal["operator", "graph", "task"] = "operator"
    name: ClassVar[str] = "gs-bfd"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def _size(self, cores: float, memory_mb: float) -> float:
        return (1 - self.theta) * cores + self.theta * memory_mb / _MB_PER_GB

    def _need(self, job: Sequence[Task]) -> float:
        return sum(self._size(task.demand.cpu_cores, task.demand.memory_mb) for task in job)

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        jobs: Sequence[Sequence[Task]] = [(task,) for task in graph.tasks]
        if self.jobs != "task":
            jobs = [*graph.operators.values()] if self.jobs == "operator" else [graph.tasks]
        size = [self._size(free[1], free[2]) for free in room.free]
        queue: SortedList[tuple[float, int]] = SortedList((size[i], i) for i in room.open)
        for job in sorted(jobs, key=self._need, reverse=True):
            waiting, touched = list(job), []
            for rank, (_, i) in enumerate(list(queue)):
                before = len(room.at)
                for task in waiting:
                    if i not in room.open:
                        break
                    if room.fits(task, i):
                        room.place(task, i, f"the worker with the {rank + 1}. least free")
                if len(room.at) > before:
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
