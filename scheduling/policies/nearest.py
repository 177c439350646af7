"""Policies that place tasks near the data that they read, or the tasks that they talk to.

Sources: Twister2's data locality scheduler, whose distance ignores how much is read; B. Peng et
al., "R-Storm", Middleware 2015: here delta limits CPU, too; resources are shares of the largest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import ClassVar

import numpy as np

from scheduling.model import DataNode, JobGraph, Snapshot, Task, Worker
from scheduling.policies.greedy import Greedy
from scheduling.room import Room

Network = tuple[float, float]  # bandwidth in bytes a second, latency in seconds


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
        if not task.preferred or {worker.id, worker.host} & set(task.preferred):
            return 0.0
        return _transfer_s(task, _network(worker), self._networks(snapshot))

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        known = self._networks(snapshot)
        networks = [_network(worker) for worker in snapshot.workers]
        kinds = set(networks)
        at: dict[str, list[int]] = {}
        for i, worker in enumerate(snapshot.workers):
            for name in {worker.id, worker.host}:
                at.setdefault(name, []).append(i)
        for task in graph.tasks:
            by_kind = {kind: _transfer_s(task, kind, known) for kind in kinds}
            seconds = [by_kind[kind] for kind in networks]
            for i in (i for holder in task.preferred for i in at.get(holder, ())):
                seconds[i] = 0.0

            def why(passed: int, i: int, seconds: list[float] = seconds) -> str:
                nearer = sum(other < seconds[i] for other in seconds)
                spilt = f", {nearer} nearer ones have no room" if nearer else ""
                return f"its input is there in {seconds[i]:.3g} s{spilt}"

            room.first(task, sorted(room.open, key=seconds.__getitem__), why)

    def _networks(self, snapshot: Snapshot) -> dict[str, Network]:
        """The network by host and worker id; the first of a name counts, workers before nodes."""
        named = [(name, worker) for worker in snapshot.workers for name in (worker.id, worker.host)]
        nodes = {node.host: _network(node) for node in reversed(self.data_nodes)}
        return nodes | {name: _network(worker) for name, worker in reversed(named)}


def _network(one: Worker | DataNode) -> Network:
    return one.bandwidth_bytes_per_s, one.latency_s


def _transfer_s(task: Task, own: Network, known: Mapping[str, Network]) -> float:
    """Seconds to a reader that stores nothing of a task's input; 0 without input."""
    holders = (known.get(holder, own) for holder in task.preferred)
    times = (away + own[1] + task.input_bytes / min(rate, own[0]) for rate, away in holders)
    return min(times, default=0.0)


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
