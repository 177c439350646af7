"""LBA-CE: balances the load over the workers with above-average fitness.

Assumes that a worker that was cheap per tuple (CE) and not busy (B) stays so. The workers whose
fitness 1 / (CE x B) is at least the mean (AF) form the high list; tasks are spread over it. A
worker of the low list is added, the fittest first, when no worker of the high list has room.

Source: CETSA and LBA-CE, Algorithm 2. The printed listing lacks line 17, a loop over the high
list, and the check of delta = 0.8 that the text requires; both are added here. Filling the fittest
worker first, to the letter, does not balance; ``spread="literal"`` does that.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar, Literal

from scheduling.errors import ArgumentError
from scheduling.load import CPU_WEIGHT, EPSILON, average_fitness, fitness, task_load
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.policies.capacity import CapacityLedger
from scheduling.policies.round_robin import without_history

__all__ = ["LBACE"]


@dataclass(frozen=True)
class LBACE:
    """Balance the tasks over the workers with at least the mean fitness.

    Args:
        spread: ``"least-loaded"``: each task goes to the worker of the high list whose planned
            load is least (equal ones: the fitter); ``"turns"``: to the next one;
            ``"literal"``: to the fittest that has room.
        cpu_weight: alpha of Eq. 28.
        epsilon: the least busyness, for Eq. 24.

    Raises:
        ArgumentError: ``spread`` is unknown.

    Complexity: O(workers x log workers + tasks x log workers); O(tasks x workers) where many
    workers cannot run the task.

    Example:
        >>> from scheduling.model import JobGraph, Resources, Task, Worker
        >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(1, 512)) for i in range(2)))
        >>> workers = tuple(Worker(name, Resources(4, 8192), 4) for name in "abc")
        >>> tuples, cost = {"a": 9, "b": 9, "c": 9}, {"a": 1.0, "b": 1.0, "c": 9.0}
        >>> LBACE().plan(graph, Snapshot(0.0, workers, tuples=tuples, cost=cost)).placement
        {'t0': 'a', 't1': 'b'}
    """

    spread: Literal["least-loaded", "turns", "literal"] = "least-loaded"
    cpu_weight: float = CPU_WEIGHT
    epsilon: float = EPSILON
    name: ClassVar[str] = "lba-ce"

    def __post_init__(self) -> None:
        if self.spread not in ("least-loaded", "turns", "literal"):
            raise ArgumentError(
                f"spread={self.spread!r}: give 'least-loaded', 'turns' or 'literal'"
            )

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        fit = fitness(snapshot, epsilon=self.epsilon)
        if not fit:
            return without_history(graph, snapshot, self.name)
        ledger = CapacityLedger(graph, snapshot)
        order = sorted(range(len(ledger.workers)), key=lambda i: (-fit[ledger.workers[i].id], i))
        mean = average_fitness(fit.values())
        high = [i for i in order if fit[ledger.workers[i].id] >= mean]
        low = order[len(high) :]
        # Workers in the order of their turn: (load, rank). A literal rank never changes.
        load = [0.0] * len(ledger.workers)
        rank = {i: place for place, i in enumerate(order)}
        queue = [(0.0, rank[i], i) for i in high]
        heapq.heapify(queue)
        spilt = 0
        for task in graph.tasks:
            aside = []
            while queue or spilt < len(low):
                if not queue:
                    i = low[spilt]
                    spilt += 1
                    key = 0.0
                else:
                    key, _, i = heapq.heappop(queue)
                if not ledger.slots[i]:
                    continue
                if ledger.fits(task, i):
                    load[i] += task_load(task.demand, ledger.workers[i].capacity, self.cpu_weight)
                    ledger.place(task, i, self._why(ledger, i, fit, mean, load[i]))
                    heapq.heappush(queue, (self._key(key, ledger, i, load), rank[i], i))
                    break
                aside.append((key, rank[i], i))
            for entry in aside:
                heapq.heappush(queue, entry)
        return ledger.plan(self.name)

    def _key(self, key: float, ledger: CapacityLedger, i: int, load: list[float]) -> float:
        if self.spread == "literal":
            return 0.0
        if self.spread == "turns":
            return key + 1
        # Where demands are not known, the share of the slots that are taken.
        return load[i] or 1 - ledger.slots[i] / ledger.workers[i].slots

    def _why(
        self, ledger: CapacityLedger, i: int, fit: dict[str, float], mean: float, load: float
    ) -> str:
        own = fit[ledger.workers[i].id]
        which = "high list" if own >= mean else "low list, the high one is full"
        if self.spread == "least-loaded":
            return f"fitness {own:.3g} ({which}, mean {mean:.3g}); least load, then {load:.0%}"
        return f"fitness {own:.3g} ({which}, mean {mean:.3g})"


def split_at_mean(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The high and the low list of Algorithm 2, the fittest first in each."""
    fit = fitness(snapshot)
    mean = average_fitness(fit.values())
    order = sorted(fit, key=lambda name: -fit[name])
    return (
        [name for name in order if fit[name] >= mean],
        [name for name in order if fit[name] < mean],
    )
