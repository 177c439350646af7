"""The cost of a placement over a horizon, in one currency: it decides whether that changes.

The currency is that of the prices ($); where no worker has a price each counts as 1 $/s, so costs
are executor seconds. Over the horizon H in seconds::

    rent          = H * w_r * R                                R: $/s of the workers in use
    imbalance     = H * w_i * P * (highest load / mean load - 1 + 0.1 * S / mean load)
    communication = H * w_c * sum over streams between hosts of
                        bytes/s * (price of a byte + R_i / B_i)
    movement      = sum over moved tasks of R_i * (fixed seconds + bytes to load / B_i)

The load of a worker is the cores that its tasks keep busy over the cores that others leave free. P
is R where idle workers are released, else the price of all workers. Mean and S, the standard
deviation, are over the same workers; without S a new eighth executor gets none of 42 equal tasks
on seven, as two keep six each. R_i and B_i are price and bandwidth of the receiving worker, which
waits for the bytes. The weights are a policy's. Fewer unplaced tasks are better than any price.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Move, Snapshot
from scheduling.model.checks import Checked, Positive, grouped

Numbers = NDArray[np.float64]
Number = TypeVar("Number", float, Numbers)
Indices = NDArray[np.int_]

LEAST_CORES = 0.01  # of a worker that has none and still runs a task
_DEVIATION = 0.1  # the weight of S: small enough that the highest load decides
_NOTHING = 1e-9  # cores


@dataclass(frozen=True)
class PlacementCost:
    """The cost of a placement over the horizon, in $ (:class:`Objective`).

    Args:
        rent: of the workers in use, weighted, as the next two are.
        imbalance: of the workers that wait for the most loaded one.
        communication: of the bytes between hosts.
        movement: of the moves from the present placement, once.
        unplaced: the number of tasks without a worker.
    """

    rent: float
    imbalance: float
    communication: float
    movement: float
    unplaced: int

    @property
    def running(self) -> float:
        """Rent, imbalance and communication: what the placement costs as long as it is kept."""
        return self.rent + self.imbalance + self.communication

    @property
    def total(self) -> float:
        """The running costs and the movement."""
        return self.running + self.movement

    @property
    def rank(self) -> tuple[int, float]:
        """The order that is minimised: the unplaced tasks, then the total."""
        return self.unplaced, self.total


@dataclass(frozen=True, kw_only=True)
class Objective(Checked):
    """The weights of the objective by which the controller and the local search judge placements.

    Args:
        horizon_s: the time in which a change must pay, in seconds; at least ten cycles. Default
            600: a day's load curve changes by a few percent in ten minutes.
        rent: the weight of the rent; default 1.
        imbalance: the weight of the imbalance; default 1: twice the time is twice the cost.
        communication: the weight of the bytes between hosts; default 1.
        price_per_byte: the price of a byte between hosts in $, beside the receiver's wait; default
            0.
        move_s: the fixed cost of a moved task in seconds of its new worker's time; default 1.

    Raises:
        ArgumentError: a number is out of its range.
    """

    horizon_s: Positive = 600.0
    rent: float = 1.0
    imbalance: float = 1.0
    communication: float = 1.0
    price_per_byte: float = 0.0
    move_s: float = 1.0

    def weighted(self, weights: Sequence[float]) -> Self:
        """This objective with its three weights multiplied with a policy's ``weights``."""
        names = "rent", "imbalance", "communication"
        own = {n: getattr(self, n) * weight for n, weight in zip(names, weights, strict=True)}
        return dataclasses.replace(self, **own)

    def waiting(
        self, highest: Number, squares: Number, load: float, cores: Number, paid: Number
    ) -> Number:
        """The weighted $/s of waiting for the most loaded worker; of one placement, or an array.

        Of the ``highest`` load, the sum of cores x load squared (``squares``), the ``load`` and the
        ``cores`` in all, and what is ``paid`` for them. Nothing is uneven where no load is.
        """
        if not self.imbalance or load < _NOTHING:
            return 0.0 * paid
        by_mean = cores / load
        deviation = np.sqrt(np.maximum(squares * by_mean * (1 / load) - 1, 0.0))
        uneven: Number = np.maximum(highest * by_mean - 1, 0.0) + _DEVIATION * deviation
        return uneven * (self.imbalance * paid)


