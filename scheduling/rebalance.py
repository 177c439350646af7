"""St-Stream: balances skewed load, first inside hosts, then between them.

Assumes that a task's load can be moved as it is, or be split so that a part of it moves, and that
load counts in absolute terms: what is a tenth of a small worker is less of a large one.

Source: St-Stream, section 4, Eqs. 1-13, Algorithms 1 and 2. As read here:

- Eq. 1 adds GHz to GB; the size of a worker is its CPU and memory, each as a share of the mean
  worker's, weighted as in Eq. 7.
- Eqs. 8 and 9: ``L_max = (1 + theta) L_avg`` and ``L_min = (1 - theta) L_avg``, anew every clock.
- Eq. 6 cannot be computed; :func:`scheduling.load.deviation` and ``skew`` measure the balance.
- Eqs. 10-13: what moves of a split task is the excess over L_max; headroom is L_max - S_i; the
  routing table is taken in descending order.
- Algorithm 2: Nl is the low list, and its line 12 moves from the normal to the low node. A move is
  made only if the giver stays at L_min or above, the taker at L_max or below, and the gap between
  the two shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.load import CPU_WEIGHT, task_load
from scheduling.model import JobGraph, Move, Snapshot, Worker

__all__ = ["Balance", "StStream", "moved", "node_loads", "sizes"]

Units = Mapping[str, Mapping[str, float]]
"""By node, the load of each of its tasks in units of the mean node: load share x size."""

_LEAST = 1e-9
_ROUNDS = 10_000  # moves of one clock


def sizes(workers: Collection[Worker], *, cpu_weight: float = CPU_WEIGHT) -> dict[str, float]:
    """How large each worker is, 1 for the mean one (Eqs. 1 and 7, normalised)."""
    cpu = math.fsum(worker.capacity.cpu_cores for worker in workers) / max(len(workers), 1)
    memory = math.fsum(worker.capacity.memory_mb for worker in workers) / max(len(workers), 1)
    return {
        worker.id: cpu_weight * (worker.capacity.cpu_cores / cpu if cpu else 1.0)
        + (1 - cpu_weight) * (worker.capacity.memory_mb / memory if memory else 1.0)
        for worker in workers
    }


def node_loads(units: Units, size: Mapping[str, float]) -> dict[str, float]:
    """The load of each node as a share of its size: W of Eq. 3."""
    return {node: math.fsum(tasks.values()) / size[node] for node, tasks in units.items()}


def moved(
    units: Units, moves: Collection[Move], size: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """The loads after moves; what was there altogether is there still. O(tasks + moves)."""
    after = {node: dict(tasks) for node, tasks in units.items()}
    for move in moves:
        amount = move.load * size[move.target]
        left = after[move.source][move.task] - amount
        if left <= _LEAST:
            amount += left
            del after[move.source][move.task]
        else:
            after[move.source][move.task] = left
        target = after[move.target]
        target[move.task] = target.get(move.task, 0.0) + amount
    return after


@dataclass(frozen=True)
class Balance:
    """The thresholds of one clock (Eqs. 8 and 9), as shares of a node's size."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class StStream:
    """Suggest moves until every worker is between L_min and L_max.

    In each clock, first among the workers of a host, then among all: workers above L_max give what
    is too much, largest tasks first, to those with the most headroom; then workers below L_min are
    paired, the lowest with the highest, and receive load until either reaches the mean.

    Args:
        theta: the tolerated deviation from the mean load, as a share of it; default 0.2.
        least: the least L_min, as long as the mean allows; default 0.3 as in the paper.
            None: L_min is (1 - theta) L_avg.
        split: whether tasks may be split; default True.
        cpu_weight: the weight of CPU against memory in loads and sizes; 1.0 in the paper.

    Raises:
        ArgumentError: a number is out of its range.

    Complexity: O(workers^2 + moves x (workers + tasks of a worker)) a clock.

    Example:
        >>> units = {"a": {"t1": 0.4, "t2": 0.4}, "b": {}}
        >>> moves = StStream().clock(units, {"a": 1.0, "b": 1.0})
        >>> [(move.task, move.source, move.target) for move in moves]
        [('t1', 'a', 'b')]
    """

    theta: float = 0.2
    least: float | None = 0.3
    split: bool = True
    cpu_weight: float = CPU_WEIGHT
    name: ClassVar[str] = "st-stream"

    def __post_init__(self) -> None:
        if not 0 < self.theta < 1:
            raise ArgumentError(f"theta={self.theta!r}: give a share, above 0 and below 1")
        if self.least is not None and not 0 <= self.least <= 1:
            raise ArgumentError(f"least={self.least!r}: give a share in [0, 1], or None")
        if not 0 <= self.cpu_weight <= 1:
            raise ArgumentError(f"cpu_weight={self.cpu_weight!r}: give a share, in [0, 1]")

    def thresholds(self, units: Units, size: Mapping[str, float]) -> Balance:
        """L_min, L_avg and L_max of the nodes.

        The mean is the total load over the total size: the load of every node after balancing.

        Args:
            units: per node, the load of each task in units of the mean node.
            size: per node, its size; 1 for the mean one.
        """
        total = math.fsum(size[node] for node in units)
        mean = math.fsum(math.fsum(tasks.values()) for tasks in units.values()) / (total or 1.0)
        low = (1 - self.theta) * mean
        if self.least is not None:
            low = max(low, min(self.least, mean))
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
                share = task_load(used, snapshot.by_id[at].capacity, self.cpu_weight)
                units[at][name] = share * size[at]
        hosts = {worker.id: worker.host for worker in snapshot.workers}
        slots, limits = snapshot.free_slots, {}
        for worker in snapshot.workers:
            limits[worker.id] = worker.delta
            if worker.id in snapshot.reserved:
                taken = snapshot.reserved[worker.id].resources
                limits[worker.id] -= task_load(taken, worker.capacity, self.cpu_weight)
        state = {task.id: task.state_bytes for task in graph.tasks}
        operators = {task.id: task.operator for task in graph.tasks}
        return self.clock(units, size, hosts, limits, slots, state, operators)

    def clock(
        self,
        units: Units,
        size: Mapping[str, float],
        hosts: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
        slots: Mapping[str, int] | None = None,
        state: Mapping[str, float] | None = None,
        operators: Mapping[str, str] | None = None,
    ) -> list[Move]:
        """The moves of one clock for given loads.

        Args:
            units: per node, the load of each task in units of the mean node.
            size: per node, its size; 1 for the mean one.
            hosts: per node, its host. None (default): each node on its own host.
            limits: per node, the maximum load (delta). None (default): 1.
            slots: per node, the number of concurrent tasks. None (default): no limit.
            state: per task, the bytes to transfer. None (default): 0.
            operators: per task, its operator; a part of a task needs no slot on a node that runs
                its operator already. None (default): unknown.
        """
        book = _Book(units, size, limits or {}, slots, state or {}, operators or {}, self.split)
        moves: list[Move] = []
        nodes = list(units)
        by_host: dict[str, list[str]] = {}
        for node in nodes:
            by_host.setdefault((hosts or {}).get(node, node), []).append(node)
        for group in [*by_host.values(), nodes]:
            if len(group) < 2 or (len(by_host) == 1 and group is nodes):
                continue
            aim = self.thresholds({node: book.units[node] for node in group}, size)
            moves += self._level(book, group, aim)
        return moves

    def _level(self, book: _Book, group: list[str], aim: Balance) -> list[Move]:
        moves: list[Move] = []
        # Eqs. 10-13: the excess of those above L_max, to those with the most headroom.
        for giver in sorted(group, key=lambda node: -book.load(node)):
            if book.load(giver) <= aim.high + _LEAST:
                continue
            for taker in sorted(group, key=book.load):
                while book.load(giver) > aim.high + _LEAST and len(moves) < _ROUNDS:
                    move = book.move(giver, taker, book.load(giver) - aim.high, aim)
                    if move is None:
                        break
                    moves.append(move)
        # Algorithm 2: the lowest with the highest, as long as one is below L_min.
        for taker in sorted(group, key=book.load):
            if book.load(taker) >= aim.low - _LEAST:
                continue
            for giver in sorted(group, key=lambda node: -book.load(node)):
                while book.load(taker) < aim.low - _LEAST and len(moves) < _ROUNDS:
                    surplus = book.load(giver) - aim.mean
                    move = book.move(giver, taker, surplus, aim) if surplus > _LEAST else None
                    if move is None:
                        break
                    moves.append(move)
        return moves


