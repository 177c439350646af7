"""Whether another placement than the present one pays, and in words why none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.objective import PlacementCost
from scheduling.proposals import Proposal

__all__ = ["Choice", "percent"]


@dataclass(frozen=True)
class Choice:
    """What a change must save, against the present placement.

    Args:
        before: what the present placement costs.
        base: the cost that savings are a share of.
        share: the share that a change must save.
        why: in words, what that share comes from.
        noise: what costs may differ by noise alone, as a share.
    """

    before: PlacementCost
    base: float
    share: float
    why: str
    noise: float

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
        if not found:
            return "kept: no placement is possible"
        best = min(found, key=lambda one: one.cost.rank)
        shown = found[:1] if best is found[0] else [found[0], best]
        return f"kept: {'; '.join(self._why_not(one, present) for one in shown)}"

    def _why_not(self, one: Proposal, present: Mapping[str, str]) -> str:
        more = one.cost.unplaced - self.before.unplaced
        if one.placement == present:
            return f"{one.by} is the present plan"
        if more > 0:
            return f"{one.by} leaves {more} more out"
        if self.saves(one) <= 0:
            return f"{one.by} saves nothing"
        return f"{one.by} saves {percent(self.saves(one))}, less than {self.why}"


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.025)
    '2.5 %'
    """
    return f"{100 * share:.2g} %"
