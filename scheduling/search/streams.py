"""What the streams of tasks cost, for a placement that changes.

The cost of a task's streams on every worker depends on where the tasks at their other ends are,
so it is computed once, for several tasks at a time, and again when one of those has moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Worker
from scheduling.quantities import is_preferred

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
        kinds = {host: kind for kind, host in enumerate(self.on_host)}
        self._host = np.array([kinds[host] for host in self._hosts], np.intp)
        self._list_streams(len(graph.tasks))
        self._reads: dict[int, Float64s] = {}
        for t, task in enumerate(graph.tasks):
            if task.input_bytes_per_s and task.preferred:
                near = np.array([is_preferred(task, worker) for worker in workers])
                self._reads[t] = np.where(near, 0.0, task.input_bytes_per_s * price)
        self.talking = frozenset({*self._into, *self._out, *self._reads})
        """The tasks with streams, or with data on preferred hosts."""
        keep = len(graph.tasks) * len(workers) <= _MOST_KEPT
        self._kept = np.empty((len(graph.tasks), len(workers)) if keep else (0, 0))
        self._valid = np.zeros(len(graph.tasks), np.bool_)

    def _list_streams(self, tasks: int) -> None:
        """The streams of each task, one task after the other: those into it, then those out."""
        ends = [
            [(other, size, True) for other, size in self._into.get(t, {}).items()]
            + [(other, size, False) for other, size in self._out.get(t, {}).items()]
            for t in range(tasks)
        ]
        every = [one for some in ends for one in some]
        self._degree = np.array([len(some) for some in ends], np.intp)
        self._first = np.cumsum(self._degree) - self._degree
        self._other = np.array([other for other, _, _ in every], np.intp)
        self._size = np.array([size for _, size, _ in every], np.float64)
        self._incoming = np.array([incoming for _, _, incoming in every], np.bool_)

    def partners(self, t: int) -> list[int]:
        """The tasks with a stream to or from task ``t``."""
        return sorted({*self._into.get(t, {}), *self._out.get(t, {})})

    def moved(self, t: int) -> None:
        """Task ``t`` is on another worker, or on none."""
        if degree := self._degree[t]:
            first = self._first[t]
            self._valid[self._other[first : first + degree]] = False

    def forget(self) -> None:
        """Many tasks are on other workers."""
        self._valid[:] = False

    def on(self, t: int, i: int) -> float:
        """The cost of task ``t``'s streams on worker ``i``; those to unplaced tasks are free."""
        if self._valid[t]:
            return float(self._kept[t, i])
        at, hosts, cost = self._at, self._hosts, 0.0
        for other, size in self._into.get(t, {}).items():
            if (j := at[other]) >= 0 and hosts[j] != hosts[i]:
                cost += size * self._prices[i]
        for other, size in self._out.get(t, {}).items():
            if (j := at[other]) >= 0 and hosts[j] != hosts[i]:
                cost += size * self._prices[j]
        return cost + float(self._reads[t][i]) if t in self._reads else cost

    def paid(self) -> tuple[float, Float64s]:
        """What all streams cost, and the cost of each task's: as :meth:`on`, where it is.

        O(streams).
        """
        found = np.zeros(len(self._at))
        for t, cost in self._reads.items():
            if self._at[t] >= 0:
                found[t] = cost[self._at[t]]
        reads = float(found.sum())
        own = np.repeat(np.arange(len(found)), self._degree)
        here, there = self._at[own], self._at[self._other]
        placed = (here >= 0) & (there >= 0)
        own, incoming, size = own[placed], self._incoming[placed], self._size[placed]
        here, there = here[placed], there[placed]
        price = self._price[np.where(incoming, here, there)]
        costs = np.where(self._host[here] != self._host[there], size * price, 0.0)
        found += np.bincount(own, weights=costs, minlength=len(found))
        return reads + float(costs[incoming].sum()), found

    def of(self, t: int) -> Float64s:
        """As :meth:`on`, for every worker; not to be changed. O(workers + streams of the task)."""
        if self._valid[t]:
            known: Float64s = self._kept[t]
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
        if len(self._kept):
            self._kept[t], self._valid[t] = cost, True
        return cost

    def many(self, tasks: Sequence[int]) -> Float64s:
        """As :meth:`of`, for some tasks: one row each."""
        chosen = np.asarray(tasks, np.intp)
        if not len(self._kept):
            return self._computed(chosen)
        missing = chosen[~self._valid[chosen]]
        if len(missing):
            self._kept[missing] = self._computed(missing)
            self._valid[missing] = True
        found: Float64s = self._kept[chosen]
        return found

    def _computed(self, tasks: NDArray[np.intp]) -> Float64s:
        degree = self._degree[tasks]
        rows = np.repeat(np.arange(len(tasks)), degree)
        begins = np.cumsum(degree) - degree
        ends = np.arange(len(rows)) + (self._first[tasks] - begins)[rows]
        there = self._at[self._other[ends]]
        placed = there >= 0
        rows, ends, there = rows[placed], ends[placed], there[placed]
        into, size = self._incoming[ends], self._size[ends]
        cost = np.zeros((len(tasks), len(self._price)))
        hosts = len(self.on_host)
        cells = rows * hosts + self._host[there]
        paid = np.where(into, 0.0, size * self._price[there])
        for amounts, each in ((np.where(into, size, 0.0), self._price), (paid, 1.0)):
            every = np.bincount(rows, weights=amounts, minlength=len(tasks))
            near = np.bincount(cells, weights=amounts, minlength=len(tasks) * hosts)
            near = near.reshape(len(tasks), hosts)[:, self._host]
            cost += (every[:, None] - near) * each
        for row, t in enumerate(tasks.tolist()) if self._reads else ():
            if t in self._reads:
                cost[row] += self._reads[t]
        return cost
