"""Search for boxes that meet a box: an implicit tree of bounds over rows in an order of their own.

A row has an interval in each dimension, which of a point is one code long. It matches a probe if
the two meet in all dimensions. In the order of their first dimension neighbours have nothing in
common in the others. So the rows of a group are packed: they are cut into pieces by one dimension,
these into 8 pieces each by another one, and so on, as a kd-tree does (J. L. Bentley,
"Multidimensional binary search trees used for associative searching", 1975), down to 8 rows. It is
always the dimension in which a piece is widest, compared with what a probe meets there: one that
leaves few rows is cut often, and one that leaves all never. Above the rows stands, as in
:class:`bsjoin.index.RangeMaxTree`, the least start and the greatest end of every 8, 64, 512, ...
neighbours. docs/decisions/0032-boxes.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bsjoin.index.arrays import Bools, Int32s, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.index.row_order import row_order

Sides = tuple[Int64s, Int64s]
"""The least and the greatest code of each row, or probe, in one dimension."""

MOST_DIMENSIONS = 3

_BITS = 3
FAN = 1 << _BITS
_PROBES, _ROWS = 256, 1024  # of a sample


@dataclass(frozen=True, eq=False)
class BoxIndex:
    """An index over boxes.

    Args:
        order: int32[n], the rows of each group in the order of the tree.
        bounds: int64[blocks, dimensions, 2, 8]: of 8 neighbours the least code and the greatest in
            each dimension; then of 8 such blocks each what all of their rows are within, and so on,
            until a level has one block. Where there is no neighbour, and of a row that matches
            nothing, the least code is 2^63 - 1 and the greatest -2^63.

    Example:
        >>> x, y = np.array([1, 2, 8]), np.array([5, 9, 5])
        >>> index = BoxIndex.build([(x, x + 2), (y, y)], np.array([0]), (0.1, 0.1))
        >>> probe = [(np.array([3]), np.array([9])), (np.array([0]), np.array([5]))]
        >>> [rows.tolist() for _, rows in index.pairs(probe, np.array([0]), np.array([3]), 9)]
        [[0, 2]]
    """

    order: Int32s
    bounds: Int64s

    @classmethod
    def build(cls, sides: Sequence[Sides], starts: Int64s, shares: Sequence[float]) -> BoxIndex:
        """Index rows that are sorted by (group, least code in the first dimension).

        Args:
            sides: the boxes; of a row that matches nothing the greatest code is below the least in
                one dimension or more.
            starts: int64[g], the first row of each group, 0 first.
            shares: for each dimension, what part of a group's rows a probe meets there: see
                :func:`box_shares`.

        Returns:
            The index: 4 bytes a row, and 18.3 for each dimension.

        Complexity: O(n log n) for each dimension but the first.
        """
        order = _packed(sides, starts, shares).astype(np.int32)
        rows, sizes = len(order), _blocks(len(order))
        never = np.zeros(rows, np.bool_)
        for least, greatest in sides:
            never |= greatest < least
        never = never.take(order)
        bounds = np.empty((sum(sizes), len(sides), 2, FAN), np.int64)
        leaves = np.empty((rows, len(sides), 2), np.int64)
        for number, side in enumerate(sides):
            for end, (codes, none) in enumerate(zip(side, (GREATEST, LEAST), strict=True)):
                leaves[:, number, end] = np.where(never, none, codes.take(order))
        level, begin = _as_blocks(leaves), 0
        for size in sizes:
            bounds[begin : begin + size] = level
            level = _as_blocks(_hulls(level))
            begin += size
        return cls(order, bounds)

    def pairs(
        self, probes: Sequence[Sides], lows: Int64s, highs: Int64s, max_pairs: int
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """The rows that each probe meets.

        A piece of work is a number of blocks of one level, in order; a piece that grows too large
        is split and its rear part waits on a stack. So memory is bounded, and pairs come in order.

        Args:
            probes: the boxes of m probes; both codes belong to them.
            lows: int64[m], first row of each probe's group.
            highs: int64[m], one past its last row; equal to ``lows`` for a probe without a match.
            max_pairs: the most pairs of a slice, 1 or more.

        Yields:
            int64[p] and int64[p]: positions of the probes, ascending, and rows, those of a probe in
            the order of the tree; at most ``max_pairs`` at a time, never none.

        Complexity: O(log n + matches) a probe where boxes are small; O(m + max_pairs) memory.
        """
        width = max(1, max_pairs // FAN)
        waiting = np.flatnonzero(lows < highs)
        begins = np.concatenate([[0], np.cumsum(_blocks(len(self.order)))])
        for begin in range(0, len(waiting), width):
            some = waiting[begin : begin + width]
            top = _top(lows[some], highs[some], len(begins) - 2)
            stack = [(top, some, lows[some] >> _BITS * (top + 1))]
            while stack:
                level, which, blocks = stack.pop()
                if len(which) > width:
                    stack.append((level, which[width:], blocks[width:]))
                    which, blocks = which[:width], blocks[:width]
                found = self._met(probes, which, begins[level] + blocks)
                nodes = (blocks[:, None] << _BITS) + np.arange(FAN)
                found &= nodes >= (lows[which] >> _BITS * level)[:, None]
                found &= nodes <= ((highs[which] - 1) >> _BITS * level)[:, None]
                which, nodes = which[np.nonzero(found)[0]], nodes[found]
                if level:
                    if len(which):
                        stack.append((level - 1, which, nodes))
                    continue
                rows = self.order.take(nodes).astype(np.int64)
                for first in range(0, len(rows), max_pairs):
                    yield which[first : first + max_pairs], rows[first : first + max_pairs]

    def _met(self, probes: Sequence[Sides], which: Int64s, blocks: Int64s) -> Bools:
        """bool[p, 8]: which entries of blocks have something in common with the probes' boxes."""
        bounds = self.bounds[blocks]
        found = bounds[:, 0, 0] <= bounds[:, 0, 1]  # else there is no row, or one without a match
        for number, (low, high) in enumerate(probes):
            found &= bounds[:, number, 0] <= high[which][:, None]
            found &= bounds[:, number, 1] >= low[which][:, None]
        return found

    def validate(self, runs: Int32s) -> None:
        """Check everything that a search relies on.

        Args:
            runs: int32[n], the number of rows of the same group from this row on, itself included.

        Raises:
            ValueError: says what is wrong, and where.

        Complexity: O(n) time; a byte a row.
        """
        rows, sizes = len(runs), _blocks(len(runs))
        if len(self.bounds) != sum(sizes) or len(self.order) != rows:
            raise ValueError(
                f"it has {len(self.order)} rows in {len(self.bounds)} blocks, not {rows} in "
                f"{sum(sizes)}"
            )
        seen = np.zeros(rows, np.bool_)
        for begin, end in chunks(rows):
            some = self.order[begin:end]
            refuse((some < 0) | (some >= rows), begin, "there is no such row at place")
            # Rows of a group have the same end.
            ends = some + runs.take(some)
            there = np.arange(begin, end) + runs[begin:end]
            refuse(ends != there, begin, "a row of another key is at place")
            seen[some] = True
        refuse(~seen, 0, "the order lacks row")
        begin = 0
        entries = rows
        for size, above in zip(sizes, [*sizes[1:], 0], strict=True):
            _check_level(self.bounds, begin, size, entries, above)
            begin, entries = begin + size, size


