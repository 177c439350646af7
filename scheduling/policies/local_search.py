"""Local search from the best plan of some policies.

It assumes, as the exact policy, that rent and network are all that counts; in the tests, of up to
12 workers, it is at most 5 % above that. :mod:`scheduling.improve` has the search.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduling.cost import CostModel, rent_per_s
from scheduling.improve import improve
from scheduling.model import Assignment, JobGraph, Plan, Snapshot, Unplaced
from scheduling.model.checks import Checked
from scheduling.objective import Objective, Pricing
from scheduling.policies.baselines import FirstFit
from scheduling.policies.cetsa import CETSA
from scheduling.policies.gs_bfd import GSBFD
from scheduling.protocols import Policy

_SMALL = 64  # tasks up to which GS-BFD packs each by itself
_WORK = 20_000  # of a try: tasks times workers from which there are fewer tries


@dataclass(frozen=True)
class LocalSearch(Checked):
    """Improve the best plan of some policies by local changes.

    Args:
        base: a policy whose plan is a start, beside GS-BFD's and first fit's; default
            ``CETSA(by_price=True)``.
        cost: prices and weights of rent and network; default ``CostModel()``.
        tries: rounds of ruin and recreate, fewer for large jobs; default 400.
        seed: the seed of the ruins; default 0.

    Raises:
        ArgumentError: ``tries`` is no whole number of at least 0.

    Complexity: O(tries x tasks x workers), at most some ten thousand insertions of a task.
    """

    base: Policy = field(default_factory=lambda: CETSA(by_price=True))
    cost: CostModel = field(default_factory=CostModel)
    tries: int = 400
    seed: int = 0
    name: ClassVar[str] = "local-search"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 1.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""

        def rank(at: Mapping[str, str]) -> tuple[int, float]:
            return len(graph.tasks) - len(at), objective(self.cost, at, graph, snapshot)

        packed = GSBFD(jobs="task") if len(graph.tasks) <= _SMALL else GSBFD()
        starts = [one.plan(graph, snapshot, previous) for one in (self.base, packed, FirstFit())]
        begin = min(starts, key=lambda one: rank(one.placement))
        found = min(begin.placement, self._improved(begin.placement, graph, snapshot), key=rank)
        said = {(one.task, one.worker): one.reason for one in begin.assignments}
        whys, new = {one.task: one.reason for one in begin.unplaced}, f"cheaper than {begin.policy}"
        left = [task for task in graph.by_id if task not in found]
        return Plan(
            tuple(Assignment(*pair, said.get(pair, f"{new} has it")) for pair in found.items()),
            tuple(Unplaced(task, whys.get(task, "others take its room")) for task in left),
            rent_per_s(found, snapshot),
            policy=self.name,
        )

    def _improved(
        self, start: Mapping[str, str], graph: JobGraph, snapshot: Snapshot
    ) -> Mapping[str, str]:
        """A placement after local search."""
        rent, network, _ = self.cost.weights
        hosts, byte = [one.host for one in snapshot.workers], network * self.cost.price_per_byte
        far = None
        if byte:
            far = np.array([[byte * self.cost.far(one, other) for other in hosts] for one in hosts])
        tries = self.tries * _WORK // max(1, len(graph.tasks) * len(hosts)) // 10
        by = Objective(horizon_s=1.0, rent=rent, imbalance=0.0, communication=float(byte > 0))
        pricing = Pricing(by, graph, snapshot, release=True, byte_costs=far)
        return improve(start, pricing, shakes=min(self.tries, tries), seed=self.seed)


def objective(
    cost: CostModel, placement: Mapping[str, str], graph: JobGraph, snapshot: Snapshot
) -> float:
    """Weighted $/s of rent and network, what exact and local search make small."""
    rent, network, _ = cost.weights
    paid = cost.network_per_s(placement, graph, snapshot) if cost.price_per_byte else 0.0
    return rent * rent_per_s(placement, snapshot) + network * paid
