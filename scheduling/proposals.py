"""The placements that a step of the controller chooses from, what each costs, and which pays.

They are the policy's answer; the same with as few moves as it allows; the present placement after
the rebalancer's moves; and, if asked for, what the local search makes of the present one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduling.decision import percent
from scheduling.errors import InfeasibleError
from scheduling.history import LoadEstimate
from scheduling.local_search import improve
from scheduling.model import Assignment, JobGraph, Move, Plan, Resources, Snapshot, Unplaced
from scheduling.model.checks import unchecked
from scheduling.model.cluster import Reserved
from scheduling.objective import Numbers, Objective, PlacementCost, Pricing
from scheduling.protocols import Policy, Rebalancer
from scheduling.room import room_of
from scheduling.splits import makeable, split_names

__all__ = ["Asked", "Case", "Proposal"]

_LEVEL = 3.0  # standard deviations of the loads: what is less uneven is level
_SLACK = 0.01  # by which a worker's load may exceed what the policy gave it at least, as a share
_DEVIATIONS = 2.0  # of the loads, that a gain must exceed in any case


@dataclass(frozen=True)
class Asked:
    """Who is asked for placements, by what objective they are judged, and where they land."""

    policy: Policy
    rebalancer: Rebalancer | None
    objective: Objective
    search: bool
    lands: Callable[[Mapping[str, str], Snapshot], Mapping[str, str]]


@dataclass(frozen=True)
class Proposal:
    """A placement that may be requested."""

    by: str  # who says so
    placement: Mapping[str, str]  # where it would land
    cost: PlacementCost
    answer: Plan | None = None  # the policy's plan, with reasons, if it was asked
    moves: tuple[Move, ...] = ()  # the rebalancer's, which lead to it

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


@dataclass(frozen=True)
class Case:
    """What is known when a plan is made, and the placements that are proposed then."""

    asked: Asked
    now: float  # on the controller's clock
    graph: JobGraph  # of an operator whose tasks come and go the most of late
    current: JobGraph  # the tasks that there are at the moment
    snapshot: Snapshot
    present: Mapping[str, str]  # the last worker of each task, if it is there still
    estimate: LoadEstimate
    release: bool  # whether idle workers are released
    failed: Mapping[tuple[str, str], float]  # pairs of task and worker, since when
    previous: Plan | None  # the present plan; None before the first
    least: tuple[float, str]  # what a change must save, as a share, and why so much

    @cached_property
    def loads(self) -> dict[str, float]:
        """The CPU cores that each task uses."""
        return self.estimate.loads(self.graph)

    @cached_property
    def noise(self) -> float:
        """The standard deviation of a worker's load, as a share."""
        return self.estimate.noise(self.present)

    @cached_property
    def before(self) -> PlacementCost:
        """What the present placement costs."""
        return self.pricing.cost(self.present)

    @cached_property
    def pricing(self) -> Pricing:
        """What placements cost; moves count from the present one."""
        what = self.asked.objective, self.graph, self.snapshot, self.present
        return Pricing(*what, self.release, self.loads)

    @cached_property
    def as_measured(self) -> JobGraph:
        """The graph with the measured cores as demands, at most what the largest worker has."""
        if not self.estimate.measured:
            return self.graph
        most = max((one.usable.cpu_cores for one in self.snapshot.workers), default=0.0)
        return self.graph.with_cores({t: min(load, most) for t, load in self.loads.items()})

    def answer(self) -> Plan:
        """The policy's plan for all tasks; :class:`InfeasibleError` if one fits no worker."""
        return self.asked.policy.plan(self.as_measured, self.snapshot, self.previous)

    # Proposals

    def literal(self) -> Proposal:
        """The policy's answer as it is, after the rebalancer's moves from it."""
        answer = self.answer()
        moves = self.moves(answer.placement) if self.previous else ()
        at = answer.placement | {one.task: one.target for one in moves if one.part >= 1}
        return self._priced(self._answers, at, answer)

    def repaired(self, reason: str) -> Proposal:
        """The present placement, and the tasks without a worker; others make room if they must."""
        at = self._beside(self.present)
        if len(at) < len(self.graph.tasks):
            at = max(at, self._with_fewer_moves(self.answer().placement), key=len)
        return self._priced(reason, at)

    def proposals(self, answer: Plan, moves: Sequence[Move]) -> list[Proposal]:
        """The policy's answer where it may be requested, and the other placements."""
        allowed = self._allowed(answer.placement)
        found: dict[str, Mapping[str, str]] = {}
        if allowed == answer.placement or self._fits(allowed):
            found[self._answers] = allowed
        if self.present and allowed != self.present:
            found[f"{self._answers} with fewer moves"] = self._with_fewer_moves(allowed)
        if self.asked.search and self.present:
            found["the search"] = improve(
                self.present, self.graph, self.snapshot, self.asked.objective, self.present,
                release=self.release, loads=self.loads, forbidden=self.failed,
                tolerance=_LEVEL * self.noise,
            )  # fmt: skip
        priced = [self._priced(by, at, answer) for by, at in found.items()]
        made = self.moved(moves, answer)
        return [*priced, made] if made else priced

    def moved(
        self, moves: Sequence[Move], answer: Plan, can: Collection[str] = ()
    ) -> Proposal | None:
        """The present placement after the rebalancer's moves; with parts of tasks, if ``can``."""
        tried = [one for one in moves if (one.task, one.target) not in self.failed]
        whole = self._fitting([one for one in tried if one.part >= 1])
        at = {**self.present, **{one.task: one.target for one in whole}}
        parts = makeable(tried, at, self.graph, can)
        if not (parts if can else whole) or self.asked.rebalancer is None:
            return None
        by = f"{self.asked.rebalancer.name}'s moves"
        return self._priced(by, at, answer, *whole, *parts)

    def moves(self, placement: Mapping[str, str]) -> Sequence[Move]:
        """The rebalancer's moves from a placement."""
        if self.asked.rebalancer is None or not placement:
            return ()
        usage, loads, used = self.snapshot.usage, self.loads, dict[str, Resources]()
        for name, task in self.graph.by_id.items():
            known = usage.get(name, task.demand).__dict__ | {"cpu_cores": loads[name]}
            used[name] = unchecked(Resources, **known)
        seen = self.snapshot.__dict__ | {"placement": placement, "usage": used}
        return self.asked.rebalancer.rebalance(self.graph, unchecked(Snapshot, **seen))

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
        nowhere = "no worker has room for it"
        return Plan(
            tuple(placed),
            tuple(Unplaced(task, whys.get(task, nowhere)) for task in left),
            self.pricing.rent_per_s(one.placement),
            policy=self.asked.policy.name,
            moves=tuple(move for move in one.moves if move.task in self.current.by_id),
            fallback=answer.fallback,
        )

    @property
    def _answers(self) -> str:
        return f"{self.asked.policy.name}'s answer"

    def _priced(
        self, by: str, at: Mapping[str, str], answer: Plan | None = None, *moves: Move
    ) -> Proposal:
        at = self.asked.lands(at, self.snapshot)
        cost = self.pricing.cost(at, [one for one in moves if one.part < 1])
        return Proposal(by, at, cost, answer, moves)

    # What pays

    @cached_property
    def base(self) -> float:
        """The cost that savings are a share of: at least the present rent."""
        rent = self.asked.objective.horizon_s * self.pricing.rent_per_s(self.present)
        return max(self.before.running, rent)

    @cached_property
    def must(self) -> tuple[float, str]:
        """What a change must save, as a share, and why: never less than loads vary by."""
        noise = _DEVIATIONS * self.noise
        return max(self.least, (noise, f"the noise of the loads, {percent(noise)}"))

    def saves(self, one: Proposal) -> float:
        """What a proposal saves, after its moves, as a share."""
        return (self.before.running - one.cost.total) / self.base if self.base else 0.0

    def pays(self, one: Proposal) -> bool:
        """Whether a proposal saves enough and leaves no other number of tasks out."""
        return one.cost.unplaced == self.before.unplaced and self.saves(one) > self.must[0]

    def best(self, found: Sequence[Proposal]) -> Proposal | None:
        """What costs least; of proposals that noise alone sets apart, what moves least."""
        left, total = min((one.cost.rank for one in found), default=(0, 0.0))
        most = left, total + _DEVIATIONS * self.noise * self.base
        alike = [one for one in found if one.cost.rank <= most]
        return min(alike, key=lambda one: one.cost.movement, default=None)

    def why_kept(self, found: Sequence[Proposal]) -> str:
        """What the policy's answer, and what the best of all, would save."""

        def why_not(one: Proposal) -> str:
            more, saved = one.cost.unplaced - self.before.unplaced, self.saves(one)
            if one.placement == self.present:
                return f"{one.by} is the present plan"
            if more > 0:
                return f"{one.by} leaves {more} more out"
            much = f"{percent(saved)}, less than {self.must[1]}" if saved > 0 else "nothing"
            return f"{one.by} saves {much}"

        if not found:
            return "kept: no placement is possible"
        best = min(found, key=lambda one: one.cost.rank)
        shown = found[:1] if best is found[0] else [found[0], best]
        return f"kept: {'; '.join(map(why_not, shown))}"

    # Beside tasks that stay

    def _allowed(self, placement: Mapping[str, str]) -> Mapping[str, str]:
        """A placement without those that have failed recently: such tasks stay, or go elsewhere."""
        again = self.failed.keys() & (placement.items() - self.present.items())
        stay = {task: self.present.get(task) for task, _ in again}
        at = {task: name for task, name in {**placement, **stay}.items() if name}
        return at if len(at) == len(placement) else self._beside(at)

    def _beside(self, stay: Mapping[str, str]) -> Mapping[str, str]:
        """The other tasks placed by the policy beside those that stay; not where that failed."""
        at = {**stay, **self._asked(stay)}
        if again := {one for one, worker in self.failed if at.get(one) == worker} - stay.keys():
            rest = {task: worker for task, worker in at.items() if task not in again}
            at |= self._asked(rest, {at[task] for task in again})
        return at

    def _asked(self, stay: Mapping[str, str], without: Collection[str] = ()) -> Mapping[str, str]:
        """The policy's placement of tasks on what others that stay leave of the workers."""
        tasks, taken = self.as_measured.by_id, dict(self.snapshot.reserved)
        rest = tuple(task for name, task in tasks.items() if name not in stay)
        if not rest:
            return {}
        for name, worker in stay.items():
            old = taken.get(worker, Reserved())
            taken[worker] = Reserved(old.slots + 1, old.resources + tasks[name].demand)
        workers = tuple(one for one in self.snapshot.workers if one.id not in without)
        left = dataclasses.replace(self.snapshot, workers=workers, reserved=taken)
        try:
            return self.asked.policy.plan(JobGraph(rest), left, self.previous).placement
        except InfeasibleError:
            if without:
                return {}
            raise

    # Room

    def _left(self, placement: Mapping[str, str], need: Numbers) -> Numbers:
        """What a placement leaves of each worker (row): slots, cores, memory, disk."""
        at, left = self.pricing.indices(placement), room_of(self.snapshot)
        np.subtract.at(left, at[at >= 0], need[at >= 0])
        return left

    def _fits(self, placement: Mapping[str, str]) -> bool:
        """Whether each worker that gets another task has room for all that it has then."""
        at = self.pricing.indices(placement)
        came = at[(at >= 0) & (at != self.pricing.present)]
        return bool((self._left(placement, self.as_measured.needs)[came] >= 0).all())

    def _fitting(self, moves: Sequence[Move]) -> list[Move]:
        """The moves of whole tasks that have room, in order."""
        needs, at, made = self.graph.needs, dict(self.present), []
        free, position = self._left(at, needs), self.pricing.position
        for one in moves:
            may = at.get(one.task) == one.source and one.target in position
            need = needs[self.pricing.number[one.task]]
            if may and (free[position[one.target]] >= need).all():
                free[position[one.source]] += need
                free[position[one.target]] -= need
                at[one.task] = one.target
                made.append(one)
        return made

    def _with_fewer_moves(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """A placement with as many tasks and as much load on each worker, by few moves."""
        pricing, needs, loads = self.pricing, self.as_measured.needs, self.loads
        names, present, number = list(self.snapshot.by_id), pricing.present.tolist(), pricing.number
        at = pricing.indices(wanted)
        there = np.flatnonzero(at >= 0)
        load = np.bincount(at[there], pricing.cpu[there], len(names)).astype(float)
        spare = (load * max(_SLACK, _LEVEL * self.noise) + 1e-9).tolist()
        less, more = load.tolist(), np.bincount(at[there], minlength=len(names)).tolist()
        found, rest = dict[str, str](), list[str]()
        for task in sorted(wanted, key=lambda task: -loads[task]):
            i, size = present[number[task]], loads[task]
            if i >= 0 and more[i] and size <= less[i] + spare[i]:
                found[task] = names[i]
                more[i] -= 1
                less[i] -= size
            else:
                rest.append(task)
        free, load, lack = self._left(found, needs), np.array(less), np.array(more)
        for task in rest:
            t = number[task]
            fits = (free >= needs[t]).all(axis=1)
            first = fits & (lack > 0)
            if fits.any():
                i = int(np.where(first if first.any() else fits, load, -np.inf).argmax())
                found[task] = names[i]
                lack[i] -= 1
                load[i] -= loads[task]
                free[i] -= needs[t]
        return found
