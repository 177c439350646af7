"""Local search: improves the plan of any policy.

Assumes, like exact, that rent and network are all that counts. Begins with the best plan of several
policies; tries cheaper sets of workers (all there are, if they are few) and packs all tasks anew;
where bytes between hosts are paid for, moves, swaps and replaces tasks. The effort is counted in
steps, never in time: the same arguments give the same plan on any machine.

Source: our own; at most 5 % above the exact optimum in the tests, of up to 12 workers, also where
the network is paid for. Workers of equal room and price count as one kind, so a few tiers have few
sets to try.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random as Generator

from scheduling.cost import CostModel, rent_per_s
from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.policies.capacity import CapacityLedger
from scheduling.policies.cetsa import CETSA
from scheduling.policies.gs_bfd import GSBFD
from scheduling.policies.local_search_state import LocalSearchState
from scheduling.policies.packing import SEARCHED, Packing
from scheduling.policies.resource_aware import ResourceAware
from scheduling.policies.worker_sets import WorkerSets
from scheduling.protocols import Policy

__all__ = ["LocalSearch", "objective"]

_EFFORT = 6_000  # tasks placed in packings of jobs too large for a second thought
_LARGE = 2  # packings of such a job that are made at least
_NEAR_ENOUGH = 1.002  # of the cheapest set that may suffice; nearer does not justify a packing
_SEARCHES = 3  # placements that such a search begins with
_ROUNDS, _ROUNDS_WORK = 300, 6_000  # of taking out and putting back; times tasks


def objective(
    cost: CostModel, placement: Mapping[str, str], graph: JobGraph, snapshot: Snapshot
) -> float:
    """Weighted $/s of rent and network, what exact and local search make small."""
    rent, network = cost.weights[0], cost.weights[1]
    found = rent * rent_per_s(placement, snapshot)
    if network and cost.price_per_byte:
        found += network * cost.network_per_s(placement, graph, snapshot)
    return found


@dataclass(frozen=True)
class LocalSearch:
    """Improve the plan of another policy by local changes.

    Args:
        base: the initial policy; default ``CETSA(by_price=True)``. Others are tried too, and the
            best plan is the start.
        cost: prices and weights of rent and network; default ``CostModel()``.
        tries: the maximum number of packed worker sets, and of ruin and recreate rounds; default
            400.
        orders: the number of task orders tried per packing, the first by size; default 6.
        seed: the seed of the other orders and of the ruins; default 0.

    Raises:
        ArgumentError: ``tries`` or ``orders`` is out of its range.

    Complexity: O(tries x orders x tasks x workers) for up to 64 tasks; for more, some packings of
    O(tasks x log workers).
    """

    base: Policy = field(default_factory=lambda: CETSA(by_price=True))
    cost: CostModel = field(default_factory=CostModel)
    tries: int = 400
    orders: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tries < 0 or self.orders < 1:
            raise ArgumentError(
                f"tries={self.tries!r}, orders={self.orders!r}: give at least 0 and 1"
            )

    @property
    def name(self) -> str:
        """``local-search``."""
        return "local-search"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        start = self.base.plan(graph, snapshot, previous)
        position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        begun = [start, *(other.plan(graph, snapshot) for other in self._others(graph))]
        found = [
            {task: position[worker] for task, worker in one.placement.items()} for one in begun
        ]
        found = self._search(graph, snapshot, found)
        best = min(found, key=lambda one: self._value(graph, snapshot, one))
        ledger = CapacityLedger(graph, snapshot)
        before = {one.task: (position[one.worker], one.reason) for one in start.assignments}
        for task in graph.tasks:
            if task.id in best:
                i, reason = before.get(task.id, (-1, ""))
                if i != best[task.id]:
                    reason = f"cheaper than {start.policy} has it"
                ledger.place(task, best[task.id], reason)
        return ledger.plan(self.name)

    def _others(self, graph: JobGraph) -> Iterator[Policy]:
        if len(graph.tasks) <= SEARCHED:
            yield GSBFD(jobs="task")
            yield ResourceAware()
        else:
            yield GSBFD()

    def _value(
        self, graph: JobGraph, snapshot: Snapshot, placement: Mapping[str, int]
    ) -> tuple[int, float]:
        """What is made small: the tasks left out, then the weighted $/s."""
        named = {task: snapshot.workers[i].id for task, i in placement.items()}
        left_out = len(graph.tasks) - len(placement)
        return left_out, objective(self.cost, named, graph, snapshot)

    def _search(
        self, graph: JobGraph, snapshot: Snapshot, found: list[dict[str, int]]
    ) -> list[dict[str, int]]:
        """More placements, some of them better."""
        if not (self.tries and graph.tasks and snapshot.workers):
            return found
        linked = self.cost.weights[1] > 0 and self.cost.price_per_byte > 0 and bool(graph.edges)
        if self.cost.weights[0] > 0:
            rent_only = CostModel(weights=(1.0, 0.0, 0.0))
            search = LocalSearch(self.base, rent_only, self.tries, self.orders, self.seed)
            best = min(found, key=lambda one: search._value(graph, snapshot, one))
            found = [*found, search._fewer(graph, snapshot, best)]
        return [*found, *self._closer(graph, snapshot, found)] if linked else found

    def _closer(
        self, graph: JobGraph, snapshot: Snapshot, found: list[dict[str, int]]
    ) -> Iterator[dict[str, int]]:
        """Each placement with its tasks moved, and what a search finds from the best of them."""
        state = LocalSearchState(graph, snapshot, self.cost)
        if len(graph.tasks) > SEARCHED:
            found = [min(found, key=lambda one: self._value(graph, snapshot, one))]
        near: list[tuple[float, int, dict[str, int]]] = []
        for one in found:
            state.load(one)
            state.descend()
            near.append((state.value, len(near), state.placement))
            yield state.placement
        if len(graph.tasks) <= SEARCHED:
            rounds = min(self.tries, _ROUNDS, _ROUNDS_WORK // len(graph.tasks))
            for seed, (_, _, one) in enumerate(sorted(near)[:_SEARCHES]):
                state.load(one)
                state.search(Generator(self.seed + seed), rounds)
                yield state.placement

    def _fewer(self, graph: JobGraph, snapshot: Snapshot, best: dict[str, int]) -> dict[str, int]:
        """The cheapest set of workers, prices of streams aside, that all the tasks fit."""
        packing = Packing(graph, snapshot, self.orders, Generator(self.seed))
        if len(best) < len(graph.tasks):
            # First of all as many tasks as possible, prices aside.
            every = packing.packed(range(len(snapshot.workers)), len(best) + 1)
            best = max(every, key=len, default=best)
        sets = WorkerSets(graph, snapshot)
        if len(graph.tasks) > SEARCHED:
            return self._galloped(packing, sets, snapshot, best)
        whole = len(best) == len(graph.tasks)
        tries, better = self.tries, True
        while better:
            used = set(best.values())
            rent = sum(snapshot.workers[i].price_per_s for i in used)
            better = False
            for counts in sets.cheaper(used, rent, whole=whole)[1]:
                chosen = sets.workers(counts, used)
                if whole and not packing.may_hold(chosen):
                    continue
                if tries <= 0:
                    break
                tries -= 1
                packed = next(packing.packed(chosen, len(best)), None)
                if packed is not None:
                    # Where all sets are known, this is the cheapest that can be packed.
                    best, better = packed, not sets.all
                    break
        return best

    def _galloped(
        self, packing: Packing, sets: WorkerSets, snapshot: Snapshot, best: dict[str, int]
    ) -> dict[str, int]:
        """As :meth:`_fewer`, for large jobs: what fits a set mostly fits dearer ones, too.

        So the rents between the last that was too small and the first that was not are halved.
        """
        count, tasks = len(best), len(packing.tasks)
        most = min(max(_EFFORT, _LARGE * tasks), self.tries * self.orders * tasks)
        used = set(best.values())
        rent = sum(snapshot.workers[i].price_per_s for i in used)
        rents, counts = sets.cheaper(used, rent, whole=count == tasks)
        low, high, least, most_rent = -1, len(rents), rents[0] if rents else rent, rent
        while packing.spent < most and high - low > 1 and most_rent > least * _NEAR_ENOUGH:
            at = bisect.bisect_left(rents, (least + most_rent) / 2, low + 1, high - 1)
            packed = next(packing.packed(sets.workers(counts[at], used), count), None)
            if packed is None:
                low, least = at, rents[at]
            else:
                best, high, most_rent = packed, at, rents[at]
        return best
