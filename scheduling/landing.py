"""Plans as they are requested and as they are observed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from scheduling.model import Assignment, Plan, Receipt, Unplaced

__all__ = ["fresh", "landed", "restricted"]


def restricted(plan: Plan, tasks: Collection[str]) -> Plan:
    """A plan for some of its tasks."""
    if len(tasks) == len(plan.assignments) + len(plan.unplaced):
        return plan
    return dataclasses.replace(
        plan,
        assignments=tuple(one for one in plan.assignments if one.task in tasks),
        unplaced=tuple(one for one in plan.unplaced if one.task in tasks),
        moves=tuple(one for one in plan.moves if one.task in tasks),
    )


def fresh(before: Plan | None, plan: Plan) -> Sequence[Assignment]:
    """The assignments that differ from the previous plan."""
    old = before.placement if before else {}
    return [one for one in plan.assignments if old.get(one.task) != one.worker]


def landed(plan: Plan, receipt: Receipt) -> Plan:
    """The plan as observed: tasks on their actual workers; tasks without a worker are unplaced."""
    placed, lost = [], list(plan.unplaced)
    for one in plan.assignments:
        at = receipt.landed.get(one.task) if one.task in receipt.requested else one.worker
        if at is None:
            lost.append(Unplaced(one.task, f"its placement on {one.worker} failed"))
        elif at == one.worker:
            placed.append(one)
        else:
            placed.append(Assignment(one.task, at, f"runs here, {one.worker} was requested"))
    listed = {one.task for one in plan.assignments} | {one.task for one in lost}
    placed += [
        Assignment(task, at, "a part of another task")
        for task, at in receipt.landed.items()
        if plan.moves and task not in listed
    ]
    return dataclasses.replace(plan, assignments=tuple(placed), unplaced=tuple(lost))
