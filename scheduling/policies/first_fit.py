"""First fit: few workers, the first ones in the list.

Source: Twister2's first fit streaming scheduler. Its containers all have one size, made from
defaults and not from the workers: two instances and 1 % more, in whole units. Its check adds the
padding as one unit to each resource, which leaves room for one default instance only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from scheduling.errors import InfeasibleError
from scheduling.model import JobGraph, Plan, Resources, Snapshot
from scheduling.model.checks import instance, one_of
from scheduling.room import Room

__all__ = ["CONTAINER", "INSTANCE", "FirstFit"]

INSTANCE = Resources(cpu_cores=2.0, memory_mb=512.0, disk_mb=500.0)
"""What an instance takes in Twister2 where nothing is said."""

CONTAINER = Resources(cpu_cores=4, memory_mb=1034, disk_mb=1010)
"""The size of a container in Twister2's first fit."""

_PADDING = Resources(1.0, 1.0, 1.0)  # its percentage, taken as a number


@dataclass(frozen=True)
class FirstFit:
    """Place the tasks in descending order of memory, each on the first worker with room.

    Args:
        compat: ``"twister2"`` sorts operators by the memory of an instance, uses the workers as
            containers of one size, ``container``, and checks like the original. None (default): the
            workers' own sizes.
        container: the size of a container, only for ``compat``; default Twister2's.

    Complexity: O(tasks x log tasks + tasks x workers in use).
    """

    compat: Literal["twister2"] | None = None
    container: Resources = CONTAINER
    name: ClassVar[str] = "first-fit"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        one_of("compat", self.compat, (None, "twister2"))
        instance("container", self.container, Resources)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        if self.compat:
            return self._original(graph, room)
        why = f"the first of {len(room.workers)} workers with room"
        for task in sorted(graph.tasks, key=lambda task: -task.demand.memory_mb):
            room.first(task, room.open, lambda passed, i: why)
        return room.plan(self.name)

    def _original(self, graph: JobGraph, room: Room) -> Plan:
        operators = sorted(graph.operators.values(), key=lambda tasks: -tasks[0].demand.memory_mb)
        used: list[Resources] = []
        for task in (task for tasks in operators for task in tasks):
            need = task.demand + _PADDING
            holds = (i for i, taken in enumerate(used) if (taken + need).within(self.container))
            at = next(holds, len(used))
            if at == len(used):
                if not need.within(self.container):
                    raise InfeasibleError(
                        f"task {task.id!r} needs {task.demand}, and one unit of padding of each; "
                        f"a container has {self.container}. Give a larger container"
                    )
                if at == len(room.workers):
                    full = f"all {at} containers are full" if at else "there is no worker"
                    room.leave(task, full)
                    continue
                used.append(Resources(0, 0))
            used[at] += task.demand
            room.place(task, at, f"container {at} of {len(used)} in use")
        return room.plan(self.name)
