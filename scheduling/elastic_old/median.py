"""Median: for ten windows, the median of the parallelism that the ten windows before needed.

Source: the comparison in OERA (section 4.2): the amounts that the optimal algorithm would give in
each of 10 windows; their median holds for the next 10.
"""

from __future__ import annotations

import statistics
from typing import ClassVar

from scheduling.elastic_old.oera import OERA, needed
from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["Median"]


class Median:
    """Change the parallelism every ``windows`` windows, to the median of their needs.

    Stateful: it stores the needs of each operator since the last change. Use one object per job.

    Args:
        oera: the sizes and thresholds for the needs. None (default): ``OERA()``.
        windows: the number of windows between changes; default 10.
        literal: whether the need of a window is the parallelism that OERA would have chosen, which
            is unchanged unless the buffer left its thresholds. Default False: the parallelism
            that the window needed.

    Raises:
        ArgumentError: ``windows`` is below 1.

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
        """The median every ``windows`` windows; else the current parallelism.

        See :class:`scheduling.Scaler`.
        """
        oera = self._oera
        inside = oera.beta <= oera.occupancy(window) <= oera.alpha
        need = window.parallelism if self._literal and inside else needed(oera, window)
        needs = self._needs.setdefault(operator, [])
        needs.append(need)
        if len(needs) < self._windows:
            return window.parallelism
        del self._needs[operator]
        return max(1, round(statistics.median(needs)))
