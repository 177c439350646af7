"""Spread: the least loaded worker next, without prices.

Assumes that only balance matters: every worker is used before any gets a second task, workers with
more capacity get more. What CETSA saves is measured against this.

Source: Flink's evenly spread-out slots, and Kubernetes' least-allocated score, as a comparison.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

from scheduling.load import CPU_WEIGHT, task_load
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.policies.capacity import CapacityLedger

__all__ = ["Spread"]


@dataclass(frozen=True)
class Spread:
    """Place each task, the largest first, on the worker with the least planned load.

    Args:
        cpu_weight: alpha of Eq. 28.

    Complexity: O(tasks x log(tasks + workers)), O(tasks x workers) where many have no room.
    """

    cpu_weight: float = CPU_WEIGHT
    name: ClassVar[str] = "spread"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        ledger = CapacityLedger(graph, snapshot)
        queue = [(0.0, 0.0, i) for i, free in enumerate(ledger.slots) if free]
        heapq.heapify(queue)
        order = sorted(graph.tasks, key=lambda t: (-t.demand.cpu_cores, -t.demand.memory_mb))
        for task in order:
            aside = []
            while queue:
                load, taken, i = heapq.heappop(queue)
                if ledger.fits(task, i):
                    worker = ledger.workers[i]
                    load += task_load(task.demand, worker.capacity, self.cpu_weight)
                    ledger.place(task, i, f"the least load, then {load:.0%}")
                    if ledger.slots[i]:
                        taken = 1 - ledger.slots[i] / worker.slots
                        heapq.heappush(queue, (load, taken, i))
                    break
                aside.append((load, taken, i))
            for entry in aside:
                heapq.heappush(queue, entry)
        return ledger.plan(self.name)
