"""Plans of policies and their observed results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduling.model.checks import check, every, finite, instance, number, some_share, text
from scheduling.model.cluster import Resources, Snapshot
from scheduling.model.job import JobGraph

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

    def __post_init__(self) -> None:
        check(self, " of an assignment", task=text, worker=text)


@dataclass(frozen=True)
class Unplaced:
    """A task without room at the moment, which could run on an emptier cluster.

    Args:
        task: the id of the task.
        reason: why, in words.
    """

    task: str
    reason: str

    def __post_init__(self) -> None:
        check(self, " without room", task=text)


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

    def __post_init__(self) -> None:
        check(self, " of a move", task=text, source=text, target=text)
        check(self, " of a move", gain=finite, state_bytes=number, part=some_share, load=number)


@dataclass(frozen=True)
class Plan:
    """A placement of all tasks, with reasons and cost.

    Args:
        assignments: the placed tasks, each once.
        unplaced: the other tasks; default none.
        score: what the policy minimised, usually $/s of the workers in use; default 0.
        scheduling_time_s: how long planning took (ST of Eq. 14); 0 (default) if not measured.
        policy: the name of the policy; default empty.
        moves: the moves from the previous plan, of tasks and parts of them; default none.
        fallback: the policy that planned instead, and why; empty (default) if none did.
    """

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()
    score: float = 0.0
    scheduling_time_s: float = 0.0
    policy: str = ""
    moves: tuple[Move, ...] = ()
    fallback: str = ""

    def __post_init__(self) -> None:
        check(self, assignments=every(Assignment), unplaced=every(Unplaced), moves=every(Move))

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

    @property
    def summary(self) -> str:
        """The plan in words: first the tasks without room, then the tasks of each worker.

        >>> at = (Assignment("t0", "a", "cheapest"), Assignment("t1", "a", "cheapest"))
        >>> print(Plan(at, (Unplaced("t2", "all 2 slots are taken"),), 0.5, policy="cetsa").summary)
        1 of 3 tasks has no room now:
          t2: all 2 slots are taken
        cetsa: 2 tasks on 1 worker, 0.5 $/s
          a: t0, t1
        """
        lines: list[str] = []
        left, total = len(self.unplaced), len(self.assignments) + len(self.unplaced)
        if left:
            have = "has" if left == 1 else "have"
            lines.append(f"{left} of {_many(total, 'task')} {have} no room now:")
            whys: dict[str, list[str]] = defaultdict(list)
            for one in self.unplaced:
                whys[one.reason].append(one.task)
            lines += [f"  {', '.join(tasks)}: {why}" for why, tasks in whys.items()]
        tasks, workers = _many(len(self.assignments), "task"), _many(len(self.by_worker), "worker")
        fallback = f"; fell back to {self.fallback}" if self.fallback else ""
        lines.append(f"{self.policy or 'plan'}: {tasks} on {workers}, {self.score:g} $/s{fallback}")
        lines += [f"  {worker}: {', '.join(there)}" for worker, there in self.by_worker.items()]
        return "\n".join(lines)

    def _check(self, graph: JobGraph, snapshot: Snapshot) -> None:
        """Assert that the plan is feasible and complete (Eqs. 18 and 19). O(tasks)."""
        both: list[Assignment | Unplaced] = [*self.assignments, *self.unplaced]
        listed = [one.task for one in both]
        assert len(listed) == len(set(listed)), "a task is there twice"
        assert set(listed) == set(graph.by_id), "a task is missing, or none of the graph's"
        for name, tasks in self.by_worker.items():
            assert name in snapshot.by_id, f"there is no worker {name}"
            slots, free = snapshot.free_slots[name], snapshot.free[name]
            assert len(tasks) <= slots, f"{len(tasks)} tasks in {slots} slots"
            total = sum((graph.by_id[task].demand for task in tasks), Resources(0.0, 0.0))
            assert total.within(free), f"{name}: {total!r} is over {free!r}"
        assert all(one.reason for one in both), "no reason is given"


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

    def __post_init__(self) -> None:
        mapping = instance(Mapping)
        check(self, requested=mapping, landed=mapping, unplaced=every(str))

    @property
    def missed(self) -> dict[str, str]:
        """The tasks that do not run on their requested worker, with that worker."""
        return {task: at for task, at in self.requested.items() if self.landed.get(task) != at}

    @property
    def landing_share(self) -> float:
        """The share of all tasks, with or without a place, that run as planned; 1 of none.

        >>> Receipt({"t0": "a", "t1": "b"}, {"t0": "a", "t1": "b"}, ("t2", "t3")).landing_share
        0.5
        """
        every = len(self.requested) + len(self.unplaced)
        return (len(self.requested) - len(self.missed)) / every if every else 1.0


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
