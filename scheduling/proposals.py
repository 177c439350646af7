"""The placements that a step of the controller chooses from, what each costs, and which pays.

They are the policy's answer; the same with as few moves as it allows; the present placement after
the rebalancer's moves; and, if asked for, what the local search makes of the present one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scheduling.history import LoadEstimate, percent
from scheduling.improve import improve
from scheduling.model import Assignment, JobGraph, Move, Plan, Resources, Snapshot, Unplaced
from scheduling.model.checks import grouped, unchecked
from scheduling.model.cluster import Reserved
from scheduling.objective import Indices, Numbers, Objective, PlacementCost, Pricing
from scheduling.protocols import Policy, Rebalancer
from scheduling.room import have_room, room_of
from scheduling.splits import split_names, spreadable

_LEVEL = 3.0  # standard deviations of the loads: what is less uneven is level
_SLACK = 0.01  # by which a worker's load may exceed what the policy gave it at least, as a share
_LATER = 1e9  # cores: more than any load
_DEVIATIONS = 2.0  # of the loads, that a gain must exceed in any case


@dataclass(frozen=True)
class Proposal:
    """A placement that may be requested."""

    by: str  # who says so
    placement: Mapping[str, str]  # where it would land
    cost: PlacementCost
    answer: Plan | None = None  # the policy's plan, with reasons, if it was asked
    moves: tuple[Move, ...] = ()  # the rebalancer's, which lead to it
    dropped: tuple[Move, ...] = ()  # of them, parts of tasks that cannot be made

    def why(self, before: PlacementCost, seconds: float) -> str:
        """Why it is requested: what changes, what the moves cost, and which tasks it splits."""
        said = []
        for name in ("rent", "imbalance", "communication"):
            was, becomes = (f"{getattr(cost, name):.4g}" for cost in (before, self.cost))
            said += [f"{name} {was} to {becomes}"] if was != becomes else []
        said += [f"moves {self.cost.movement:.4g}"] if self.cost.movement else []
        parts = split_names(self.moves)
        costs = f"{self.cost.total:.4g} instead of {before.running:.4g} $ in {seconds:g} s"
        return f"{self.by}: {costs}: {', '.join(said)}{f', splits {parts}' if parts else ''}"


@dataclass
class Case:
    """The facts when a plan is made, and the placements that are proposed then."""

    policy: Policy
    rebalancer: Rebalancer | None
    objective: Objective
    search: bool
    lands: Callable[[Mapping[str, str], Snapshot], Mapping[str, str]] | None  # None: as requested
    now: float  # on the controller's clock
    graph: JobGraph  # of an operator whose tasks come and go the most of late
    current: JobGraph  # the tasks that there are at the moment
    snapshot: Snapshot
    present: Mapping[str, str]  # the last worker of each task, if it is there still
    estimate: LoadEstimate
    release: bool  # whether idle workers are released
    spread: bool  # whether parts of tasks can be moved
    failed: Mapping[tuple[str, str], float]  # pairs of task and worker, since when
    previous: Plan | None  # the present plan; None before the first
    least: tuple[float, str]  # what a change must save, as a share, and why so much

    def __post_init__(self) -> None:
        graph, objective = self.graph, self.objective
        self.loads, self.noise = self.estimate.loads(graph), self.estimate.noise(self.present)
        self.pricing = Pricing(
            objective, graph, self.snapshot, self.present, self.release, self.loads
        )
        self.before = self.pricing.cost(self.present)
        rent = objective.horizon_s * self.pricing.rent_per_s(self.present)
        self.base = max(self.before.running, rent)  # what savings are a share of
        noise = _DEVIATIONS * self.noise
        self.must = max(self.least, (noise, f"the noise of the loads, {percent(noise)}"))
        self.as_measured = graph  # with the measured cores, at most what the largest worker has
        if self.estimate.measured:
            most = max((one.usable.cpu_cores for one in self.snapshot.workers), default=0.0)
            self.as_measured = graph.with_cores({t: min(x, most) for t, x in self.loads.items()})
        self._answers = f"{self.policy.name}'s answer"

    def answer(self) -> Plan:
        """The policy's plan for all tasks; :class:`InfeasibleError` if one fits no worker."""
        return self.policy.plan(self.as_measured, self.snapshot, self.previous)

    def literal(self) -> Proposal:
        """The policy's answer as it is, after the rebalancer's moves from it."""
        answer = self.answer()
        moves = self.moves(answer.placement) if self.previous else ()
        at = answer.placement | {one.task: one.target for one in moves if one.part >= 1}
        parts = [one for one in moves if one.part < 1]
        made = spreadable(parts, at, self.graph) if self.spread else []
        found = self._priced(self._answers, at, answer, *made)
        return dataclasses.replace(found, dropped=tuple(one for one in parts if one not in made))

    def repaired(self, reason: str) -> Proposal:
        """The present placement, and the tasks without a worker; others make room if they must."""
        at, tasks, taken = self.present, self.as_measured.by_id, dict(self.snapshot.reserved)
        for name, worker in at.items():
            old = taken.get(worker, Reserved())
            taken[worker] = Reserved(old.slots + 1, old.resources + tasks[name].demand)
        if rest := tuple(task for name, task in tasks.items() if name not in at):
            left = dataclasses.replace(self.snapshot, reserved=taken)
            beside = self.policy.plan(JobGraph(rest), left, self.previous).placement
            at = self._allowed({**at, **beside})
        if len(at) < len(tasks):
            at = max(at, self._with_fewer_moves(self.answer().placement), key=len)
        return self._priced(reason, at)

    def proposals(self, answer: Plan, moves: Sequence[Move]) -> list[Proposal]:
        """The policy's answer where it may be requested, and the other placements."""
        allowed = self._allowed(answer.placement)
        found = {self._answers: allowed}
        if self.present and allowed != self.present:
            found[f"{self._answers} with fewer moves"] = self._with_fewer_moves(allowed)
        if self.search and self.present:
            tolerance = _LEVEL * self.noise
            found["the search"] = improve(
                self.present, self.pricing, forbidden=self.failed, tolerance=tolerance
            )
        priced = [self._priced(by, at, answer) for by, at in found.items()]
        made = self.moved(moves, answer)
        return [*priced, made] if made else priced

    def moved(
        self, moves: Sequence[Move], answer: Plan, of: Literal["whole", "spread", "all"] = "whole"
    ) -> Proposal | None:
        """The present placement after the rebalancer's moves; None where there are none.

        ``of``: of whole tasks; of parts that can be spread, too; or of all parts.
        """
        tried = [one for one in moves if (one.task, one.target) not in self.failed]
        whole = self._fitting([one for one in tried if one.part >= 1])
        at = {**self.present, **{one.task: one.target for one in whole}}
        parts = [one for one in tried if one.part < 1 and of != "whole"]
        parts = spreadable(parts, at, self.graph) if of == "spread" else parts
        if not (whole if of == "whole" else parts) or self.rebalancer is None:
            return None
        return self._priced(f"{self.rebalancer.name}'s moves", at, answer, *whole, *parts)

    def moves(self, placement: Mapping[str, str]) -> Sequence[Move]:
        """The rebalancer's moves from a placement."""
        if self.rebalancer is None or not placement:
            return ()
        usage, loads, used = self.snapshot.usage, self.loads, dict[str, Resources]()
        for name, task in self.graph.by_id.items():
            known = usage.get(name, task.demand).__dict__ | {"cpu_cores": loads[name]}
            used[name] = unchecked(Resources, **known)
        seen = self.snapshot.__dict__ | {"placement": placement, "usage": used}
        return self.rebalancer.rebalance(self.graph, unchecked(Snapshot, **seen))

    def plan(self, one: Proposal) -> Plan:
        """The plan that requests a proposal, for the tasks that there are at the moment."""
        answer, known = one.answer or Plan(()), self.previous.assignments if self.previous else ()
        said = {(old.task, old.worker): old for old in (*known, *answer.assignments)}
        had, failed = {old.task: old.worker for old in known}, dict(self.failed.keys())
        whys = {out.task: out.reason for out in answer.unplaced}

        def reason(task: str, worker: str) -> str:
            if failed.get(task, worker) != worker:
                return f"its placement on {failed[task]} failed"
            if had.get(task, worker) not in self.snapshot.by_id:
                return f"{had[task]} is gone"
            return one.by

        at = {task: name for task, name in one.placement.items() if task in self.current.by_id}
        placed = [said.get(pair) or Assignment(*pair, reason(*pair)) for pair in at.items()]
        left = [task for task in self.current.by_id if task not in at]
        return Plan(
            tuple(placed),
            tuple(Unplaced(task, whys.get(task, "no worker has room for it")) for task in left),
            self.pricing.rent_per_s(one.placement),
            policy=self.policy.name,
            moves=tuple(move for move in one.moves if move.task in self.current.by_id),
            fallback=answer.fallback,
        )

    def _priced(
        self, by: str, at: Mapping[str, str], answer: Plan | None = None, *moves: Move
    ) -> Proposal:
        at = self.lands(at, self.snapshot) if self.lands else at
        cost = self.pricing.cost(at, [one for one in moves if one.part < 1])
        return Proposal(by, at, cost, answer, moves)

    def saves(self, one: Proposal) -> float:
        """Return what a proposal saves, after its moves, as a share."""
        return (self.before.running - one.cost.total) / self.base if self.base else 0.0

    def pays(self, one: Proposal) -> bool:
        """Whether a proposal saves enough and leaves no other number of tasks out."""
        return one.cost.unplaced == self.before.unplaced and self.saves(one) > self.must[0]

    def best(self, found: Sequence[Proposal]) -> Proposal:
        """Return what costs least; of proposals that noise alone sets apart, what moves least."""
        left, total = min(one.cost.rank for one in found)
        most = left, total + _DEVIATIONS * self.noise * self.base
        alike = [one for one in found if one.cost.rank <= most]
        return min(alike, key=lambda one: one.cost.movement)

    def why_kept(self, found: Sequence[Proposal]) -> str:
        """Tell what the policy's answer, and what the best of all, would save."""

        def why_not(one: Proposal) -> str:
            more, saved = one.cost.unplaced - self.before.unplaced, self.saves(one)
            if one.placement == self.present:
                return f"{one.by} is the present plan"
            if more > 0:
                return f"{one.by} leaves {more} more out"
            much = f"{percent(saved)}, less than {self.must[1]}" if saved > 0 else "nothing"
            return f"{one.by} saves {much}"

        best = min(found, key=lambda one: one.cost.rank)
        shown = found[:1] if best is found[0] else [found[0], best]
        return f"kept: {'; '.join(map(why_not, shown))}"

    def _allowed(self, placement: Mapping[str, str]) -> Mapping[str, str]:
        """A placement without those that have failed recently: such tasks stay, or go elsewhere."""
        again = dict(self.failed.keys() & (placement.items() - self.present.items()))
        if not again:
            return placement
        others = {task: worker for task, worker in placement.items() if task not in again}
        stay = {task: worker for task, worker in self.present.items() if task in again}
        return self._filled(others, {**placement, **stay})

    def _with_fewer_moves(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """A placement with as many tasks and as much load on each worker, by few moves."""
        count, load = self.pricing.sums(self.pricing.indices(wanted))
        spare = load * max(_SLACK, _LEVEL * self.noise) + 1e-9
        more, less, stay = count.tolist(), (load + spare).tolist(), dict[str, str]()
        for task in sorted(wanted, key=lambda task: -self.loads[task]):
            worker, size = self.present.get(task), self.loads[task]
            i = self.pricing.position.get(worker, -1)
            if worker and more[i] and size <= less[i]:
                stay[task] = worker
                more[i] -= 1
                less[i] -= size
        return self._filled(stay, wanted)

    def _filled(self, stay: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
        """Tasks that stay; the others go where more is wanted, best where that has not failed."""
        pricing, needs, found = self.pricing, self.as_measured.needs, dict(stay)
        names, at, position = list(self.snapshot.by_id), pricing.indices(stay), pricing.position
        failed = grouped((task, position[to]) for task, to in self.failed if to in position)
        free, (there, used) = self._left(at, needs), pricing.sums(at)
        count, load = pricing.sums(pricing.indices(wanted))
        count, load = count - there, load - used
        rest = [task for task in wanted if task not in stay]
        for task in sorted(rest, key=lambda task: -self.loads[task]):
            need = needs[pricing.number[task]]
            rank = load - _LATER * (count <= 0)
            rank[list(failed.get(task, ()))] -= 2 * _LATER
            rank[~have_room(free, need)] = -np.inf
            i = int(rank.argmax())
            if rank[i] > -np.inf:
                found[task] = names[i]
                count[i] -= 1
                load[i] -= self.loads[task]
                free[i] -= need
        return found

    def _left(self, at: Indices, need: Numbers) -> Numbers:
        """Return what a placement leaves of each worker (row): slots, cores, memory, disk."""
        left = room_of(self.snapshot)
        np.subtract.at(left, at[at >= 0], need[at >= 0])
        return left

    def _fitting(self, moves: Sequence[Move]) -> list[Move]:
        """The moves of whole tasks that have room, in order."""
        pricing, needs, at, made = self.pricing, self.graph.needs, dict(self.present), []
        free = self._left(pricing.present, needs)
        for one in moves:
            to, need = pricing.position.get(one.target, -1), needs[pricing.number[one.task]]
            if at.get(one.task) == one.source and to >= 0 and (free[to] >= need).all():
                free[pricing.position[one.source]] += need
                free[to] -= need
                at[one.task] = one.target
                made.append(one)
        return made
