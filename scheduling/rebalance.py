"""St-Stream: balances skewed load, first inside hosts, then between them.

Source: St-Stream, section 4, Eqs. 1-13, Algorithms 1 and 2; docs/from-the-papers.md says how they
are read where they are printed wrong.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from scheduling.load import CPU_WEIGHT, task_load
from scheduling.model import JobGraph, Move, Resources, Snapshot, Worker
from scheduling.model.checks import Checked, Share, grouped, share

_LEAST = 1e-9
_ROUNDS = 10_000  # moves of one clock


def sizes(workers: Collection[Worker], *, cpu_weight: float = CPU_WEIGHT) -> dict[str, float]:
    """Return the size of each worker, 1 for the mean one (Eqs. 1 and 7, normalised)."""
    cpu = math.fsum(worker.capacity.cpu_cores for worker in workers) / max(len(workers), 1)
    memory = math.fsum(worker.capacity.memory_mb for worker in workers) / max(len(workers), 1)
    mean, unknown = Resources(cpu, memory), cpu_weight * (not cpu) + (1 - cpu_weight) * (not memory)
    found = {one.id: task_load(one.capacity, mean, cpu_weight) + unknown for one in workers}
    return {name: max(size, _LEAST) for name, size in found.items()}  # one of no size takes nothing


class Balance(NamedTuple):
    """The thresholds of one clock (Eqs. 8 and 9), as shares of a node's size."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class StStream(Checked):
    """Suggest moves until every worker is between L_min and L_max.

    In each clock, first among the workers of a host, then among all: workers above L_max give what
    is too much, largest tasks first, to those with the most headroom; then workers below L_min are
    paired, the lowest with the highest, and receive load until either reaches the mean.

    Args:
        theta: the tolerated deviation from the mean load, as a share of it; default 0.2.
        least: the least L_min, as long as the mean allows; 0.3 as in the paper. None: only theta.
        split: whether tasks may be split; default True.
        cpu_weight: the weight of CPU against memory in loads and sizes; 1.0 in the paper.

    Complexity: O(workers^2 + moves x (workers + tasks of a worker)) a clock.

    Example:
        >>> from scheduling.model import Task
        >>> workers = tuple(Worker(name, Resources(4, 4096), 2) for name in "ab")
        >>> graph = JobGraph(tuple(Task(f"t{i}", "t", i, Resources(2, 2048)) for i in range(2)))
        >>> seen = Snapshot(0.0, workers, placement={"t0": "a", "t1": "a"})
        >>> [(move.task, move.source, move.target) for move in StStream().rebalance(graph, seen)]
        [('t0', 'a', 'b')]
    """

    theta: Annotated[float, partial(share, above=True, below=True)] = 0.2
    least: Share | None = 0.3
    split: bool = True
    cpu_weight: Share = CPU_WEIGHT
    name: ClassVar[str] = "st-stream"

    def thresholds(self, mean: float) -> Balance:
        """L_min, L_avg and L_max for a ``mean`` load."""
        low = max((1 - self.theta) * mean, min(self.least or 0.0, mean))
        return Balance(low, mean, (1 + self.theta) * mean)

    def rebalance(self, graph: JobGraph, snapshot: Snapshot) -> list[Move]:
        """The moves of one clock for a snapshot; see :class:`scheduling.Rebalancer`.

        Tasks that are not placed, or on a worker that is gone, are left out. A task moves only to
        a worker with a free slot, or with a task of the same operator where it can be split.
        """
        book = _Book(self, graph, snapshot)
        hosts = grouped((one.host, one.id) for one in snapshot.workers).values()
        several = [one for one in hosts if 1 < len(one) < len(snapshot.workers)]
        for group in (*several, tuple(snapshot.by_id)):
            book.level(group)
        return book.moves


