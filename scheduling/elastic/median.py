"""Median: for ten windows what was the median need of the ten before.

Source: the comparison in OERA (section 4.2): the amounts that the optimal algorithm would give in
each of 10 windows; their median holds for the next 10.
"""

from __future__ import annotations

import statistics
from typing import ClassVar

from scheduling.elastic.oera import OERA, needed
from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["Median"]


class Median:
    """Change every ``windows`` windows, to the median of what each of them needed.

    It remembers the needs of each operator since the last change: one object serves one job.

    Args:
        oera: the sizes and thresholds that needs are computed with.
        windows: how many windows a number holds.
        literal: a need is what OERA would have given: the number there was unless the buffer left
            its thresholds. Otherwise it is the number that the window needed.

    Complexity: O(windows x log windows) for a change, O(1) between.
    """

    name: ClassVar[str] = "median"

    def __init__(
        self, oera: OERA | None = None, *, windows: int = 10, literal: bool = False
    ) -> None:
        if windows < 1:
            raise ArgumentError(f"windows={windows!r}: give 1 or more")
        self._oera = oera or OERA()
        self._windows = windows
        self._literal = literal
        self._needs: dict[str, list[int]] = {}

    def parallelism(self, operator: str, window: Window) -> int:
        """The median every ``windows`` windows; else the number there is."""
        oera = self._oera
        inside = oera.beta <= oera.occupancy(window) <= oera.alpha
        need = window.parallelism if self._literal and inside else needed(oera, window)
        needs = self._needs.setdefault(operator, [])
        needs.append(need)
        if len(needs) < self._windows:
            return window.parallelism
        del self._needs[operator]
        return max(1, round(statistics.median(needs)))
