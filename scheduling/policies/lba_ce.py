"""LBA-CE: balance over the fittest workers, as was measured.

It assumes that what a tuple cost on a worker (CE, Eq. 22), and that it was not busy (B), stays so.
Source: LBA-CE, Algorithm 2, with line 17 and the check of delta, which the listing lacks. Without
history Algorithm 1, line 20: round robin.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from scheduling.load import EPSILON, average_fitness, fitness, guessed
from scheduling.model import JobGraph, Snapshot
from scheduling.model.checks import Positive
from scheduling.policies.baselines import Greedy, fill, without_history
from scheduling.room import Room


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

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> str | None:
        high, low, whys = split_at_mean(snapshot, self.epsilon)
        if not high:
            return without_history(room, graph, snapshot)
        at = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        order = [at[name] for name in (*high, *low)]

        def why(i: int, load: float) -> str:
            told = f"; least load, then {load:.0%}" if self.spread == "least-loaded" else ""
            return whys[room.workers[i].id] + told

        fill(room, graph.tasks, order, len(high), why, self.spread)
        return None


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
