"""What the controller did in one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduling.model import Plan, Receipt
from scheduling.objective import PlacementCost

__all__ = ["Action", "Decision"]

Action = Literal["place", "repair", "resize", "move", "none", "failed"]


@dataclass(frozen=True)
class Decision:
    """The action of one step, and its reason.

    Args:
        time_s: when, on the controller's clock.
        action: ``"place"`` (the first or a better plan), ``"repair"`` (workers are lost),
            ``"resize"``, ``"move"`` (the rebalancer's moves), ``"none"``, or ``"failed"`` (the
            actuator raised an error).
        reason: why, in words.
        plan: the requested plan; None (default) for no request.
        receipt: where the tasks run, as observed; None (default) for no request.
        cost: what the placement costs over the horizon; None (default) if it was not computed.
        idle: the workers without a task, and whether they are released or kept, and why.
    """

    time_s: float
    action: Action
    reason: str
    plan: Plan | None = None
    receipt: Receipt | None = None
    cost: PlacementCost | None = None
    idle: Mapping[str, str] = field(default_factory=dict)
