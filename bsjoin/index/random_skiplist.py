"""A skip list whose levels are thrown by a coin, to compare the deterministic one with.

Nothing else uses it: it reproduces Fig. 13 of the paper. See :mod:`bsjoin.index.skiplist` for how
comparisons are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.skiplist import Side, too_small

__all__ = ["RandomSkipList"]

Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RandomSkipList:
    """A skip list after Pugh, p = 1/2, in arrays: one array of nodes for each level.

    Args:
        values: int64[n], ascending inside every slice that will be searched.
        nodes: for each level, lowest first: int64, the rows that reach it, ascending.
        below: for each level but the lowest, where its nodes stand in the level below.
    """

    values: Int64s
    nodes: tuple[Int64s, ...]
    below: tuple[Int64s, ...]

    @classmethod
    def build(cls, values: Int64s, seed: int) -> RandomSkipList:
        """Throw the levels and link the lists.

        Args:
            values: int64[n], ascending.
            seed: of the coin.

        Complexity: O(n).
        """
        coin = np.random.default_rng(seed)
        nodes = [np.arange(len(values), dtype=np.int64)]
        below = []
        while nodes[-1].size:
            below.append(np.flatnonzero(coin.random(nodes[-1].size) < 0.5))
            nodes.append(nodes[-1].take(below[-1]))
        # The level that nobody reached is none; an empty list keeps its lowest.
        return cls(values, tuple(nodes[:-1] or nodes), tuple(below[:-1]))

    @property
    def rows(self) -> int:
        """How many rows the list covers."""
        return len(self.values)

    @overload
    def search(
        self,
        probes: Int64s,
        side: Side = ...,
        lows: Int64s | None = ...,
        highs: Int64s | None = ...,
        *,
        count: Literal[False] = ...,
        repeats: bool = ...,
    ) -> Int64s: ...

    @overload
    def search(
        self,
        probes: Int64s,
        side: Side = ...,
        lows: Int64s | None = ...,
        highs: Int64s | None = ...,
        *,
        count: Literal[True],
        repeats: bool = ...,
    ) -> tuple[Int64s, Int64s]: ...

    def search(
        self,
        probes: Int64s,
        side: Side = "left",
        lows: Int64s | None = None,
        highs: Int64s | None = None,
        *,
        count: bool = False,
        repeats: bool = False,
    ) -> Int64s | tuple[Int64s, Int64s]:
        """Find where each probe would stand; as :meth:`bsjoin.index.SkipList.search`.

        Complexity: O(log n) expected a probe; in slices, the one list is entered at the slice.
        """
        many = len(probes)
        low = np.zeros(many, np.int64) if lows is None else lows
        high = np.full(many, self.rows) if highs is None else highs
        counts: Int64s = np.zeros(many, np.int64)
        stopped_by: Int64s = np.full(many, -1)
        # Where the next node stands in the level's list; the node before it is passed.
        ahead: Int64s = np.zeros(many, np.int64)
        for level in range(len(self.nodes) - 1, -1, -1):
            nodes = self.nodes[level]
            if level + 1 < len(self.nodes) and many:
                # Come down from the node that was passed last, if there is one.
                inner = np.maximum(ahead - 1, 0)
                ahead = np.where(ahead > 0, self.below[level].take(inner) + 1, 0)
            if lows is not None:
                ahead = np.maximum(ahead, np.searchsorted(nodes, low))
            going = np.flatnonzero(ahead < len(nodes))
            while going.size:
                rows = nodes.take(ahead.take(going))
                inside = rows < high.take(going)
                going, rows = going[inside], rows[inside]
                counts[going] += 1 if repeats else rows != stopped_by.take(going)
                stored = self.values.take(rows)
                moves = too_small(stored, probes.take(going), side)
                stopped_by[going[~moves]] = rows[~moves]
                going = going[moves]
                ahead[going] += 1
                going = going[ahead.take(going) < len(nodes)]
        bounds = np.clip(ahead, low, np.maximum(low, high))
        return (bounds, counts) if count else bounds

    def _check(self) -> None:
        """Assert the invariants of the one list of all rows; for the tests."""
        assert (self.values[1:] >= self.values[:-1]).all()
        assert (self.nodes[0] == np.arange(self.rows)).all()
        assert len(self.below) == len(self.nodes) - 1
        for level, below in enumerate(self.below):
            upper = self.nodes[level + 1]
            assert upper.size
            assert (upper[1:] > upper[:-1]).all()
            assert (self.nodes[level].take(below) == upper).all()
