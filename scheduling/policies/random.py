"""Random: a free slot at random, so a worker with more of them is drawn more often.

Source: CETSA and LBA-CE, section 2.1 (Flink's default); the baseline of its figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random as Generator
from typing import ClassVar

from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import check, whole
from scheduling.room import Room

__all__ = ["Random"]


@dataclass(frozen=True)
class Random:
    """Place each task in a free slot drawn at random.

    Args:
        seed: the seed; the same seed and arguments give the same plan. Default 0.

    Complexity: O(tasks + slots) where most slots can hold most tasks, else O(tasks x slots).
    """

    seed: int = 0
    name: ClassVar[str] = "random"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def __post_init__(self) -> None:
        check(self, seed=whole)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        room, draw = Room(graph, snapshot), Generator(self.seed)
        slots = [i for i, free in enumerate(room.free) for _ in range(int(free[0]))]
        for task in graph.tasks:
            if not room.open:
                break
            at = draw.randrange(len(slots))
            if not room.fits(task, slots[at]):
                fitting = [k for k, i in enumerate(slots) if room.fits(task, i)]
                if not fitting:
                    continue
                at = draw.choice(fitting)
            room.place(task, slots[at], f"drawn from {len(slots)} free slots")
            slots[at] = slots[-1]
            slots.pop()
        return room.plan(self.name)