def _check_level(bounds: Int64s, begin: int, size: int, entries: int, above: int) -> None:
    """Check that a level is filled up, and that the one above it has its hulls."""
    last = bounds[begin + size - 1, :, :, entries - (size - 1) * FAN :]
    if (last[:, 0] != GREATEST).any() or (last[:, 1] != LEAST).any():
        raise ValueError(f"the bounds are not filled up behind entry {entries}")
    if not above:
        return
    for first, stop in chunks(size):
        hulls = _hulls(bounds[begin + first : begin + stop])
        places = np.arange(first, stop)
        there = bounds[begin + size + (places >> _BITS), :, :, places & FAN - 1]
        refuse((hulls != there).any(axis=(1, 2)), begin + first, "the bounds are wrong of block")


def box_shares(
    sides: Sequence[Sides], probes: Sequence[Sides], starts: Int64s
) -> tuple[float, ...]:
    """What part of a group's rows a probe meets in each dimension, by a sample of both.

    Args:
        sides: the boxes of n rows.
        probes: in place of each row, what the stream may ask for: n probes.
        starts: int64[g], the first row of each group, 0 first.

    Complexity: O(1).
    """
    rows, random = len(sides[0][0]), np.random.default_rng(0)
    probed = random.integers(
        0, rows, min(rows, _PROBES)
    )  # large groups, which are slow, more often
    group = np.searchsorted(starts, probed, "right") - 1
    sizes = np.append(starts[1:], rows)[group] - starts[group]
    places = random.random((len(probed), min(int(sizes.max()), _ROWS))) * sizes[:, None]
    others = starts[group][:, None] + places.astype(np.int64)
    found = []
    for (least, greatest), (low, high) in zip(sides, probes, strict=True):
        met = least[others] <= high[probed][:, None]
        met &= greatest[others] >= low[probed][:, None]
        found.append(float(met.mean()))
    return tuple(found)