class Pricing:
    """The tasks and workers of one decision as arrays, and what placements of them cost.

    Args:
        objective: how costs are weighted.
        graph: the tasks and streams.
        snapshot: the workers, and the usage of the tasks.
        present: the present worker of each task, from which moves are counted. A task that is
            missing here pays for what it loads, without ``move_s``. None (default): no moves.
        release: whether idle workers are released; default False.
        loads: the CPU cores that each task uses. None (default): as measured, or demanded.
        byte_costs: what a byte per second from each worker (row) to each (column) costs over the
            horizon, and what is read costs nothing. None (default): what the objective says.
    """

    def __init__(
        self,
        objective: Objective,
        graph: JobGraph,
        snapshot: Snapshot,
        present: Mapping[str, str] | None = None,
        release: bool = False,
        loads: Mapping[str, float] | None = None,
        byte_costs: Numbers | None = None,
    ) -> None:
        tasks, workers, used = graph.tasks, snapshot.workers, snapshot.usage
        self.objective, self.release = objective, release
        self.graph, self.snapshot = graph, snapshot
        self.number = {name: t for t, name in enumerate(graph.by_id)}
        self.position: dict[str | None, int] = {name: i for i, name in enumerate(snapshot.by_id)}
        shape = self.tasks, self.workers = len(tasks), len(workers)
        if loads is None:
            loads = {task.id: used.get(task.id, task.demand).cpu_cores for task in tasks}
        cpu = np.array([loads[name] for name in self.number], float)
        self.cpu = cpu if cpu.any() else np.ones(self.tasks)
        price = np.array([worker.price_per_s for worker in workers], float)
        self.price = price if price.any() else np.ones(self.workers)
        size = np.array([worker.capacity.cpu_cores for worker in workers], float)
        left = size - [snapshot.taken(worker.id).resources.cpu_cores for worker in workers]
        self.open = (left > 0) & (np.array([*snapshot.free_slots.values()]) > 0)
        # Others took the rest over while a task runs there.
        self.speed = np.where(self.open, left, np.maximum(size, LEAST_CORES))
        names = ((name, i) for i, one in enumerate(workers) for name in {one.host, one.id})
        near = {name: list(those) for name, those in grouped(names).items()}
        # Moves: the bytes of each task (row) that each worker lacks.
        self.byte_s = self.price / np.array([worker.bandwidth_bytes_per_s for worker in workers])
        self.present, self.fixed_s = self.indices(present or {}), np.zeros(self.tasks)
        self.lacks, self.reads = np.zeros(shape), np.zeros(shape)
        if present is not None:
            self.fixed_s = objective.move_s * np.array([name in present for name in self.number])
            self.lacks += np.array([[task.state_bytes] for task in tasks]).reshape(-1, 1)
            for t, task in enumerate(tasks):
                self.lacks[t] += max(task.cached.values(), default=0.0)
                for name, there in task.cached.items():
                    self.lacks[t, near.get(name, [])] -= there
        # Reads and streams: what the bytes from other hosts cost on each worker.
        byte = objective.price_per_byte + self.byte_s
        byte = objective.horizon_s * objective.communication * byte
        for t, task in enumerate(tasks if objective.communication and byte_costs is None else ()):
            if task.preferred and task.input_bytes_per_s:
                self.reads[t] = task.input_bytes_per_s * byte
                self.reads[t, [i for name in task.preferred for i in near.get(name, [])]] = 0.0
        edges = graph.edges if objective.communication and workers else ()
        ends = [(self.number[edge.source], self.number[edge.target]) for edge in edges]
        self.ends = np.array(ends, int).reshape(-1, 2).T
        self.bytes_per_s = np.array([edge.bytes_per_s for edge in edges], float)
        self.byte_costs = byte_costs
        if edges and byte_costs is None:
            host = np.array([worker.host for worker in workers])
            self.byte_costs = np.where(host[:, None] != host, byte, 0.0)

    def indices(self, placement: Mapping[str, str]) -> Indices:
        """By task the position of its worker, or -1."""
        at = self.position.get
        return np.array([at(worker, -1) for worker in map(placement.get, self.number)], int)

    def sums(self, at: Indices) -> tuple[Indices, Numbers]:
        """Return the number of tasks of each worker, and the cores that these use."""
        t = np.flatnonzero(at >= 0)
        used = np.bincount(at[t], self.cpu[t], self.workers).astype(float)
        return np.bincount(at[t], minlength=self.workers), used

    def rent_per_s(self, placement: Mapping[str, str]) -> float:
        """The price in $/s of the workers of a placement, without a weight."""
        return math.fsum(self.price[[*{self.position[name] for name in placement.values()}]])

    def cost(self, placement: Mapping[str, str], parts: Sequence[Move] = ()) -> PlacementCost:
        """The cost of a placement; ``parts`` of tasks that move are tasks of their own.

        O(tasks + streams + workers).
        """
        objective, at = self.objective, self.indices(placement)
        t, (count, used) = np.flatnonzero(at >= 0), self.sums(at)
        i = at[t]
        movement, cpu = float(self.moves(t, i).sum()), self.cpu.copy()
        for part in parts:
            task, to = self.number[part.task], self.position[part.target]
            count[to] += 1
            used[to] += cpu[task] * part.part
            used[at[task]] -= cpu[task] * part.part
            cpu[task] *= 1 - part.part
            movement += self.price[to] * objective.move_s + part.state_bytes * self.byte_s[to]
        bytes_s = float(self.reads[t, i].sum())
        if self.byte_costs is not None:
            one, other = at[self.ends]
            streams = self.bytes_per_s * self.byte_costs[one, other]
            bytes_s += float(streams[(one >= 0) & (other >= 0)].sum())
        counted, load, h = self.compared(count), used / self.speed, objective.horizon_s
        rent = h * objective.rent * float(self.price @ (count > 0))
        highest, total = float(load.max(initial=0.0)), float(used.sum())
        sums = float(used @ load), total, float(self.speed @ counted), float(self.price @ counted)
        waiting = h * float(objective.waiting(highest, *sums))
        return PlacementCost(rent, waiting, bytes_s, float(movement), self.tasks - len(t))

    def moves(self, t: Indices, i: Indices) -> Numbers:
        """Return the cost of moving tasks to workers, from where they are at present."""
        moved = self.price[i] * self.fixed_s[t] + self.lacks[t, i] * self.byte_s[i]
        return np.where(self.present[t] == i, 0.0, moved)

    def compared(self, count: Indices) -> NDArray[np.bool_]:
        """The workers over which loads are compared, with so many tasks on each."""
        return count > 0 if self.release else (count > 0) | self.open
