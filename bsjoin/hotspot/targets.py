"""The share of a cycle's rows that each partition is to have: equal, unless a load is to move.

Rows cost differently: a key with many matches takes longer than one without. Who measures the load
of the partitions says which share of it is to leave a partition (:meth:`Targets.after`), and the
rules aim at the shares that follow from it. Skew and its random variation are relative to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bsjoin.hotspot.skew import skew

__all__ = ["Splits", "Targets"]

Float64s = NDArray[np.float64]

Splits = Mapping[int, Mapping[int, float]]
"""By partition, the share of its load for each other partition."""

_LEAST = 0.1  # of an equal share: a partition with fewer rows says too little of its skew


@dataclass(frozen=True, eq=False)
class Targets:
    """The shares that a rule aims at.

    Args:
        shares: float64[n], above 0; they sum to 1.

    Example:
        >>> targets = Targets.equal(4).after(np.full(4, 100.0), {0: {1: 0.25, 3: 0.25}})
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

    def after(self, loads: Float64s, splits: Splits) -> Targets:
        """The shares after parts of partitions have moved.

        Args:
            loads: float64[n], the present rows of each partition; some are above 0.
            splits: what moves; a partition keeps a tenth of an equal share in any case.

        Complexity: O(n + moves).
        """
        before = loads / loads.sum()
        after = before.copy()
        for partition, parts in splits.items():
            for receiver, share in parts.items():
                after[partition] -= before[partition] * share
                after[receiver] += before[partition] * share
        after = np.maximum(after, _LEAST / len(after))
        return Targets(after / after.sum())

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
