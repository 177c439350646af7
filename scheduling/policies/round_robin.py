"""Round robin over the workers, or as in Twister2.

Assumes tasks and workers that are alike: one task after the other goes to the next worker. A
worker without room is passed over.

Sources: CETSA, Algorithm 1, line 20 (no runtime information yet); Twister2's round robin streaming
scheduler, where instance i of every operator goes to container i mod n. The original checks no
sizes, and places nothing at all unless there are more instances than containers; its container
sizes are in :mod:`scheduling.policies.twister2`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from scheduling.model import Assignment, JobGraph, Plan, Snapshot, Unplaced
from scheduling.policies.capacity import CapacityLedger

__all__ = ["RoundRobin", "without_history"]


@dataclass(frozen=True)
class RoundRobin:
    """Place one task after the other on the next worker.

    Args:
        restart: whether every operator starts at the first worker, as in Twister2; default False:
            it continues where the last operator ended.
        compat: ``"twister2"`` follows the original's code: no check of sizes, and no placement
            unless there are more tasks than workers. Such a plan may exceed the capacity of a
            worker. It implies ``restart``. None (default): with checks.

    Complexity: O(tasks) while workers have room, O(tasks x workers) at worst.
    """

    restart: bool = False
    compat: Literal["twister2"] | None = None

    @property
    def name(self) -> str:
        """``round-robin``, or ``twister2-round-robin`` when it restarts."""
        return "twister2-round-robin" if self.restart or self.compat else "round-robin"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        if self.compat:
            return self._original(graph, snapshot)
        ledger = CapacityLedger(graph, snapshot)
        count = len(ledger.workers)
        turn = 0
        for operator, tasks in graph.operators.items():
            if self.restart:
                turn = 0
            for task in tasks:
                for ahead in range(count):
                    i = (turn + ahead) % count
                    if ledger.fits(task, i):
                        whose = f"instance {task.index} of {operator}" if self.restart else "next"
                        passed = f", {ahead} without room passed over" if ahead else ""
                        ledger.place(task, i, f"{whose}: turn of worker {i + 1} of {count}{passed}")
                        # Twister2: container i mod n, regardless of skipped ones.
                        turn = turn + 1 if self.restart else i + 1
                        break
        return ledger.plan(self.name)

    def _original(self, graph: JobGraph, snapshot: Snapshot) -> Plan:
        count = len(snapshot.workers)
        if count >= len(graph.tasks):
            reason = f"{count} containers are not fewer than {len(graph.tasks)} instances"
            left = tuple(Unplaced(task.id, reason) for task in graph.tasks)
            return Plan((), left, policy=self.name)
        placed = tuple(
            Assignment(task.id, snapshot.workers[i % count].id, f"{i} mod {count}")
            for tasks in graph.operators.values()
            for i, task in enumerate(tasks)
        )
        used = {one.worker for one in placed}
        score = sum(worker.price_per_s for worker in snapshot.workers if worker.id in used)
        return Plan(placed, score=score, policy=self.name)


def without_history(graph: JobGraph, snapshot: Snapshot, name: str) -> Plan:
    """Round robin for a policy that needs runtime information (CETSA, Algorithm 1, line 20)."""
    plan = RoundRobin().plan(graph, snapshot)
    return replace(plan, policy=name, fallback="round-robin: no worker has processed a tuple")
