"""Round robin over the workers, or as in Twister2.

Sources: CETSA, Algorithm 1, line 20 (no runtime information yet); Twister2's round robin streaming
scheduler, where instance i of every operator goes to container i mod n. The original checks no
sizes, and places nothing at all unless there are more instances than containers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from scheduling.cost import rent_per_s
from scheduling.model import Assignment, JobGraph, Plan, Snapshot, Unplaced
from scheduling.model.checks import flag, one_of
from scheduling.room import Room

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

    Complexity: O(tasks x log workers) while workers have room, O(tasks x workers) at worst.
    """

    restart: bool = False
    compat: Literal["twister2"] | None = None
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def __post_init__(self) -> None:
        flag("restart", self.restart)
        one_of("compat", self.compat, (None, "twister2"))

    @property
    def name(self) -> str:
        """``round-robin``, or ``twister2-round-robin`` when it restarts."""
        return "twister2-round-robin" if self.restart or self.compat else "round-robin"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        if self.compat:
            return self._original(graph, snapshot)
        room, turn, count = Room(graph, snapshot), 0, max(len(snapshot.workers), 1)
        for operator, tasks in graph.operators.items():
            turn = 0 if self.restart else turn
            for task in tasks:
                whose = f"instance {task.index} of {operator}" if self.restart else "next"

                def why(passed: int, i: int, whose: str = whose) -> str:
                    return f"{whose}: turn of worker {i + 1} of {count}"

                if room.first(task, room.turn(turn % count), why):
                    # Twister2: container i mod n, regardless of skipped ones.
                    turn = turn + 1 if self.restart else room.at[task.id] + 1
        return room.plan(self.name)

    def _original(self, graph: JobGraph, snapshot: Snapshot) -> Plan:
        names = [worker.id for worker in snapshot.workers]
        if len(names) >= len(graph.tasks) or not names:
            reason = f"{len(names)} containers are not fewer than {len(graph.tasks)} instances"
            reason = reason if names else "there is no worker"
            left = tuple(Unplaced(task.id, reason) for task in graph.tasks)
            return Plan((), left, policy=self.name)
        placed = tuple(
            Assignment(task.id, names[i % len(names)], f"{i} mod {len(names)}")
            for tasks in graph.operators.values()
            for i, task in enumerate(tasks)
        )
        plan = Plan(placed, policy=self.name)
        return replace(plan, score=rent_per_s(plan, snapshot))


def without_history(graph: JobGraph, snapshot: Snapshot, name: str) -> Plan:
    """Round robin for a policy that needs runtime information (CETSA, Algorithm 1, line 20)."""
    why = "round-robin: no worker has processed a tuple"
    if snapshot.has_history:
        why = "round-robin: no worker has both tuples and their cost"
    return replace(RoundRobin().plan(graph, snapshot), policy=name, fallback=why)
