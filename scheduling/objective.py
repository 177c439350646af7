"""The objective of the control loop: what a placement costs over a horizon, in one currency.

The currency is that of the prices ($); where no worker has a price each counts as 1 $/s, so costs
are executor seconds. Over the horizon H in seconds::

    rent          = H * R            R: $/s of the workers that are paid for
    imbalance     = H * R * w * ((highest load / mean load - 1) + 0.1 * S / mean load)
    communication = H * sum over streams between hosts of bytes/s * (price of a byte + R_i / B_i)
    movement      = sum over moved tasks of R_i * (fixed seconds + bytes to load / B_i)

S is the standard deviation of the loads (Eq. 31 of LBA-CE): of two placements with the same
highest load, the one with fewer loads near it ends earlier on average. R_i and B_i are the price
and the bandwidth of the receiving worker: it waits for the bytes. The load of a worker is the CPU
time per second of its tasks over the cores that others leave free. Where idle workers can be
released, the workers in use are paid for; elsewhere all of them, so that idle ones are a loss.
A placement with fewer unplaced tasks is better than any with more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Plan, Snapshot, Worker
from scheduling.model.checks import number
from scheduling.quantities import (
    LEAST_CORES,
    bytes_to_load,
    cpu_loads,
    is_preferred,
    prices,
    speeds,
)

__all__ = ["Objective", "PlacementCost"]

_SPREAD = 0.1  # the weight of the deviation against the highest load

Number = TypeVar("Number", float, NDArray[np.float64])


@dataclass(frozen=True)
class PlacementCost:
    """The cost of a placement over the horizon, in $ (:class:`Objective`).

    Args:
        rent: the price of the workers that are paid for.
        imbalance: the rent of the workers that wait for the most loaded one.
        communication: the bytes between hosts.
        movement: the one-time cost of moves from the present placement.
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
        """What is minimised: the unplaced tasks, then the total."""
        return self.unplaced, self.total


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The weights of the objective that policies, rebalancers and the controller share.

    Args:
        horizon_s: the time in which a change must pay, in seconds; at least ten cycles. Default
            600: a day's load curve changes by a few percent in ten minutes.
        imbalance: the weight of the imbalance; 0 ignores it. Default 1: a cluster that takes
            twice as long for the same work costs twice as much.
        price_per_byte: the price of a byte between hosts in $; default 0. The time that the
            receiver waits for it counts in any case.
        move_s: the fixed cost of a moved task in seconds of its new worker's time; default 1:
            opened files, compiled code and connections of a task start anew.

    Raises:
        ArgumentError: a number is out of its range.

    Example:
        >>> from scheduling.model import Resources, Task
        >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.01) for name in "ab")
        >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(1, 64)) for i in range(4)))
        >>> at = {"t0": "a", "t1": "a", "t2": "a", "t3": "b"}
        >>> cost = Objective().cost(at, graph, Snapshot(0.0, workers), {"t3": "a"})
        >>> cost.rent, round(cost.imbalance, 3), cost.movement
        (12.0, 6.6, 0.01)
    """

    horizon_s: float = 600.0
    imbalance: float = 1.0
    price_per_byte: float = 0.0
    move_s: float = 1.0

    def __post_init__(self) -> None:
        number("horizon_s", self.horizon_s, above=True)
        for name in ("imbalance", "price_per_byte", "move_s"):
            number(name, getattr(self, name))

    def cost(
        self,
        placement: Plan | Mapping[str, str],
        graph: JobGraph,
        snapshot: Snapshot,
        present: Mapping[str, str] | None = None,
        *,
        release: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> PlacementCost:
        """The cost of a placement. O(tasks + streams + workers).

        Args:
            placement: a plan, or the worker of each placed task.
            graph: the tasks and streams.
            snapshot: the workers, and the usage of the tasks.
            present: the present worker of each task, from which moves are counted. A task that is
                missing here pays for what it loads, without ``move_s``. None (default): no
                movement is counted.
            release: whether idle workers are released, so that only those in use are paid for.
            loads: the CPU cores that each task uses. None (default): :func:`cpu_loads`.
        """
        at = placement.placement if isinstance(placement, Plan) else placement
        at = {task: worker for task, worker in at.items() if task in graph.by_id}
        loads = cpu_loads(graph, snapshot) if loads is None else loads
        used = set(at.values())
        paid = [w for w in snapshot.workers if not release or w.id in used]
        price = dict(zip((one.id for one in snapshot.workers), prices(snapshot), strict=True))
        placed = _Placed(at, graph, snapshot, price)
        rent = math.fsum(price[worker.id] for worker in paid)
        sums = dict.fromkeys((worker.id for worker in paid), 0.0)
        for task, name in at.items():
            sums[name] += loads[task]
        return PlacementCost(
            self.horizon_s * rent,
            self.horizon_s * rent * self._excess(sums, snapshot, used),
            self.horizon_s * placed.communication_per_s(self.price_per_byte),
            0.0 if present is None else placed.movement(present, self.move_s),
            len(graph.tasks) - len(at),
        )

    def excess(self, highest: Number, squares: Number, total: float, cores: Number) -> Number:
        """The weighted imbalance as a share of the rent; numbers, or one per placement.

        Args:
            highest: the highest load.
            squares: the sum of the workers' cores times their load squared.
            total: the cores that all tasks use; above 0.
            cores: the cores of all workers.
        """
        mean = total / cores
        deviation = np.sqrt(np.maximum(squares / cores / (mean * mean) - 1, 0.0))
        above = np.maximum(highest / mean - 1, 0.0)
        found: Number = self.imbalance * (above + _SPREAD * deviation)
        return found

    def _excess(self, sums: Mapping[str, float], snapshot: Snapshot, used: set[str]) -> float:
        """The weighted imbalance of some workers as a share of the rent; 0 without load."""
        speed = speeds(snapshot)
        for name in used:
            if not speed[name]:  # others took it over while a task runs there
                speed[name] = max(snapshot.by_id[name].capacity.cpu_cores, LEAST_CORES)
        cores = math.fsum(speed[name] for name in sums)
        every = math.fsum(sums.values())
        if not every or not cores:
            return 0.0
        loads = {name: total / speed[name] for name, total in sums.items() if speed[name]}
        squares = math.fsum(speed[name] * load * load for name, load in loads.items())
        return float(self.excess(max(loads.values()), squares, every, cores))

    def least(self, graph: JobGraph, snapshot: Snapshot, *, release: bool) -> float:
        """A lower bound of the running cost of any placement of all tasks, in $.

        The rent of the workers that the tasks would need if they were divisible, for the scarcest
        resource; of all workers where none is released. O(tasks + workers x log workers).

        Args:
            graph: the tasks.
            snapshot: the workers.
            release: whether idle workers are released.
        """
        price = prices(snapshot)
        if not release:
            return self.horizon_s * math.fsum(price)
        free = [(snapshot.free_slots[w.id], snapshot.free[w.id]) for w in snapshot.workers]
        kinds = (
            (len(graph.tasks), [float(slots) for slots, _ in free]),
            (
                math.fsum(task.demand.cpu_cores for task in graph.tasks),
                [one.cpu_cores for _, one in free],
            ),
            (
                math.fsum(task.demand.memory_mb for task in graph.tasks),
                [one.memory_mb for _, one in free],
            ),
        )
        return self.horizon_s * max(_fluid(need, has, price) for need, has in kinds)


@dataclass(frozen=True)
class _Placed:
    """A placement and what its bytes cost.

    Args:
        at: the worker of each placed task.
        graph: the tasks and streams.
        snapshot: the workers.
        price: of each worker.
    """

    at: Mapping[str, str]
    graph: JobGraph
    snapshot: Snapshot
    price: Mapping[str, float]

    def communication_per_s(self, price_per_byte: float) -> float:
        """The cost of the bytes between hosts in a second."""
        at, by_id, parts = self.at, self.snapshot.by_id, []

        def byte(worker: Worker) -> float:
            return price_per_byte + self.price[worker.id] / worker.bandwidth_bytes_per_s

        for edge in self.graph.edges:
            if edge.source in at and edge.target in at:
                target = by_id[at[edge.target]]
                if by_id[at[edge.source]].host != target.host:
                    parts.append(edge.bytes_per_s * byte(target))
        for task in self.graph.tasks:
            if task.input_bytes_per_s and task.preferred and task.id in at:
                worker = by_id[at[task.id]]
                if not is_preferred(task, worker):
                    parts.append(task.input_bytes_per_s * byte(worker))
        return math.fsum(parts)

    def movement(self, present: Mapping[str, str], move_s: float) -> float:
        """The cost of the moves from a present placement."""
        parts = []
        for name, target in self.at.items():
            before = present.get(name)
            if before == target:
                continue
            worker = self.snapshot.by_id[target]
            missing = bytes_to_load(self.graph.by_id[name], worker.host)
            seconds = move_s if before is not None else 0.0
            parts.append(self.price[target] * (seconds + missing / worker.bandwidth_bytes_per_s))
        return math.fsum(parts)


def _fluid(need: float, has: list[float], price: list[float]) -> float:
    """The least price of workers that have so much of a resource, parts of workers included."""
    total = 0.0
    sizes = [(size, cost) for size, cost in zip(has, price, strict=True) if size]
    for size, cost in sorted(sizes, key=lambda one: one[1] / one[0]):
        if need <= 0:
            break
        total += cost * min(1.0, need / size)
        need -= size
    return total
