"""Data locality: places each task where the transfer of its input is fastest.

Source: Twister2's data locality streaming scheduler, whose distance ignores how much is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduling.model import DataNode, JobGraph, Plan, Snapshot, Task, Worker
from scheduling.model.checks import check, every
from scheduling.quantities import is_preferred
from scheduling.room import Room

__all__ = ["DataLocality"]

Network = tuple[float, float]
"""Bandwidth in bytes a second, and latency in seconds."""


@dataclass(frozen=True)
class DataLocality:
    """Place each task on the worker with room whose transfer of its input is fastest.

    Args:
        data_nodes: hosts that store data and run no worker; default none. An unknown host is
            assumed to be as fast as the reading worker.

    Complexity: O(tasks x workers x log workers).
    """

    data_nodes: Sequence[DataNode] = ()
    name: ClassVar[str] = "data-locality"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        check(self, data_nodes=every(DataNode))

    def transfer_s(self, task: Task, worker: Worker, snapshot: Snapshot) -> float:
        """Seconds to transfer a ``task``'s input from the nearest host that stores it.

        Two latencies, and the bytes at the slower of the two bandwidths; 0 without input, and if
        the ``worker``, one of a ``snapshot``, stores it.
        """
        if not task.preferred or is_preferred(task, worker):
            return 0.0
        return _transfer_s(task, _network(worker), self._networks(snapshot))

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        room, known = Room(graph, snapshot), self._networks(snapshot)
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
        return room.plan(self.name)

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
