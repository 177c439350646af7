"""Near in resources and network: B. Peng et al., "R-Storm", Middleware 2015.

Other than there delta limits CPU, too, and resources are shares of the largest worker's.
"""

from collections import deque
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import ClassVar

import numpy as np

from scheduling.model import JobGraph, Snapshot, Task
from scheduling.policies.baselines import Greedy
from scheduling.room import Room, have_room


@dataclass(frozen=True)
class ResourceAware(Greedy):
    """Place each task on the nearest worker in resources and network.

    The distance in the network is 0 on the worker of the task before, one half on its host, else 1.

    Complexity: O(tasks x workers) in numpy.
    """

    name: ClassVar[str] = "resource-aware"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 1.0)

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        if not room.workers:
            return
        free, needs = np.array(room.free), dict(zip(graph.by_id, graph.needs, strict=True))
        slots, cpu, memory, _ = free.T
        per_cpu, per_memory = 1 / max(cpu.max(), 1e-12), 1 / max(memory.max(), 1e-12)
        hosts = np.unique([worker.host for worker in room.workers], return_inverse=True)[1]
        last = int(np.argmax(np.where(slots > 0, cpu * per_cpu + memory * per_memory, -1.0)))
        for task in _along(graph):
            need = needs[task.id]
            fits = have_room(free, need)
            if not fits.any():
                continue
            apart = np.where(hosts == hosts[last], 0.5, 1.0)
            apart[last] = 0.0
            squares = ((cpu - need[1]) * per_cpu) ** 2 + apart**2
            squares += ((memory - need[2]) * per_memory) ** 2
            last = int(np.argmin(np.where(fits, squares, np.inf)))
            room.place(task, last, f"at distance {squares[last] ** 0.5:.3f}, the nearest")
            free[last] = room.free[last]


def _along(graph: JobGraph) -> list[Task]:
    """The tasks, alternating between operators, the operators breadth first along the streams."""
    follows: dict[str, dict[str, None]] = {name: {} for name in graph.operators}
    for edge in graph.edges:
        source, target = graph.by_id[edge.source].operator, graph.by_id[edge.target].operator
        if source != target:
            follows[source][target] = None
    fed, order = set(chain(*follows.values())), dict[str, None]()
    # Operators of a circle have no beginning; they come in the order of the graph.
    for start in ([name for name in follows if name not in fed], *([name] for name in follows)):
        waiting = deque(start)
        while waiting:
            if (name := waiting.popleft()) not in order:
                order[name] = None
                waiting.extend(follows[name])
    turns = (graph.operators[name] for name in order)
    return [task for turn in zip_longest(*turns) for task in turn if task is not None]
