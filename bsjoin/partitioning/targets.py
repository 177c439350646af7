"""The share of a cycle's rows that each partition is to have: equal, unless a load is to move.

Rows cost differently: a key with many matches takes longer than one without. Who measures the load
of the partitions says which share of it is to leave a partition
(:mod:`bsjoin.partitioning.relieving`). The shares that the partitions then have are what later
rules aim at; skew and its random variation are relative to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import Float64s
from bsjoin.partitioning.skew import skew

_LEAST = 0.1  # of an equal share: a partition with fewer rows says too little of its skew


@dataclass(frozen=True, eq=False)
class Targets:
    """The shares that a rule aims at.

    Args:
        shares: float64[n], above 0; they sum to 1.

    Example:
        >>> targets = Targets.of(np.array([50.0, 125.0, 100.0, 125.0]))
        >>> targets.shares.tolist()
        [0.125, 0.3125, 0.25, 0.3125]
        >>> targets.skew(np.array([25, 62, 50, 63])) < 0.02
        True
    """

    shares: Float64s

    @classmethod
    def equal(cls, partitions: int) -> Targets:
        """The same share for each of n partitions."""
        return cls(np.full(partitions, 1 / partitions))

    @classmethod
    def of(cls, loads: Float64s) -> Targets:
        """The shares that partitions have, at least a tenth of an equal one."""
        shares = np.maximum(loads / loads.sum(), _LEAST / len(loads))
        return cls(shares / shares.sum())

    def skew(self, loads: NDArray[np.int64] | Float64s) -> float:
        """DS (Formula 3) of the loads relative to the shares; DS itself where these are equal."""
        return skew(loads / (self.shares * len(self.shares)))

    def effective_rows(self, rows: float) -> float:
        """The rows of a cycle that vary as much at random over equal shares.

        A partition with a share p of N rows has the relative variance (1 - p) / (p N), so small
        shares vary more.

        >>> round(Targets.equal(8).effective_rows(1000)), round(
        ...     Targets(np.array([0.1, 0.9])).effective_rows(1000))
        (1000, 220)
        """
        n = len(self.shares)
        if n < 2:
            return rows
        return rows * n * (n - 1) / (math.fsum(1 / self.shares) - n)
