"""First fit: few workers, the first ones in the list (Twister2's first fit streaming scheduler)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.room import Room

__all__ = ["FirstFit"]


@dataclass(frozen=True)
class FirstFit:
    """Place the tasks in descending order of memory, each on the first worker with room.

    Complexity: O(tasks x log tasks + tasks x workers in use).
    """

    name: ClassVar[str] = "first-fit"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        why = f"the first of {len(room.workers)} workers with room"
        for task in sorted(graph.tasks, key=lambda task: -task.demand.memory_mb):
            room.first(task, room.open, lambda passed, i: why)
        return room.plan(self.name)
