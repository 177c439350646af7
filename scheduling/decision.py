"""What the controller did in one step, why, and whether a change pays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scheduling.model import Assignment, Move, Plan, Receipt, Snapshot, Unplaced
from scheduling.objective import PlacementCost
from scheduling.proposals import Proposal

__all__ = ["Action", "Choice", "Decision", "idle_workers", "observed", "percent"]

Action = Literal["place", "repair", "move", "none", "failed"]


@dataclass(frozen=True)
class Decision:
    """The action of one step, and its reason.

    Args:
        time_s: when, on the controller's clock.
        action: ``"place"`` (the first or another plan), ``"repair"`` (workers are lost),
            ``"move"`` (the rebalancer's moves), ``"none"``, or ``"failed"`` (the actuator raised
            an error).
        reason: why, in words; of ``"none"`` why the policy's answer was not taken.
        plan: the requested plan; None (default) for no request.
        receipt: where the tasks run, as observed; None (default) for no request.
        cost: what the placement costs over the horizon; None (default) if it was not computed.
        idle: the workers without a task, and whether they are released or kept, and why.
        dropped: the moves of parts of tasks that would pay, and that the actuator cannot make.
    """

    time_s: float
    action: Action
    reason: str
    plan: Plan | None = None
    receipt: Receipt | None = None
    cost: PlacementCost | None = None
    idle: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[Move, ...] = ()


def idle_workers(plan: Plan, snapshot: Snapshot, *, released: bool) -> dict[str, str]:
    """The workers without a task, with what becomes of them."""
    few = len(plan.assignments) < len(snapshot.workers)
    fate = f"kept, {'there are fewer tasks than workers' if few else 'no task has to run there'}"
    idle = sorted(snapshot.by_id.keys() - plan.by_worker.keys())
    return dict.fromkeys(idle, "released" if released else fate)


def observed(plan: Plan, receipt: Receipt) -> Plan:
    """A plan with its tasks on their actual workers; those that run nowhere are unplaced."""
    placed, left = [], list(plan.unplaced)
    for one in plan.assignments:
        at = receipt.landed.get(one.task) if one.task in receipt.requested else one.worker
        if at is None:
            left.append(Unplaced(one.task, f"its placement on {one.worker} failed"))
        elif at == one.worker:
            placed.append(one)
        else:
            placed.append(Assignment(one.task, at, f"runs here, {one.worker} was requested"))
    listed = {*plan.placement, *(one.task for one in plan.unplaced)}
    new = [name for name in receipt.landed if name not in listed] if plan.moves else []
    placed += [Assignment(name, receipt.landed[name], "a part of another task") for name in new]
    return dataclasses.replace(plan, assignments=tuple(placed), unplaced=tuple(left))


@dataclass(frozen=True)
class Choice:
    """Whether a proposal pays against the present placement."""

    before: PlacementCost  # of the present placement
    base: float  # the cost that savings are a share of
    share: float  # what a change must save
    why: str  # in words, where that share comes from
    noise: float  # what costs may differ by noise alone, as a share

    def saves(self, one: Proposal) -> float:
        """What a proposal saves, after its moves, as a share."""
        return (self.before.running - one.cost.total) / self.base if self.base else 0.0

    def pays(self, one: Proposal) -> bool:
        """Whether a proposal saves enough and leaves no other number of tasks out."""
        return one.cost.unplaced == self.before.unplaced and self.saves(one) > self.share

    def best(self, found: Sequence[Proposal]) -> Proposal | None:
        """What costs least; of proposals that noise alone sets apart, what moves least."""
        left, total = min((one.cost.rank for one in found), default=(0, 0.0))
        alike = [one for one in found if one.cost.rank <= (left, total + self.noise * self.base)]
        return min(alike, key=lambda one: one.cost.movement, default=None)

    def why_kept(self, found: Sequence[Proposal], present: Mapping[str, str]) -> str:
        """What the policy's answer, and what the best of all, would save."""

        def why_not(one: Proposal) -> str:
            more = one.cost.unplaced - self.before.unplaced
            if one.placement == present:
                return f"{one.by} is the present plan"
            if more > 0:
                return f"{one.by} leaves {more} more out"
            if self.saves(one) <= 0:
                return f"{one.by} saves nothing"
            return f"{one.by} saves {percent(self.saves(one))}, less than {self.why}"

        if not found:
            return "kept: no placement is possible"
        best = min(found, key=lambda one: one.cost.rank)
        shown = found[:1] if best is found[0] else [found[0], best]
        return f"kept: {'; '.join(map(why_not, shown))}"


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.025)
    '2.5 %'
    """
    return f"{100 * share:.2g} %"
