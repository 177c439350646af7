"""Data locality: places each task where the transfer of its input is fastest.

Source: Twister2's data locality streaming scheduler. Its distance, |2bl of the worker - 2bl of the
data node| with bandwidth b and latency l, ignores how much is read, and its code hands instances
out round robin, independent of the distances; ``compat="twister2"`` does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from scheduling.cost import rent_per_s
from scheduling.errors import ArgumentError
from scheduling.model import Assignment, DataNode, JobGraph, Plan, Snapshot, Task, Unplaced, Worker
from scheduling.model.checks import each, one_of
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
        compat: ``"twister2"`` does not rank: instances are placed round robin, every operator
            continues where the last one ended, and sizes are not checked. None (default): the
            ranking.

    Raises:
        ArgumentError: with ``compat``, there are more instances than the workers have slots.

    Complexity: O(tasks x workers x log workers).
    """

    data_nodes: Sequence[DataNode] = ()
    compat: Literal["twister2"] | None = None
    name: ClassVar[str] = "data-locality"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        one_of("compat", self.compat, (None, "twister2"))
        each("data_nodes", self.data_nodes, DataNode)

    def transfer_s(self, task: Task, worker: Worker, snapshot: Snapshot) -> float:
        """Seconds to transfer the task's input to the worker, from the nearest host that stores it.

        Two latencies, and the bytes at the slower of the two bandwidths; 0 if the worker's host
        stores the data, and for tasks without input.

        Args:
            task: the task.
            worker: the reading worker.
            snapshot: all workers.
        """
        if not task.preferred or is_preferred(task, worker):
            return 0.0
        return _transfer_s(task, _network(worker), _networks(snapshot, self.data_nodes))

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        if self.compat:
            return self._original(graph, snapshot)
        room, known = Room(graph, snapshot), _networks(snapshot, self.data_nodes)
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

    def _original(self, graph: JobGraph, snapshot: Snapshot) -> Plan:
        names = [worker.id for worker in snapshot.workers]
        if not names:
            none = tuple(Unplaced(task.id, "there is no worker") for task in graph.tasks)
            return Plan((), none, policy=self.name)
        slots = sum(worker.slots for worker in snapshot.workers)
        if len(graph.tasks) > slots:
            raise ArgumentError(
                f"{len(graph.tasks)} instances are more than the {slots} that the workers hold; "
                "add workers, or lower the parallelism"
            )
        every = (task for tasks in graph.operators.values() for task in tasks)
        placed = tuple(
            Assignment(task.id, names[turn % len(names)], f"turn {turn} of {len(names)} workers")
            for turn, task in enumerate(every)
        )
        plan = Plan(placed, policy=self.name)
        return replace(plan, score=rent_per_s(plan, snapshot))


def _network(one: Worker | DataNode) -> Network:
    return one.bandwidth_bytes_per_s, one.latency_s


def _transfer_s(task: Task, own: Network, known: Mapping[str, Network]) -> float:
    """Seconds to a reader that stores nothing of a task's input; 0 without input."""
    holders = (known.get(holder, own) for holder in task.preferred)
    times = (away + own[1] + task.input_bytes / min(rate, own[0]) for rate, away in holders)
    return min(times, default=0.0)


def _networks(snapshot: Snapshot, nodes: Sequence[DataNode]) -> dict[str, Network]:
    """The network by host and worker id."""
    found: dict[str, Network] = {}
    for worker in snapshot.workers:
        for name in (worker.id, worker.host):
            found.setdefault(name, _network(worker))
    return {node.host: _network(node) for node in reversed(nodes)} | found
