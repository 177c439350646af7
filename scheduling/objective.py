"""What a placement costs over a horizon, in one currency: the cost that decides whether it changes.

The currency is that of the prices ($); where no worker has a price each counts as 1 $/s, so costs
are executor seconds. Over the horizon H in seconds::

    rent          = H * w_r * R                                R: $/s of the workers in use
    imbalance     = H * w_i * P * (highest load / mean load - 1 + 0.1 * S / mean load)
    communication = H * w_c * sum over streams between hosts of
                        bytes/s * (price of a byte + R_i / B_i)
    movement      = sum over moved tasks of R_i * (fixed seconds + bytes to load / B_i)

The load of a worker is the cores that its tasks keep busy over the cores that others leave free. P
is R where idle workers are released, else the price of all workers: an idle worker that stays is no
rent, it is imbalance. Mean and S, the standard deviation (Eq. 31 of LBA-CE, by cores), are over the
same workers. Of two placements with the same highest load the one with fewer loads near it is
better: without S a new eighth executor gets none of 42 equal tasks on seven, as two keep six each.
R_i and B_i are the price and the bandwidth of the receiving worker, which waits for the bytes. The
weights are those of a policy: what it is for. Fewer unplaced tasks are better than any price.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.cost import (
    LEAST_CORES,
    bytes_to_load,
    cpu_loads,
    is_preferred,
    prices,
    speeds,
)
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import number

__all__ = ["Objective", "PlacementCost"]

Number = TypeVar("Number", float, NDArray[np.float64])

_DEVIATION = 0.1  # the weight of S: small enough that the highest load decides
_NOTHING = 1e-9  # cores


@dataclass(frozen=True)
class PlacementCost:
    """The cost of a placement over the horizon, in $ (:class:`Objective`).

    Args:
        rent: the weighted price of the workers in use.
        imbalance: the weighted price of the workers that wait for the most loaded one.
        communication: the weighted price of the bytes between hosts.
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
    """The weights of the objective by which the controller and the local search judge placements.

    Args:
        horizon_s: the time in which a change must pay, in seconds; at least ten cycles. Default
            600: a day's load curve changes by a few percent in ten minutes.
        rent: the weight of the rent; 0 ignores it. Default 1.
        imbalance: the weight of the imbalance; default 1: a cluster that takes twice as long for
            the same work costs twice as much.
        communication: the weight of the bytes between hosts; default 1.
        price_per_byte: the price of a byte between hosts in $; default 0. The time that the
            receiver waits for it counts in any case.
        move_s: the fixed cost of a moved task in seconds of its new worker's time; default 1:
            opened files, compiled code and connections of a task start anew.

    Raises:
        ArgumentError: a number is out of its range.

    Example:
        >>> from scheduling.model import Resources, Task, Worker
        >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.01) for name in "ab")
        >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(1, 64)) for i in range(4)))
        >>> at = {"t0": "a", "t1": "a", "t2": "a", "t3": "b"}
        >>> cost = Objective().cost(at, graph, Snapshot(0.0, workers), {"t3": "a"})
        >>> cost.rent, round(cost.imbalance, 9), cost.movement
        (12.0, 6.6, 0.01)
    """

    horizon_s: float = 600.0
    rent: float = 1.0
    imbalance: float = 1.0
    communication: float = 1.0
    price_per_byte: float = 0.0
    move_s: float = 1.0

    def __post_init__(self) -> None:
        number("horizon_s", self.horizon_s, above=True)
        for name in ("rent", "imbalance", "communication", "price_per_byte", "move_s"):
            number(name, getattr(self, name))

    def weighted(self, weights: Sequence[float]) -> Objective:
        """This objective for a policy.

        Args:
            weights: what the policy is for: rent, imbalance, communication; they are multiplied
                with the objective's own.

        >>> Objective().weighted((1, 0, 1)).imbalance
        0.0
        """
        rent, imbalance, communication = weights
        return dataclasses.replace(
            self,
            rent=self.rent * rent,
            imbalance=self.imbalance * imbalance,
            communication=self.communication * communication,
        )

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
            release: whether idle workers are released; default False.
            loads: the CPU cores that each task uses. None (default): as measured, else as
                demanded.
        """
        at = placement.placement if isinstance(placement, Plan) else placement
        at = {task: w for task, w in at.items() if task in graph.by_id and w in snapshot.by_id}
        loads = cpu_loads(graph, snapshot) if loads is None else loads
        price = dict(zip(snapshot.by_id, prices(snapshot), strict=True))
        waiting = self._waiting(at, snapshot, price, loads, release) if self.imbalance else 0.0
        return PlacementCost(
            self.horizon_s * self.rent * math.fsum(price[name] for name in set(at.values())),
            self.horizon_s * waiting,
            self._communication(at, graph, snapshot) if self.communication else 0.0,
            0.0 if present is None else self._movement(at, graph, snapshot, price, present),
            len(graph.tasks) - len(at),
        )

    def excess(self, highest: Number, squares: Number, load: float, cores: Number) -> Number:
        """The weighted imbalance as a share of what the workers cost; one placement, or an array.

        Args:
            highest: the highest load.
            squares: the sum of the workers' cores times their load squared.
            load: the cores that all tasks use; nothing is uneven where they use none.
            cores: the cores of all workers that are compared.
        """
        if load < _NOTHING:
            return 0.0 * highest
        mean = load / cores
        deviation = np.sqrt(np.maximum(squares / (cores * mean * mean) - 1, 0.0))
        found: Number = self.imbalance * (
            np.maximum(highest / mean - 1, 0.0) + _DEVIATION * deviation
        )
        return found

    def byte_costs(self, snapshot: Snapshot) -> NDArray[np.float64]:
        """What a byte per second from another host costs over the horizon, at each worker."""
        bandwidth = np.array([worker.bandwidth_bytes_per_s for worker in snapshot.workers])
        byte = self.price_per_byte + np.array(prices(snapshot)) / bandwidth
        found: NDArray[np.float64] = self.horizon_s * self.communication * byte
        return found

    def _waiting(
        self,
        at: Mapping[str, str],
        snapshot: Snapshot,
        price: Mapping[str, float],
        loads: Mapping[str, float],
        release: bool,
    ) -> float:
        """The weighted $/s of the workers that wait for the most loaded one; 0 without load."""
        used: dict[str, float] = {}
        for task, name in at.items():
            used[name] = used.get(name, 0.0) + loads[task]
        speed = speeds(snapshot)
        counted = [one for one in speed if one in used or (not release and speed[one] > 0)]
        for name in used:
            if not speed[name]:  # others took it over while a task runs there
                speed[name] = max(snapshot.by_id[name].capacity.cpu_cores, LEAST_CORES)
        load, cores = math.fsum(used.values()), math.fsum(speed[name] for name in counted)
        if not used or not cores:
            return 0.0
        highest = max(cpu / speed[name] for name, cpu in used.items())
        squares = math.fsum(cpu * cpu / speed[name] for name, cpu in used.items())
        paid = math.fsum(price[name] for name in counted)
        return float(paid * self.excess(highest, squares, load, cores))

    def _communication(self, at: Mapping[str, str], graph: JobGraph, snapshot: Snapshot) -> float:
        """The $ of the bytes between hosts over the horizon."""
        byte = dict(zip(snapshot.by_id, self.byte_costs(snapshot).tolist(), strict=True))
        host = {worker.id: worker.host for worker in snapshot.workers}
        paid = [
            edge.bytes_per_s * byte[at[edge.target]]
            for edge in graph.edges
            if edge.source in at
            and edge.target in at
            and host[at[edge.source]] != host[at[edge.target]]
        ]
        paid += [
            task.input_bytes_per_s * byte[at[task.id]]
            for task in graph.tasks
            if task.input_bytes_per_s
            and task.preferred
            and task.id in at
            and not is_preferred(task, snapshot.by_id[at[task.id]])
        ]
        return math.fsum(paid)

    def _movement(
        self,
        at: Mapping[str, str],
        graph: JobGraph,
        snapshot: Snapshot,
        price: Mapping[str, float],
        present: Mapping[str, str],
    ) -> float:
        """The $ of the moves from a present placement."""
        paid = []
        for name, target in at.items():
            before, worker = present.get(name), snapshot.by_id[target]
            if before != target:
                load_s = (
                    bytes_to_load(graph.by_id[name], worker.host) / worker.bandwidth_bytes_per_s
                )
                paid.append(price[target] * (load_s + (0.0 if before is None else self.move_s)))
        return math.fsum(paid)
