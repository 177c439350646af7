"""Data locality: places each task where the transfer of its input is fastest.

Assumes that fetching input is what costs time: the workers are ranked by the time to transfer a
task's input from the nearest host that holds it, and the task goes to the first with room. What is
read on the host that holds it takes no time.

Source: Twister2's data locality streaming scheduler. Its distance, |2bl of the worker - 2bl of the
data node| with bandwidth b and latency l, ignores how much is read, and its code hands instances
out round robin, independent of the distances; ``compat="twister2"`` does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from scheduling.errors import ArgumentError
from scheduling.model import Assignment, DataNode, JobGraph, Plan, Snapshot, Task, Worker
from scheduling.policies.capacity import CapacityLedger

__all__ = ["DataLocality"]


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

    Complexity: O(tasks x workers x log workers) at worst; tasks with the same input share a
    ranking.
    """

    data_nodes: Sequence[DataNode] = ()
    compat: Literal["twister2"] | None = None
    name: ClassVar[str] = "data-locality"

    def transfer_s(self, task: Task, worker: Worker, snapshot: Snapshot) -> float:
        """Seconds to transfer the task's input to the worker, from the nearest host that stores it.

        Two latencies, and the bytes at the slower of the two bandwidths. 0 if the worker's host
        stores the data, and for tasks without input.

        Args:
            task: the task.
            worker: the reading worker.
            snapshot: all workers.
        """
        return self._transfer_s(task, worker, _hosts(snapshot, self.data_nodes))

    def _transfer_s(
        self, task: Task, worker: Worker, hosts: dict[str, tuple[float, float]]
    ) -> float:
        if not task.preferred or worker.host in task.preferred or worker.id in task.preferred:
            return 0.0
        own = (worker.bandwidth_bytes_per_s, worker.latency_s)
        times = []
        for holder in task.preferred:
            bandwidth, latency = hosts.get(holder, own)
            times.append(latency + own[1] + task.input_bytes / min(bandwidth, own[0]))
        return min(times)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        if self.compat:
            return self._original(graph, snapshot)
        ledger = CapacityLedger(graph, snapshot)
        hosts = _hosts(snapshot, self.data_nodes)
        rankings: dict[tuple[tuple[str, ...], float], list[tuple[float, int]]] = {}
        for task in graph.tasks:
            key = (task.preferred, task.input_bytes)
            if key not in rankings:
                rankings[key] = sorted(
                    (self._transfer_s(task, worker, hosts), i)
                    for i, worker in enumerate(ledger.workers)
                )
            for rank, (seconds, i) in enumerate(rankings[key]):
                if ledger.fits(task, i):
                    spilt = f", {rank} nearer ones have no room" if rank else ""
                    ledger.place(task, i, f"its input is there in {seconds:.3g} s{spilt}")
                    break
        return ledger.plan(self.name)

    def _original(self, graph: JobGraph, snapshot: Snapshot) -> Plan:
        slots = sum(worker.slots for worker in snapshot.workers)
        if len(graph.tasks) > slots:
            raise ArgumentError(
                f"{len(graph.tasks)} instances are more than the {slots} that the workers hold; "
                "add workers, or lower the parallelism"
            )
        count = len(snapshot.workers)
        placed = []
        for turn, task in enumerate(t for tasks in graph.operators.values() for t in tasks):
            worker = snapshot.workers[turn % count]
            placed.append(Assignment(task.id, worker.id, f"turn {turn} of {count} workers"))
        used = {one.worker for one in placed}
        score = sum(worker.price_per_s for worker in snapshot.workers if worker.id in used)
        return Plan(tuple(placed), score=score, policy=self.name)


def distance(worker: Worker, node: DataNode) -> float:
    """Twister2's distance, without the data size: |2bl of the worker - 2bl of the data node|.

    >>> from scheduling.model import Resources
    >>> worker = Worker("w", Resources(1, 1), 1, bandwidth_bytes_per_s=100, latency_s=0.02)
    >>> distance(worker, DataNode("d", 200, 0.02))
    4.0
    """
    return abs(
        2 * worker.bandwidth_bytes_per_s * worker.latency_s
        - 2 * node.bandwidth_bytes_per_s * node.latency_s
    )


def _hosts(snapshot: Snapshot, nodes: Sequence[DataNode]) -> dict[str, tuple[float, float]]:
    """Bandwidth and latency by host and worker id."""
    found: dict[str, tuple[float, float]] = {}
    for worker in snapshot.workers:
        for name in (worker.id, worker.host):
            found.setdefault(name, (worker.bandwidth_bytes_per_s, worker.latency_s))
    for node in nodes:
        found.setdefault(node.host, (node.bandwidth_bytes_per_s, node.latency_s))
    return found
