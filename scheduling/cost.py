"""The cost of a placement: rent, network, scheduling (CETSA, section 3.1, Eqs. 6-16).

Interpretation: Eq. 6 as printed counts types twice; here RC is the sum over the workers in use of
the price times the longest time. Eq. 10 counts each directed stream once, and Eq. 12 tests whether
the two tasks are on different hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import check, instance, is_number, number

__all__ = ["CostModel", "Costs", "rent_per_s"]


def rent_per_s(plan: Plan | Mapping[str, str], snapshot: Snapshot) -> float:
    """The price in $/s of all workers that have a task, of a plan or a placement. O(tasks)."""
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


@dataclass(frozen=True)
class CostModel:
    """The cost model of placements.

    Args:
        weights: of rent, network and scheduling in WEC (Eqs. 15 and 16), with the sum 1; default
            one third each.
        price_per_byte: P_f, the price of a byte between hosts in $; default 0.
        distance: D of Eq. 10 by pair of hosts, in either order; 1 (default) for a missing pair.

    >>> from scheduling.model import Assignment, Resources, Worker
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.25) for name in "ab")
    >>> plan = Plan((Assignment("t1", "a", "cheap"), Assignment("t2", "a", "cheap")))
    >>> CostModel().costs(plan, JobGraph(()), Snapshot(0.0, workers), seconds=10).rc
    2.5
    """

    weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    price_per_byte: float = 0.0
    distance: Mapping[tuple[str, str], float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check(self, weights=_weights, price_per_byte=number, distance=instance(Mapping))
        for hosts, far in self.distance.items():
            number(f"distance[{hosts!r}]", far)

    def costs(self, plan: Plan, graph: JobGraph, snapshot: Snapshot, seconds: float) -> Costs:
        """RC, CC, SC and WEC of a job (Eqs. 6-16). O(tasks + edges).

        Args:
            plan: the plan, with its ``scheduling_time_s``.
            graph: the tasks and streams.
            snapshot: the workers, with their prices and hosts.
            seconds: how long the job runs on the slowest worker (ET_max, Eq. 8).
        """
        rent, network = rent_per_s(plan, snapshot), self.network_per_s(plan, graph, snapshot)
        parts = rent * seconds, network * seconds, rent * plan.scheduling_time_s
        wec = math.fsum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        return Costs(*parts, wec)

    def network_per_s(
        self, plan: Plan | Mapping[str, str], graph: JobGraph, snapshot: Snapshot
    ) -> float:
        """The cost in $/s of the streams of a ``graph`` between hosts (Eqs. 10-12).

        With the workers of a ``snapshot``, under a ``plan``, or with the worker of each task.
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


def _weights(name: str, given: Any, of: str) -> tuple[float, ...]:
    weights = given if isinstance(given, list | tuple) else ()
    good = len(weights) == 3 and all(is_number(one) and one >= 0 for one in weights)
    if not good or abs(sum(weights) - 1) > 1e-9:
        raise ArgumentError(f"{name}={given!r}: give three numbers, at least 0 each, that sum to 1")
    return tuple(weights)
