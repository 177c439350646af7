"""Policies that place tasks near the data that they read, or the tasks that they talk to.

Sources: Twister2's data locality scheduler, whose distance ignores how much is read; B. Peng et
al., "R-Storm", Middleware 2015: here delta limits CPU, too; resources are shares of the largest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduling.model import DataNode, JobGraph, Snapshot, Task, Worker
from scheduling.model.checks import grouped
from scheduling.policies.greedy import Greedy
from scheduling.room import Room


@dataclass(frozen=True)
class DataLocality(Greedy):
    """Place each task on the worker with room whose transfer of its input is fastest.

    Args:
        data_nodes: hosts that store data and run no worker; default none. An unknown host is as
            fast as the reading worker.

    Complexity: O(tasks x workers x log workers).
    """

    data_nodes: Sequence[DataNode] = ()
    name: ClassVar[str] = "data-locality"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 1.0)

    def transfer_s(self, task: Task, worker: Worker, snapshot: Snapshot) -> float:
        """Seconds for a ``task``'s input from the nearest host to a ``worker`` of a ``snapshot``.

        Two latencies, and the bytes at the slower bandwidth; 0 if it stores them, or without input.
        """
        place = snapshot.workers.index(worker)
        return float(self._seconds_of(snapshot)(task)[place])

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        seconds_of = self._seconds_of(snapshot)
        for task in graph.tasks:
            seconds = seconds_of(task).tolist()

            def why(passed: int, i: int, seconds: list[float] = seconds) -> str:
                nearer = sum(other < seconds[i] for other in seconds)
                spilt = f", {nearer} nearer ones have no room" if nearer else ""
                return f"its input is there in {seconds[i]:.3g} s{spilt}"

            room.first(task, sorted(room.open, key=seconds.__getitem__), why)

    def _seconds_of(self, snapshot: Snapshot) -> Callable[[Task], NDArray[np.float64]]:
        """What gives of a task the seconds to each worker."""
        own = [(one.bandwidth_bytes_per_s, one.latency_s) for one in snapshot.workers]
        rates, latencies = np.array(own, float).reshape(-1, 2).T
        named = [(name, i) for i, one in enumerate(snapshot.workers) for name in (one.id, one.host)]
        there = grouped(named)
        # The first of a name counts, workers before nodes.
        known = {one.host: (one.bandwidth_bytes_per_s, one.latency_s) for one in self.data_nodes}
        known |= {name: own[places[0]] for name, places in there.items()}

        def seconds(task: Task) -> NDArray[np.float64]:
            found = np.full(len(own), np.inf if task.preferred else 0.0)
            for holder in task.preferred:
                rate, away = known.get(holder, (rates, latencies))
                took = away + latencies + task.input_bytes / np.minimum(rate, rates)
                found = np.minimum(found, took)
            for holder in task.preferred:
                found[list(there.get(holder, ()))] = 0.0
            return found

        return seconds


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
            fits = (free >= need).all(axis=1)
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
