"""St-Stream: balances skewed load, first inside hosts, then between them.

Source: St-Stream, section 4, Eqs. 1-13, Algorithms 1 and 2. As read here:

- Eq. 1 adds GHz to GB; the size of a worker is its CPU and memory, each as a share of the mean
  worker's, weighted as in Eq. 7. Eq. 6 cannot be computed; S (Eq. 31 of LBA-CE) is the balance.
- Eqs. 8 and 9: ``L_max = (1 + theta) L_avg`` and ``L_min = (1 - theta) L_avg``, anew every clock.
- Eqs. 10-13: what moves of a split task is the excess over L_max; headroom is L_max - S_i; the
  routing table is taken in descending order.
- Algorithm 2: Nl is the low list, and its line 12 moves from the normal to the low node.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from scheduling.load import CPU_WEIGHT, task_load
from scheduling.model import JobGraph, Move, Resources, Snapshot, Task, Worker
from scheduling.model.checks import Checked, Share, grouped, share

__all__ = ["Balance", "StStream", "sizes"]

Units = Mapping[str, Mapping[str, float]]
"""By node, the load of each of its tasks in units of the mean node: load share x size."""

_LEAST = 1e-9
_ROUNDS = 10_000  # moves of one clock


def sizes(workers: Collection[Worker], *, cpu_weight: float = CPU_WEIGHT) -> dict[str, float]:
    """How large each worker is, 1 for the mean one (Eqs. 1 and 7, normalised)."""
    cpu = math.fsum(worker.capacity.cpu_cores for worker in workers) / max(len(workers), 1)
    memory = math.fsum(worker.capacity.memory_mb for worker in workers) / max(len(workers), 1)
    mean, unknown = Resources(cpu, memory), cpu_weight * (not cpu) + (1 - cpu_weight) * (not memory)
    return {one.id: task_load(one.capacity, mean, cpu_weight) + unknown for one in workers}


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
        >>> units = {"a": {"t1": 0.4, "t2": 0.4}, "b": {}}
        >>> moves = StStream().clock(units, {"a": 1.0, "b": 1.0})
        >>> [(move.task, move.source, move.target) for move in moves]
        [('t1', 'a', 'b')]
    """

    theta: Annotated[float, partial(share, above=True, below=True)] = 0.2
    least: Share | None = 0.3
    split: bool = True
    cpu_weight: Share = CPU_WEIGHT
    name: ClassVar[str] = "st-stream"

    def thresholds(self, units: Units, size: Mapping[str, float]) -> Balance:
        """L_min, L_avg and L_max of the nodes with such ``units`` of load and such a ``size``."""
        total = math.fsum(size[node] for node in units)
        mean = math.fsum(math.fsum(tasks.values()) for tasks in units.values()) / (total or 1.0)
        low = max((1 - self.theta) * mean, min(self.least or 0.0, mean))
        return Balance(low, mean, (1 + self.theta) * mean)

    def rebalance(self, graph: JobGraph, snapshot: Snapshot) -> list[Move]:
        """The moves of one clock for a snapshot; see :class:`scheduling.Rebalancer`.

        Tasks that are not placed, or on a worker that is gone, are left out. A task moves only to
        a worker with a free slot, or with a task of the same operator where it can be split.
        """
        units: dict[str, dict[str, float]] = {worker.id: {} for worker in snapshot.workers}
        size = sizes(snapshot.workers, cpu_weight=self.cpu_weight)
        for name, at in snapshot.placement.items():
            if name in graph.by_id and at in units:
                used = snapshot.usage.get(name, graph.by_id[name].demand)
                part = task_load(used, snapshot.by_id[at].capacity, self.cpu_weight)
                units[at][name] = part * size[at]
        limits = {worker.id: worker.delta for worker in snapshot.workers}
        for name in limits.keys() & snapshot.reserved.keys():
            taken, capacity = snapshot.reserved[name].resources, snapshot.by_id[name].capacity
            limits[name] -= task_load(taken, capacity, self.cpu_weight)
        slots, tasks = snapshot.free_slots, graph.by_id
        book = _Book(units, size, self.split, limits, slots, tasks)
        return self._moves(book, {worker.id: worker.host for worker in snapshot.workers})

    def clock(self, units: Units, size: Mapping[str, float]) -> list[Move]:
        """The moves of one clock for given loads, without limits, each node on its own host.

        Args:
            units: per node, the load of each task in units of the mean node.
            size: per node, its size; 1 for the mean one.
        """
        own = {node: dict(load) for node, load in units.items()}
        return self._moves(_Book(own, size, self.split), {})

    def _moves(self, book: _Book, hosts: Mapping[str, str]) -> list[Move]:
        groups = grouped((hosts.get(node, node), node) for node in book.units)
        for group in [*groups.values(), *([tuple(book.units)] if len(groups) > 1 else [])]:
            if len(group) > 1:
                of_group = {node: book.units[node] for node in group}
                book.level(group, self.thresholds(of_group, book.size))
        return book.moves


