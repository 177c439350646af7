"""Packing: put tasks on chosen workers so that all of them fit, streams aside."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from random import Random as Generator

from scheduling.model import JobGraph, Snapshot, Task
from scheduling.policies.capacity import FreeCapacity, free_of

__all__ = ["SEARCHED", "Packing"]

SEARCHED = 64
"""Tasks up to which a packing is searched for with a second thought."""

_STEPS = 20_000  # of such a search
_FEW = 2  # packings of a set above it


class Packing:
    """Packs the tasks of a graph into chosen workers, best fit, in several orders.

    Args:
        graph: the tasks.
        snapshot: the workers.
        orders: orders of the tasks that are tried, the first by size.
        draw: of the other orders.

    ``spent`` counts the tasks that were placed in all packings.
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot, orders: int, draw: Generator) -> None:
        self.tasks, self.workers = graph.tasks, snapshot.workers
        self._free = free_of(snapshot)
        needs = [task.demand for task in self.tasks]
        self._needs = (
            [need.cpu_cores for need in needs],
            [need.memory_mb for need in needs],
            [need.disk_mb for need in needs],
        )
        self._most_cpu = max(self._free[1], default=0) or 1
        self._most_memory = max(self._free[2], default=0) or 1
        self._draw, self._count = draw, orders
        self._orders = [sorted(range(len(self.tasks)), key=self._largest_first)]
        self.spent = 0
        small = len(self.tasks) <= SEARCHED
        # By place in the first order: what the k smallest tasks from there on take together.
        self._smallest = (
            [self._sums(self._orders[0][at:]) for at in range(len(self.tasks) + 1)] if small else []
        )

    def _size(self, t: int) -> float:
        need = self.tasks[t].demand
        return max(need.cpu_cores / self._most_cpu, need.memory_mb / self._most_memory)

    def _largest_first(self, t: int) -> tuple[float, float, float]:
        need = self.tasks[t].demand
        return (-self._size(t), -need.cpu_cores, -need.memory_mb)

    def _sums(self, order: Sequence[int]) -> tuple[list[float], list[float]]:
        needs = [self.tasks[t].demand for t in order]
        return (
            list(accumulate(sorted(need.cpu_cores for need in needs))),
            list(accumulate(sorted(need.memory_mb for need in needs))),
        )

    def order(self, turn: int) -> list[int]:
        """The tasks by size, in later turns with up to 30 % of noise."""
        while turn >= len(self._orders):
            noisy = [self._size(t) * self._draw.uniform(0.7, 1.3) for t in range(len(self.tasks))]
            self._orders.append(sorted(range(len(self.tasks)), key=lambda t: -noisy[t]))
        return self._orders[turn]

    def may_hold(self, chosen: Sequence[int]) -> bool:
        """Whether there are slots for all tasks, were they as small as can be."""
        return not self._smallest or _Free(self, chosen).may_hold(0)

    def packed(self, chosen: Sequence[int], count: int) -> Iterator[dict[str, int]]:
        """Where the tasks go, in several ways, if ``count`` of them or more fit the workers.

        Complexity: O(tasks x (workers + log tasks)) a way, for up to 64 tasks; above it
        O(tasks x log workers) where what has enough of the scarce has enough of the rest, too.
        """
        few = len(self.tasks) <= SEARCHED
        none = True
        for turn in range(self._count if few else min(self._count, _FEW)):
            free = _Free(self, chosen)
            if few:
                free.fit(self.order(turn), by_slot=turn % 2 == 1)
            else:
                spare = len(self.tasks) - count
                free.fit_sorted(self.order(turn // 2), spare, by_slot=turn % 2 == 0)
            self.spent += len(free.at)
            if len(free.at) >= count:
                none = False
                yield free.placement()
        if count < len(self.tasks):
            # As many as possible: the smallest first.
            for by_slot in (True, False):
                free = _Free(self, chosen)
                free.fit(self.order(0)[::-1], by_slot=by_slot)
                if len(free.at) >= count:
                    yield free.placement()
        elif none and few:
            free = _Free(self, chosen)
            if free.search(0, iter(range(_STEPS))):
                yield free.placement()


class _Free(FreeCapacity):
    """What is free on the chosen workers while one packing is made."""

    def __init__(self, packing: Packing, chosen: Sequence[int]) -> None:
        self.of, self.chosen = packing, chosen
        super().__init__(*packing._free)
        self.at: dict[int, int] = {}

    def placement(self) -> dict[str, int]:
        return {self.of.tasks[t].id: i for t, i in self.at.items()}

    def book(self, t: int, i: int, sign: int = 1) -> None:
        self._book(self.of.tasks[t].demand, i, sign)
        if sign > 0:
            self.at[t] = i
        else:
            del self.at[t]

    def fit(self, order: Sequence[int], *, by_slot: bool) -> None:
        """Each task to the worker that it fits best."""
        for t in order:
            ranked = self.ranked(self.of.tasks[t], by_slot=by_slot)
            if ranked:
                self.book(t, ranked[0])

    def fit_sorted(self, order: Sequence[int], spare: int, *, by_slot: bool) -> None:
        """Each task to the worker with the least free of what is scarce, of those that it fits.

        By slot, to the one with the least free for each of its slots, and enough for the task.
        Ends when more than ``spare`` tasks had no room.
        """
        of, slots, at = self.of, self.slots, self.at
        by_memory = _scarcity(of._needs[1], self.memory, self.chosen) > _scarcity(
            of._needs[0], self.cpu, self.chosen
        )
        # The scarce, the plenty, and the disk: what tasks need, and what is free.
        scarce, other, third = (of._needs[k] for k in ((1, 0, 2) if by_memory else (0, 1, 2)))
        left, rest, disk = (
            (self.memory, self.cpu, self.disk) if by_memory else (self.cpu, self.memory, self.disk)
        )
        chosen = [i for i in self.chosen if slots[i]]
        queue = sorted((left[i] / slots[i] if by_slot else left[i], i) for i in chosen)
        for t in order:
            need, more, most = scarce[t], other[t], third[t]
            start = bisect.bisect_left(queue, (need, -1))
            places: Iterable[int] = range(start, len(queue))
            if by_slot:
                places = chain(places, range(start - 1, -1, -1))
            for place in places:
                i = queue[place][1]
                if need <= left[i] and more <= rest[i] and most <= disk[i]:
                    slots[i] -= 1
                    left[i] -= need
                    rest[i] -= more
                    if most:
                        disk[i] -= most
                    at[t] = i
                    del queue[place]
                    if slots[i]:
                        bisect.insort(queue, (left[i] / slots[i] if by_slot else left[i], i))
                    break
            else:
                spare -= 1
                if spare < 0:
                    return

    def ranked(self, task: Task, *, by_slot: bool) -> list[int]:
        """The workers that can hold a task, the best fit first."""
        cpu, memory = task.demand.cpu_cores, task.demand.memory_mb

        def misfit(i: int) -> float:
            if not by_slot:
                return self.cpu[i]
            # How far what is free for a slot is from what the task needs.
            slots = self.slots[i]
            return (
                abs(self.cpu[i] / slots - cpu) / self.of._most_cpu
                + abs(self.memory[i] / slots - memory) / self.of._most_memory
            )

        return sorted((i for i in self.chosen if self.fits(task, i)), key=misfit)

    def search(self, place: int, steps: Iterator[int]) -> bool:
        """Place the tasks from ``place`` on, the largest first, with a second thought."""
        order, tasks = self.of.order(0), self.of.tasks
        if place == len(order):
            return True
        task, tried = tasks[order[place]], set()
        # Equal tasks go to workers in one order only.
        alike = place > 0 and tasks[order[place - 1]].demand == task.demand
        first = self.at[order[place - 1]] if alike else 0
        for i in self.ranked(task, by_slot=True):
            state = (self.slots[i], self.cpu[i], self.memory[i], self.disk[i])
            if i < first or state in tried:
                continue
            tried.add(state)
            if next(steps, None) is None:
                return False
            self.book(order[place], i)
            if self.may_hold(place + 1) and self.search(place + 1, steps):
                return True
            self.book(order[place], i, -1)
        return False

    def may_hold(self, place: int) -> bool:
        """Whether there are slots for the tasks from ``place`` on, were all as small as can be."""
        cpu, memory = self.of._smallest[place]
        holds = (
            min(
                self.slots[i],
                bisect.bisect_right(cpu, self.cpu[i]),
                bisect.bisect_right(memory, self.memory[i]),
            )
            for i in self.chosen
        )
        return sum(holds) >= len(cpu)


def _scarcity(needs: Sequence[float], free: Sequence[float], chosen: Sequence[int]) -> float:
    return sum(needs) / max(sum(free[i] for i in chosen), 1e-12)
