"""What the moves of tasks cost, from where they are at present.

A task that moves pays for the time to start anew, and for the bytes that its new worker's host has
not cached (:class:`scheduling.Objective`). Where it is at present it pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.model import Task, Worker

__all__ = ["MoveCosts"]

Float64s = NDArray[np.float64]


class MoveCosts:
    """The cost of moving each task to each worker.

    Args:
        tasks: the tasks.
        workers: the workers.
        on_host: the positions of the workers of each host.
        present: the position of each task's present worker, -1 without one; None if no movement
            is counted.
        known: the tasks that have run before: the others need not start anew.
        start_price: what a task pays on each worker for its start.
        byte_price: and for each byte that it loads.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        workers: Sequence[Worker],
        on_host: Mapping[str, NDArray[np.int64]],
        present: NDArray[np.int64] | None,
        known: NDArray[np.bool_],
        start_price: Float64s,
        byte_price: Float64s,
    ) -> None:
        self._tasks, self._workers, self._on_host = tasks, workers, on_host
        self._present, self._known = present, known
        self._start_price, self._byte_price = start_price, byte_price
        self._bytes = np.array(
            [one.state_bytes + (max(one.cached.values()) if one.cached else 0.0) for one in tasks],
            np.float64,
        )
        self._has_cached = np.array([bool(task.cached) for task in tasks], np.bool_)
        self._there: dict[int, Float64s] = {}

    def _cached(self, t: int) -> Float64s:
        """The bytes of task ``t`` that each worker's host has; tasks may share what they have."""
        known = self._tasks[t].cached
        found = self._there.get(id(known))
        if found is None:
            found = np.zeros(len(self._workers))
            for host, size in known.items():
                if (near := self._on_host.get(host)) is not None:
                    found[near] = size
            self._there[id(known)] = found
        return found

    def of(self, t: int) -> Float64s:
        """The cost of moving task ``t`` to each worker."""
        if self._present is None:
            return np.zeros(len(self._workers))
        missing = self._bytes[t] - self._cached(t) if self._has_cached[t] else self._bytes[t]
        cost: Float64s = missing * self._byte_price
        if self._known[t]:
            cost += self._start_price
        if self._present[t] >= 0:
            cost[self._present[t]] = 0.0
        return cost

    def on(self, t: int, i: int) -> float:
        """As :meth:`of`, for one worker."""
        if self._present is None or i == self._present[t]:
            return 0.0
        missing = self._bytes[t] - self._tasks[t].cached.get(self._workers[i].host, 0.0)
        fixed = self._start_price[i] if self._known[t] else 0.0
        return float(missing * self._byte_price[i] + fixed)

    def many(self, tasks: NDArray[np.int64], workers: NDArray[np.int64]) -> Float64s:
        """As :meth:`of`, for some tasks (rows) and some workers (columns)."""
        if self._present is None:
            return np.zeros((len(tasks), len(workers)))
        missing = np.repeat(self._bytes[tasks][:, None], len(workers), axis=1)
        for row in np.flatnonzero(self._has_cached[tasks]).tolist():
            missing[row] -= self._cached(int(tasks[row]))[workers]
        cost: Float64s = missing * self._byte_price[workers]
        cost += np.outer(self._known[tasks], self._start_price[workers])
        cost[self._present[tasks][:, None] == workers] = 0.0
        return cost
