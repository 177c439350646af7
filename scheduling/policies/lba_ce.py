"""LBA-CE: balances the load over the workers with above-average fitness.

Assumes that a worker that was cheap per tuple (CE) and not busy (B) stays so. Source: CETSA and
LBA-CE, Algorithm 2. The listing lacks line 17, a loop over the high list, and the check of delta
that the text requires; both are added. Filling the fittest worker first, to the letter, does not
balance: ``spread="literal"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sortedcontainers import SortedList

from scheduling.load import EPSILON, average_fitness, fitness, guessed, task_load
from scheduling.model import JobGraph, Plan, Snapshot
from scheduling.model.checks import check, one_of, positive
from scheduling.policies.round_robin import without_history
from scheduling.room import Room

__all__ = ["LBACE", "split_at_mean"]


@dataclass(frozen=True)
class LBACE:
    """Balance the tasks over the workers with at least the mean fitness.

    Args:
        spread: each task goes to the ``"least-loaded"`` worker of the high list (default), of
            equal ones the fitter; in ``"turns"`` to the next; or to the fittest (``"literal"``).
        epsilon: the least busyness, for Eq. 24.

    Complexity: O((workers + tasks) x log workers), O(tasks x workers) where many have no room.

    Example:
        >>> from scheduling.model import JobGraph, Resources, Task, Worker
        >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(1, 512)) for i in range(2)))
        >>> workers = tuple(Worker(name, Resources(4, 8192), 4) for name in "abc")
        >>> tuples, cost = {"a": 9, "b": 9, "c": 9}, {"a": 1.0, "b": 1.0, "c": 9.0}
        >>> LBACE().plan(graph, Snapshot(0.0, workers, tuples=tuples, cost=cost)).placement
        {'t0': 'a', 't1': 'b'}
    """

    spread: Literal["least-loaded", "turns", "literal"] = "least-loaded"
    epsilon: float = EPSILON
    name: ClassVar[str] = "lba-ce"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        ways = one_of("least-loaded", "turns", "literal")
        check(self, spread=ways, epsilon=positive)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks in their order; see :class:`scheduling.Policy`."""
        high, low, why = split_at_mean(snapshot, self.epsilon)
        if not high and not low:
            return without_history(graph, snapshot, self.name)
        room = Room(graph, snapshot)
        at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        rank = {at[name]: place for place, name in enumerate([*high, *low])}
        load = [0.0] * len(at)
        queue: SortedList[tuple[float, int, int]] = SortedList(
            (0.0, rank[i], i) for i in map(at.__getitem__, high) if room.free[i][0]
        )
        spill = [at[name] for name in reversed(low) if room.free[at[name]][0]]
        for task in graph.tasks:
            entry = next((one for one in queue if room.fits(task, one[2])), None)
            while entry is None and spill:
                i = spill.pop()
                queue.add((0.0, rank[i], i))
                entry = (0.0, rank[i], i) if room.fits(task, i) else None
            if entry is None:
                continue
            key, _, i = entry
            worker = room.workers[i]
            load[i] += task_load(task.demand, worker.capacity)
            told = f"; least load, then {load[i]:.0%}" if self.spread == "least-loaded" else ""
            room.place(task, i, why[worker.id] + told)
            queue.remove(entry)
            if room.free[i][0]:
                # Where demands are not known, the share of the slots that are taken.
                taken = load[i] or 1 - room.free[i][0] / worker.slots
                key = {"literal": 0.0, "turns": key + 1}.get(self.spread, taken)
                queue.add((key, rank[i], i))
        return room.plan(self.name)


def split_at_mean(
    snapshot: Snapshot, epsilon: float = EPSILON
) -> tuple[list[str], list[str], dict[str, str]]:
    """The high and the low list of Algorithm 2, the fittest first in each, and why."""
    fit, unsure = fitness(snapshot, epsilon), guessed(snapshot, busy=True)
    mean = average_fitness(fit.values())
    # The sort is stable: of equal ones the first worker comes first, those measured before others.
    order = sorted(fit, key=lambda name: (-fit[name], name in unsure))
    high, why = [name for name in order if fit[name] >= mean], {}
    for name in order:
        which = "high list" if fit[name] >= mean else "low list, the high one is full"
        doubt = f"; {unsure[name]}" if name in unsure else ""
        why[name] = f"fitness {fit[name]:.3g} ({which}, mean {mean:.3g}{doubt})"
    return high, order[len(high) :], why
