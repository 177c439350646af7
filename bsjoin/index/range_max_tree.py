"""The greatest value of every 8, 64, 512, ... rows: an implicit segment tree of fan-out 8.

Each node holds the maximum of the rows below it. There are no pointers: the children of node ``j``
of level ``l`` are the nodes ``8 j`` to ``8 j + 7`` of level ``l - 1``, one cache line of the CPU.
(These are every third level of the deterministic skip list.)

The tree finds the rows of a range that reach a threshold. All probes of a batch descend together;
a node below its probe's threshold is pruned with its subtree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.index.encoding import LEAST
from bsjoin.index.row_pairs import expand

_BITS = 3
FAN = 1 << _BITS
"""The children of a node."""


@dataclass(frozen=True, eq=False)
class RangeMaxTree:
    """Finds the rows that reach a threshold, for whole batches of ranges.

    Args:
        values: int64, the value of each row, then the maxima of 8 rows each, of 64, and so on;
            every level is padded to a multiple of 8 with the least int64.
        rows: the number of rows.
    """

    values: Int64s
    rows: int

    @classmethod
    def build(cls, values: Int64s) -> RangeMaxTree:
        """Build the tree over the values of all rows.

        Args:
            values: int64[n].

        Returns:
            The tree: 9.2 bytes per row, the values included.

        Complexity: O(n).
        """
        sizes = _sizes(len(values))
        tree = np.full(sum(sizes), LEAST)
        tree[: len(values)] = values
        built = cls(tree, len(values))
        for level, above in pairwise(built._levels()):
            np.max(level.reshape(-1, FAN), axis=1, out=above[: len(level) // FAN])
        return built

    def _levels(self) -> list[Int64s]:
        return np.split(self.values, np.cumsum(_sizes(self.rows))[:-1])

    def pairs(
        self,
        firsts: Int64s,
        stops: Int64s,
        least: Int64s,
        max_pairs: int,
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """The rows of each probe's range whose value is not below its threshold.

        A piece of work is a number of nodes of one level, in order; a piece that grows too large
        is split and its rear part waits on a stack. So memory is bounded, and pairs come in order.

        Args:
            firsts: int64[m], first row of each probe's range.
            stops: int64[m], one past its last row.
            least: int64[m], the threshold.
            max_pairs: the most pairs of a slice, 1 or more.

        Yields:
            int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for
            each probe; at most ``max_pairs`` at a time, never none.

        Raises:
            ValueError: where ``max_pairs`` is below 1.

        Complexity: O(log n + k) a probe where its k answers are neighbours, O(k log(n / k)) where
        they lie far apart; O(m + max_pairs) memory.
        """
        if max_pairs < 1:
            raise ValueError(f"max_pairs must be 1 or more, not {max_pairs}")
        width = max(1, max_pairs // FAN)
        lines = [level.reshape(-1, FAN) for level in self._levels()]
        waiting = np.flatnonzero(firsts < stops)
        for begin in range(0, len(waiting), width):
            stack = [_roots(waiting[begin : begin + width], firsts, stops, len(lines))]
            while stack:
                level, probes, nodes = stack.pop()
                if len(probes) > width:
                    stack.append((level, probes[width:], nodes[width:]))
                    probes, nodes = probes[:width], nodes[:width]
                late = lines[level - 1].take(nodes, axis=0) >= least.take(probes)[:, None]
                children = np.flatnonzero(late)
                parents = children >> _BITS
                doubtful = None
                if len(children) > 2 * len(nodes):
                    # With many answers it pays to see that only the first and the last node of
                    # a probe have children outside its range.
                    edge = nodes == firsts.take(probes) >> _BITS * level
                    edge |= nodes == (stops.take(probes) - 1) >> _BITS * level
                    doubtful = np.flatnonzero(edge.take(parents))
                probes = probes.take(parents)
                nodes = (nodes.take(parents) << _BITS) + (children & (FAN - 1))
                inside = _inside(level - 1, probes, nodes, firsts, stops, doubtful)
                probes, nodes = probes[inside], nodes[inside]
                if level > 1:
                    if len(probes):
                        stack.append((level - 1, probes, nodes))
                    continue
                for cut in range(0, len(probes), max_pairs):
                    yield probes[cut : cut + max_pairs], nodes[cut : cut + max_pairs]

    def any(self, firsts: Int64s, stops: Int64s, least: Int64s) -> Bools:
        """Whether any row of each probe's range has a value not below its threshold.

        For the arguments see :meth:`pairs`.

        Returns:
            bool[m].

        Complexity: O(log n) a probe, O(m) memory, however many rows there are.
        """
        found: Bools = np.zeros(len(firsts), np.bool_)
        levels = self._levels()
        going = np.flatnonzero(firsts < stops)
        # The range without what earlier rounds have looked at, in nodes of the level.
        first, stop = firsts.take(going), stops.take(going)
        for level in levels:
            # Up to 7 nodes at either end stand beside the nodes of the level above, which the
            # last level has not.
            bottom = stop if level is levels[-1] else np.minimum(stop, -(-first // FAN) * FAN)
            top = np.maximum(bottom, stop // FAN * FAN)
            wanted = least.take(going)
            reached = np.zeros(len(going), np.bool_)
            for place in range(FAN):
                for begin, end in ((first, bottom), (top, stop)):
                    value = level.take(np.minimum(begin + place, len(level) - 1))
                    reached |= (begin + place < end) & (value >= wanted)
            found[going[reached]] = True
            on = ~reached & (bottom < top)
            going, first, stop = going[on], bottom[on] // FAN, top[on] // FAN
            if not going.size:
                break
        return found

    def validate(self) -> None:
        """Check everything that a search relies on.

        Raises:
            ValueError: says what is wrong, and where.

        Complexity: O(n) time, O(1) memory.
        """
        if len(self.values) != sum(_sizes(self.rows)):
            raise ValueError(f"the tree has {len(self.values)} values for {self.rows} rows")
        levels = self._levels()
        used = self.rows
        for number, level in enumerate(levels):
            if (level[used:] != LEAST).any():
                raise ValueError(f"level {number} of the tree is not filled up")
            used = -(-used // FAN)
            if level is levels[-1]:
                break
            for begin, end in chunks(used):
                children = level[begin * FAN : end * FAN].reshape(-1, FAN)
                wrong = children.max(axis=1) != levels[number + 1][begin:end]
                refuse(wrong, begin, f"level {number + 1} of the tree has a wrong maximum at node")


def _sizes(rows: int) -> list[int]:
    """The number of entries of each level of the tree, rows first."""
    sizes = []
    while True:
        nodes = -(-rows // FAN)
        sizes.append(nodes * FAN)
        if nodes <= 1:
            return sizes
        rows = nodes


def _roots(
    probes: Int64s, firsts: Int64s, stops: Int64s, levels: int
) -> tuple[int, Int64s, Int64s]:
    """The initial nodes: at most two per probe, all of the lowest level that allows it."""
    first, last = firsts.take(probes), stops.take(probes) - 1
    level = 1
    while level < levels and ((last >> _BITS * level) - (first >> _BITS * level) > 1).any():
        level += 1
    first >>= _BITS * level
    last >>= _BITS * level
    positions, nodes = expand(first, last - first + 1)
    return level, probes.take(positions), nodes


def _inside(
    level: int,
    probes: Int64s,
    nodes: Int64s,
    firsts: Int64s,
    stops: Int64s,
    doubtful: Int64s | None,
) -> Bools:
    """Tell the nodes with rows in their probe's range; ``doubtful`` names those to look at."""
    if doubtful is not None:
        inside: Bools = np.ones(len(nodes), np.bool_)
        at = probes.take(doubtful), nodes.take(doubtful)
        inside[doubtful] = _inside(level, *at, firsts, stops, None)
        return inside
    shift = _BITS * level
    inside = nodes >= firsts.take(probes) >> shift
    inside &= nodes <= (stops.take(probes) - 1) >> shift
    return inside
