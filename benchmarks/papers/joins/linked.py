"""Skip lists as linked lists of nodes, whose search counts the stored values that it reads.

The paper counts "the memory access frequency" of a search. At each level the search reads the next
node's value and moves on while it is too small. If it comes down a level to the node that stopped
it above, that value has been read already, so a value counts once a search: log2(n) + 1 at most
with deterministic levels, 26 to 31 % less than the 1.4 log2(n) with random ones, as in Fig. 13.

With deterministic levels it finds what :class:`bsjoin.index.SkipList` finds, as the tests check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.levels import top_level
from bsjoin.index.skiplist import Side, too_small

Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinkedSkipList:
    """A skip list in arrays: one array of nodes for each level.

    Args:
        values: int64[n], ascending.
        nodes: for each level, lowest first: int64, the rows that reach it, ascending.
        below: for each level but the lowest, where its nodes stand in the level below.
    """

    values: Int64s
    nodes: tuple[Int64s, ...]
    below: tuple[Int64s, ...]

    @classmethod
    def random(cls, values: Int64s, seed: int) -> LinkedSkipList:
        """Levels after Pugh, p = 1/2, drawn with a seed. Complexity: O(n)."""
        coin = np.random.default_rng(seed)
        nodes, below = [np.arange(len(values))], []
        while nodes[-1].size:
            below.append(np.flatnonzero(coin.random(nodes[-1].size) < 0.5))
            nodes.append(nodes[-1].take(below[-1]))
        # The level that no row reached is none; an empty list keeps its lowest.
        return cls(values, tuple(nodes[:-1] or nodes), tuple(below[:-1]))

    @classmethod
    def fixed(cls, values: Int64s) -> LinkedSkipList:
        """The levels of Formula 4, which follow from the positions. Complexity: O(n)."""
        steps = [1 << level for level in range(max(top_level(len(values)), 0) + 1)]
        nodes = [np.arange(step - 1, len(values), step) for step in steps]
        return cls(values, tuple(nodes), tuple(np.arange(1, len(n), 2) for n in nodes[:-1]))

    def search(self, probes: Int64s, side: Side = "left") -> Int64s:
        """As :meth:`bsjoin.index.SkipList.search`, in one slice."""
        return self.counted(probes, side)[0]

    def counted(self, probes: Int64s, side: Side = "left") -> tuple[Int64s, Int64s]:
        """Where each probe would stand, and how many values its search has read.

        Complexity: O(log n) expected a probe.
        """
        counts = np.zeros(len(probes), np.int64)
        stopped_by = np.full(len(probes), -1)
        # Where the next node stands in the level's list; the node before it is passed.
        ahead = np.zeros(len(probes), np.int64)
        for level in range(len(self.nodes) - 1, -1, -1):
            nodes = self.nodes[level]
            if level + 1 < len(self.nodes):
                # Come down from the node that was passed last, if there is one.
                inner = np.maximum(ahead - 1, 0)
                ahead = np.where(ahead > 0, self.below[level].take(inner) + 1, 0)
            going = np.flatnonzero(ahead < len(nodes))
            while going.size:
                rows = nodes.take(ahead.take(going))
                counts[going] += rows != stopped_by.take(going)
                moves = too_small(self.values.take(rows), probes.take(going), side)
                stopped_by[going[~moves]] = rows[~moves]
                going = going[moves]
                ahead[going] += 1
                going = going[ahead.take(going) < len(nodes)]
        return ahead, counts
