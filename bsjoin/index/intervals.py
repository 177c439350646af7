"""Which intervals contain a point, or overlap an interval: an implicit augmented tree.

Rows are sorted by (group, start), so the intervals that begin early enough are a run of rows,
found as for any other range (:class:`bsjoin.index.SortedRows`). Which of them end late enough is
told by the *tree*: the last point of each row, and above it, for every 8, 64, 512, ... rows the
greatest last point among them. That is every third level of the deterministic skip list; as
there, a node's children are found by its position and no pointer is stored. Eight children are
one line of the CPU's cache.

All probes of a batch go down together. A node whose greatest last point is too early is left
with everything below it, so a long interval among short ones costs its own path only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.index.ranges import expand
from bsjoin.index.skiplist import Side
from bsjoin.index.sorted_rows import CLOSED, Closed, SortedRows

__all__ = ["IntervalIndex"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_BITS = 3
_FAN = 1 << _BITS


@dataclass(frozen=True, eq=False)
class IntervalIndex:
    """Rows whose intervals share a point with a probe, answered for whole batches.

    An open interval is taken as on a line without gaps: (5, 6) is not empty, and overlaps (4, 6),
    for integers too. ``[5, 5)`` is empty, and so is what begins, without its first point, at the
    greatest code.

    Args:
        starts: the rows by their start.
        tree: int64, the last point (inclusive) of each row, then the maxima of 8 rows each, of
            64, and so on; every level is filled up to a multiple of 8 with the least int64.
        empty: int64, ascending: the rows whose interval is empty, which match nothing.
        closed: which ends belong to the intervals.
    """

    starts: SortedRows
    tree: Int64s
    empty: Int64s
    closed: Closed

    @classmethod
    def build(
        cls,
        starts: Int64s,
        ends: Int64s,
        slices: Int64s | None = None,
        *,
        closed: Closed = "left",
        missing_ends: Bools | None = None,
    ) -> IntervalIndex:
        """Index rows that are sorted by (group, start).

        Args:
            starts: int64[n], codes, ascending inside each slice. A row whose start is null
                matches nothing: leave it out.
            ends: int64[n], codes; whatever it is where ``missing_ends`` says so.
            slices: int64[g], first row of each slice, 0 first; default: all rows are one.
            closed: which ends belong to the intervals, those of the rows and those of the
                probes: ``"left"``, ``"right"``, ``"both"`` or ``"neither"``.
            missing_ends: bool[n], the rows whose end is null: they are open-ended.

        Returns:
            The index: 9.2 bytes a row beside the starts and their directory.

        Raises:
            ValueError: for another ``closed``, or arrays of different lengths.

        Complexity: O(n).
        """
        if closed not in CLOSED:
            raise ValueError(f"closed must be one of {', '.join(CLOSED)}, not {closed!r}")
        if len(starts) != len(ends):
            raise ValueError(f"there are {len(starts)} starts and {len(ends)} ends")
        empty = _is_empty(starts, ends, closed, missing_ends)
        # Without its end, an interval of codes ends one before it; where that is no int64 the
        # interval is empty, and the wrapped value is replaced.
        lasts = ends.copy() if closed in ("both", "right") else ends - 1
        if missing_ends is not None:
            lasts[missing_ends] = GREATEST
        lasts[empty] = LEAST
        return cls(SortedRows.build(starts, slices), _tree(lasts), np.flatnonzero(empty), closed)

    @classmethod
    def concat(cls, parts: Sequence[IntervalIndex], starts: SortedRows) -> IntervalIndex:
        """Join the indexes of neighbouring runs of rows; no slice may be in two of them.

        Args:
            parts: one or more, in the order of their rows, all with the same ``closed``.
            starts: the starts of all rows.

        Raises:
            ValueError: where the parts do not agree.

        Complexity: O(n).
        """
        closed = parts[0].closed
        offsets = np.cumsum([0, *(part.rows for part in parts)])
        if any(part.closed != closed for part in parts) or offsets[-1] != starts.rows:
            raise ValueError("the parts differ in closed, or have other rows than the starts")
        tree = _tree(np.concatenate([part.tree[: part.rows] for part in parts]))
        shifted = [part.empty + offset for part, offset in zip(parts, offsets, strict=False)]
        return cls(starts, tree, np.concatenate(shifted), closed)

    @property
    def rows(self) -> int:
        """How many rows the index covers."""
        return self.starts.rows

    def stab(
        self,
        points: Int64s,
        lows: Int64s | None = None,
        highs: Int64s | None = None,
        *,
        max_pairs: int = 1 << 16,
        visits: Int64s | None = None,
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """All intervals that contain a point.

        Args:
            points: int64[m], codes.
            lows: int64[m], first row of each probe's slice; default 0.
            highs: int64[m], one past its last row; default the number of rows. A probe that must
                match nothing, a null say, gets a slice without rows.
            max_pairs: the most pairs of a slice, 1 or more; bounds the memory, too.
            visits: int64[m], to which the number of visited nodes of each probe is added.

        Yields:
            int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for
            each probe; at most ``max_pairs`` at a time, never none.

        Complexity: O(log n + k) a probe where its k answers are neighbours, O(k log(n / k)) where
        they lie far apart; never more nodes than 8/7 of the slice. O(m + max_pairs) memory.
        """
        low, high = self._slices(len(points), lows, highs)
        side: Side = "right" if self.closed in ("both", "left") else "left"
        stops = self.starts.search(points, side, low, high)
        yield from self._walk(low, stops, points, max_pairs, visits)

    def overlaps(
        self,
        starts: Int64s,
        ends: Int64s,
        lows: Int64s | None = None,
        highs: Int64s | None = None,
        *,
        missing_ends: Bools | None = None,
        max_pairs: int = 1 << 16,
        visits: Int64s | None = None,
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """All intervals that share a point with the probe's interval.

        Args:
            starts: int64[m], codes. A probe whose start is null gets a slice without rows.
            ends: int64[m], codes.
            lows: as in :meth:`stab`.
            highs: as in :meth:`stab`.
            missing_ends: bool[m], the probes whose end is null: they are open-ended.
            max_pairs: as in :meth:`stab`.
            visits: as in :meth:`stab`.

        Yields:
            As :meth:`stab`.

        Complexity: as :meth:`stab`.
        """
        low, high = self._slices(len(starts), lows, highs)
        stops = self.starts.search(ends, "right" if self.closed == "both" else "left", low, high)
        if missing_ends is not None:
            stops = np.where(missing_ends, high, stops)
        empty = _is_empty(starts, ends, self.closed, missing_ends)
        stops[empty] = low[empty]
        # Touching at an end is sharing a point only where both ends belong to the intervals. The
        # tree holds the end itself where it is closed on the right, so the start has to be below.
        least = starts if self.closed != "right" else starts + ~empty
        yield from self._walk(low, stops, least, max_pairs, visits)

    def _slices(
        self, many: int, lows: Int64s | None, highs: Int64s | None
    ) -> tuple[Int64s, Int64s]:
        low = np.zeros(many, np.int64) if lows is None else lows
        return low, np.full(many, self.rows) if highs is None else highs

    def _walk(
        self, firsts: Int64s, stops: Int64s, least: Int64s, max_pairs: int, visits: Int64s | None
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """The rows in ``[first, stop)`` whose last point is not below ``least``.

        A piece of work is a number of nodes of one level, in order; a piece that grows too large
        is split and its rear part waits on the stack. So memory is bounded, and pairs come in
        order.
        """
        if max_pairs < 1:
            raise ValueError(f"max_pairs must be 1 or more, not {max_pairs}")
        width = max(1, max_pairs // _FAN)
        levels = [level.reshape(-1, _FAN) for level in _levels(self.tree, self.rows)]
        waiting = np.flatnonzero(firsts < stops)
        for begin in range(0, len(waiting), width):
            stack = [_roots(waiting[begin : begin + width], firsts, stops, len(levels))]
            while stack:
                level, probes, nodes = stack.pop()
                if len(probes) > width:
                    stack.append((level, probes[width:], nodes[width:]))
                    probes, nodes = probes[:width], nodes[:width]
                if visits is not None:
                    visits += np.bincount(probes, minlength=len(visits))
                late = levels[level - 1].take(nodes, axis=0) >= least.take(probes)[:, None]
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
                nodes = (nodes.take(parents) << _BITS) + (children & (_FAN - 1))
                inside = _inside(level - 1, probes, nodes, firsts, stops, doubtful)
                probes, nodes = probes[inside], nodes[inside]
                if level > 1:
                    if len(probes):
                        stack.append((level - 1, probes, nodes))
                    continue
                probes, nodes = self._without_empty(probes, nodes, least)
                for cut in range(0, len(probes), max_pairs):
                    yield probes[cut : cut + max_pairs], nodes[cut : cut + max_pairs]

    def _without_empty(self, probes: Int64s, rows: Int64s, least: Int64s) -> tuple[Int64s, Int64s]:
        """Drop empty intervals, which the tree cannot tell from [least int64, least int64]."""
        if self.empty.size:
            doubtful = np.flatnonzero(least.take(probes) == LEAST)
            if doubtful.size:
                wrong = doubtful[np.isin(rows.take(doubtful), self.empty)]
                return np.delete(probes, wrong), np.delete(rows, wrong)
        return probes, rows

    def _check(self, slices: Int64s | None = None) -> None:
        """Assert the invariants, given the slices; for the tests."""
        self.starts._check(slices)
        levels = _levels(self.tree, self.rows)
        assert sum(map(len, levels)) == len(self.tree)
        rows = self.rows
        for level, above in zip(levels, [*levels[1:], None], strict=True):
            assert len(level) % _FAN == 0
            assert (level[rows:] == LEAST).all()
            if above is not None:
                assert (above[: len(level) // _FAN] == level.reshape(-1, _FAN).max(axis=1)).all()
            rows = -(-rows // _FAN)
        assert rows <= 1
        assert (self.tree.take(self.empty) == LEAST).all()


def _is_empty(starts: Int64s, ends: Int64s, closed: Closed, missing_ends: Bools | None) -> Bools:
    empty = starts > ends if closed == "both" else starts >= ends
    if missing_ends is not None:
        empty &= ~missing_ends
    if closed in ("right", "neither"):
        empty |= starts == GREATEST
    return empty


def _sizes(rows: int) -> list[int]:
    """How many entries each level of the tree has, rows first."""
    sizes = []
    while True:
        nodes = -(-rows // _FAN)
        sizes.append(nodes * _FAN)
        if nodes <= 1:
            return sizes
        rows = nodes


def _levels(tree: Int64s, rows: int) -> list[Int64s]:
    """The levels of the tree, as views."""
    return np.split(tree, np.cumsum(_sizes(rows))[:-1])


def _tree(lasts: Int64s) -> Int64s:
    sizes = _sizes(len(lasts))
    tree = np.full(sum(sizes), LEAST)
    tree[: len(lasts)] = lasts
    levels = _levels(tree, len(lasts))
    for level, above in pairwise(levels):
        np.max(level.reshape(-1, _FAN), axis=1, out=above[: len(level) // _FAN])
    return tree


def _roots(
    probes: Int64s, firsts: Int64s, stops: Int64s, levels: int
) -> tuple[int, Int64s, Int64s]:
    """The nodes to begin with: at most two a probe, all of the lowest level where that is so."""
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
    """Which nodes have rows in their probe's range; ``doubtful`` names those to look at."""
    if doubtful is not None:
        inside = np.ones(len(nodes), np.bool_)
        at = probes.take(doubtful), nodes.take(doubtful)
        inside[doubtful] = _inside(level, *at, firsts, stops, None)
        return inside
    shift = _BITS * level
    inside = nodes >= firsts.take(probes) >> shift
    inside &= nodes <= (stops.take(probes) - 1) >> shift
    return inside
