"""Spread: the least loaded worker next, without prices; what CETSA saves is measured against it.

Source: Flink's evenly spread-out slots, and Kubernetes' least-allocated score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sortedcontainers import SortedList

from scheduling.load import task_load
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.room import Room

__all__ = ["Spread"]


@dataclass(frozen=True)
class Spread:
    """Place each task, the largest first, on the worker with the least planned load.

    Complexity: O(tasks x log(tasks + workers)), O(tasks x workers) where many have no room.
    """

    name: ClassVar[str] = "spread"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        queue: SortedList[tuple[float, float, int]] = SortedList((0.0, 0.0, i) for i in room.open)
        for task in sorted(graph.tasks, key=lambda t: (-t.demand.cpu_cores, -t.demand.memory_mb)):
            entry = next((one for one in queue if room.fits(task, one[2])), None)
            if entry is None:
                continue
            load, _, i = entry
            worker = room.workers[i]
            load += task_load(task.demand, worker.capacity)
            room.place(task, i, f"the least load, then {load:.0%}")
            queue.remove(entry)
            if room.free[i][0]:
                queue.add((load, 1 - room.free[i][0] / worker.slots, i))
        return room.plan(self.name)
