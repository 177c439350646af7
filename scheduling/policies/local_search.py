"""Local search: make the plan of any policy cheaper.

Assumes, like exact, that rent and network are all that counts. Begins with a plan of another
policy, tries cheaper sets of workers (all there are, if they are few; else those that differ in
up to five workers), packs all tasks anew, and keeps what is cheaper; then moves and swaps single
tasks where that keeps more bytes on a host.

Source: our own; for rent at most 5 % above the exact optimum in the tests, of up to 12 workers.
Workers of equal size and price count as one kind, so a few tiers have few sets to try.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations_with_replacement, product
from random import Random as Generator
from typing import Any

from scheduling.cost import CostModel, rent_per_s
from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.cetsa import CETSA
from scheduling.policies.room import Room
from scheduling.protocols import Policy

__all__ = ["LocalSearch", "objective"]

_BETTER = 1e-12
_ALL = 4096  # sets of workers up to which all are looked at
_PAIRS, _TRIPLES = 14, 30  # kinds of workers up to which two for two, two for one are tried
_SEARCHED, _STEPS = 64, 20_000  # tasks up to which packings are searched for, and how long
_KICKED, _KICKS, _FEW = 40, 40, 12  # tasks up to which a third is placed anew, how often
_EFFORT = 500_000  # tasks times workers looked at in all packings, for large clusters
_NEAR = 1.2  # placements that are so much dearer are placed anew, too
_SWAPS = 200  # tasks up to which pairs are swapped


def objective(
    cost: CostModel, placement: Mapping[str, str], graph: JobGraph, snapshot: Snapshot
) -> float:
    """Weighted $/s of rent and network, what exact and local search make small."""
    rent, network = cost.weights[0], cost.weights[1]
    found = rent * rent_per_s(placement, snapshot)
    if network and cost.price_per_byte:
        found += network * cost.network_per_s(placement, graph, snapshot)
    return found


@dataclass(frozen=True)
class LocalSearch:
    """Improve the plan of another policy by small steps until none helps.

    Args:
        base: the policy to begin with.
        cost: prices and weights of rent and network.
        tries: packings that are tried altogether.
        orders: orders of the tasks that a packing is tried in, the first by size.
        seed: of the other orders.

    Complexity: O(tries x orders x tasks x workers in use), and no more than some 500,000 looks at
    a task and a worker: about a second for 1,000 tasks on 100 workers.
    """

    base: Policy = field(default_factory=lambda: CETSA(by_price=True))
    cost: CostModel = field(default_factory=CostModel)
    tries: int = 400
    orders: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tries < 0 or self.orders < 1:
            raise ArgumentError(
                f"tries={self.tries!r}, orders={self.orders!r}: give at least 0 and 1"
            )

    @property
    def name(self) -> str:
        """``local-search``."""
        return "local-search"

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        start = self.base.plan(graph, snapshot, previous)
        best = dict(start.placement)
        if self.cost.weights[0] > 0:
            best = self._fewer(graph, snapshot, best)
        if self.cost.weights[1] > 0 and self.cost.price_per_byte > 0:
            best = self._closer(graph, snapshot, best, _KICKS)
        room = Room(graph, snapshot)
        position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        reasons = {one.task: one for one in start.assignments}
        for task in graph.tasks:
            if task.id in best:
                before = reasons.get(task.id)
                kept = before is not None and before.worker == best[task.id]
                reason = before.reason if kept and before else f"cheaper than {start.policy} has it"
                room.place(task, position[best[task.id]], reason)
        return room.plan(self.name)

    def _fewer(self, graph: JobGraph, snapshot: Snapshot, best: dict[str, str]) -> dict[str, str]:
        """Other sets of workers, for as long as one is cheaper."""
        linked = self.cost.weights[1] > 0 and self.cost.price_per_byte > 0
        # Streams that cost nothing are no reason to put tasks together.
        paid = graph if linked else JobGraph(graph.tasks)
        packing = _Packing(paid, snapshot, self.orders, Generator(self.seed))
        if len(best) < len(graph.tasks):
            # First of all as many tasks as possible, prices aside.
            every = packing.packed(range(len(snapshot.workers)), len(best) + 1)
            best = max(every, key=len, default=best)
        value = objective(self.cost, best, graph, snapshot)
        tries = self.tries
        better = True
        while better and tries > 0:
            better = False
            for rent, chosen in _others(snapshot, set(best.values())):
                if (
                    tries <= 0
                    or packing.spent > _EFFORT
                    or rent * self.cost.weights[0] >= value - _BETTER
                ):
                    break
                if not packing.may_hold(chosen, len(best)):
                    continue
                tries -= 1
                for found in packing.packed(chosen, len(best)):
                    near = self._closer(graph, snapshot, found, 0) if linked else found
                    reached = objective(self.cost, near, graph, snapshot)
                    if linked and reached < _NEAR * value:
                        near = self._closer(graph, snapshot, near, _FEW, chosen)
                        reached = objective(self.cost, near, graph, snapshot)
                    if reached < value - _BETTER:
                        best, value, better = near, reached, True
                    if not linked:
                        break
                if better and not linked:
                    break
        return best

    def _closer(
        self,
        graph: JobGraph,
        snapshot: Snapshot,
        best: dict[str, str],
        kicks: int,
        allowed: Sequence[int] = (),
    ) -> dict[str, str]:
        """Single tasks to other workers in use, and pairs swapped, where fewer bytes travel.

        After each kick, which places a third of the tasks anew on the workers allowed (those in
        use unless given), it begins again.
        """
        room = Room(graph, snapshot)
        position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        for task, worker in best.items():
            room.place(graph.by_id[task], position[worker], "")
        moves = _Moves(graph, room, self.cost)
        linked = [task for task in graph.tasks if task.id in best and graph.neighbours[task.id]]
        draw = Generator(self.seed)
        value = math.inf
        within = allowed or sorted({position[at] for at in best.values()})
        for kick in range(kicks + 1 if len(linked) <= _KICKED else 1):
            if kick and not moves.kick(draw, linked, within):
                continue
            for _ in range(len(linked) + 1):
                if not (moves.move(linked) or (len(linked) <= _SWAPS and moves.swap(linked))):
                    break
            found = {task: room.workers[i].id for task, i in room.at.items()}
            reached = objective(self.cost, found, graph, snapshot)
            if reached < value - _BETTER:
                best, value = found, reached
        return best


class _Moves:
    """Moves and swaps of tasks between workers in use that shorten the way of their bytes."""

    def __init__(self, graph: JobGraph, room: Room, cost: CostModel) -> None:
        self.graph, self.room, self.cost = graph, room, cost

    def way(self, task: Task, i: int) -> float:
        """Bytes a second times distance, were the task on worker ``i``."""
        hosts = self.room.workers
        return sum(
            bytes_per_s * self.cost.far(hosts[i].host, hosts[self.room.at[other]].host)
            for other, bytes_per_s in self.graph.neighbours[task.id]
            if other in self.room.at
        )

    def move(self, tasks: Sequence[Task]) -> bool:
        """Move each task to where it is best; whether any moved."""
        moved = False
        for task in tasks:
            here = self.room.at[task.id]
            near = {self.room.at[o] for o, _ in self.graph.neighbours[task.id] if o in self.room.at}
            ways = [(self.way(task, i), i) for i in near if self.room.fits(task, i)]
            if ways and min(ways)[0] < self.way(task, here) - _BETTER:
                self.room.take_back(task)
                self.room.place(task, min(ways)[1], "")
                moved = True
        return moved

    def swap(self, tasks: Sequence[Task]) -> bool:
        """Swap pairs of tasks; whether any were."""
        swapped = False
        for k, one in enumerate(tasks):
            for other in tasks[:k]:
                a, b = self.room.at[one.id], self.room.at[other.id]
                if a == b:
                    continue
                before = self.way(one, a) + self.way(other, b)
                self._put(one, other, b, a)
                fits = all(min(self.room.cpu[i], self.room.memory[i]) >= 0 for i in (a, b))
                fits = fits and min(self.room.disk[a], self.room.disk[b]) >= 0
                if fits and self.way(one, b) + self.way(other, a) < before - _BETTER:
                    swapped = True
                else:
                    self._put(one, other, a, b)
        return swapped

    def kick(self, draw: Generator, tasks: Sequence[Task], workers: Sequence[int]) -> bool:
        """Place a third of the tasks anew; False, and nothing is done, if they do not fit."""
        out = draw.sample(tasks, -(-len(tasks) // 3))
        before = dict(self.room.at)
        for task in out:
            self.room.take_back(task)
        for task in out:
            ways = [
                (self.way(task, i) * draw.uniform(0.5, 1.5), i)
                for i in workers
                if self.room.fits(task, i)
            ]
            if not ways:
                break
            self.room.place(task, min(ways)[1], "")
        else:
            return True
        for task in out:
            if task.id in self.room.at:
                self.room.take_back(task)
        for task in out:
            self.room.place(task, before[task.id], "")
        return False

    def _put(self, one: Task, other: Task, i: int, j: int) -> None:
        self.room.take_back(one)
        self.room.take_back(other)
        self.room.place(one, i, "")
        self.room.place(other, j, "")


class _Packing:
    """Packs the tasks of a graph into chosen workers, best fit, in several orders."""

    def __init__(self, graph: JobGraph, snapshot: Snapshot, orders: int, draw: Generator) -> None:
        self.graph, self.snapshot = graph, snapshot
        workers = snapshot.workers
        most_cpu = max((worker.usable.cpu_cores for worker in workers), default=0) or 1
        most_memory = max((worker.usable.memory_mb for worker in workers), default=0) or 1

        self.most_cpu, self.most_memory = most_cpu, most_memory

        def size(task: Task) -> float:
            return max(task.demand.cpu_cores / most_cpu, task.demand.memory_mb / most_memory)

        def first(task: Task) -> tuple[float, float, float]:
            return (-size(task), -task.demand.cpu_cores, -task.demand.memory_mb)

        self.orders = [sorted(graph.tasks, key=first)]
        for _ in range(orders - 1):
            jitter = {task.id: size(task) * draw.uniform(0.7, 1.3) for task in graph.tasks}
            self.orders.append(sorted(graph.tasks, key=lambda task: -jitter[task.id]))
        if graph.edges:
            along = _along(graph)
            self.orders += [along, along]
        # By place in the first order: what the k smallest tasks from there on take together.
        self.smallest = (
            [self._sums(self.orders[0][at:]) for at in range(len(graph.tasks) + 1)]
            if len(graph.tasks) <= _SEARCHED
            else []
        )
        self.empty = Room(graph, snapshot)
        self.spent = 0
        self.cpu = sum(task.demand.cpu_cores for task in graph.tasks)
        self.memory = sum(task.demand.memory_mb for task in graph.tasks)

    @staticmethod
    def _sums(tasks: Sequence[Task]) -> tuple[list[float], list[float]]:
        return (
            list(accumulate(sorted(task.demand.cpu_cores for task in tasks))),
            list(accumulate(sorted(task.demand.memory_mb for task in tasks))),
        )

    def may_hold(self, chosen: Sequence[int], count: int) -> bool:
        """Whether the workers have slots for ``count`` tasks, and resources for all of them."""
        workers = [self.snapshot.workers[i] for i in chosen]
        if sum(worker.slots for worker in workers) < count:
            return False
        if count < len(self.graph.tasks):
            return True
        if self.smallest and not self._may_hold_rest(self.empty, 0, chosen):
            return False
        return sum(worker.usable.cpu_cores for worker in workers) >= self.cpu * (1 - 1e-9) and sum(
            worker.usable.memory_mb for worker in workers
        ) >= self.memory * (1 - 1e-9)

    def packed(self, chosen: Sequence[int], count: int) -> Iterator[dict[str, str]]:
        """Where the tasks go, in several ways, if ``count`` of them or more fit the workers."""
        orders = self.orders
        if count < len(self.graph.tasks):
            orders = [*orders, orders[0][::-1], orders[0][::-1]]
        none = True
        for turn, order in enumerate(orders):
            if turn and self.spent > _EFFORT:
                return
            self.spent += len(order) * len(chosen)
            room = Room(self.graph, self.snapshot)
            for task in order:
                ranked = self._ranked(room, task, chosen, by_slot=turn % 2 == 1)
                if ranked:
                    room.place(task, ranked[0], "")
            if len(room.at) >= count:
                none = False
                yield self._placement(room)
        if none and len(self.graph.tasks) <= _SEARCHED and count == len(self.graph.tasks):
            room = Room(self.graph, self.snapshot)
            if self._search(room, 0, chosen, iter(range(_STEPS))):
                yield self._placement(room)

    def _ranked(self, room: Room, task: Task, chosen: Sequence[int], *, by_slot: bool) -> list[int]:
        """The workers that can hold a task: those it talks to, then the best fit."""
        fitting = [i for i in chosen if room.fits(task, i)]
        pull = dict.fromkeys(fitting, 0.0)
        if self.graph.edges:
            for other, bytes_per_s in self.graph.neighbours[task.id]:
                if room.at.get(other) in pull:
                    pull[room.at[other]] += bytes_per_s
        cpu, memory = task.demand.cpu_cores, task.demand.memory_mb

        def misfit(i: int) -> float:
            if not by_slot:
                return room.cpu[i]
            # How far what is free for a slot is from what the task needs.
            slots = room.slots[i]
            return (
                abs(room.cpu[i] / slots - cpu) / self.most_cpu
                + abs(room.memory[i] / slots - memory) / self.most_memory
            )

        return sorted(fitting, key=lambda i: (-pull[i], misfit(i)))

    def _search(self, room: Room, at: int, chosen: Sequence[int], steps: Iterator[int]) -> bool:
        """Place the tasks from ``at`` on, the largest first, with a second thought."""
        order = self.orders[0]
        if at == len(order):
            return True
        task, tried = order[at], set()
        # Equal tasks go to workers in one order only.
        first = room.at[order[at - 1].id] if at and order[at - 1].demand == task.demand else 0
        for i in self._ranked(room, task, chosen, by_slot=True):
            state = (room.slots[i], room.cpu[i], room.memory[i], room.disk[i])
            if i < first or state in tried:
                continue
            tried.add(state)
            if next(steps, None) is None:
                return False
            room.place(task, i, "")
            if self._may_hold_rest(room, at + 1, chosen) and self._search(
                room, at + 1, chosen, steps
            ):
                return True
            room.take_back(task)
        return False

    def _may_hold_rest(self, room: Room, at: int, chosen: Sequence[int]) -> bool:
        """Whether there are slots for the tasks from ``at`` on, were all as small as can be."""
        cpu, memory = self.smallest[at]
        holds = (
            min(
                room.slots[i],
                bisect.bisect_right(cpu, room.cpu[i]),
                bisect.bisect_right(memory, room.memory[i]),
            )
            for i in chosen
        )
        return sum(holds) >= len(cpu)

    @staticmethod
    def _placement(room: Room) -> dict[str, str]:
        return {task: room.workers[i].id for task, i in room.at.items()}


def _along(graph: JobGraph) -> list[Task]:
    """The tasks so that each talks much to those before it."""
    pull = dict.fromkeys(graph.by_id, 0.0)
    order = []
    while pull:
        name = max(pull, key=lambda task: pull[task])
        del pull[name]
        order.append(graph.by_id[name])
        for other, bytes_per_s in graph.neighbours[name]:
            if other in pull:
                pull[other] += bytes_per_s
    return order


def _others(snapshot: Snapshot, used: set[str]) -> Iterator[tuple[float, list[int]]]:
    """Sets of workers with their rent, the cheapest first: all if they are few, else near ones."""
    kinds: dict[Any, list[int]] = {}
    for i, worker in enumerate(snapshot.workers):
        kind = kinds.setdefault((worker.usable, worker.slots, worker.price_per_s), [])
        kind.append(i)
    groups = [
        sorted(one, key=lambda i: snapshot.workers[i].id not in used) for one in kinds.values()
    ]
    price = [snapshot.workers[group[0]].price_per_s for group in groups]
    now = [sum(snapshot.workers[i].id in used for i in group) for group in groups]
    if math.prod(len(group) + 1 for group in groups) <= _ALL:
        sets = list(product(*(range(len(group) + 1) for group in groups)))
    else:
        sets = list(_near(now, [len(group) for group in groups], price))
    rents = [sum(n * each for n, each in zip(counts, price, strict=True)) for counts in sets]
    for place in sorted(range(len(sets)), key=lambda place: (rents[place], place)):
        counts = sets[place]
        yield (
            rents[place],
            [i for group, n in zip(groups, counts, strict=True) for i in group[:n]],
        )


def _near(now: list[int], there: list[int], price: list[float]) -> Iterator[tuple[int, ...]]:
    """Numbers of workers of each kind that differ a little from those in use, and cost less."""
    sizes = [(1, 0), (1, 1)]
    if len(now) <= _TRIPLES:
        sizes += [(2, 0), (2, 1), (1, 2)]
    if len(now) <= _PAIRS:
        sizes += [(2, 2), (3, 1), (3, 2), (2, 3)]
    for close, opens in sizes:
        for out in combinations_with_replacement(range(len(now)), close):
            for into in combinations_with_replacement(range(len(now)), opens):
                if sum(price[k] for k in into) >= sum(price[k] for k in out) - _BETTER:
                    continue
                counts = list(now)
                for k in out:
                    counts[k] -= 1
                for k in into:
                    counts[k] += 1
                if all(0 <= n <= most for n, most in zip(counts, there, strict=True)):
                    yield tuple(counts)
