"""CETSA: fills the cheapest workers first.

Assumptions: the cost of a tuple on a worker in the last period (CE, Eq. 22) stays the same, and a
full worker is not slower. It uses few workers completely; the load is not balanced.

Source: CETSA and LBA-CE, Algorithm 1. Its lines 9-11, one step to the next node, are read as a
loop. Without any runtime information it is round robin (line 20). Among the tasks that could go
to the worker at hand, the one that talks most to those already there goes next, as section 4.2
requires ("tasks with dependencies are assigned to minimize inter-node communication").
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from scheduling.load import cost_evaluation
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.capacity import CapacityLedger
from scheduling.policies.round_robin import without_history

__all__ = ["CETSA"]


@dataclass(frozen=True)
class CETSA:
    """Fill the workers in the order of $ per tuple, the cheapest first.

    Args:
        together: whether the next task is the one with the most traffic to the worker's tasks;
            default True. If False, the tasks are placed in their order.
        by_price: whether to rank workers by $/s per slot if there is no runtime information;
            default False: round robin.

    Complexity: O(workers x log workers + (tasks + edges) x log tasks), and O(tasks) more for a
    worker whose resources are exhausted before its slots.

    Example:
        >>> from scheduling.model import JobGraph, Resources, Task, Worker
        >>> graph = JobGraph((Task("t", "join", 0, Resources(1, 512)),))
        >>> cheap, dear = (Worker(p, Resources(4, 8192), 2, float(p)) for p in ("0.1", "0.3"))
        >>> CETSA(by_price=True).plan(graph, Snapshot(0.0, (dear, cheap))).placement
        {'t': '0.1'}
    """

    together: bool = True
    by_price: bool = False
    name: ClassVar[str] = "cetsa"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        cost = cost_evaluation(snapshot)
        if not cost and not self.by_price:
            return without_history(graph, snapshot, self.name)
        unit = "$ a tuple"
        if not cost:
            unit = "$/s a slot"
            cost = {one.id: one.price_per_s / max(one.slots, 1) for one in snapshot.workers}
        ledger = CapacityLedger(graph, snapshot)
        order = sorted(range(len(ledger.workers)), key=lambda i: (cost[ledger.workers[i].id], i))
        neighbours = graph.neighbours if self.together and graph.edges else {}
        waiting = dict.fromkeys(range(len(graph.tasks)))
        places = {task.id: place for place, task in enumerate(graph.tasks)}
        least = _least(graph.tasks)
        for rank, i in enumerate(order):
            if not waiting:
                break
            why = f"rank {rank + 1} of {len(order)} by {unit} ({cost[ledger.workers[i].id]:.3g})"
            _fill(ledger, i, why, graph, waiting, places, neighbours, least)
        return ledger.plan(self.name)


def _least(tasks: Iterable[Task]) -> tuple[float, float]:
    """The least demand of any task, per resource."""
    needs = [task.demand for task in tasks]
    return (
        min((need.cpu_cores for need in needs), default=0.0),
        min((need.memory_mb for need in needs), default=0.0),
    )


def _fill(
    ledger: CapacityLedger,
    i: int,
    why: str,
    graph: JobGraph,
    waiting: dict[int, None],
    places: Mapping[str, int],
    neighbours: Mapping[str, tuple[tuple[str, float], ...]],
    least: tuple[float, float],
) -> None:
    """Place waiting tasks on worker ``i`` until it is full."""
    pull: dict[int, float] = {}
    pulled: list[tuple[float, int]] = []
    in_order = iter(list(waiting))
    while ledger.slots[i] and ledger.cpu[i] >= least[0] and ledger.memory[i] >= least[1]:
        while pulled and (pulled[0][1] not in waiting or -pulled[0][0] != pull[pulled[0][1]]):
            heapq.heappop(pulled)
        if pulled:
            strength, place = heapq.heappop(pulled)
            drawn = f"; talks {-strength:.3g} B/s to the tasks there"
        else:
            found = next((place for place in in_order if place in waiting), None)
            if found is None:
                return
            place, drawn = found, ""
        task = graph.tasks[place]
        if not ledger.fits(task, i):
            pull[place] = -1.0  # It will not fit later either: nothing is removed from a worker.
            continue
        ledger.place(task, i, why + drawn)
        del waiting[place]
        for other, bytes_per_s in neighbours.get(task.id, ()):
            at = places[other]
            if at in waiting and pull.get(at, 0.0) >= 0 and bytes_per_s > 0:
                pull[at] = pull.get(at, 0.0) + bytes_per_s
                heapq.heappush(pulled, (-pull[at], at))
