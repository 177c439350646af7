"""The statements of the papers compared with the simulation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["TOLERANCE", "Statement", "as_json", "lines", "summary"]

TOLERANCE = 0.25
"""The share of a paper's value that ours may differ by, in both directions."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of a paper, measured.

    Args:
        system: which system it is about.
        where: the figure, table or equation of the paper.
        what: the statement, with the unit.
        paper: its value; nan where the paper gives none.
        ours: what was measured here.
        most: reached when ours is at most this; None has no upper bound.
        least: reached when ours is at least this; None has no lower bound.
        figure: the number of the figure to reach that it belongs to; None for the statements
            that are shown for comparison.
        circular: whether the statement follows from the paper's own numbers, so that it says
            nothing about the model; default False.
    """

    system: str
    where: str
    what: str
    paper: float
    ours: float
    most: float | None = None
    least: float | None = None
    figure: int | None = None
    circular: bool = False

    @property
    def within(self) -> bool | None:
        """Whether ours is the paper's value, 25 % more or less; None without a value.

        A value of 0 is held when ours is at most 0.25 from it.

        >>> one = Statement(system="X", where="Fig. 1", what="cost, %", paper=-20.0, ours=-26.0)
        >>> one.within
        False
        """
        if math.isnan(self.paper):
            return None
        tolerance = TOLERANCE * (abs(self.paper) or 1.0)
        return abs(self.ours - self.paper) <= tolerance * (1 + 1e-9)

    @property
    def reached(self) -> bool:
        """Whether ours is within its bounds, up to rounding; nan never is."""
        slack = 1e-9 * max(1.0, abs(self.ours))
        return (
            not math.isnan(self.ours)
            and (self.most is None or self.ours <= self.most + slack)
            and (self.least is None or self.ours >= self.least - slack)
        )

    @property
    def missed_by(self) -> float:
        """How far ours is outside its bounds; 0 when reached."""
        if self.reached:
            return 0.0
        over = self.ours - self.most if self.most is not None else -math.inf
        under = self.least - self.ours if self.least is not None else -math.inf
        return max(over, under)


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    if value != 0 and abs(value) < 0.1:
        return f"{value:.4f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def _bound(one: Statement) -> str:
    """The bound, where it is not the paper's value itself."""
    if one.paper in (one.most, one.least) or (one.most is None) == (one.least is None):
        return ""
    if one.most is not None:
        return f", at most {_number(one.most)}"
    return f", at least {_number(one.least or 0.0)}"


def lines(statements: Iterable[Statement]) -> list[str]:
    r"""The statements as lines of text: where, what, the paper's value, ours, the verdict.

    Example:
        >>> one = Statement(system="X", where="Fig. 1", what="cost, %", paper=-20.0, ours=-25.0,
        ...                 most=-20.0, figure=2)
        >>> print(*lines([one]), sep="\n")
        X
          where          paper       ours  difference  verdict
          Fig. 1         -20.0      -25.0        -5.0  within 25 %, reached (figure 2): cost, %
    """
    found, system = [], None
    for one in statements:
        if one.system != system:
            system = one.system
            found.append(system)
            found.append(f"  {'where':<10} {'paper':>9} {'ours':>10} {'difference':>11}  verdict")
        verdict = "reached" if one.reached else f"MISSED by {_number(one.missed_by)}"
        if one.within is not None:
            verdict = f"{'within' if one.within else 'NOT within'} 25 %, {verdict}"
        if one.circular:
            verdict = f"circular, {verdict}"
        mark = "" if one.figure is None else f" (figure {one.figure}{_bound(one)})"
        found.append(
            f"  {one.where:<10} {_number(one.paper):>9} {_number(one.ours):>10} "
            f"{_number(one.ours - one.paper):>11}  {verdict}{mark}: {one.what}"
        )
    return found


def summary(statements: Iterable[Statement]) -> str:
    """How many statements hold, as a text; circular ones count apart."""
    every = list(statements)
    circular = sum(one.circular for one in every)
    tested = [one for one in every if not one.circular]
    valued = [one for one in tested if one.within is not None]
    figures = [one for one in tested if one.figure is not None]
    return (
        f"{sum(bool(one.within) for one in valued)} of {len(valued)} values are the paper's, 25 % "
        f"more or less; {sum(one.reached for one in tested)} of {len(tested)} statements hold in "
        f"their direction, {sum(one.reached for one in figures)} of the {len(figures)} figures to "
        f"reach among them; {circular} more are circular: they follow from the papers' own numbers"
    )


def as_json(statements: Iterable[Statement]) -> list[dict[str, object]]:
    """The statements as JSON can hold them."""
    return [
        {
            "system": one.system,
            "where": one.where,
            "what": one.what,
            "paper": None if math.isnan(one.paper) else one.paper,
            "ours": None if math.isnan(one.ours) else one.ours,
            "reached": one.reached,
            "within_25_percent": one.within,
            "circular": one.circular,
            "missed_by": None if math.isnan(one.missed_by) else one.missed_by,
            "figure_to_reach": one.figure,
        }
        for one in statements
    ]
