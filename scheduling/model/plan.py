"""What a policy suggests, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduling.model.cluster import Resources
from scheduling.model.job import JobGraph
from scheduling.model.observed import Snapshot

__all__ = ["Assignment", "Move", "Plan", "Receipt", "Unplaced"]


@dataclass(frozen=True)
class Assignment:
    """A task goes to a worker, and why."""

    task: str
    worker: str
    reason: str


@dataclass(frozen=True)
class Unplaced:
    """A task for which there is no room now, and why; it could run on an emptier cluster."""

    task: str
    reason: str


@dataclass(frozen=True)
class Move:
    """A task, or a part of its load, goes from one worker to another.

    Args:
        task: the task.
        source: the worker that gives.
        target: the worker that takes.
        gain: by how much the gap between the two loads shrinks, a share.
        state_bytes: what has to be carried.
        part: the share of the task's load that moves; below 1 the task is split.
        load: the load that moves, as a share of the target's capacity.
    """

    task: str
    source: str
    target: str
    gain: float
    state_bytes: float
    part: float = 1.0
    load: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Which task goes where, what has no room now, what it costs.

    Args:
        assignments: each task at most once.
        unplaced: the others.
        score: what the policy made small; by default $/s of the workers in use.
        scheduling_time_s: how long planning took (ST of Eq. 14); 0 unless planned by
            :class:`scheduling.Timed`.
        policy: the name of the policy.
        moves: how to get there from the plan before, for actuators that can move or split tasks.
    """

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()
    score: float = 0.0
    scheduling_time_s: float = 0.0
    policy: str = ""
    moves: tuple[Move, ...] = ()

    @cached_property
    def placement(self) -> dict[str, str]:
        """The worker of each placed task."""
        return {one.task: one.worker for one in self.assignments}

    @cached_property
    def by_worker(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each worker that has any, in the order of assignment."""
        found: dict[str, list[str]] = defaultdict(list)
        for one in self.assignments:
            found[one.worker].append(one.task)
        return {worker: tuple(tasks) for worker, tasks in found.items()}

    def _check(self, graph: JobGraph, snapshot: Snapshot) -> None:
        """Assert that the plan can be carried out and forgets nothing.

        Every task is placed once or listed as unplaced; no worker has more tasks than slots, nor
        more demand than delta times its capacity (Eqs. 18 and 19), less what others take of both.
        O(tasks).
        """
        listed = [one.task for one in self.assignments] + [one.task for one in self.unplaced]
        assert len(listed) == len(set(listed)), "a task is there twice"
        assert set(listed) == set(graph.by_id), "a task is missing, or none of the graph's"
        for name, tasks in self.by_worker.items():
            assert name in snapshot.by_id, f"there is no worker {name}"
            slots, free = snapshot.free_slots[name], snapshot.free[name]
            assert len(tasks) <= slots, f"{len(tasks)} tasks in {slots} slots"
            total = Resources(0.0, 0.0)
            for task in tasks:
                total += graph.by_id[task].demand
            assert total.within(free), f"{name}: {total} is over {free}"
        assert all(one.reason for one in self.assignments), "an assignment has no reason"
        assert all(one.reason for one in self.unplaced), "an unplaced task has no reason"


@dataclass(frozen=True)
class Receipt:
    """What an actuator was asked for, and what was seen to land: worker by task."""

    asked: Mapping[str, str]
    landed: Mapping[str, str]

    @property
    def missed(self) -> dict[str, str]:
        """The tasks that are not where they were asked for, with the worker asked."""
        return {task: at for task, at in self.asked.items() if self.landed.get(task) != at}

    @property
    def landing_share(self) -> float:
        """The share of the asked tasks that landed; 1 where nothing was asked."""
        return 1.0 if not self.asked else 1 - len(self.missed) / len(self.asked)
