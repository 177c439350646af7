"""The baseline of OERA that changes rarely (section 4.2)."""

from __future__ import annotations

import statistics
from typing import ClassVar

from scheduling.model.checks import whole
from scheduling.scalers import OERA, Load, Scaler


class Median:
    """Change every ``windows`` windows, to the median of what a scaler wanted in them.

    It remembers these answers, by default of ``OERA()``: one object per job.

    >>> from scheduling.scalers import DS2
    >>> median = Median(DS2(target=0.8, band=0.0), windows=3)
    >>> [median.cores(Load(10, rate, 500, 1.0, 0, 4)) for rate in (800, 2400, 2000, 0, 0)]
    [4, 4, 5.0, 5.0, 5.0]
    """

    name: ClassVar[str] = "median"

    def __init__(self, scaler: Scaler | None = None, *, windows: int = 10) -> None:
        self._scaler, self._windows = scaler or OERA(), whole("windows", windows, least=1)
        self._wants: list[float] = []
        self._holds: float | None = None

    def cores(self, load: Load) -> float:
        """The median of the last full ``windows``, what there is before; see ``Scaler``."""
        self._wants.append(self._scaler.cores(load))
        if len(self._wants) == self._windows:
            self._holds = statistics.median(self._wants)
            self._wants.clear()
        return load.cores if self._holds is None else self._holds
