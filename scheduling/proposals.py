"""The placements that a step of the controller chooses from.

They are the policy's answer; the same with as few moves as it allows; the present placement after
the rebalancer's moves; and, if asked for, what the local search makes of the present one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduling.errors import InfeasibleError
from scheduling.improve import improve, needs_of, room_of
from scheduling.model import Assignment, JobGraph, Move, Plan, Reserved, Snapshot, Task
from scheduling.objective import Objective, PlacementCost
from scheduling.protocols import Policy, Rebalancer
from scheduling.splits import makeable, with_parts

__all__ = ["Case", "Proposal", "Proposals"]

_DEVIATIONS = 3.0  # of the loads: what is less uneven is not levelled by the search
_SLACK = 0.01  # by which a worker's load may exceed what the policy gave it, as a share


@dataclass(frozen=True)
class Case:
    """What is known when a plan is made.

    Args:
        graph: the tasks; of an operator whose tasks come and go the most of late.
        snapshot: the workers.
        present: the present worker of each running task, and the last one of tasks that are
            missing at the moment; workers that are gone are left out.
        loads: the CPU cores that each task uses.
        measured: whether any of them was measured.
        release: whether idle workers are released.
        failed: pairs of task and worker whose placement has failed recently.
        previous: the present plan; None before the first.
        noise: the standard deviation of a worker's load, as a share; default 0.
    """

    graph: JobGraph
    snapshot: Snapshot
    present: Mapping[str, str]
    loads: Mapping[str, float]
    measured: bool
    release: bool
    failed: Collection[tuple[str, str]]
    previous: Plan | None
    noise: float = 0.0

    @cached_property
    def as_measured(self) -> JobGraph:
        """The graph with the measured cores as demands, at most what the largest worker has."""
        if not self.measured:
            return self.graph
        most = max((w.usable.cpu_cores for w in self.snapshot.workers), default=0.0)
        tasks = tuple(
            dataclasses.replace(
                task,
                demand=dataclasses.replace(task.demand, cpu_cores=min(self.loads[task.id], most)),
            )
            for task in self.graph.tasks
        )
        return JobGraph(tasks, self.graph.edges)


@dataclass(frozen=True)
class Proposal:
    """A placement that could be requested.

    Args:
        by: who proposes it, in words.
        placement: the worker of each placed task.
        moves: the moves that make it of the present one, for a rebalancer's; default none.
    """

    by: str
    placement: Mapping[str, str]
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class Proposals:
    """Asks the policy, the rebalancer and the local search.

    Args:
        policy: asked in every step.
        rebalancer: suggests moves; None for none.
        objective: what the local search lowers.
        search: whether there is a local search.
    """

    policy: Policy
    rebalancer: Rebalancer | None
    objective: Objective
    search: bool

    def cost(self, placement: Mapping[str, str], case: Case) -> PlacementCost:
        """The cost of a placement; moves count from the present one."""
        return self.objective.cost(
            placement,
            case.graph,
            case.snapshot,
            case.present,
            release=case.release,
            loads=case.loads,
        )

    def answer(self, case: Case) -> Plan:
        """The policy's plan for all tasks.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        return self.policy.plan(case.as_measured, case.snapshot, case.previous)

    def others(self, answer: Plan, moves: Sequence[Move], case: Case) -> list[Proposal]:
        """The policy's answer where it may be requested, and the other placements."""
        said = f"{self.policy.name}'s answer"
        allowed, found = self.allowed(answer.placement, case), []
        if allowed == answer.placement or fits(allowed, case):
            found.append(Proposal(said, allowed))
        if case.present:
            fewer = fewer_moves(allowed, case)
            if fewer != allowed:
                found.append(Proposal(f"{said} with fewer moves", fewer))
        if self.rebalancer is not None and (made := fitting(moves, case)):
            at = {**case.present, **{one.task: one.target for one in made}}
            found.append(Proposal(f"{self.rebalancer.name}'s moves", at, tuple(made)))
        if self.search and case.present:
            found.append(Proposal("the search", self.searched(case)))
        return found

    def searched(self, case: Case) -> dict[str, str]:
        """What local search makes of the present placement."""
        return improve(
            case.present,
            case.graph,
            case.snapshot,
            self.objective,
            case.present,
            release=case.release,
            loads=case.loads,
            forbidden=case.failed,
            tolerance=_DEVIATIONS * case.noise,
        )

    def moves(self, placement: Mapping[str, str], case: Case) -> Sequence[Move]:
        """The rebalancer's moves from a placement."""
        if self.rebalancer is None or not placement:
            return ()
        usage = {
            task.id: dataclasses.replace(
                case.snapshot.usage.get(task.id, task.demand), cpu_cores=case.loads[task.id]
            )
            for task in case.graph.tasks
        }
        seen = dataclasses.replace(case.snapshot, placement=dict(placement), usage=usage)
        return self.rebalancer.rebalance(case.graph, seen)

    def split(
        self, moves: Sequence[Move], case: Case, can: Collection[str]
    ) -> tuple[Proposal, PlacementCost] | None:
        """The present placement after the rebalancer's moves, those of parts of tasks included.

        Args:
            moves: the rebalancer's.
            case: what is known.
            can: the capabilities of the actuator.

        Returns:
            The proposal and its cost; None if no part of a task moves.
        """
        whole = fitting(moves, case)
        at = {**case.present, **{one.task: one.target for one in whole}}
        parts = makeable(
            [one for one in moves if (one.task, one.target) not in case.failed], at, case.graph, can
        )
        if not parts or self.rebalancer is None:
            return None
        graph, loads, was, becomes = with_parts(parts, case.graph, case.loads, case.present)
        after = dataclasses.replace(case, graph=graph, present=was, loads=loads)
        proposal = Proposal(f"{self.rebalancer.name}'s moves", at, (*whole, *parts))
        return proposal, self.cost({**at, **becomes}, after)

    def repaired(self, case: Case) -> dict[str, str]:
        """The present placement; tasks without a worker go where the policy puts them beside it.

        If they have no room there, the others make room, with as few moves as that takes.
        """
        found = self._beside(case.present, case)
        if len(found) < len(case.graph.tasks):
            whole = fewer_moves(self.answer(case).placement, case)
            if len(whole) > len(found):
                return whole
        return found

    def allowed(self, placement: Mapping[str, str], case: Case) -> dict[str, str]:
        """A placement without those that have failed recently: such tasks stay, or go elsewhere."""
        at = dict(placement)
        for pair in case.failed:
            task, worker = pair
            if at.get(task) == worker and case.present.get(task) != worker:
                if task in case.present:
                    at[task] = case.present[task]
                else:
                    del at[task]
        lost = [task for task in placement if task not in at]
        return self._beside(at, case, lost) if lost else at

    def _beside(
        self, stay: Mapping[str, str], case: Case, names: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Some tasks, all others by default, placed by the policy beside tasks that stay."""
        tasks = case.as_measured.by_id
        names = [name for name in (tasks if names is None else names) if name not in stay]
        at = {**stay, **self._asked([tasks[name] for name in names], stay, case, tasks)}
        again = [name for name in names if (name, at.get(name)) in case.failed]
        if again:
            refused = {at[name] for name in again}
            rest = {task: worker for task, worker in at.items() if task not in again}
            at |= self._asked([tasks[name] for name in again], rest, case, tasks, refused)
        return at

    def _asked(
        self,
        rest: Sequence[Task],
        stay: Mapping[str, str],
        case: Case,
        tasks: Mapping[str, Task],
        without: Collection[str] = (),
    ) -> Mapping[str, str]:
        """The policy's placement of tasks on what others that stay leave of the workers."""
        if not rest:
            return {}
        taken = dict(case.snapshot.reserved)
        for name, worker in stay.items():
            old = taken.get(worker, Reserved())
            taken[worker] = Reserved(old.slots + 1, old.resources + tasks[name].demand)
        workers = tuple(one for one in case.snapshot.workers if one.id not in without)
        left = dataclasses.replace(case.snapshot, workers=workers, reserved=taken)
        try:
            return self.policy.plan(JobGraph(tuple(rest)), left, case.previous).placement
        except InfeasibleError:
            if without:
                return {}
            raise


def fitting(moves: Sequence[Move], case: Case) -> list[Move]:
    """The moves of whole tasks that have room, in their order; failed placements are left out."""
    position = {worker.id: i for i, worker in enumerate(case.snapshot.workers)}
    free, at, made = room_of(case.snapshot), dict(case.present), []
    need = dict(zip(case.graph.by_id, needs_of(case.graph), strict=True))
    for task, worker in at.items():
        free[position[worker]] -= need[task]
    for one in moves:
        may = one.part >= 1 and (one.task, one.target) not in case.failed
        may = may and at.get(one.task) == one.source and one.target in position
        if may and (free[position[one.target]] >= need[one.task]).all():
            free[position[one.source]] += need[one.task]
            free[position[one.target]] -= need[one.task]
            at[one.task] = one.target
            made.append(one)
    return made


def fits(placement: Mapping[str, str], case: Case) -> bool:
    """Whether each worker that gets another task has room for all that it has then."""
    position = {worker.id: i for i, worker in enumerate(case.snapshot.workers)}
    free = room_of(case.snapshot)
    need = dict(zip(case.graph.by_id, needs_of(case.as_measured), strict=True))
    for task, worker in placement.items():
        free[position[worker]] -= need[task]
    came = {w for task, w in placement.items() if case.present.get(task) != w}
    return all((free[position[worker]] >= 0).all() for worker in came)


def fewer_moves(wanted: Mapping[str, str], case: Case) -> dict[str, str]:
    """A placement with as many tasks and as much load on each worker, where tasks stay if they can.

    Args:
        wanted: the policy's.
        case: the present placement.

    Complexity: O(tasks x (log tasks + workers)).
    """
    names = list(case.snapshot.by_id)
    position = {name: i for i, name in enumerate(names)}
    load, count = np.zeros(len(names)), np.zeros(len(names), int)
    for task, worker in wanted.items():
        load[position[worker]] += case.loads[task]
        count[position[worker]] += 1
    spare = load * _SLACK + 1e-9
    free = room_of(case.snapshot)
    need = dict(zip(case.graph.by_id, needs_of(case.as_measured), strict=True))
    at: dict[str, str] = {}

    def put(task: str, i: int) -> None:
        at[task] = names[i]
        count[i] -= 1
        load[i] -= case.loads[task]
        free[i] -= need[task]

    left = []
    for task in sorted(wanted, key=lambda task: -case.loads[task]):
        i = position.get(case.present.get(task, ""), -1)
        if i >= 0 and count[i] and case.loads[task] <= load[i] + spare[i]:
            put(task, i)
        else:
            left.append(task)
    for task in left:
        room = np.flatnonzero((free >= need[task]).all(axis=1))
        if len(room):
            put(task, int(room[np.lexsort((-load[room], count[room] <= 0))[0]]))
    return at


def reasons(plan: Plan, placement: Mapping[str, str], case: Case, by: str) -> list[Assignment]:
    """The assignments of a placement, with the policy's reason, the one it had, or who wanted it.

    Args:
        plan: the policy's.
        placement: what is requested.
        case: what is known.
        by: who proposed it.
    """
    said = {one.task: one for one in plan.assignments}
    had = {one.task: one for one in case.previous.assignments} if case.previous else {}
    failed = dict(case.failed)
    found = []
    for task, worker in placement.items():
        for known in (said.get(task), had.get(task)):
            if known is not None and known.worker == worker:
                found.append(known)
                break
        else:
            reason = by
            if task in failed and failed[task] != worker:
                reason = f"its placement on {failed[task]} failed"
            elif task in had and had[task].worker not in case.snapshot.by_id:
                reason = f"{had[task].worker} is gone"
            found.append(Assignment(task, worker, reason))
    return found
