"""Plans of policies and their observed results."""

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
    """The placement of a task on a worker.

    Args:
        task: the id of the task.
        worker: the id of the worker.
        reason: why, in words.
    """

    task: str
    worker: str
    reason: str


@dataclass(frozen=True)
class Unplaced:
    """A task without room at the moment, which could run on an emptier cluster.

    Args:
        task: the id of the task.
        reason: why, in words.
    """

    task: str
    reason: str


@dataclass(frozen=True)
class Move:
    """The move of a task, or of a part of its load, to another worker.

    Args:
        task: the id of the task.
        source: the worker that the task leaves.
        target: the worker that receives it.
        gain: the decrease of the difference between the two loads, as a share.
        state_bytes: the state to transfer.
        part: the share of the task's load that moves; below 1 the task is split. Default 1.
        load: the load that moves, as a share of the target's capacity; default 0.
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
    """A placement of all tasks, with reasons and cost.

    Args:
        assignments: the placed tasks, each once.
        unplaced: the other tasks; default none.
        score: the objective that the policy minimised, usually $/s of the workers in use;
            default 0.
        scheduling_time_s: the duration of planning in seconds (ST of Eq. 14); 0 (default) unless
            planned by :class:`scheduling.Timed`.
        policy: the name of the policy.
        moves: the moves from the previous plan, for actuators that can move or split tasks;
            default none.
        fallback: the policy that planned instead, and why; empty (default) if none did.
    """

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()
    score: float = 0.0
    scheduling_time_s: float = 0.0
    policy: str = ""
    moves: tuple[Move, ...] = ()
    fallback: str = ""

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
        """Assert that the plan is feasible and complete.

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
    """The requested placement, and the observed one.

    Args:
        requested: the requested worker of each task.
        landed: the observed worker of each task.
        unplaced: the tasks for which the plan had no worker; default none.
    """

    requested: Mapping[str, str]
    landed: Mapping[str, str]
    unplaced: tuple[str, ...] = ()

    @property
    def missed(self) -> dict[str, str]:
        """The tasks that do not run on their requested worker, with that worker."""
        return {task: at for task, at in self.requested.items() if self.landed.get(task) != at}

    @property
    def landing_share(self) -> float:
        """The share of all tasks that run where the plan has them; 1 without tasks.

        A task without a place counts as one that missed it.

        >>> Receipt({"t0": "a", "t1": "b"}, {"t0": "a", "t1": "b"}, ("t2", "t3")).landing_share
        0.5
        """
        every = len(self.requested) + len(self.unplaced)
        return (len(self.requested) - len(self.missed)) / every if every else 1.0
