"""Probe: where the source hides what arrives, more cores are tried while all are busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model.checks import number
from scheduling.scalers.load import Load

__all__ = ["Probe"]


@dataclass(frozen=True)
class Probe:
    """Grow by a factor while the cores are busy, shrink to a target use while they are not.

    OERA and DS2 answer so where :attr:`Load.arrival` is None. A micro-batch that is smaller than
    its limit ends the probing, since it shows what arrives.

    Args:
        growth: the factor; default 1.5.
        high: grow above this use; default 0.9.
        low: shrink below this use; default 0.5.
        target: the use that a shrink leads to; default 0.7.

    Raises:
        ArgumentError: the growth is not above 1, or not 0 <= low <= target <= high <= 1.

    >>> [Probe().cores(Load(10, None, 500, busy, None, 4)) for busy in (0.35, 0.7, 1.0)]
    [2.0, 4, 6.0]
    """

    growth: float = 1.5
    high: float = 0.9
    low: float = 0.5
    target: float = 0.7
    name: ClassVar[str] = "probe"

    def __post_init__(self) -> None:
        if number("growth", self.growth) <= 1:
            raise ArgumentError(f"growth={self.growth!r}: give a factor, above 1")
        if not 0 <= self.low <= self.target <= self.high <= 1 or not self.target:
            raise ArgumentError(
                f"low={self.low!r}, target={self.target!r}, high={self.high!r}: give shares of "
                "the time, 0 <= low <= target <= high <= 1"
            )

    def cores(self, load: Load) -> float:
        """The number of cores to try next; see :class:`scheduling.scalers.Scaler`."""
        if load.busy > self.high:
            return load.cores * self.growth
        return load.cores * load.busy / self.target if load.busy < self.low else load.cores
