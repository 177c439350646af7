"""What the controller did in one step, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduling.model import Assignment, Move, Plan, Receipt, Unplaced
from scheduling.objective import PlacementCost

__all__ = ["Action", "Decision", "observed", "percent"]

Action = Literal["place", "repair", "move", "none", "failed"]


@dataclass(frozen=True)
class Decision:
    """The action of one step, and its reason.

    Args:
        time_s: when, on the controller's clock.
        action: ``"place"`` (the first or another plan), ``"repair"`` (workers are lost),
            ``"move"`` (the rebalancer's moves), ``"none"``, or ``"failed"`` (of the actuator).
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


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.2g} %"
