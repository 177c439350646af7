"""What comes in: records a second as a function of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.errors import ArgumentError

__all__ = ["Bursts", "Poisson", "Rate", "Steps", "constant"]

Rate = Callable[[float], float]
"""Records a second at a time in seconds."""


def constant(records_per_s: float) -> Rate:
    """The same rate at any time.

    Example:
        >>> constant(20_000)(7.0)
        20000
    """
    return lambda _: records_per_s


@dataclass(frozen=True)
class Bursts:
    """A rate that is multiplied for a while, again and again.

    Args:
        records_per_s: outside of bursts.
        factor: what a burst multiplies it by.
        every_s: from the start of a burst to the next; the first comes after this time.
        lasts_s: how long a burst is.

    Example:
        >>> rate = Bursts(100.0, factor=3, every_s=60, lasts_s=10)
        >>> rate(59.0), rate(65.0), rate(70.0)
        (100.0, 300.0, 100.0)
    """

    records_per_s: float
    factor: float
    every_s: float
    lasts_s: float

    def __post_init__(self) -> None:
        if not 0 < self.lasts_s < self.every_s:
            raise ArgumentError(
                f"lasts_s={self.lasts_s!r} with every_s={self.every_s!r}: a burst is longer than "
                "0 s and shorter than the time to the next"
            )

    def __call__(self, time_s: float) -> float:
        """The rate at a time."""
        bursting = time_s >= self.every_s and time_s % self.every_s < self.lasts_s
        return self.records_per_s * (self.factor if bursting else 1)


@dataclass(frozen=True)
class Steps:
    """A rate that was counted per window, as a trace is: the same within a window.

    Args:
        counts: records a second of each window.
        window_s: length of a window. Behind the last one the rate is 0.

    Example:
        >>> rate = Steps([10.0, 20.0], window_s=600)
        >>> rate(599.0), rate(600.0), rate(1200.0)
        (10.0, 20.0, 0.0)
    """

    counts: Sequence[float]
    window_s: float

    def __call__(self, time_s: float) -> float:
        """The rate at a time."""
        at = int(np.floor(time_s / self.window_s + 1e-9))
        return float(self.counts[at]) if 0 <= at < len(self.counts) else 0.0


@dataclass(frozen=True)
class Poisson:
    """Random arrivals: the records of each second are a Poisson sample.

    Args:
        records_per_s: the mean.
        seed: the seed; the same seed gives the same arrivals.

    Example:
        >>> rate = Poisson(10_000.0, seed=1)
        >>> rate(5.0) == rate(5.9), rate(5.0) == rate(6.0), 9_500 < rate(5.0) < 10_500
        (True, False, True)
    """

    records_per_s: float
    seed: int

    def __call__(self, time_s: float) -> float:
        """The rate at a time."""
        draw = np.random.default_rng((self.seed, int(time_s + 1e-9)))
        return float(draw.poisson(self.records_per_s))