def _packed(sides: Sequence[Sides], starts: Int64s, shares: Sequence[float]) -> Int64s:
    """The order of the rows: pieces of 8, 64, ... rows, each cut out of the next larger one."""
    rows = len(sides[0][0])
    order, places = np.arange(rows), np.arange(rows)
    sizes = np.diff(np.append(starts, rows))
    group = np.repeat(np.arange(len(starts)), sizes)
    cuts = np.zeros(rows, np.bool_)
    cuts[starts] = True
    # A probe meets a piece that is as wide as one of so many slices, or more: the share.
    widths = np.ones((len(sides), len(starts)))
    least = np.maximum(shares, 1 / (_PROBES * _ROWS))
    piece = FAN ** (len(_blocks(int(sizes.max()))) - 1)
    before = np.maximum(sizes, 1)
    while piece >= FAN:
        large = sizes > piece
        by = np.argmax(widths / least[:, None], axis=0)
        codes = np.zeros(rows, np.int64)
        for number, (first, _) in enumerate(sides):
            some = (large & (by == number))[group]
            codes[some] = first.take(order[some])
        order = order.take(row_order(np.cumsum(cuts), codes))
        cuts |= (places % piece == 0) & large[group]
        widths[by, np.arange(len(starts))] *= np.where(large, piece / before, 1)
        before = np.where(large, piece, before)
        piece //= FAN
    return order


def _blocks(rows: int) -> list[int]:
    """How many blocks each level has."""
    sizes = [max(1, -(-rows // FAN))]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FAN))
    return sizes


def _as_blocks(entries: Int64s) -> Int64s:
    """Entries, int64[n, dimensions, 2], as blocks of a level, which are filled up."""
    count, dimensions = entries.shape[:2]
    blocks = -(-count // FAN)
    filled = np.empty((blocks * FAN, dimensions, 2), np.int64)
    filled[:, :, 0], filled[:, :, 1] = GREATEST, LEAST
    filled[:count] = entries
    return np.moveaxis(filled.reshape(blocks, FAN, dimensions, 2), 1, 3)


def _hulls(blocks: Int64s) -> Int64s:
    """What the entries of each block are within: int64[blocks, dimensions, 2]."""
    return np.stack([blocks[:, :, 0].min(axis=-1), blocks[:, :, 1].max(axis=-1)], axis=-1)


def _top(lows: Int64s, highs: Int64s, most: int) -> int:
    """The level on which no group reaches beyond one block, or the last one."""
    level = 0
    while level < most and ((lows ^ (highs - 1)) >> _BITS * (level + 1)).any():
        level += 1
    return level
