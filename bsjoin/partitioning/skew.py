"""The skew of the partitions' loads in a cycle, and how much of it is random variation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_RARE = 4.0  # standard deviations of a normal distribution


def skew(loads: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """The skew measure DS of the paper (Formulas 1 to 3).

    The standard deviation of the partitions' loads (with n - 1 in the denominator) over their mean.

    Args:
        loads: [n], rows of each partition in one cycle; PS_j in the paper.

    Returns:
        0 if all loads are equal, for one partition and for a cycle without rows; sqrt(n) if one
        partition has all rows.

    Complexity: O(n).

    Example:
        >>> skew(np.array([10, 10, 10])), round(skew(np.array([30, 0, 0])), 3)
        (0.0, 1.732)
    """
    total = float(loads.sum())
    if len(loads) < 2 or total == 0:
        return 0.0
    mean = total / len(loads)
    return math.sqrt(float(np.square(loads - mean).sum()) / (len(loads) - 1)) / mean


def chance(partitions: int, rows: float) -> float:
    """The expected skew under a perfect rule, because rows arrive at random: sqrt(n / N).

    Args:
        partitions: n.
        rows: N, of one cycle.

    Example:
        >>> round(chance(128, 1_000_000), 4)
        0.0113
    """
    return math.sqrt(partitions / rows) if rows and partitions > 1 else 0.0


def beyond_chance(measured: float, partitions: int, rows: float) -> float:
    """The part of a squared skew that random variation does not explain, on average.

    Args:
        measured: DS.
        partitions: n.
        rows: N.

    Returns:
        A squared skew; below 0 if the loads are more even than expected at random.

    Example:
        >>> beyond_chance(0.05, 128, 1_000_000) > 0.0023, beyond_chance(0.05, 128, 10_000) < 0
        (True, True)
    """
    return measured**2 - chance(partitions, rows) ** 2


def rarely_by_chance(partitions: int, rows: float, cycles: float = 1.0) -> float:
    """A squared skew that random variation alone exceeds in one of 30,000 cycles.

    Under a perfect rule (n - 1) DS^2 N / n is chi-square with n - 1 degrees of freedom. Its
    quantile comes from E. B. Wilson and M. M. Hilferty, "The distribution of chi-square", PNAS 17
    (1931).

    Args:
        partitions: n.
        rows: N.
        cycles: for the mean over this many cycles; default 1.

    Example:
        >>> round(rarely_by_chance(128, 1_000_000) ** 0.5, 4)
        0.0142
    """
    freedom = max(partitions - 1, 1) * cycles
    part = 2.0 / (9.0 * freedom)
    quantile: float = (1.0 - part + _RARE * math.sqrt(part)) ** 3
    return chance(partitions, rows) ** 2 * quantile
