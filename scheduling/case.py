"""What is known when a plan is made, and placements that have room in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduling.model import JobGraph, Move, Plan, Snapshot
from scheduling.search_state import Numbers, needs_of, room_of

__all__ = ["LEVEL", "Case", "fewer_moves", "fits", "fitting"]

LEVEL = 3.0
"""Standard deviations of the loads: what is less uneven is level."""

_SLACK = 0.01  # by which a worker's load may exceed what the policy gave it at least, as a share


@dataclass(frozen=True)
class Case:
    """What is known when a plan is made.

    Args:
        now: the time on the controller's clock.
        graph: the tasks; of an operator whose tasks come and go the most of late.
        current: the tasks that there are at the moment.
        snapshot: the workers.
        present: the present worker of each running task, and the last one of tasks that are
            missing at the moment; workers that are gone are left out.
        loads: the CPU cores that each task uses.
        measured: whether any of them was measured.
        noise: the standard deviation of a worker's load, as a share.
        release: whether idle workers are released.
        failed: pairs of task and worker whose placement has failed recently.
        previous: the present plan; None before the first.
    """

    now: float
    graph: JobGraph
    current: JobGraph
    snapshot: Snapshot
    present: Mapping[str, str]
    loads: Mapping[str, float]
    measured: bool
    noise: float
    release: bool
    failed: Collection[tuple[str, str]]
    previous: Plan | None

    @cached_property
    def as_measured(self) -> JobGraph:
        """The graph with the measured cores as demands, at most what the largest worker has."""
        if not self.measured:
            return self.graph
        most = max((one.usable.cpu_cores for one in self.snapshot.workers), default=0.0)
        return self.graph.with_cores({t: min(load, most) for t, load in self.loads.items()})

    @cached_property
    def position(self) -> dict[str, int]:
        """The position of each worker in the snapshot."""
        return {name: i for i, name in enumerate(self.snapshot.by_id)}

    @cached_property
    def number(self) -> dict[str, int]:
        """The position of each task in the graph."""
        return {name: k for k, name in enumerate(self.graph.by_id)}

    def left(self, placement: Mapping[str, str], need: Numbers) -> Numbers:
        """What a placement leaves of each worker (row): slots, cores, memory, disk."""
        taken = np.zeros((len(self.position), 4))
        there = [self.position[worker] for worker in placement.values()]
        np.add.at(taken, there, need[[self.number[task] for task in placement]])
        return room_of(self.snapshot) - taken


def fits(placement: Mapping[str, str], case: Case) -> bool:
    """Whether each worker that gets another task has room for all that it has then."""
    left = case.left(placement, needs_of(case.as_measured))
    came = {worker for task, worker in placement.items() if case.present.get(task) != worker}
    return bool((left[[case.position[worker] for worker in came]] >= 0).all())


def fitting(moves: Sequence[Move], case: Case) -> list[Move]:
    """The moves of whole tasks that have room, in their order; failed placements are left out."""
    if not any(one.part >= 1 for one in moves):
        return []
    needs, at, made = needs_of(case.graph), dict(case.present), []
    free = case.left(at, needs)
    for one in moves:
        need = needs[case.number[one.task]]
        may = one.part >= 1 and (one.task, one.target) not in case.failed
        may = may and at.get(one.task) == one.source and one.target in case.position
        if may and (free[case.position[one.target]] >= need).all():
            free[case.position[one.source]] += need
            free[case.position[one.target]] -= need
            at[one.task] = one.target
            made.append(one)
    return made


def fewer_moves(wanted: Mapping[str, str], case: Case) -> dict[str, str]:
    """A placement with as many tasks and as much load on each worker, where tasks stay if they can.

    Complexity: O(tasks x (log tasks + workers)).
    """
    names = list(case.position)
    load, count = np.zeros(len(names)), np.zeros(len(names), int)
    for task, worker in wanted.items():
        load[case.position[worker]] += case.loads[task]
        count[case.position[worker]] += 1
    spare = load * max(_SLACK, LEVEL * case.noise) + 1e-9
    at: dict[str, str] = {}

    def put(task: str, i: int) -> None:
        at[task] = names[i]
        count[i] -= 1
        load[i] -= case.loads[task]

    left = []
    for task in sorted(wanted, key=lambda task: -case.loads[task]):
        i = case.position.get(case.present.get(task, ""), -1)
        if i >= 0 and count[i] and case.loads[task] <= load[i] + spare[i]:
            put(task, i)
        else:
            left.append(task)
    needs = needs_of(case.as_measured)
    free = case.left(at, needs)
    for task in left:
        need = needs[case.number[task]]
        room = np.flatnonzero((free >= need).all(axis=1))
        if len(room):
            i = int(room[np.lexsort((-load[room], count[room] <= 0))[0]])
            put(task, i)
            free[i] -= need
    return at
