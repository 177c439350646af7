"""The placements that a step of the controller chooses from, each with what it costs.

They are the policy's answer; the same with as few moves as it allows; the present placement after
the rebalancer's moves; and, if asked for, what the local search makes of the present one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduling.case import LEVEL, Case, fewer_moves, fits, fitting
from scheduling.cost import prices
from scheduling.decision import saving
from scheduling.errors import InfeasibleError
from scheduling.improve import improve
from scheduling.model import (
    Assignment,
    JobGraph,
    Move,
    Plan,
    Reserved,
    Resources,
    Snapshot,
    Unplaced,
)
from scheduling.objective import Objective, PlacementCost
from scheduling.protocols import Policy, Rebalancer
from scheduling.splits import makeable, split_names, with_parts

__all__ = ["Proposal", "Proposals"]


@dataclass(frozen=True)
class Proposal:
    """A placement that may be requested.

    Args:
        by: who proposes it, in words.
        placement: the worker of each placed task, where it would land.
        cost: what that costs.
        answer: the policy's plan, for its reasons; None (default) if it was not asked.
        moves: the rebalancer's moves that lead to it; default none.
    """

    by: str
    placement: Mapping[str, str]
    cost: PlacementCost
    answer: Plan | None = None
    moves: tuple[Move, ...] = ()

    def why(self, before: PlacementCost, seconds: float) -> str:
        """Why it is requested: what it saves, and which tasks it splits."""
        parts = split_names(self.moves)
        splits = f", splits {parts}" if parts else ""
        return f"{self.by}: {saving(before, self.cost, seconds)}{splits}"

    def plan(self, case: Case, policy: str) -> Plan:
        """The plan that is requested, for the tasks that there are at the moment.

        A task has the policy's reason, the one that it had, or who wanted it there.
        """
        answer, known = self.answer or Plan(()), case.previous.assignments if case.previous else ()
        said = {(one.task, one.worker): one for one in (*known, *answer.assignments)}
        had, failed = {one.task: one.worker for one in known}, dict(case.failed)
        left = {one.task: one.reason for one in answer.unplaced}

        def reason(task: str, worker: str) -> str:
            if failed.get(task, worker) != worker:
                return f"its placement on {failed[task]} failed"
            if had.get(task, worker) not in case.snapshot.by_id:
                return f"{had[task]} is gone"
            return self.by

        price = dict(zip(case.snapshot.by_id, prices(case.snapshot), strict=True))
        at, current = self.placement, case.current.by_id
        return Plan(
            tuple(
                said.get(pair) or Assignment(*pair, reason(*pair))
                for pair in at.items()
                if pair[0] in current
            ),
            tuple(
                Unplaced(task, left.get(task, "no worker has room for it"))
                for task in current
                if task not in at
            ),
            math.fsum(price.get(name, 0.0) for name in set(at.values())),
            policy=policy,
            moves=tuple(one for one in self.moves if one.task in current),
            fallback=answer.fallback,
        )


@dataclass(frozen=True)
class Proposals:
    """Asks the policy, the rebalancer and the local search, and prices what they say.

    Args:
        policy: asked in every step.
        rebalancer: suggests moves; None for none.
        objective: what a placement costs.
        search: whether there is a local search.
        lands: where a placement would land.
    """

    policy: Policy
    rebalancer: Rebalancer | None
    objective: Objective
    search: bool
    lands: Callable[[Mapping[str, str], Snapshot], Mapping[str, str]]

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
        """The policy's plan for all tasks; :class:`InfeasibleError` if one fits no worker."""
        return self.policy.plan(case.as_measured, case.snapshot, case.previous)

    def literal(self, case: Case) -> Proposal:
        """The policy's answer as it is, after the rebalancer's moves from it."""
        answer = self.answer(case)
        moves = self.moves(answer.placement, case) if case.previous else ()
        at = answer.placement | {one.task: one.target for one in moves if one.part >= 1}
        return self._priced(f"{self.policy.name}'s answer", at, case, answer)

    def repaired(self, reason: str, case: Case) -> Proposal:
        """The present placement; tasks without a worker go where the policy puts them beside it.

        If they have no room there, the others make room, with as few moves as that takes.
        """
        at = self._beside(case.present, case)
        if len(at) < len(case.graph.tasks):
            whole = fewer_moves(self.answer(case).placement, case)
            at = whole if len(whole) > len(at) else at
        return self._priced(reason, at, case)

    def _priced(
        self,
        by: str,
        placement: Mapping[str, str],
        case: Case,
        answer: Plan | None = None,
        moves: Sequence[Move] = (),
    ) -> Proposal:
        at = self.lands(placement, case.snapshot)
        return Proposal(by, at, self.cost(at, case), answer, tuple(moves))

    def all(self, answer: Plan, moves: Sequence[Move], case: Case) -> list[Proposal]:
        """The policy's answer where it may be requested, and the other placements, priced."""
        name = f"{self.policy.name}'s answer"
        allowed = self._allowed(answer.placement, case)
        found: dict[str, Mapping[str, str]] = {}
        if allowed == answer.placement or fits(allowed, case):
            found[name] = allowed
        if case.present and allowed != case.present:
            found[f"{name} with fewer moves"] = fewer_moves(allowed, case)
        if self.search and case.present:
            found["the search"] = self._searched(case)
        priced = [self._priced(by, at, case, answer) for by, at in found.items()]
        if made := fitting(moves, case):
            at = {**case.present, **{one.task: one.target for one in made}}
            priced.append(self._priced(self._moved, at, case, answer, made))
        return priced

    def split(
        self, moves: Sequence[Move], answer: Plan, case: Case, can: Collection[str]
    ) -> Proposal | None:
        """The present placement after the rebalancer's moves, parts of tasks included, if any."""
        whole = fitting(moves, case)
        at = {**case.present, **{one.task: one.target for one in whole}}
        tried = [one for one in moves if (one.task, one.target) not in case.failed]
        parts = makeable(tried, at, case.graph, can)
        if not parts:
            return None
        graph, loads, was, becomes = with_parts(parts, case.graph, case.loads, case.present)
        after = dataclasses.replace(case, graph=graph, present=was, loads=loads)
        cost = self.cost({**at, **becomes}, after)
        return Proposal(self._moved, at, cost, answer, (*whole, *parts))

    @property
    def _moved(self) -> str:
        return f"{self.rebalancer.name}'s moves" if self.rebalancer else ""

    def moves(self, placement: Mapping[str, str], case: Case) -> Sequence[Move]:
        """The rebalancer's moves from a placement."""
        if self.rebalancer is None or not placement:
            return ()
        usage = {}
        for task in case.graph.tasks:
            used = case.snapshot.usage.get(task.id, task.demand)
            usage[task.id] = Resources(case.loads[task.id], used.memory_mb, used.disk_mb)
        seen = dataclasses.replace(case.snapshot, placement=placement, usage=usage)
        return self.rebalancer.rebalance(case.graph, seen)

    def _searched(self, case: Case) -> dict[str, str]:
        return improve(
            case.present,
            case.graph,
            case.snapshot,
            self.objective,
            case.present,
            release=case.release,
            loads=case.loads,
            forbidden=case.failed,
            tolerance=LEVEL * case.noise,
        )

    def _allowed(self, placement: Mapping[str, str], case: Case) -> Mapping[str, str]:
        """A placement without those that have failed recently: such tasks stay, or go elsewhere."""
        at = dict(placement)
        for task, worker in case.failed:
            if at.get(task) == worker and case.present.get(task) != worker:
                del at[task]
                if task in case.present:
                    at[task] = case.present[task]
        return at if len(at) == len(placement) else self._beside(at, case)

    def _beside(self, stay: Mapping[str, str], case: Case) -> Mapping[str, str]:
        """The other tasks placed by the policy beside those that stay; not where that failed."""
        at = {**stay, **self._asked(stay, case)}
        again = {task for task, worker in at.items() if task not in stay} & {
            task for task, worker in case.failed if at.get(task) == worker
        }
        if not again:
            return at
        refused = {at[task] for task in again}
        rest = {task: worker for task, worker in at.items() if task not in again}
        return {**at, **self._asked(rest, case, refused, again)}

    def _asked(
        self,
        stay: Mapping[str, str],
        case: Case,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> Mapping[str, str]:
        """The policy's placement of tasks on what others that stay leave of the workers."""
        tasks, taken = case.as_measured.by_id, dict(case.snapshot.reserved)
        rest = [
            t for t in case.as_measured.tasks if t.id not in stay and (not only or t.id in only)
        ]
        if not rest:
            return {}
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
