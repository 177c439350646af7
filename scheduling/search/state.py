"""A placement that changes, with its cost under the objective kept up to date.

Tasks and workers are numbered by their positions in the graph and in the snapshot. The cost of a
task on every worker is one numpy vector, so a step of a search is O(workers), not O(tasks).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Objective
from scheduling.policies.capacity import free_of
from scheduling.quantities import LEAST_CORES, prices, speeds
from scheduling.search.moves import MoveCosts
from scheduling.search.streams import StreamCosts

__all__ = ["PlacementState"]

Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]


class PlacementState:
    """Where each task is, what is free, and what it costs.

    Args:
        graph: the tasks and streams.
        snapshot: the workers.
        objective: the weights.
        present: the present worker of each task; see :meth:`Objective.cost`.
        loads: the CPU cores that each task uses.
        release: whether idle workers are released.
        forbidden: pairs of task and worker that are not to be tried.
        movable: the tasks that may leave their present worker. None (default): all.
        tolerance: the difference of loads that does not count, as a share of the mean; default
            0.01.
    """

    def __init__(
        self,
        graph: JobGraph,
        snapshot: Snapshot,
        objective: Objective,
        present: Mapping[str, str] | None,
        loads: Mapping[str, float],
        *,
        release: bool,
        forbidden: Collection[tuple[str, str]] = (),
        movable: Collection[str] | None = None,
        tolerance: float = 0.01,
    ) -> None:
        self.tolerance = tolerance
        self.tasks, self.workers = graph.tasks, snapshot.workers
        self.objective, self.release = objective, release
        count = len(self.tasks)
        self.number = {task.id: t for t, task in enumerate(self.tasks)}
        self.position = {worker.id: i for i, worker in enumerate(self.workers)}
        self.cpu = np.array([loads[task.id] for task in self.tasks], np.float64)
        self.demand = np.array(
            [
                (1.0, task.demand.cpu_cores, task.demand.memory_mb, task.demand.disk_mb)
                for task in self.tasks
            ],
            np.float64,
        ).reshape(count, 4)
        self.free = np.array(free_of(snapshot), np.float64).T.reshape(len(self.workers), 4).copy()
        self.price = np.array(prices(snapshot), np.float64)
        known = speeds(snapshot)
        speed = np.array([known[worker.id] for worker in self.workers], np.float64)
        self.open = speed > 0  # workers on which tasks of this job can run
        cores = np.array([w.capacity.cpu_cores for w in self.workers], np.float64)
        self.speed = np.where(self.open, speed, np.maximum(cores, LEAST_CORES))
        self.present = np.full(count, -1)
        if present is not None:
            for t, task in enumerate(self.tasks):
                self.present[t] = self.position.get(present.get(task.id, ""), -1)
        self.fixed = np.zeros(count, np.bool_)
        if movable is not None:
            self.fixed[:] = [task.id not in movable for task in self.tasks]
        self._all_movable = not self.fixed.any()
        self.at = np.full(count, -1)
        self.on: list[set[int]] = [set() for _ in self.workers]
        self._count = np.zeros(len(self.workers), np.int64)
        self.used = np.zeros(len(self.workers))  # CPU of its tasks
        self.moving = self.talking = 0.0
        self._forbidden: dict[int, list[int]] = {}
        for name, worker in forbidden:
            if name in self.number and worker in self.position:
                self._forbidden.setdefault(self.number[name], []).append(self.position[worker])
        self._count_workers()
        bandwidth = np.array([one.bandwidth_bytes_per_s for one in self.workers], np.float64)
        load_price = self.price / bandwidth
        byte_price = objective.price_per_byte + load_price
        self.streams = StreamCosts(
            graph, self.workers, self.number, self.at, objective.horizon_s * byte_price
        )
        self._moves = MoveCosts(
            self.tasks,
            self.workers,
            self.streams.on_host,
            None if present is None else self.present,
            np.array([task.id in (present or ()) for task in self.tasks], np.bool_),
            objective.move_s * self.price,
            load_price,
        )
        self.log: list[tuple[int, int]] = []  # task and its former worker, to undo steps

    # Costs

    @property
    def placement(self) -> dict[str, str]:
        """The worker of each placed task."""
        return {
            task.id: self.workers[i].id
            for task, i in zip(self.tasks, self.at.tolist(), strict=True)
            if i >= 0
        }

    @property
    def unplaced(self) -> list[int]:
        """The tasks without a worker."""
        found: list[int] = np.flatnonzero(self.at < 0).tolist()
        return found

    @property
    def value(self) -> float:
        """The total cost of the placed tasks, as :meth:`Objective.cost` computes it."""
        return self.paid() + self.moving + self.talking

    def paid(self) -> float:
        """Rent and imbalance."""
        total, cores = float(self.used.sum()), self._cores
        if not total or not cores:
            return self.objective.horizon_s * self._rent
        load = self.load()
        load[~self._counted] = 0.0
        squares = float((self.speed * load).dot(load))
        excess = float(self.objective.excess(float(load.max()), squares, total, cores))
        return self.objective.horizon_s * self._rent * (1 + excess)

    @property
    def mean(self) -> float:
        """The mean load of the workers that count; 0 without load."""
        return float(self.used.sum()) / self._cores if self._cores else 0.0

    def per_load(self, mean: float) -> float:
        """What one unit of the highest load costs at a mean load."""
        if not mean:
            return 0.0
        return self.objective.horizon_s * self._rent * self.objective.imbalance / mean

    @property
    def busy(self) -> Bools:
        """The workers with a task."""
        found: Bools = self._count > 0
        return found

    def counted(self) -> Bools:
        """The workers whose load counts: those in use, or all where none is released."""
        return self._counted.copy()

    def _count_workers(self) -> None:
        """What depends on which workers have a task."""
        busy = self.busy
        self._counted: Bools = busy if self.release else busy | self.open
        self._cores = float(self.speed[self._counted].sum())
        self._rent = float(self.price[self._counted].sum() if self.release else self.price.sum())

    def load(self) -> Float64s:
        """The load of each worker."""
        found: Float64s = self.used / self.speed
        return found

    def extra(self, t: int) -> Float64s:
        """The cost of moves and streams of task ``t`` on each worker."""
        moves = self._moves.of(t)
        return moves + self.streams.of(t) if t in self.streams.talking else moves

    def extras(self, tasks: Sequence[int], workers: NDArray[np.int64]) -> Float64s:
        """The cost of moves and streams of some tasks (rows) on some workers (columns)."""
        cost = self._moves.many(np.asarray(tasks, np.intp), workers)
        talking = [row for row, t in enumerate(tasks) if t in self.streams.talking]
        if talking:
            cost[talking] += self.streams.many([tasks[row] for row in talking])[:, workers]
        return cost

    def changes(self, t: int) -> Float64s:
        """By how much the total cost changes if task ``t`` goes to each worker; inf without room.

        A task without a worker is as if it had cost nothing. O(workers).
        """
        here, speed, load = int(self.at[t]), self.speed, self.load()
        counted, price = self.counted(), self.price
        extra = self.extra(t)
        before = self.paid() + (extra[here] if here >= 0 else 0.0)
        total = float(self.used.sum()) + (self.cpu[t] if here < 0 else 0.0)
        rent, cores = self._rent, self._cores
        if here >= 0:
            load[here] = max(load[here] - self.cpu[t] / speed[here], 0.0)
            if len(self.on[here]) == 1:
                load[here] = 0.0
            if len(self.on[here]) == 1 and (self.release or not self.open[here]):
                counted[here] = False
                cores -= speed[here]
                rent -= price[here] if self.release else 0.0
        rents = rent + price * ~counted if self.release else rent
        all_cores = cores + speed * ~counted
        load[~counted] = 0.0
        own = load + self.cpu[t] / speed
        highest = np.maximum(own, load.max(initial=0.0))
        squares = float((speed * load * load).sum()) + speed * (own * own - load * load)
        excess = self.objective.excess(highest, squares, total, all_cores) if total else 0.0
        after = self.objective.horizon_s * rents * (1 + excess) + extra
        found: Float64s = after - before
        room = self.room(t)
        if here >= 0:
            room[here] = False
        found[~room] = np.inf
        return found

    def room(self, t: int) -> Bools:
        """The workers with room for task ``t``, which is on none of them."""
        fits: Bools = (self.free >= self.demand[t]).all(axis=1)
        for i in self._forbidden.get(t, ()):
            fits[i] = False
        return fits

    def may(self, t: int, i: int) -> bool:
        """Whether task ``t`` may run on worker ``i``, room aside."""
        return i not in self._forbidden.get(t, ())

    def movable(self, i: int) -> Collection[int]:
        """The tasks of worker ``i`` that may leave it."""
        tasks = self.on[i]
        return tasks if self._all_movable else [t for t in tasks if not self.fixed[t]]

    def allow_all(self) -> None:
        """Forbid no pair of task and worker any more."""
        self._forbidden.clear()

    # Steps

    def put(self, t: int, i: int) -> None:
        """Place task ``t``, which is nowhere, on worker ``i``."""
        self.moving += self._moves.on(t, i)
        if t in self.streams.talking:
            self.talking += self.streams.on(t, i)
        self.free[i] -= self.demand[t]
        self.used[i] += self.cpu[t]
        self.on[i].add(t)
        self._count[i] += 1
        if self._count[i] == 1:
            self._count_workers()
        self.at[t] = i
        self.streams.moved(t)

    def take(self, t: int) -> int:
        """Take task ``t`` off its worker, which is returned."""
        i = int(self.at[t])
        self.at[t] = -1
        self.on[i].discard(t)
        self._count[i] -= 1
        if not self._count[i]:
            self._count_workers()
        self.used[i] = self.used[i] - self.cpu[t] if self.on[i] else 0.0
        self.free[i] += self.demand[t]
        self.moving -= self._moves.on(t, i)
        if t in self.streams.talking:
            self.talking -= self.streams.on(t, i)
        self.streams.moved(t)
        return i

    def move(self, t: int, i: int) -> None:
        """Move task ``t`` to worker ``i``, and log the step."""
        self.log.append((t, self.take(t) if self.at[t] >= 0 else -1))
        self.put(t, i)

    def remove(self, t: int) -> None:
        """Take task ``t`` off its worker, and log the step."""
        self.log.append((t, self.take(t)))

    def undo(self, mark: int) -> None:
        """Take back the logged steps after the first ``mark``."""
        while len(self.log) > mark:
            t, i = self.log.pop()
            if self.at[t] >= 0:
                self.take(t)
            if i >= 0:
                self.put(t, i)

    def start(self, placement: Mapping[str, str]) -> None:
        """Place all tasks that are nowhere yet: where there is room, else without a worker.

        A task that is there at present stays, also where its worker has become too small.
        """
        stay: list[int] = []
        rest: list[tuple[int, int]] = []
        for name, worker in placement.items():
            t, i = self.number.get(name, -1), self.position.get(worker, -1)
            if t >= 0 and i >= 0 and self.at[t] < 0 and self.may(t, i):
                if self.present[t] == i:
                    stay.append(t)
                else:
                    rest.append((t, i))
        self._stay(np.array(stay, np.intp))
        for t, i in rest:
            if (self.free[i] >= self.demand[t]).all():
                self.put(t, i)

    def _stay(self, tasks: NDArray[np.intp]) -> None:
        """Place tasks where they are at present: no move costs anything."""
        at = self.at[tasks] = self.present[tasks]
        np.subtract.at(self.free, at, self.demand[tasks])
        np.add.at(self.used, at, self.cpu[tasks])
        np.add.at(self._count, at, 1)
        for t, i in zip(tasks.tolist(), at.tolist(), strict=True):
            self.on[i].add(t)
        self._count_workers()
        self.streams.forget()
        self.talking = self.streams.paid()[0]

    def sorted_tasks(self, tasks: Sequence[int]) -> list[int]:
        """Tasks in the order of their demand, the largest first."""
        return sorted(tasks, key=lambda t: (-self.cpu[t], *(-self.demand[t][1:]).tolist(), t))