class _Book:
    """Loads while moves are made."""

    def __init__(self, of: StStream, graph: JobGraph, snapshot: Snapshot) -> None:
        self.of, self.tasks, self.slots = of, graph.by_id, snapshot.free_slots
        self.size = sizes(snapshot.workers, cpu_weight=of.cpu_weight)
        # Of each node the load of its tasks in units of the mean node: share x size.
        self.units: dict[str, dict[str, float]] = {node: {} for node in self.size}
        for name, at in snapshot.placement.items():
            if name in self.tasks and at in self.units:
                used = snapshot.usage.get(name, self.tasks[name].demand)
                part = task_load(used, snapshot.by_id[at].capacity, of.cpu_weight)
                self.units[at][name] = part * self.size[at]
        self.totals = {node: math.fsum(tasks.values()) for node, tasks in self.units.items()}
        self.limits = {
            one.id: one.delta
            - task_load(snapshot.taken(one.id).resources, one.capacity, of.cpu_weight)
            for one in snapshot.workers
        }
        self.moves: list[Move] = []
        self.arrived: set[tuple[str, str]] = set()  # these do not move on

    def load(self, node: str) -> float:
        return self.totals[node] / self.size[node]

    def level(self, group: Collection[str]) -> None:
        """Make the moves among some nodes."""
        size = math.fsum(self.size[node] for node in group)
        aim = self.of.thresholds(math.fsum(self.totals[node] for node in group) / (size or 1.0))
        for giver in sorted(group, key=self.load, reverse=True):
            # Eqs. 10-13: the excess of those above L_max, to those with the most headroom.
            for taker in sorted(group, key=self.load) if self.load(giver) > aim.high else ():
                if self.load(giver) - max(aim.high, self.load(taker)) <= _LEAST:
                    break
                while self.move(giver, taker, self.load(giver) - aim.high, aim):
                    pass
        for taker in sorted(group, key=self.load):
            # Algorithm 2: those below L_min, the lowest with the highest.
            low = self.load(taker) < aim.low - _LEAST
            for giver in sorted(group, key=self.load, reverse=True) if low else ():
                if not low or self.load(giver) - aim.mean <= _LEAST:
                    break
                while low and self.move(giver, taker, self.load(giver) - aim.mean, aim):
                    low = self.load(taker) < aim.low - _LEAST

    def move(self, giver: str, taker: str, surplus: float, aim: Balance) -> bool:
        """Move at most ``surplus`` (a share of the giver) of one task; whether anything moved.

        The giver stays at L_min or above, the taker at L_max, its limit and the mean or below,
        and the gap between them shrinks.
        """
        gap = self.load(giver) - self.load(taker)
        if giver == taker or min(gap, surplus) <= _LEAST or len(self.moves) >= _ROUNDS:
            return False
        gives, takes, split = self.size[giver], self.size[taker], self.of.split
        room = (min(aim.high, self.limits[taker]) - self.load(taker)) * takes
        most = self.load(giver) - aim.low
        level = gap / (1 / gives + 1 / takes)  # beyond it the gap grows again
        towards = max((aim.mean - self.load(taker)) * takes, 0.0)
        wanted = min(min(surplus, most) * gives, room, level, towards)
        # Without splits, a task that is more than wanted, if the gap still shrinks.
        whole = 0.0 if split else min(min(most, gap) * gives, room, 2 * level - _LEAST)
        if max(wanted, whole) <= 0:
            return False
        there = self.units[taker]
        free, operators = len(there) < self.slots[taker], set[str]()
        if split and not free:
            operators = {self.tasks[other].operator for other in there}
        able = [
            (-amount, task)
            for task, amount in self.units[giver].items()
            if amount > _LEAST
            and (giver, task) not in self.arrived
            and (free or task in there or self.tasks[task].operator in operators)
        ]
        found = min((one for one in able if -one[0] <= wanted + _LEAST), default=None)
        if not found and split and able and wanted > _LEAST:
            found = -wanted, min(able)[1]
        elif not found and not split:
            found = max((one for one in able if wanted < -one[0] < whole), default=None)
        if found:
            self._make(found[1], giver, taker, -found[0], gap)
        return bool(found)

    def _make(self, task: str, giver: str, taker: str, amount: float, gap: float) -> None:
        had = self.units[giver].pop(task)
        amount = had if had - amount <= _LEAST else amount
        part = amount / had
        if part < 1.0:
            self.units[giver][task] = had - amount
        self.units[taker][task] = self.units[taker].get(task, 0.0) + amount
        self.totals[giver] -= amount
        self.totals[taker] += amount
        self.arrived.add((taker, task))
        gain, state = gap - abs(self.load(giver) - self.load(taker)), self.tasks[task].state_bytes
        load = amount / self.size[taker]
        self.moves.append(Move(task, giver, taker, gain, state * part, part, load))
