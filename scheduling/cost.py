"""What a placement costs: rent, network, scheduling (CETSA, section 3.1, Eqs. 6-16).

As read here: Eq. 6 would count types twice; RC is the sum over the workers in use of the price
times the longest time. Eq. 10 takes each directed stream once, and Eq. 12 asks whether the two
tasks are on different hosts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot

__all__ = ["CostModel", "Costs", "rent_per_s"]


def rent_per_s(plan: Plan | Mapping[str, str], snapshot: Snapshot) -> float:
    """The $/s of the workers that have a task, each once. O(tasks).

    Args:
        plan: a plan, or the worker of each task.
        snapshot: the workers with their prices.
    """
    placement = plan.placement if isinstance(plan, Plan) else plan
    return math.fsum(snapshot.by_id[name].price_per_s for name in set(placement.values()))


@dataclass(frozen=True)
class Costs:
    """What a plan costs in $: rent (RC), network (CC), scheduling (SC), weighted (WEC)."""

    rc: float
    cc: float
    sc: float
    wec: float

    @property
    def total(self) -> float:
        """What is paid: RC, CC and SC together."""
        return self.rc + self.cc + self.sc


@dataclass(frozen=True)
class CostModel:
    """Prices of placements.

    Args:
        weights: of rent, network and scheduling in WEC (Eqs. 15 and 16); they sum to 1.
        price_per_byte: P_f, what a byte from host to host costs in $.
        distance: D of Eq. 10 by a pair of hosts, either way round; 1 where a pair is missing.

    Raises:
        ArgumentError: a weight is negative, they do not sum to 1, or the price is negative.

    >>> from scheduling.model import Resources, Worker
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.25) for name in "ab")
    >>> CostModel().rc({"t1": "a", "t2": "a"}, Snapshot(0.0, workers), seconds=10)
    2.5
    """

    weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    price_per_byte: float = 0.0
    distance: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.weights) != 3 or min(self.weights) < 0 or abs(sum(self.weights) - 1) > 1e-9:
            raise ArgumentError(
                f"weights={self.weights!r}: give three numbers, at least 0 each, that sum to 1"
            )
        if not (math.isfinite(self.price_per_byte) and self.price_per_byte >= 0):
            raise ArgumentError(f"price_per_byte={self.price_per_byte!r}: give $, at least 0")

    def rc(self, plan: Plan | Mapping[str, str], snapshot: Snapshot, seconds: float) -> float:
        """RC, the rent of the workers in use for the time of the slowest (Eqs. 6-9)."""
        return rent_per_s(plan, snapshot) * seconds

    def cc(
        self,
        plan: Plan | Mapping[str, str],
        graph: JobGraph,
        snapshot: Snapshot,
        seconds: float,
    ) -> float:
        """CC, what the streams between hosts cost (Eqs. 10-12). O(edges)."""
        return self.network_per_s(plan, graph, snapshot) * seconds

    def sc(self, plan: Plan, snapshot: Snapshot) -> float:
        """SC, the rent of the workers in use while the plan was made (Eqs. 13 and 14)."""
        return rent_per_s(plan, snapshot) * plan.scheduling_time_s

    def costs(self, plan: Plan, graph: JobGraph, snapshot: Snapshot, seconds: float) -> Costs:
        """All of it for a job that takes ``seconds`` on the slowest worker (ET_max, Eq. 8)."""
        parts = (
            self.rc(plan, snapshot, seconds),
            self.cc(plan, graph, snapshot, seconds),
            self.sc(plan, snapshot),
        )
        wec = math.fsum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        return Costs(*parts, wec)

    def wec(self, plan: Plan, graph: JobGraph, snapshot: Snapshot, seconds: float) -> float:
        """WEC, the weighted sum of the three (Eq. 15)."""
        return self.costs(plan, graph, snapshot, seconds).wec

    def network_per_s(
        self, plan: Plan | Mapping[str, str], graph: JobGraph, snapshot: Snapshot
    ) -> float:
        """The $/s of the streams whose two tasks are placed on different hosts."""
        placement = plan.placement if isinstance(plan, Plan) else plan
        host = {name: worker.host for name, worker in snapshot.by_id.items()}
        return self.price_per_byte * math.fsum(
            edge.bytes_per_s * self.far(host[placement[edge.source]], host[placement[edge.target]])
            for edge in graph.edges
            if edge.source in placement and edge.target in placement
        )

    def far(self, one: str, other: str) -> float:
        """The distance of two hosts: 0 for the same, else what was given, else 1."""
        if one == other:
            return 0.0
        return self.distance.get((one, other), self.distance.get((other, one), 1.0))

    def crossing_bytes_per_s(
        self, placement: Mapping[str, str], graph: JobGraph, snapshot: Snapshot
    ) -> float:
        """The bytes a second that go from host to host, whatever they cost."""
        host = {name: worker.host for name, worker in snapshot.by_id.items()}
        crossing: Iterable[float] = (
            edge.bytes_per_s
            for edge in graph.edges
            if edge.source in placement
            and edge.target in placement
            and host[placement[edge.source]] != host[placement[edge.target]]
        )
        return math.fsum(crossing)
