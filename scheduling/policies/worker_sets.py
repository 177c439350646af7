"""Sets of workers that may hold a job, the cheapest first: what a packing is tried on.

Workers with equal room, slots and price are one kind, and a set is a number of workers of each
kind. Where these numbers have few combinations, all of them are looked at; otherwise those near the
set in use, and the workers with the most room for their price.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Snapshot

__all__ = ["WorkerSets"]

Int64s = NDArray[np.int64]

_ALL = 65_536  # sets up to which all are looked at
_PAIRS, _TRIPLES, _SWAPS = 14, 30, 60  # kinds up to which two for two, two for one, one for one
_ROUNDING = 1e-9


class WorkerSets:
    """The sets of the workers of a snapshot that have room for a job, were it a fluid.

    Args:
        graph: the job.
        snapshot: the workers.

    Complexity: O(workers + sets x kinds) in numpy; 65,536 sets at most, or some more near ones.
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot) -> None:
        kinds: dict[tuple[object, int, float], list[int]] = {}
        for i, worker in enumerate(snapshot.workers):
            free, slots = snapshot.free[worker.id], snapshot.free_slots[worker.id]
            if slots:
                kinds.setdefault((free, slots, worker.price_per_s), []).append(i)
        self._groups = list(kinds.values())
        first = [snapshot.workers[group[0]] for group in self._groups]
        self._there = np.array([len(group) for group in self._groups], np.int64)
        self._price = np.array([worker.price_per_s for worker in first])
        free_of = [snapshot.free[worker.id] for worker in first]
        self._has = np.array(
            [
                [snapshot.free_slots[worker.id], one.cpu_cores, one.memory_mb, one.disk_mb]
                for worker, one in zip(first, free_of, strict=True)
            ]
        ).reshape(-1, 4)
        needs = [task.demand for task in graph.tasks]
        self._need = np.array(
            [
                len(needs),
                math.fsum(need.cpu_cores for need in needs),
                math.fsum(need.memory_mb for need in needs),
                math.fsum(need.disk_mb for need in needs),
            ]
        )
        self.all = math.prod(len(group) + 1 for group in self._groups) <= _ALL

    def cheaper(
        self, used: Collection[int], rent: float, *, whole: bool = True
    ) -> tuple[list[float], Int64s]:
        """The sets that cost less than ``rent`` and may hold the job, the cheapest first.

        Args:
            used: positions of the workers in use; near sets differ a little from these.
            rent: $/s.
            whole: sets without room for all tasks are left out.

        Returns:
            The rent of each set, and its number of workers of each kind: int64[sets, kinds].
        """
        counts = self._counted(used)
        rents = counts @ self._price
        counts = counts[rents < rent - 1e-12]
        for k in range(4) if whole else ():
            # No worker times an endless disk is no number: what is endless is counted apart.
            has = self._has[:, k]
            endless = ~np.isfinite(has)
            enough = self._need[k] * (1 - _ROUNDING) - _ROUNDING
            if enough <= 0 or endless.all():
                continue
            holds = counts @ np.where(endless, 0.0, has) >= enough
            counts = counts[holds | (counts[:, endless] > 0).any(axis=1)]
        rents = counts @ self._price
        order = np.argsort(rents, kind="stable")
        return rents[order].tolist(), counts[order]

    def workers(self, counts: Int64s, used: Collection[int]) -> list[int]:
        """The workers of a set, by their positions: those in use first."""
        found = []
        for group, n in zip(self._groups, counts.tolist(), strict=True):
            if n:
                found += sorted(group, key=lambda i: i not in used)[:n]
        return found

    def _counted(self, used: Collection[int]) -> Int64s:
        if self.all:
            sizes = [len(group) + 1 for group in self._groups]
            return np.indices(sizes).reshape(len(sizes), math.prod(sizes)).T
        inside = set(used)
        now = np.array([sum(i in inside for i in group) for group in self._groups], np.int64)
        return np.concatenate([self._near(now), self._by_price()])

    def _near(self, now: Int64s) -> Int64s:
        """Sets that differ a little from those in use."""
        kinds = len(now)
        steps = [(1, 0)]
        if kinds <= _SWAPS:
            steps += [(1, 1)]
        if kinds <= _TRIPLES:
            steps += [(2, 0), (2, 1), (1, 2)]
        if kinds <= _PAIRS:
            steps += [(2, 2), (3, 1), (3, 2), (2, 3)]
        found = [now + row for close, opens in steps for row in _steps(kinds, close, opens)]
        counts = np.array(found, np.int64).reshape(-1, kinds)
        good = ((counts >= 0) & (counts <= self._there)).all(axis=1)
        near: Int64s = counts[good]
        return near

    def _by_price(self) -> Int64s:
        """The workers with the most room for their price: the first, the first two, and so on."""
        need = np.maximum(self._need, 1e-12)
        size = np.minimum(np.where(np.isfinite(self._has), self._has, need), need) / need
        ledger = size.max(axis=1) + size[:, self._need > 0].mean(axis=1)
        order = np.argsort(self._price / np.maximum(ledger, 1e-12), kind="stable")
        each = np.repeat(order, self._there[order])
        found = np.zeros((len(each), len(order)), np.int64)
        found[np.arange(len(each)), each] = 1
        summed: Int64s = np.cumsum(found, axis=0)
        return summed


def _steps(kinds: int, close: int, opens: int) -> Iterator[Int64s]:
    for out in combinations_with_replacement(range(kinds), close):
        for into in combinations_with_replacement(range(kinds), opens):
            if set(out).isdisjoint(into):
                step = np.zeros(kinds, np.int64)
                np.add.at(step, list(into), 1)
                np.add.at(step, list(out), -1)
                yield step
