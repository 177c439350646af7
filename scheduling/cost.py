"""The cost of a placement: rent, network, scheduling (CETSA, section 3.1, Eqs. 6-16).

Interpretation: Eq. 6 as printed counts types twice; here RC is the sum over the workers in use of
the price times the longest time. Eq. 10 counts each directed stream once, and Eq. 12 tests whether
the two tasks are on different hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import instance, is_number, number, set_fields

__all__ = ["CostModel", "Costs", "rent_per_s"]


def rent_per_s(plan: Plan | Mapping[str, str], snapshot: Snapshot) -> float:
    """The price in $/s of all workers that have a task. O(tasks).

    Args:
        plan: a plan, or the worker of each task.
        snapshot: the workers with their prices.
    """
    placement = plan.placement if isinstance(plan, Plan) else plan
    return math.fsum(snapshot.by_id[name].price_per_s for name in set(placement.values()))


@dataclass(frozen=True)
class Costs:
    """The cost of a plan in $.

    Args:
        rc: the resource cost RC: rent.
        cc: the communication cost CC: network.
        sc: the scheduling cost SC.
        wec: the weighted execution cost WEC.
    """

    rc: float
    cc: float
    sc: float
    wec: float

    @property
    def total(self) -> float:
        """The sum of RC, CC and SC."""
        return self.rc + self.cc + self.sc


@dataclass(frozen=True)
class CostModel:
    """The cost model of placements.

    Args:
        weights: the weights of rent, network and scheduling in WEC (Eqs. 15 and 16), which sum to
            1; default one third each.
        price_per_byte: P_f, the price of a byte between hosts in $; default 0.
        distance: D of Eq. 10 for pairs of hosts, in either order; 1 for a missing pair (default
            for all).

    Raises:
        ArgumentError: a weight is negative, they do not sum to 1, or the price is negative.

    >>> from scheduling.model import Resources, Worker
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.25) for name in "ab")
    >>> CostModel().rc({"t1": "a", "t2": "a"}, Snapshot(0.0, workers), seconds=10)
    2.5
    """

    weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    price_per_byte: float = 0.0
    distance: Mapping[tuple[str, str], float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        weights = tuple(self.weights) if isinstance(self.weights, list) else self.weights
        if (
            not isinstance(weights, tuple)
            or len(weights) != 3
            or not all(is_number(one) and one >= 0 for one in weights)
            or abs(sum(weights) - 1) > 1e-9
        ):
            raise ArgumentError(
                f"weights={self.weights!r}: give three numbers, at least 0 each, that sum to 1"
            )
        set_fields(self, weights=weights)
        if not is_number(self.price_per_byte) or self.price_per_byte < 0:
            raise ArgumentError(f"price_per_byte={self.price_per_byte!r}: give $, at least 0")
        instance("distance", self.distance, Mapping)  # type: ignore[type-abstract]
        for hosts, far in self.distance.items():
            number(f"distance[{hosts!r}]", far)

    def rc(self, plan: Plan | Mapping[str, str], snapshot: Snapshot, seconds: float) -> float:
        """RC in $, the rent of the workers in use (Eqs. 6-9). O(tasks).

        Args:
            plan: a plan, or the worker of each task.
            snapshot: the workers with their prices.
            seconds: how long the job runs on the slowest worker.
        """
        return rent_per_s(plan, snapshot) * seconds

    def cc(
        self, plan: Plan | Mapping[str, str], graph: JobGraph, snapshot: Snapshot, seconds: float
    ) -> float:
        """CC in $, the cost of the streams between hosts (Eqs. 10-12). O(edges).

        Args:
            plan: a plan, or the worker of each task.
            graph: the streams.
            snapshot: the workers with their hosts.
            seconds: how long the job runs.
        """
        return self.network_per_s(plan, graph, snapshot) * seconds

    def sc(self, plan: Plan, snapshot: Snapshot) -> float:
        """SC in $, the rent of the workers in use during planning (Eqs. 13 and 14).

        Args:
            plan: a plan with its ``scheduling_time_s``.
            snapshot: the workers with their prices.
        """
        return rent_per_s(plan, snapshot) * plan.scheduling_time_s

    def costs(self, plan: Plan, graph: JobGraph, snapshot: Snapshot, seconds: float) -> Costs:
        """RC, CC, SC and WEC of a job.

        Args:
            plan: the plan.
            graph: the tasks and streams.
            snapshot: the workers.
            seconds: how long the job runs on the slowest worker (ET_max, Eq. 8).
        """
        parts = (
            self.rc(plan, snapshot, seconds),
            self.cc(plan, graph, snapshot, seconds),
            self.sc(plan, snapshot),
        )
        wec = math.fsum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        return Costs(*parts, wec)

    def network_per_s(
        self, plan: Plan | Mapping[str, str], graph: JobGraph, snapshot: Snapshot
    ) -> float:
        """The cost in $/s of the streams between tasks on different hosts.

        Args:
            plan: a plan, or the worker of each task.
            graph: the streams.
            snapshot: the workers with their hosts.
        """
        placement = plan.placement if isinstance(plan, Plan) else plan
        host = {task: snapshot.by_id[worker].host for task, worker in placement.items()}
        return self.price_per_byte * math.fsum(
            edge.bytes_per_s * self.far(host[edge.source], host[edge.target])
            for edge in graph.edges
            if edge.source in host and edge.target in host
        )

    def far(self, one: str, other: str) -> float:
        """The distance of hosts ``one`` and ``other``: 0 if equal, else as given, else 1."""
        if one == other:
            return 0.0
        return self.distance.get((one, other), self.distance.get((other, one), 1.0))
