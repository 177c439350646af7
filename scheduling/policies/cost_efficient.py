"""CETSA fills the cheapest workers, LBA-CE balances over the fittest: from what was measured.

Both assume that what a tuple cost on a worker (CE, Eq. 22) stays so, CETSA that a full worker is
not slower, LBA-CE that one that was not busy (B) stays so. Source: CETSA and LBA-CE, Algorithm 1,
lines 9-11 read as a loop, with section 4.2 (tasks that talk stay together), and Algorithm 2, with
line 17 and the check of delta, which the listing lacks. Without history line 20: round robin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sortedcontainers import SortedList

from scheduling.load import EPSILON, average_fitness, cost_evaluation, fitness, guessed
from scheduling.model import JobGraph, Snapshot
from scheduling.model.checks import Positive
from scheduling.policies.greedy import Greedy, fill
from scheduling.room import Room


@dataclass(frozen=True)
class CETSA(Greedy):
    """Fill the workers in the order of $ per tuple, the cheapest first.

    Args:
        together: whether the task with the most traffic to the worker's is next; default True.
        by_price: without history, rank by $/s a slot; default False: round robin.

    Complexity: O(workers x log workers + (tasks + edges) x log tasks), and O(tasks) more for a
    worker whose resources are exhausted before its slots.

    >>> from scheduling.model import JobGraph, Resources, Task, Worker
    >>> graph = JobGraph((Task("t", "join", 0, Resources(1, 512)),))
    >>> cheap, dear = (Worker(p, Resources(4, 8192), 2, float(p)) for p in ("0.1", "0.3"))
    >>> CETSA(by_price=True).plan(graph, Snapshot(0.0, (dear, cheap))).placement
    {'t': '0.1'}
    """

    together: bool = True
    by_price: bool = False
    name: ClassVar[str] = "cetsa"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 1.0)

    @property
    def _needs_history(self) -> bool:  # type: ignore[override]
        return not self.by_price

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        cost, unit = cost_evaluation(snapshot), "$ a tuple"
        if not cost:
            unit = "$/s a slot"
            cost = {one.id: one.price_per_s / max(one.slots, 1) for one in snapshot.workers}
        unsure = guessed(snapshot)
        names = [worker.id for worker in room.workers]
        order = sorted(range(len(names)), key=lambda i: (cost[names[i]], names[i] in unsure))
        talk = graph.neighbours if self.together and graph.edges else {}
        waiting = dict.fromkeys(range(len(graph.tasks)))
        places = {task.id: place for place, task in enumerate(graph.tasks)}
        for rank, i in enumerate(order):
            doubt = f", {unsure[names[i]]}" if names[i] in unsure else ""
            why = f"rank {rank + 1} of {len(order)} by {unit} ({cost[names[i]]:.3g}{doubt})"
            pull: dict[int, float] = {}
            drawn: SortedList[tuple[float, int]] = SortedList()  # the most traffic first
            in_order = iter(list(waiting))
            while i in room.open:
                bytes_per_s, place = drawn.pop(0) if drawn else (0.0, next(in_order, -1))
                if place < 0:
                    break
                task = graph.tasks[place]
                if place not in waiting or not room.fits(task, i):
                    pull[place] = -1.0  # It will not fit later either: nothing is removed.
                    continue
                there = f"; talks {-bytes_per_s:.3g} B/s to the tasks there" if bytes_per_s else ""
                room.place(task, i, why + there)
                del waiting[place]
                for other, more in talk.get(task.id, ()):
                    at, before = places[other], pull.get(places[other], 0.0)
                    if at in waiting and before >= 0 and more > 0:
                        drawn.discard((-before, at))
                        pull[at] = before + more
                        drawn.add((-pull[at], at))


@dataclass(frozen=True)
class LBACE(Greedy):
    """Balance the tasks over the workers with at least the mean fitness.

    Args:
        spread: each task goes to the ``"least-loaded"`` worker of the high list (default), of
            equal ones the fitter; in ``"turns"`` to the next; or to the fittest (``"literal"``, as
            printed: it does not balance).
        epsilon: the least busyness, for Eq. 24.

    Complexity: O((workers + tasks) x log workers), O(tasks x workers) where many have no room.

    >>> from scheduling.model import JobGraph, Resources, Task, Worker
    >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(1, 512)) for i in range(2)))
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4) for name in "abc")
    >>> tuples, cost = {"a": 9, "b": 9, "c": 9}, {"a": 1.0, "b": 1.0, "c": 9.0}
    >>> LBACE().plan(graph, Snapshot(0.0, workers, tuples=tuples, cost=cost)).placement
    {'t0': 'a', 't1': 'b'}
    """

    spread: Literal["least-loaded", "turns", "literal"] = "least-loaded"
    epsilon: Positive = EPSILON
    name: ClassVar[str] = "lba-ce"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 1.0, 1.0)
    _needs_history: ClassVar[bool] = True

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        high, low, whys = split_at_mean(snapshot, self.epsilon)
        at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        order = [at[name] for name in (*high, *low)]

        def why(i: int, load: float) -> str:
            told = f"; least load, then {load:.0%}" if self.spread == "least-loaded" else ""
            return whys[room.workers[i].id] + told

        fill(room, graph.tasks, order, len(high), why, self.spread)


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
