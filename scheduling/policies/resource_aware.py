"""Resource-aware: places communicating tasks close together, on workers of a suitable size.

Source: B. Peng et al., "R-Storm: Resource-Aware Scheduling in Storm", Middleware 2015, for
comparison. Here delta limits CPU, too, and resources are shares of the largest worker.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

import numpy as np

from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.room import Room

__all__ = ["ResourceAware"]


@dataclass(frozen=True)
class ResourceAware:
    """Place each task on the nearest worker in resources and network.

    The distance in the network is 0 on the worker of the task before, one half on its host, else 1.

    Complexity: O(tasks x workers) in numpy.
    """

    name: ClassVar[str] = "resource-aware"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 1.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks along the streams; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        if not room.workers:
            return room.plan(self.name)
        free = np.array(room.free)
        slots, cpu, memory, disk = free.T
        per_cpu, per_memory = 1 / max(cpu.max(), 1e-12), 1 / max(memory.max(), 1e-12)
        hosts = np.unique([worker.host for worker in room.workers], return_inverse=True)[1]
        last = int(np.argmax(np.where(slots > 0, cpu * per_cpu + memory * per_memory, -1.0)))
        for task in _along(graph):
            need = task.demand
            fits = (slots > 0) & (cpu >= need.cpu_cores)
            fits &= (memory >= need.memory_mb) & (disk >= need.disk_mb)
            if not fits.any():
                continue
            apart = np.where(hosts == hosts[last], 0.5, 1.0)
            apart[last] = 0.0
            squares = ((cpu - need.cpu_cores) * per_cpu) ** 2 + apart**2
            squares += ((memory - need.memory_mb) * per_memory) ** 2
            last = int(np.argmin(np.where(fits, squares, np.inf)))
            room.place(task, last, f"at distance {squares[last] ** 0.5:.3f}, the nearest")
            free[last] = room.free[last]
        return room.plan(self.name)


def _along(graph: JobGraph) -> list[Task]:
    """The tasks, alternating between operators, the operators breadth first along the streams."""
    follows: dict[str, dict[str, None]] = {name: {} for name in graph.operators}
    has_source: set[str] = set()
    for edge in graph.edges:
        source, target = graph.by_id[edge.source].operator, graph.by_id[edge.target].operator
        if source != target:
            follows[source][target] = None
            has_source.add(target)
    order: dict[str, None] = {}
    # Operators of a circle have no beginning; they come in the order of the graph.
    waiting = deque([name for name in graph.operators if name not in has_source])
    starts = iter(graph.operators)
    while len(order) < len(graph.operators):
        if not waiting:
            waiting.append(next(name for name in starts if name not in order))
        name = waiting.popleft()
        if name not in order:
            order[name] = None
            waiting.extend(follows[name])
    turns = (graph.operators[name] for name in order)
    return [task for turn in zip_longest(*turns) for task in turn if task is not None]
