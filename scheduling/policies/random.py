"""Random: Flink's default.

Assumes nothing about tasks and workers except room. Each task gets a uniformly random free slot
in which it fits, so a worker with more free slots is drawn more often.

Source: CETSA and LBA-CE, section 2.1 (how Flink selects slots); the baseline of its figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random as Generator
from typing import ClassVar

from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.policies.capacity import CapacityLedger

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

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        ledger = CapacityLedger(graph, snapshot)
        draw = Generator(self.seed)
        slots = [i for i, free in enumerate(ledger.slots) for _ in range(free)]
        for task in graph.tasks:
            if not slots:
                break
            at = draw.randrange(len(slots))
            if not ledger.fits(task, slots[at]):
                fitting = [at for at, i in enumerate(slots) if ledger.fits(task, i)]
                if not fitting:
                    continue
                at = draw.choice(fitting)
            ledger.place(task, slots[at], f"drawn from {len(slots)} free slots")
            slots[at] = slots[-1]
            slots.pop()
        return ledger.plan(self.name)
