"""A placement while a local search changes it: what each worker has left, and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.cost import LEAST_CORES, bytes_to_load, is_preferred, prices, speeds
from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Number, Objective

__all__ = ["Indices", "Mask", "Numbers", "SearchState", "needs_of", "room_of"]

Numbers = NDArray[np.float64]
Indices = NDArray[np.int_]
Mask = NDArray[np.bool_]

_ROUNDING = 5e-10  # half of what Plan._check allows: sums in another order still pass it
_LEFT_OUT = 1e12  # what a task without a worker costs
_SPACE = [0, 2, 3]  # the columns of what may never be exceeded: slots, memory, disk; 1 is the CPU


def room_of(snapshot: Snapshot) -> Numbers:
    """What is free of each worker (row): slots, cores, MB of memory, MB of disk; rounded up."""
    rows = [
        (snapshot.free_slots[name], free.cpu_cores, free.memory_mb, free.disk_mb)
        for name, free in snapshot.free.items()
    ]
    room = np.array(rows, float).reshape(-1, 4)
    room[:, 1:] = room[:, 1:] * (1 + _ROUNDING) + _ROUNDING
    return room


def needs_of(graph: JobGraph) -> Numbers:
    """What each task (row) needs: a slot, cores, MB of memory, MB of disk."""
    rows = [(1.0, t.demand.cpu_cores, t.demand.memory_mb, t.demand.disk_mb) for t in graph.tasks]
    return np.array(rows, float).reshape(-1, 4)


class SearchState:
    """A placement while it is changed: what each worker has, and what it costs.

    Arrays by task have one row more, for nothing: what a task that moves is exchanged for.
    """

    def __init__(
        self,
        graph: JobGraph,
        snapshot: Snapshot,
        objective: Objective,
        loads: Mapping[str, float],
        release: bool,
        even: float,
    ) -> None:
        self.tasks, self.workers = len(graph.tasks), len(snapshot.workers)
        self.number = {task.id: k for k, task in enumerate(graph.tasks)}
        self.position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        self.objective, self.release, self.even = objective, release, even
        self.cpu = np.array([*(loads[task.id] for task in graph.tasks), 0.0], float)
        self.need, self.free = np.vstack([needs_of(graph), np.zeros(4)]), room_of(snapshot)
        self.limit = np.maximum(self.free[:, 1], LEAST_CORES)
        self.price = np.array(prices(snapshot), float)
        speed = np.array(list(speeds(snapshot).values()), float)
        self.open = speed > 0
        size = [max(worker.capacity.cpu_cores, LEAST_CORES) for worker in snapshot.workers]
        self.speed = np.where(self.open, speed, size)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.at = np.full(self.tasks, -1)
        self.own_sum = 0.0  # what placed tasks and the streams between them cost
        self.shut = np.zeros(self.workers, bool)
        self.opening = objective.rent  # the weight of the rent of a worker that gets its first task
        self.taste = np.zeros(self.workers)  # $/s by which workers seem dearer, to vary attempts
        self.banned = np.zeros((self.tasks + 1, self.workers), bool)

    def price_tasks(
        self, graph: JobGraph, snapshot: Snapshot, present: Mapping[str, str] | None
    ) -> None:
        """What each task costs on each worker, whatever the others do: its move, what it reads."""
        byte = self.price / np.array([one.bandwidth_bytes_per_s for one in snapshot.workers])
        receives = self.objective.byte_costs(snapshot)
        self.alone = np.zeros((self.tasks + 1, self.workers))
        for cost, task in zip(self.alone, graph.tasks, strict=False):
            if present is not None:
                fixed = self.price * (self.objective.move_s if task.id in present else 0.0)
                size: float | Numbers = task.state_bytes
                if task.cached:
                    size = np.array([bytes_to_load(task, one.host) for one in snapshot.workers])
                cost += fixed + size * byte
                if present.get(task.id) in self.position:
                    cost[self.position[present[task.id]]] = 0.0
            if task.preferred and task.input_bytes_per_s:
                far = np.array([not is_preferred(task, worker) for worker in snapshot.workers])
                cost += far * task.input_bytes_per_s * receives

    def price_streams(
        self, graph: JobGraph, snapshot: Snapshot, byte_costs: Numbers | None
    ) -> None:
        """The streams of each task, and what a byte costs between workers."""
        if byte_costs is None:
            host = np.array([worker.host for worker in snapshot.workers], object)
            receives = self.objective.byte_costs(snapshot)
            byte_costs = np.where(host[:, None] != host[None, :], receives[None, :], 0.0)
        self.byte = byte_costs
        size: dict[tuple[int, int], float] = {}
        for edge in graph.edges if byte_costs.any() else ():
            ends = self.number[edge.source], self.number[edge.target]
            if ends[0] != ends[1]:
                size[ends] = size.get(ends, 0.0) + edge.bytes_per_s
        self.talks = bool(size)
        sends: list[list[tuple[int, float]]] = [[] for _ in graph.tasks]
        gets: list[list[tuple[int, float]]] = [[] for _ in graph.tasks]
        for (one, other), amount in size.items():
            sends[one].append((other, amount))
            gets[other].append((one, amount))
        self.sends_to, self.gets_from = ([_ends(one) for one in every] for every in (sends, gets))
        # Bytes per second that each task sends to, and gets from, the tasks of each worker.
        self.sent, self.got = np.zeros((2, self.tasks + 1 if size else 0, self.workers))

    # The state

    def begin(
        self,
        start: Mapping[str, str],
        present: Mapping[str, str],
        forbidden: Collection[tuple[str, str]],
    ) -> None:
        """Place the tasks that have room, or that run there already; note what is not tried."""
        for name, worker in forbidden:
            if name in self.number and worker in self.position:
                self.banned[self.number[name], self.position[worker]] = True
        for name, worker in start.items():
            t, i = self.number.get(name, -1), self.position.get(worker, -1)
            stays = present.get(name) == worker
            if t >= 0 and i >= 0 and (stays or (self.free[i] >= self.need[t]).all()):
                self.put(t, i)

    def put(self, t: int, i: int) -> None:
        """Place a task that is nowhere."""
        self.at[t] = i
        self.used[i] += self.cpu[t]
        self.count[i] += 1
        self.free[i] -= self.need[t]
        self._connect(t, i, 1.0)

    def take(self, t: int) -> int:
        """Take a task out; where it was."""
        i = int(self.at[t])
        self.at[t] = -1
        self.count[i] -= 1
        self.used[i] = self.used[i] - self.cpu[t] if self.count[i] else 0.0
        self.free[i] += self.need[t]
        self._connect(t, i, -1.0)
        return i

    def _connect(self, t: int, i: int, sign: float) -> None:
        own = self.alone[t, i]
        if self.talks:
            own += self.streams(t, i)
            others, size = self.sends_to[t]
            self.got[others, i] += sign * size
            others, size = self.gets_from[t]
            self.sent[others, i] += sign * size
        self.own_sum += sign * float(own)

    def restore(self, at: Indices) -> None:
        """Go back to an earlier placement."""
        changed = np.flatnonzero(self.at != at).tolist()
        for t in changed:
            if self.at[t] >= 0:
                self.take(t)
        for t in changed:
            if at[t] >= 0:
                self.put(t, int(at[t]))

    def on(self, i: int) -> list[int]:
        """The tasks of a worker, the largest first."""
        there = np.flatnonzero(self.at == i)
        found: list[int] = there[np.argsort(-self.cpu[there], kind="stable")].tolist()
        return found

    # What it costs

    def total(self) -> float:
        """The cost of the placement."""
        left_out = self.tasks - int(self.count.sum())
        busy, counted = self.count > 0, self.counted()
        load = np.where(counted, self.used / self.speed, 0.0)
        cores, paid = self.speed[counted].sum(), self.price[counted].sum()
        cost = self.objective.rent * self.price[busy].sum()
        cost += self.waiting(load.max(), self.speed @ load**2, self.used.sum(), cores, paid)
        return float(self.objective.horizon_s * cost) + self.own_sum + _LEFT_OUT * left_out

    def counted(self) -> Mask:
        """The workers over which loads are compared."""
        return self.count > 0 if self.release else (self.count > 0) | self.open

    def waiting(
        self, highest: Number, squares: Number, load: float, cores: Number, paid: Number
    ) -> Number:
        """The $/s of the imbalance; ``paid``: the price of the workers that are compared."""
        if not self.objective.imbalance:
            return 0.0 * paid
        return paid * self.objective.excess(highest, squares, load, cores)

    def own(self, tasks: int | Indices) -> Numbers:
        """What tasks (rows) cost by themselves and by their streams, on each worker."""
        found: Numbers = self.alone[tasks]
        if self.talks:
            found = found + self.sent[tasks] @ self.byte.T + self.got[tasks] @ self.byte
        return found

    def streams(self, tasks: int | Indices, at: int | Indices) -> Numbers:
        """What the streams of tasks cost, of each on one worker."""
        sent, got = self.sent[tasks] * self.byte[at], self.got[tasks] * self.byte.T[at]
        found: Numbers = (sent + got).sum(axis=-1)
        return found

    def room(self, t: int) -> Mask:
        """The workers that have room for a task."""
        fits: Mask = (self.free >= self.need[t]).all(axis=1) & ~self.banned[t] & ~self.shut
        return fits

    def bears(self, after: Numbers, on: int | Indices, i: int) -> Mask:
        """Whether workers bear what is free then; of CPU they may lack a smaller share than i."""
        cpu, worst = after[..., 1], self.free[i, 1] / self.limit[i]
        eased = (cpu >= 0) | (cpu / self.limit[on] > worst)
        found: Mask = (after[..., _SPACE] >= 0).all(axis=-1) & eased
        return found

    def costs(self, t: int, fits: Mask) -> Numbers:
        """The cost with a task, now nowhere, on each worker, up to a constant; O(workers)."""
        counted, speed = self.counted(), self.speed
        load = np.where(counted, self.used / speed, 0.0)
        after = (self.used + self.cpu[t]) / speed
        cost = self.opening * self.price * (self.count == 0) + self.taste
        cost = cost + self.waiting(
            np.maximum(after, load.max()),
            speed @ load**2 + speed * (after**2 - load**2),
            float(self.used.sum() + self.cpu[t]),
            speed[counted].sum() + speed * ~counted,
            self.price[counted].sum() + self.price * ~counted,
        )
        return np.where(fits, self.objective.horizon_s * cost + self.own(t), np.inf)


def _ends(streams: Sequence[tuple[int, float]]) -> tuple[Indices, Numbers]:
    """The other ends of a task's streams, and their bytes per second."""
    return np.array([t for t, _ in streams], int), np.array([size for _, size in streams], float)
