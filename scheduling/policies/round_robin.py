"""Round robin over the workers, or as in Twister2.

Sources: CETSA, Algorithm 1, line 20; Twister2's round robin streaming scheduler, where instance i
of every operator goes to container i mod n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import check, flag
from scheduling.room import Room

__all__ = ["RoundRobin", "without_history"]


@dataclass(frozen=True)
class RoundRobin:
    """Place one task after the other on the next worker.

    Args:
        restart: whether every operator starts at the first worker, as in Twister2; default False:
            it continues where the last operator ended.

    Complexity: O(tasks x log workers) while workers have room, O(tasks x workers) at worst.
    """

    restart: bool = False
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def __post_init__(self) -> None:
        check(self, restart=flag)

    @property
    def name(self) -> str:
        """``round-robin``, or ``twister2-round-robin`` when it restarts."""
        return "twister2-round-robin" if self.restart else "round-robin"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
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


def without_history(graph: JobGraph, snapshot: Snapshot, name: str) -> Plan:
    """Round robin for a policy that needs runtime information (CETSA, Algorithm 1, line 20)."""
    why = "both tuples and their cost" if snapshot.has_history else "processed a tuple"
    plan = RoundRobin().plan(graph, snapshot)
    return replace(plan, policy=name, fallback=f"round-robin: no worker has {why}")
