"""Another placement for a running job: what the controller compares with the present one.

The candidates begin at the present placement, at the policy's plan and at the rebalancer's moves;
each is improved by local search under the objective, which counts the moves from the present
placement. The present one is kept unless a candidate is better by more than a margin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduling.cost import rent_per_s
from scheduling.model import Assignment, JobGraph, Move, Plan, Snapshot, Unplaced
from scheduling.objective import Objective, PlacementCost
from scheduling.partial_moves import makeable, with_parts
from scheduling.policies.capacity import ledger_of
from scheduling.protocols import Policy, Rebalancer
from scheduling.search import PlacementState, improve

__all__ = ["Candidate", "Replanner", "Situation"]

_EVEN = 0.01  # a difference of loads that does not count, as a share of the mean
_DEVIATIONS = 3.0  # of the loads, which do not count either
_LARGE = 50_000  # tasks times workers from which a step searches from one start only


@dataclass(frozen=True)
class Situation:
    """What is known when a plan is made.

    Args:
        graph: the tasks.
        snapshot: the workers.
        present: the present worker of each running task, also one that is lost, and the last
            worker of tasks that do not run at the moment.
        loads: the CPU cores that each task uses.
        release: whether idle workers are released.
        forbidden: pairs of task and worker whose placement has failed recently.
        noise: the standard deviation of a worker's load, as a share of it; default 0.
        previous: the present plan; None (default) before the first.
    """

    graph: JobGraph
    snapshot: Snapshot
    present: Mapping[str, str]
    loads: Mapping[str, float]
    release: bool
    forbidden: Collection[tuple[str, str]]
    noise: float = 0.0
    previous: Plan | None = None


@dataclass(frozen=True)
class Candidate:
    """A placement that could be applied, and what it costs."""

    plan: Plan
    cost: PlacementCost


@dataclass(frozen=True)
class Replanner:
    """Makes plans from a policy, a rebalancer and local search.

    Args:
        policy: makes the first plan, and a candidate for each other.
        rebalancer: suggests moves; None for none.
        objective: what is minimised.
        search: whether candidates are improved by local search.
    """

    policy: Policy
    rebalancer: Rebalancer | None
    objective: Objective
    search: bool

    def cost(self, now: Situation, placement: Mapping[str, str]) -> PlacementCost:
        """The cost of a placement in a situation."""
        return self.objective.cost(
            placement,
            now.graph,
            now.snapshot,
            now.present,
            release=now.release,
            loads=now.loads,
        )

    def least(self, now: Situation) -> float:
        """A lower bound of the running cost of any placement of all tasks."""
        return self.objective.least(now.graph, now.snapshot, release=now.release)

    def first(self, now: Situation) -> Candidate:
        """The first plan: the policy's, improved.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        plan = self.policy.plan(now.graph, now.snapshot)
        reasons = {one.task: one for one in plan.assignments}
        found = self._improved(now, plan.placement, reasons)
        if not plan.fallback:
            return found
        named = dataclasses.replace(found.plan, fallback=plan.fallback)
        return dataclasses.replace(found, plan=named)

    def repaired(self, now: Situation, *, all_may_move: bool = False) -> Candidate:
        """The present placement, with the tasks that have no worker placed.

        The others move only where a task has no room otherwise, or if ``all_may_move``.
        """
        start = now.present
        lost = [task.id for task in now.graph.tasks if start.get(task.id) not in now.snapshot.by_id]
        missing = [task.id for task in now.graph.tasks if task.id not in now.present]
        if not all_may_move:
            found = self._improved(now, start, movable={*lost, *missing})
            if not found.plan.unplaced:
                return found
        return self._improved(now, start)

    def starts(self, now: Situation) -> int:
        """How many steps search from all starts: large jobs take them in turns."""
        large = len(now.graph.tasks) * len(now.snapshot.workers) > _LARGE
        return 2 if large and self.search and self._has_a_say(now) else 1

    def candidates(self, now: Situation, moves: Sequence[Move], turn: int = 0) -> list[Candidate]:
        """The other placements, the best first.

        Args:
            now: the situation.
            moves: the rebalancer's; those of parts of tasks are left out.
            turn: of a large job, whether the search begins at the policy's plan (even) or at the
                present placement (odd); default 0.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """
        found = self._moved(now, moves)
        one_start = self.starts(now) > 1
        planned = None if one_start and turn % 2 else self._from_policy(now)
        if planned is not None:
            found.append(planned)
            if one_start:
                return sorted(found, key=lambda one: one.cost.rank)
        if self.search or len(now.present) < len(now.graph.tasks):
            found.append(self._improved(now, now.present))
        return sorted(found, key=lambda one: one.cost.rank)

    def split(
        self, now: Situation, suggested: Sequence[Move], can: Collection[str]
    ) -> Candidate | None:
        """The placement after the rebalancer's moves of parts of tasks; None without any.

        Args:
            now: the situation.
            suggested: the rebalancer's moves; those of whole tasks are made, too.
            can: the capabilities of the actuator.
        """
        whole = self._fitting(now, suggested)
        placement = {**now.present, **{one.task: one.target for one in whole}}
        allowed = [one for one in suggested if (one.task, one.target) not in now.forbidden]
        parts = makeable(allowed, placement, now.graph, can)
        if not parts:
            return None
        graph, loads, was, becomes = with_parts(parts, now.graph, now.loads, now.present)
        after = dataclasses.replace(now, graph=graph, present=was, loads=loads)
        plan = self._plan(now, placement, {}, f"suggested by {self._name}")
        return Candidate(
            dataclasses.replace(plan, moves=(*whole, *parts)),
            self.cost(after, {**placement, **becomes}),
        )

    @property
    def _name(self) -> str:
        return "" if self.rebalancer is None else self.rebalancer.name

    @staticmethod
    def _has_a_say(now: Situation) -> bool:
        """Whether the workers that the policy chooses make a difference."""
        return now.release or bool(now.graph.edges)

    def _from_policy(self, now: Situation) -> Candidate | None:
        """The policy's plan, improved; None if it leads to the same search as the present one.

        Of a policy's plan for a running job its workers count: tasks that are on one of them stay.
        Where all workers are paid for anyway and no streams cost, they make no difference.
        """
        if self.search and now.present and not self._has_a_say(now):
            return None
        plan = self.policy.plan(now.graph, now.snapshot, now.previous)
        reasons = {one.task: one for one in plan.assignments}
        start = plan.placement
        if self.search and now.present:
            chosen = set(start.values())
            stay = {task: at for task, at in now.present.items() if at in chosen}
            if len(stay) == len(now.present) and chosen <= set(stay.values()):
                return None
            start = {**stay, **{task: at for task, at in start.items() if task not in stay}}
        return self._improved(now, start, reasons)

    def moves(self, now: Situation) -> Sequence[Move]:
        """The rebalancer's moves from the present placement."""
        if self.rebalancer is None:
            return ()
        usage = {
            task.id: dataclasses.replace(
                now.snapshot.usage.get(task.id, task.demand), cpu_cores=now.loads[task.id]
            )
            for task in now.graph.tasks
        }
        seen = dataclasses.replace(now.snapshot, placement=dict(now.present), usage=usage)
        return self.rebalancer.rebalance(now.graph, seen)

    def _fitting(self, now: Situation, moves: Sequence[Move]) -> list[Move]:
        """The rebalancer's moves of whole tasks that have room, in their order."""
        ledger = ledger_of(now.present, now.graph, now.snapshot)
        at = {worker.id: i for i, worker in enumerate(now.snapshot.workers)}
        made = []
        for one in moves:
            task = now.graph.by_id[one.task]
            may = one.part >= 1 and (one.task, one.target) not in now.forbidden
            if may and ledger.at.get(one.task) == at[one.source]:
                ledger.release(task)
                if ledger.fits(task, at[one.target]):
                    ledger.place(task, at[one.target], "")
                    made.append(one)
                else:
                    ledger.place(task, at[one.source], "")
        return made

    def _moved(self, now: Situation, moves: Sequence[Move]) -> list[Candidate]:
        """The present placement after the rebalancer's moves of whole tasks, if there are any."""
        made = self._fitting(now, moves)
        if not made:
            return []
        placement = {**now.present, **{one.task: one.target for one in made}}
        plan = self._plan(now, placement, {}, f"suggested by {self._name}")
        return [
            Candidate(dataclasses.replace(plan, moves=tuple(made)), self.cost(now, plan.placement))
        ]

    def _improved(
        self,
        now: Situation,
        start: Mapping[str, str],
        reasons: Mapping[str, Assignment] | None = None,
        movable: Collection[str] | None = None,
    ) -> Candidate:
        """A placement after local search; without search only tasks without a worker are placed."""
        placed = [task for task, worker in start.items() if worker in now.snapshot.by_id]
        if not self.search and movable is None:
            movable = [task.id for task in now.graph.tasks if task.id not in placed]
        state = PlacementState(
            now.graph,
            now.snapshot,
            self.objective,
            now.present if now.previous is not None else None,
            now.loads,
            release=now.release,
            forbidden=now.forbidden,
            movable=movable,
            tolerance=max(_EVEN, _DEVIATIONS * now.noise),
        )
        state.start(start)
        improve(state)
        if state.unplaced and now.forbidden:
            # A placement that has failed before is better than none.
            state.allow_all()
            improve(state)
        placement = state.placement
        plan = self._plan(now, placement, reasons or {}, "costs less here")
        return Candidate(plan, self.cost(now, placement))

    def _plan(
        self,
        now: Situation,
        placement: Mapping[str, str],
        reasons: Mapping[str, Assignment],
        why: str,
    ) -> Plan:
        """A plan with a reason for each task: the policy's, the one it had, or ``why``."""
        before = {one.task: one for one in now.previous.assignments} if now.previous else {}
        failed = dict(now.forbidden) if now.forbidden else {}
        assignments = []
        for task in now.graph.tasks:
            worker = placement.get(task.id)
            if worker is None:
                continue
            for known in (reasons.get(task.id), before.get(task.id)):
                if known is not None and known.worker == worker:
                    assignments.append(known)
                    break
            else:
                reason = why
                if task.id in failed:
                    reason = f"its placement on {failed[task.id]} failed"
                elif task.id in before and before[task.id].worker not in now.snapshot.by_id:
                    reason = f"{before[task.id].worker} is gone"
                assignments.append(Assignment(task.id, worker, reason))
        rent = rent_per_s(dict(placement), now.snapshot)
        return Plan(tuple(assignments), _left_out(now, placement), rent, policy=self.policy.name)


def _left_out(now: Situation, placement: Mapping[str, str]) -> tuple[Unplaced, ...]:
    """The tasks without a worker, with the reason.

    Raises:
        InfeasibleError: one of them fits no worker, not even an empty one.
    """
    left = [task for task in now.graph.tasks if task.id not in placement]
    if not left:
        return ()
    ledger = ledger_of(placement, now.graph, now.snapshot)
    return tuple(Unplaced(task.id, ledger.why(task)) for task in left)
