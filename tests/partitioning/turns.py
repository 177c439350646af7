"""Hot keys dealt out in turns: what hashes of whole rows replace in bsjoin, and are compared with.

Rows of a hot key go to its partitions in the order in which they come, exact to one row for each
partition and batch. A task that Spark runs again may meet its rows in another order, so bsjoin does
not use it (docs/decisions/0007).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bsjoin.partitioning import Router, Rule

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_ODD = 0xD1B54A32D192ED03
_ALMOST_1 = 1.0 - 2.0**-20


class TurnRouter(Router):
    """A rule whose hot keys are dealt out in turns.

    Args:
        rule: the rule.
        seed: of the first turn; who gets the row that is left over depends on the turn.
    """

    def __init__(self, rule: Rule, seed: int = 0):
        super().__init__(rule)
        self._turn = int(np.random.default_rng(seed).integers(1 << 62))
        hot = rule.hot
        nothing = [np.empty(0)]
        sums = [np.cumsum(key.shares) / sum(key.shares) for key in hot]
        self._keys = np.repeat(np.arange(len(hot)), list(map(len, sums)))
        self._ends = np.concatenate(sums or nothing)
        self._begins = np.concatenate([np.append(0.0, one[:-1]) for one in sums] or nothing)
        spans = [np.arange(key.first, key.first + len(key.shares)) for key in hot]
        self._partitions = np.concatenate(spans or nothing).astype(np.int32)
        self._key_type = np.min_scalar_type(max(len(hot) - 1, 0))

    def assign(self, cells: NDArray[np.intp], contents: Int64s) -> Int32s:
        """The partition of each row from its cell; ``contents`` are not looked at."""
        partitions = self._owners.take(cells)
        self._turn += 1
        rows = np.flatnonzero(partitions < 0)
        if rows.size:
            keys = -1 - partitions.take(rows)
            order = np.argsort(keys.astype(self._key_type), kind="stable")  # by counting
            counts = np.bincount(keys, minlength=len(self.rule.hot))
            partitions[rows.take(order)] = self._dealt(counts)
        return partitions

    def _dealt(self, counts: Int64s) -> Int32s:
        """The partitions for so many rows of each hot key, key by key."""
        keys = np.arange(len(counts), dtype=np.uint64)
        start = np.uint64(self._turn * _GOLDEN % (1 << 64))
        left_over = (start + keys * np.uint64(_ODD)) * 2.0**-64
        left_over = np.minimum(left_over, _ALMOST_1).take(self._keys)
        rows = counts.take(self._keys)
        stops = np.floor(rows * self._ends + left_over)
        starts = np.floor(rows * self._begins + left_over)
        return np.repeat(self._partitions, (stops - starts).astype(np.int64))
