"""A skip list with deterministic levels over sorted rows: Algorithm 4 of the BS-Join paper.

There are no nodes and no pointers. With deterministic levels (:mod:`bsjoin.index.levels`) the
list of level ``l`` is every ``2^l``-th row, so the next node of a level is found by adding
``2^l`` to a position: the sorted array *is* the skip list, and may be memory-mapped from a file.

All probes of a batch descend together, level by level, each in its own slice of the rows if
need be (the equality key chooses the slice; every slice is a list of its own). A search reads
``log2(n) + 1`` stored values at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.index.levels import top_level

Side = Literal["left", "right"]


def too_small(stored: Int64s, probes: Int64s, side: Side) -> Bools:
    """Whether the search for the bound moves past the stored values."""
    return stored < probes if side == "left" else stored <= probes


@dataclass(frozen=True, eq=False)
class SkipList:
    """Lower and upper bounds in sorted rows, by the descent of a skip list.

    Args:
        values: int64[n], the codes of the rows' values (:func:`bsjoin.index.encoding.codes`),
            ascending inside every slice that will be searched.

    Example:
        >>> SkipList(np.array([10, 20, 20, 30])).search(np.array([20, 31])).tolist()
        [1, 4]
    """

    values: Int64s

    @property
    def rows(self) -> int:
        """The number of rows that the list covers."""
        return len(self.values)

    def search(
        self,
        probes: Int64s,
        side: Side = "left",
        lows: Int64s | None = None,
        highs: Int64s | None = None,
    ) -> Int64s:
        """Find where each probe would stand in its slice.

        Args:
            probes: int64[m], codes.
            side: ``"left"`` for the first row that is not below the probe, ``"right"`` for the
                first that is above it.
            lows: int64[m], first row of each probe's slice; default 0.
            highs: int64[m], one past its last row; default the number of rows.

        Returns:
            int64[m], rows in ``[low, high]``.

        Complexity: O(log n) a probe, ``log2(n) + 1`` rounds of vectorised reads for the batch.
        """
        low: Int64s | int = 0 if lows is None else lows
        sizes = np.full(len(probes), self.rows) if highs is None else highs
        sizes = sizes - low
        passed: Int64s = np.zeros(len(probes), np.int64)
        last = self.rows - 1
        for level in range(top_level(int(sizes.max(initial=0))), -1, -1):
            step = 1 << level
            ahead = passed + (step - 1)
            there = ahead < sizes
            stored = self.values.take(np.minimum(ahead + low, last))
            moves = there & too_small(stored, probes, side)
            # One move is all that a level needs: the node after the next reaches the level
            # above, and stopped the search there.
            passed += moves.astype(np.int64) << level
        return passed + low
