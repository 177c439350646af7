"""What the streams of tasks cost, for a placement that changes.

The cost of a task's streams on every worker depends on where the tasks at their other ends are,
so it is computed once and forgotten when one of those moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Worker
from scheduling.objective import is_preferred

__all__ = ["StreamCosts"]

Float64s = NDArray[np.float64]
_MOST_KEPT = 4_000_000  # numbers


class StreamCosts:
    """The cost of streams, and of reading data that is stored on preferred hosts.

    Args:
        graph: the tasks and streams.
        workers: the workers.
        number: the position of each task.
        at: the position of each task's worker, -1 without one; the caller changes it.
        price: what the streams of one byte per second to each worker cost from another host.
    """

    def __init__(
        self,
        graph: JobGraph,
        workers: Sequence[Worker],
        number: Mapping[str, int],
        at: NDArray[np.int64],
        price: Float64s,
    ) -> None:
        self._at, self._price = at, price
        self._prices: list[float] = price.tolist()
        self._hosts = [worker.host for worker in workers]
        on_host: dict[str, list[int]] = {}
        for i, host in enumerate(self._hosts):
            on_host.setdefault(host, []).append(i)
        self.on_host = {host: np.array(places) for host, places in on_host.items()}
        """The positions of the workers of each host."""
        self._into: dict[int, dict[int, float]] = {}
        self._out: dict[int, dict[int, float]] = {}
        for edge in graph.edges:
            source, target = number[edge.source], number[edge.target]
            if source != target and edge.bytes_per_s:
                into = self._into.setdefault(target, {})
                into[source] = into.get(source, 0.0) + edge.bytes_per_s
                out = self._out.setdefault(source, {})
                out[target] = out.get(target, 0.0) + edge.bytes_per_s
        self._reads: dict[int, Float64s] = {}
        for t, task in enumerate(graph.tasks):
            if task.input_bytes_per_s and task.preferred:
                near = np.array([is_preferred(task, worker) for worker in workers])
                self._reads[t] = np.where(near, 0.0, task.input_bytes_per_s * price)
        self.talking = frozenset({*self._into, *self._out, *self._reads})
        """The tasks with streams, or with data on preferred hosts."""
        self._kept: dict[int, Float64s] = {}

    def partners(self, t: int) -> list[int]:
        """The tasks with a stream to or from task ``t``."""
        return sorted({*self._into.get(t, {}), *self._out.get(t, {})})

    def moved(self, t: int) -> None:
        """Task ``t`` is on another worker, or on none."""
        for other in self._into.get(t, ()):
            self._kept.pop(other, None)
        for other in self._out.get(t, ()):
            self._kept.pop(other, None)

    def on(self, t: int, i: int) -> float:
        """The cost of task ``t``'s streams on worker ``i``; those to unplaced tasks are free."""
        if (known := self._kept.get(t)) is not None:
            return float(known[i])
        at, hosts, cost = self._at, self._hosts, 0.0
        for other, size in self._into.get(t, {}).items():
            if (j := at[other]) >= 0 and hosts[j] != hosts[i]:
                cost += size * self._prices[i]
        for other, size in self._out.get(t, {}).items():
            if (j := at[other]) >= 0 and hosts[j] != hosts[i]:
                cost += size * self._prices[j]
        return cost + float(self._reads[t][i]) if t in self._reads else cost

    def of(self, t: int) -> Float64s:
        """As :meth:`on`, for every worker; not to be changed. O(workers + streams of the task)."""
        if (known := self._kept.get(t)) is not None:
            return known
        sizes = np.zeros(len(self._hosts))
        paid_there = np.zeros(len(self._hosts))
        total = paid = 0.0
        for other, size in self._into.get(t, {}).items():
            if (j := self._at[other]) >= 0:
                sizes[self.on_host[self._hosts[j]]] += size
                total += size
        for other, size in self._out.get(t, {}).items():
            if (j := self._at[other]) >= 0:
                paid_there[self.on_host[self._hosts[j]]] += size * self._prices[j]
                paid += size * self._prices[j]
        cost: Float64s = (total - sizes) * self._price + (paid - paid_there)
        if t in self._reads:
            cost += self._reads[t]
        if len(self._kept) * len(cost) > _MOST_KEPT:
            self._kept.clear()
        self._kept[t] = cost
        return cost

    def many(self, tasks: Sequence[int]) -> Float64s:
        """As :meth:`of`, for some tasks: one row each."""
        return np.stack([self.of(t) for t in tasks])
