"""Sticky: consistent hashing with bounded loads.

Assumption: moves of tasks are expensive. When a worker is added or removed, few tasks move.
Workers and tasks are points on a circle; a task goes to the next worker that is not above its
bound, ``balance`` times the mean number of tasks for a worker of its size.

Source: V. Mirrokni, M. Thorup, M. Zadimoghaddam, "Consistent Hashing with Bounded Loads", SODA
2018, for comparison. Points are computed by BLAKE2, so they are the same in every process.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.policies.capacity import CapacityLedger

__all__ = ["Sticky"]


@dataclass(frozen=True)
class Sticky:
    """Place each task on the next worker of the circle that is below its bound.

    Args:
        balance: the maximum number of tasks of a worker relative to its share of the slots; 1 or
            more; default 1.25.
        points: the number of points of a worker on the circle; default 16.

    Raises:
        ArgumentError: a number is below 1.

    Complexity: O((tasks + workers x points) x log(workers x points)) while workers have room.
    """

    balance: float = 1.25
    points: int = 16
    name: ClassVar[str] = "sticky"

    def __post_init__(self) -> None:
        if not self.balance >= 1:
            raise ArgumentError(f"balance={self.balance!r}: give 1 or more")
        if self.points < 1:
            raise ArgumentError(f"points={self.points!r}: give 1 or more")

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        ledger = CapacityLedger(graph, snapshot)
        circle = sorted(
            (_point(f"{worker.id}\0{p}"), i)
            for i, worker in enumerate(ledger.workers)
            for p in range(self.points)
        )
        slots = sum(ledger.slots)
        share = self.balance * len(graph.tasks) / slots if slots else 0.0
        bounds = [math.ceil(share * free) for free in ledger.slots]
        taken = [0] * len(bounds)
        for task in graph.tasks:
            start = bisect.bisect_left(circle, (_point(task.id), -1))
            seen: set[int] = set()
            over = -1
            for ahead in range(len(circle)):
                i = circle[(start + ahead) % len(circle)][1]
                if i in seen:
                    continue
                seen.add(i)
                if ledger.fits(task, i):
                    if taken[i] < bounds[i]:
                        ledger.place(task, i, f"the {len(seen)}. worker on the circle")
                        taken[i] += 1
                        break
                    over = i if over < 0 else over
                if len(seen) == len(bounds):
                    break
            if task.id not in ledger.at and over >= 0:
                ledger.place(task, over, "above its bound: no other worker has room")
                taken[over] += 1
        return ledger.plan(self.name)


def _point(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