class _Book:
    """Loads while moves are made."""

    def __init__(
        self,
        units: Units,
        size: Mapping[str, float],
        limits: Mapping[str, float],
        slots: Mapping[str, int] | None,
        state: Mapping[str, float],
        operators: Mapping[str, str],
        split: bool,
    ) -> None:
        self.units = {node: dict(tasks) for node, tasks in units.items()}
        self.size, self.limits, self.slots = size, limits, slots
        self.state, self.operators, self.split = state, operators, split
        self.totals = {node: math.fsum(tasks.values()) for node, tasks in units.items()}
        # A task that came here in this clock does not move on.
        self.arrived: set[tuple[str, str]] = set()

    def load(self, node: str) -> float:
        return self.totals[node] / self.size[node]

    def move(self, giver: str, taker: str, surplus: float, aim: Balance) -> Move | None:
        """Move at most ``surplus`` (a share of the giver) of one task; None if nothing may move.

        The giver stays at L_min or above, the taker at L_max and its limit or below, and no
        higher than the mean if that is below, and the gap between them shrinks.
        """
        before = self.load(giver) - self.load(taker)
        if giver == taker or before <= _LEAST:
            return None
        ceiling = min(aim.high, self.limits.get(taker, 1.0))
        room = (ceiling - self.load(taker)) * self.size[taker]
        most = min(surplus, self.load(giver) - aim.low) * self.size[giver]
        # Where the two would be level: beyond it the gap grows again.
        level = before / (1 / self.size[giver] + 1 / self.size[taker])
        towards = (aim.mean - self.load(taker)) * self.size[taker]
        wanted = min(most, room, level, max(towards, 0.0))
        whole = min(
            min(self.load(giver) - aim.low, before) * self.size[giver], room, 2 * level - _LEAST
        )
        tasks = sorted(
            (
                (amount, task)
                for task, amount in self.units[giver].items()
                if amount > _LEAST and (giver, task) not in self.arrived
            ),
            key=lambda one: (-one[0], one[1]),
        )
        for amount, task in tasks:
            if amount <= wanted + _LEAST and self._slot(taker, task):
                return self._make(task, giver, taker, amount)
        if self.split:
            if wanted > _LEAST:
                for amount, task in tasks:
                    if amount > wanted and self._slot(taker, task):
                        return self._make(task, giver, taker, wanted)
            return None
        # Whole tasks only: the smallest that is more than wanted, if the gap still shrinks.
        for amount, task in reversed(tasks):
            if wanted < amount < whole and self._slot(taker, task):
                return self._make(task, giver, taker, amount)
        return None

    def _slot(self, node: str, task: str) -> bool:
        if self.slots is None or task in self.units[node]:
            return True
        if len(self.units[node]) < self.slots.get(node, 0):
            return True
        own = self.operators.get(task)
        return (
            self.split
            and own is not None
            and any(self.operators.get(other) == own for other in self.units[node])
        )

    def _make(self, task: str, giver: str, taker: str, amount: float) -> Move:
        before = self.load(giver) - self.load(taker)
        had = self.units[giver][task]
        part = 1.0 if had - amount <= _LEAST else amount / had
        amount = had if part == 1.0 else amount
        if part == 1.0:
            del self.units[giver][task]
        else:
            self.units[giver][task] = had - amount
        there = self.units[taker]
        there[task] = there.get(task, 0.0) + amount
        self.totals[giver] -= amount
        self.totals[taker] += amount
        self.arrived.add((taker, task))
        gain = before - abs(self.load(giver) - self.load(taker))
        carried = self.state.get(task, 0.0) * part
        return Move(task, giver, taker, gain, carried, part, amount / self.size[taker])
