"""Baselines that need no measurement; and what most policies share.

Round robin: CETSA, Algorithm 1, line 20, and Twister2; first fit: Twister2; random: Flink's default
(CETSA and LBA-CE, section 2.1); spread: Flink's evenly spread-out slots, by load.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from sortedcontainers import SortedList

from scheduling.load import task_load
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.model.checks import Checked
from scheduling.room import Room


class Greedy(Checked):
    """A policy that says which worker has each task; one without weights of its own balances."""

    name: ClassVar[str]
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 0.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        return room.plan(self.name, self._place(room, graph, snapshot) or "")

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> str | None:
        """Place the tasks, those that have room; if another policy did it, which one and why."""
        raise NotImplementedError


@dataclass(frozen=True)
class RoundRobin(Greedy):
    """Place one task after the other on the next worker.

    Args:
        restart: whether every operator starts at the first worker, so that its instance i is on
            worker i mod n, as in Twister2; default False: it continues where the last one ended.

    Complexity: O(tasks x log workers) while workers have room, O(tasks x workers) at worst.
    """

    restart: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """``round-robin``, or ``twister2-round-robin`` when it restarts."""
        return "twister2-round-robin" if self.restart else "round-robin"

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        turn, count = 0, max(len(room.workers), 1)
        for operator, tasks in graph.operators.items():
            turn = 0 if self.restart else turn
            for task in tasks:
                whose = f"instance {task.index} of {operator}" if self.restart else "next"

                def why(passed: int, i: int, whose: str = whose) -> str:
                    return f"{whose}: turn of worker {i + 1} of {count}"

                # Those from its turn on, then the others: the first ones have no room either.
                if room.first(task, chain(room.open.irange(turn % count), room.open), why):
                    # Twister2: container i mod n, regardless of skipped ones.
                    turn = turn + 1 if self.restart else room.at[task.id] + 1


def without_history(room: Room, graph: JobGraph, snapshot: Snapshot) -> str:
    """Place the tasks of a policy that lacks measurements; the ``fallback`` of its plan."""
    RoundRobin()._place(room, graph, snapshot)
    known = any(snapshot.tuples.values())
    why = "both tuples and their cost" if known else "processed a tuple"
    return f"round-robin: no worker has {why}"


@dataclass(frozen=True)
class FirstFit(Greedy):
    """Place the tasks in descending order of memory, each on the first worker with room.

    Complexity: O(tasks x log tasks + tasks x workers in use).
    """

    name: ClassVar[str] = "first-fit"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 0.0)

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        why = f"the first of {len(room.workers)} workers with room"
        for task in sorted(graph.tasks, key=lambda task: -task.demand.memory_mb):
            room.first(task, room.open, lambda passed, i: why)


@dataclass(frozen=True)
class Random(Greedy):
    """Place each task in a free slot drawn at random; a worker with more of them has more tasks.

    Args:
        seed: the seed; the same seed and arguments give the same plan. Default 0.

    Complexity: O(tasks + slots) where most slots can hold most tasks, else O(tasks x slots).
    """

    seed: int = 0
    name: ClassVar[str] = "random"

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        draw = random.Random(self.seed)
        slots = [i for i, free in enumerate(room.free) for _ in range(int(free[0]))]
        for task in graph.tasks if room.open else ():
            at = draw.randrange(len(slots))
            if not room.fits(task, slots[at]):
                fitting = [k for k, i in enumerate(slots) if room.fits(task, i)]
                if not fitting:
                    continue
                at = draw.choice(fitting)
            room.place(task, slots[at], f"drawn from {len(slots)} free slots")
            slots[at] = slots[-1]
            slots.pop()
            if not room.open:
                break


@dataclass(frozen=True)
class Spread(Greedy):
    """Place each task, the largest first, on the worker with the least planned load.

    It looks at no prices: what CETSA saves is measured against it.

    Complexity: O(tasks x log(tasks + workers)), O(tasks x workers) where many have no room.
    """

    name: ClassVar[str] = "spread"

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        tasks = sorted(graph.tasks, key=lambda t: (-t.demand.cpu_cores, -t.demand.memory_mb))
        order = list(room.open)
        fill(room, tasks, order, len(order), lambda i, load: f"the least load, then {load:.0%}")


def fill(
    room: Room,
    tasks: Iterable[Task],
    order: Sequence[int],
    first: int,
    why: Callable[[int, float], str],
    by: str = "least-loaded",
) -> None:
    """Place each task on the worker with the least load, of equal ones the first of an ``order``.

    Of those after the ``first`` ones, the next is used when none has room. ``by``: of LBA-CE.
    """
    load, places = [0.0] * len(room.workers), [(0.0, rank, i) for rank, i in enumerate(order)]
    queue, spill = SortedList(places[:first]), iter(places[first:])
    for task in tasks:
        entry = next((one for one in queue if room.fits(task, one[2])), None)
        while entry is None and (entered := next(spill, None)):
            queue.add(entered)
            entry = entered if room.fits(task, entered[2]) else None
        if entry is None:
            continue
        key, rank, i = entry
        worker = room.workers[i]
        load[i] += task_load(task.demand, worker.capacity)
        room.place(task, i, why(i, load[i]))
        queue.remove(entry)
        if room.free[i][0]:
            # Where demands are not known, the share of the slots that are taken.
            taken = load[i] or 1 - room.free[i][0] / worker.slots
            queue.add(({"literal": 0.0, "turns": key + 1}.get(by, taken), rank, i))
