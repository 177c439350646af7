"""CETSA: the cheapest workers first, each until it is full.

Assumes that what a tuple has cost on a worker in the last period (CE, Eq. 22) is what it will cost,
and that a full worker is no slower. Fills few workers to the brim; the load is not balanced.

Source: CETSA and LBA-CE, Algorithm 1. Its lines 9-11, one step to the next node, are read as a
loop. Without any runtime information it is round robin (line 20). Among the tasks that could go
to the worker at hand, the one that talks most to those already there goes next, as section 4.2
asks for ("tasks with dependencies are assigned to minimize inter-node communication").
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from scheduling.load import cost_evaluation
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.capacity import CapacityLedger
from scheduling.policies.round_robin import RoundRobin

__all__ = ["CETSA"]


@dataclass(frozen=True)
class CETSA:
    """Fill the workers in the order of $ per tuple, the cheapest first.

    Args:
        together: let the task that talks most to a worker's tasks go next; else the tasks go in
            their order.
        by_price: rank by $/s per slot where there is no runtime information, instead of round
            robin.

    Complexity: O(workers x log workers + (tasks + edges) x log tasks), and O(tasks) more for a
    worker whose resources are taken before its slots.
    """

    together: bool = True
    by_price: bool = False
    name: ClassVar[str] = "cetsa"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        cost = cost_evaluation(snapshot)
        if not cost and not self.by_price:
            return _named(RoundRobin().plan(graph, snapshot), self.name)
        told = "$ a tuple"
        if not cost:
            told = "$/s a slot"
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
            why = f"rank {rank + 1} of {len(order)} by {told} ({cost[ledger.workers[i].id]:.3g})"
            _fill(ledger, i, why, graph, waiting, places, neighbours, least)
        return ledger.plan(self.name)


def _named(plan: Plan, name: str) -> Plan:
    return Plan(plan.assignments, plan.unplaced, plan.score, plan.scheduling_time_s, name)


def _least(tasks: Iterable[Task]) -> tuple[float, float]:
    """Less than this no task needs."""
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
    """Put waiting tasks on worker ``i`` until it holds no more."""
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
            pull[place] = -1.0  # Nor will it later: nothing is taken away from a worker.
            continue
        ledger.place(task, i, why + drawn)
        del waiting[place]
        for other, bytes_per_s in neighbours.get(task.id, ()):
            at = places[other]
            if at in waiting and pull.get(at, 0.0) >= 0 and bytes_per_s > 0:
                pull[at] = pull.get(at, 0.0) + bytes_per_s
                heapq.heappush(pulled, (-pull[at], at))
