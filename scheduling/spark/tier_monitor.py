"""Tiers as workers: what their executors did, and the cheapest tier under any policy.

One stage runs on one tier, so a plan is made for each tier alone and the cheapest is taken: prices
count under every policy.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.cost import rent_per_s
from scheduling.model import JobGraph, Plan, Snapshot, Utilisation, Window, Worker
from scheduling.protocols import Monitor, Policy

__all__ = ["CheapestTier", "TierMonitor"]


@dataclass(frozen=True)
class CheapestTier:
    """The plan of another policy on the tier where most tasks have room, the cheapest of those.

    Args:
        policy: plans for each tier alone.
    """

    policy: Policy

    @property
    def name(self) -> str:
        """The name of the policy that plans."""
        return self.policy.name

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks on one tier; see :class:`scheduling.Policy`."""
        plans = [
            self.policy.plan(graph, dataclasses.replace(snapshot, workers=(tier,)), previous)
            for tier in snapshot.workers
        ]
        if not plans:
            return self.policy.plan(graph, snapshot, previous)
        return min(plans, key=lambda plan: (len(plan.unplaced), rent_per_s(plan, snapshot)))


class TierMonitor:
    """Observes tiers instead of executors; see :class:`scheduling.Monitor`.

    Args:
        monitor: observes the executors.
        tiers: the tiers as workers.
        tier_of: returns the tier of each executor, by Spark's id.
    """

    def __init__(
        self,
        monitor: Monitor,
        tiers: Sequence[Worker],
        tier_of: Callable[[], Mapping[str, str]],
    ) -> None:
        self._monitor, self._tiers, self._tier_of = monitor, tuple(tiers), tier_of

    def snapshot(self) -> Snapshot:
        """The tiers, and what their executors did since the last call."""
        seen, tier_of = self._monitor.snapshot(), self._tier_of()
        tier = {
            one.id: tier_of[one.executor_id]
            for one in seen.workers
            if one.executor_id is not None and one.executor_id in tier_of
        }
        tuples: dict[str, float] = {}
        used: dict[str, list[Utilisation]] = {}
        busy: dict[str, list[float]] = {}
        for worker, name in tier.items():
            if worker in seen.tuples:
                tuples[name] = tuples.get(name, 0.0) + seen.tuples[worker]
            if worker in seen.utilisation:
                used.setdefault(name, []).append(seen.utilisation[worker])
            if worker in seen.busyness:
                busy.setdefault(name, []).append(seen.busyness[worker])
        seconds = next((seen.cost[w] / seen.by_id[w].price_per_s for w in _paid(seen)), 0.0)
        return Snapshot(
            seen.time_s,
            self._tiers,
            utilisation={
                name: Utilisation(
                    statistics.fmean(one.cpu for one in every),
                    statistics.fmean(one.memory for one in every),
                )
                for name, every in used.items()
            },
            tuples=tuples,
            cost={one.id: one.price_per_s * seconds for one in self._tiers if one.id in tuples},
            busyness={name: statistics.fmean(every) for name, every in busy.items()},
            placement={task: tier[at] for task, at in seen.placement.items() if at in tier},
            usage=seen.usage,
        )

    def windows(self) -> Mapping[str, Window]:
        """The windows of the executors' monitor."""
        return self._monitor.windows()


def _paid(seen: Snapshot) -> list[str]:
    """The executors whose cost says how long the last cycle took."""
    return [name for name in seen.cost if seen.by_id[name].price_per_s]
