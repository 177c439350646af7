"""CETSA: fill the workers on which a tuple cost least, as was measured.

It assumes that what a tuple cost on a worker (CE, Eq. 22) stays so, and that a full worker is not
slower. Source: CETSA, Algorithm 1, lines 9-11 read as a loop, and section 4.2: tasks that talk stay
together. Without history line 20: round robin.
"""

from dataclasses import dataclass
from typing import ClassVar

from sortedcontainers import SortedList

from scheduling.load import cost_evaluation, guessed
from scheduling.model import JobGraph, Snapshot
from scheduling.policies.baselines import Greedy, without_history
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

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> str | None:
        cost, unit = cost_evaluation(snapshot), "$ a tuple"
        if not cost:
            if not self.by_price:
                return without_history(room, graph, snapshot)
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
        return None