@dataclass
class _Book:
    """Loads while moves are made."""

    units: dict[str, dict[str, float]]
    size: Mapping[str, float]
    split: bool
    limits: Mapping[str, float] = field(default_factory=dict)  # delta, where it is not 1
    slots: Mapping[str, int] | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    arrived: set[tuple[str, str]] = field(default_factory=set)  # these do not move on

    def __post_init__(self) -> None:
        self.totals = {node: math.fsum(tasks.values()) for node, tasks in self.units.items()}

    def load(self, node: str) -> float:
        return self.totals[node] / self.size[node]

    def level(self, group: Collection[str], aim: Balance) -> None:
        """Make the moves among some nodes."""
        for giver in sorted(group, key=self.load, reverse=True):
            # Eqs. 10-13: the excess of those above L_max, to those with the most headroom.
            for taker in sorted(group, key=self.load) if self.load(giver) > aim.high else ():
                while self.move(giver, taker, self.load(giver) - aim.high, aim):
                    pass
                if self.load(giver) <= aim.high + _LEAST:
                    break
        for taker in sorted(group, key=self.load):
            # Algorithm 2: those below L_min, the lowest with the highest.
            low = self.load(taker) < aim.low - _LEAST
            for giver in sorted(group, key=self.load, reverse=True) if low else ():
                while low and self.move(giver, taker, self.load(giver) - aim.mean, aim):
                    low = self.load(taker) < aim.low - _LEAST
                if not low:
                    break

    def move(self, giver: str, taker: str, surplus: float, aim: Balance) -> bool:
        """Move at most ``surplus`` (a share of the giver) of one task; whether anything moved.

        The giver stays at L_min or above, the taker at L_max, its limit and the mean or below,
        and the gap between them shrinks.
        """
        gap = self.load(giver) - self.load(taker)
        if giver == taker or min(gap, surplus) <= _LEAST or len(self.moves) >= _ROUNDS:
            return False
        gives, takes = self.size[giver], self.size[taker]
        room = (min(aim.high, self.limits.get(taker, 1.0)) - self.load(taker)) * takes
        most = self.load(giver) - aim.low
        level = gap / (1 / gives + 1 / takes)  # beyond it the gap grows again
        towards = max((aim.mean - self.load(taker)) * takes, 0.0)
        wanted = min(min(surplus, most) * gives, room, level, towards)
        # Without splits, a task that is more than wanted, if the gap still shrinks.
        whole = 0.0 if self.split else min(min(most, gap) * gives, room, 2 * level - _LEAST)
        if max(wanted, whole) <= 0:
            return False
        able = [
            (-amount, task)
            for task, amount in self.units[giver].items()
            if amount > _LEAST and (giver, task) not in self.arrived
        ]
        able = self._with_slot(taker, able)
        found = min((one for one in able if -one[0] <= wanted + _LEAST), default=None)
        if not found and self.split and able and wanted > _LEAST:
            found = -wanted, min(able)[1]
        elif not found and not self.split:
            found = max((one for one in able if wanted < -one[0] < whole), default=None)
        if found:
            self._make(found[1], giver, taker, -found[0])
        return bool(found)

    def _with_slot(self, node: str, able: list[tuple[float, str]]) -> list[tuple[float, str]]:
        """Those that a node has a slot for, or, where tasks are split, one of their operator."""
        there = self.units[node]
        if self.slots is None or len(there) < self.slots.get(node, 0):
            return able
        known = self.tasks if self.split else {}
        of = {known[other].operator for other in there if other in known}
        of_task = ((one, known.get(one[1])) for one in able)
        return [one for one, task in of_task if one[1] in there or (task and task.operator in of)]

    def _make(self, task: str, giver: str, taker: str, amount: float) -> None:
        before, had = self.load(giver) - self.load(taker), self.units[giver].pop(task)
        amount = had if had - amount <= _LEAST else amount
        part = amount / had
        if part < 1.0:
            self.units[giver][task] = had - amount
        self.units[taker][task] = self.units[taker].get(task, 0.0) + amount
        self.totals[giver] -= amount
        self.totals[taker] += amount
        self.arrived.add((taker, task))
        gain = before - abs(self.load(giver) - self.load(taker))
        state = self.tasks[task].state_bytes * part if task in self.tasks else 0.0
        self.moves.append(Move(task, giver, taker, gain, state, part, amount / self.size[taker]))
