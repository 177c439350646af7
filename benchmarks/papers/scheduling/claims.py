"""One row a statement of a paper: what it says, what we have, how, and why they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.harness.outcome import Table

TOLERANCE = 0.25
"""The share of a paper's value that ours may differ by, in both directions."""


@dataclass(frozen=True)
class Row:
    """A statement of a paper beside ours.

    Args:
        paper: which paper, and what of it.
        place: its figure, table or equation.
        what: what is compared, with the unit.
        says: the paper's value; None where it gives none.
        ours: None where there is none.
        how: ``simulated``; ``computed``: follows from plans alone; ``not reproduced``.
        why: why they differ, or why there is none.
    """

    paper: str
    place: str
    what: str
    says: float | None
    ours: float | None
    how: str = "simulated"
    why: str = ""

    @property
    def holds(self) -> str:
        """``yes``: within 25 %; ``direction``: the same sign and a quarter of it at least; ``no``.

        Empty where one of the two is missing.

        >>> Row("X", "Fig. 1", "cost, %", says=-20.0, ours=-26.0).holds
        'direction'
        """
        if self.says is None or self.ours is None or math.isnan(self.ours):
            return ""
        if abs(self.ours - self.says) <= TOLERANCE * (abs(self.says) or 1.0) * (1 + 1e-9):
            return "yes"
        return "direction" if self.ours * self.says >= TOLERANCE * self.says**2 > 0 else "no"


def held(rows: Iterable[Row]) -> tuple[int, int, int]:
    """How many rows with two values are within 25 %, how many have the direction, and how many."""
    verdicts = [one.holds for one in rows if one.holds]
    return verdicts.count("yes"), verdicts.count("direction"), len(verdicts)


def tables(rows: Sequence[Row], notes: dict[str, str]) -> list[Table]:
    """A table a paper, in their order; ``notes`` by paper."""
    return [
        Table.of(
            paper,
            [
                {
                    "place": one.place,
                    "statement": one.what,
                    "paper": _rounded(one.says),
                    "ours": _rounded(one.ours),
                    "how": one.how,
                    "holds": one.holds or None,
                    "why they differ": one.why,
                }
                for one in rows
                if one.paper == paper
            ],
            notes.get(paper, ""),
        )
        for paper in dict.fromkeys(one.paper for one in rows)
    ]


def _rounded(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return round(value, 4 if abs(value) < 0.1 else 3 if abs(value) < 20 else 1) + 0.0
