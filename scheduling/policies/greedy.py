"""The base of policies that place one task after the other where workers have room."""

from typing import ClassVar

from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import Checked
from scheduling.room import Room


class Greedy(Checked):
    """A policy that says which worker has each task; one without weights of its own balances."""

    name: ClassVar[str]
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        return room.plan(self.name, self._place(room, graph, snapshot) or "")

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> str | None:
        """Place the tasks, those that have room; if another policy did it, which one and why."""
        raise NotImplementedError
