"""Search for intervals that contain a point, or overlap one: an implicit augmented interval tree.

Rows are sorted by (group, start), so the intervals that start early enough are a run of rows,
found by :class:`bsjoin.index.SortedRows`. A tree of the maxima of their last points
(:class:`bsjoin.index.RangeMaxTree`) finds those that end late enough: a subtree whose greatest
last point is too early is skipped, so a long interval among short ones costs only its own path.
This is the augmented search tree of T. H. Cormen et al., "Introduction to Algorithms", 3rd
edition, section 14.3, laid out in an array. If nearly every interval ends late enough, a nested
loop is faster (:mod:`bsjoin.index.scan`); the choice is made per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bsjoin.index.arrays import Bools, Int32s, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.index.range_max_tree import RangeMaxTree
from bsjoin.index.scan import is_dense, scanned
from bsjoin.index.skiplist import Side
from bsjoin.index.sorted_rows import CLOSED, Closed, SortedRows

Asked = tuple[Int64s, Int64s, Int64s]
"""What intervals have to be to match each probe: the first row and one past the last of those that
begin in time, and how late they must end."""


@dataclass(frozen=True, eq=False)
class IntervalIndex:
    """An index over intervals: finds those that share a point with a probe, for whole batches.

    Open intervals are intervals of real numbers, for integers too: (5, 6) is not empty, and
    overlaps (4, 6). ``[5, 5)`` is empty, and so is an interval that starts, without its first
    point, at the greatest code.

    Args:
        starts: the rows by their start.
        tree: int64, the last point (inclusive) of each row, then the maxima of 8 rows each, of
            64, and so on: the values of :class:`bsjoin.index.range_max_tree.RangeMaxTree`.
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
            ends: int64[n], codes; arbitrary where ``missing_ends`` is True.
            slices: int64[g], first row of each slice, 0 first; default: all rows are one.
            closed: which ends belong to the intervals, those of the rows and those of the
                probes: ``"left"``, ``"right"``, ``"both"`` or ``"neither"``.
            missing_ends: bool[n], the rows whose end is null: they are open-ended; None for none.

        Returns:
            The index: 9.2 bytes per row in addition to the starts and their directory.

        Raises:
            ValueError: for another ``closed``, or arrays of different lengths.

        Complexity: O(n).
        """
        if closed not in CLOSED:
            raise ValueError(f"closed must be one of {', '.join(CLOSED)}, not {closed!r}")
        if len(starts) != len(ends):
            raise ValueError(f"there are {len(starts)} starts and {len(ends)} ends")
        lasts, empty = last_codes(starts, ends, closed, missing_ends)
        return cls(
            SortedRows.build(starts, slices),
            RangeMaxTree.build(lasts).values,
            np.flatnonzero(empty),
            closed,
        )

    @property
    def rows(self) -> int:
        """The number of rows that the index covers."""
        return self.starts.rows

    def stabbed(
        self, points: Int64s, lows: Int64s, highs: Int64s, shifts: Int64s | None = None
    ) -> Asked:
        """What intervals have to be to contain a point; for :meth:`pairs` and :meth:`any`.

        Args:
            points: int64[m], codes.
            lows: int64[m], first row of each probe's slice.
            highs: int64[m], one past its last row. A probe that must match nothing gets a slice
                without rows.
            shifts: as in :meth:`bsjoin.index.SortedRows.search`. Beyond the greatest code an end
                at that code counts as missing, unless ends do not belong to the intervals.

        Complexity: O(log n) a probe at worst.
        """
        side: Side = "right" if self.closed in ("both", "left") else "left"
        stops = self.starts.search(points, side, lows, highs, shifts)
        # The tree holds ends that belong to the intervals; of others, the code before.
        is_last = self.closed in ("both", "right")
        return lows, stops, _next_code(points, shifts) if is_last else points

    def overlapped(
        self,
        starts: Int64s,
        ends: Int64s,
        lows: Int64s,
        highs: Int64s,
        *,
        missing_ends: Bools | None = None,
        empty: Bools | None = None,
        shifts: tuple[Int64s | None, Int64s | None] = (None, None),
    ) -> Asked:
        """What intervals have to be to share a point with the probe's interval.

        Args:
            starts: int64[m], codes. A probe whose start is null gets a slice without rows.
            ends: int64[m], codes.
            lows: as in :meth:`stabbed`.
            highs: as in :meth:`stabbed`.
            missing_ends: bool[m], the probes whose end is null: they are open-ended; None for none.
            empty: bool[m], the probes whose interval is empty; default: as the codes say, which
                ranks cannot (:class:`bsjoin.index.OrderedDictionary`), nor codes that are shifted.
            shifts: those of the starts and of the ends, as in :meth:`stabbed`.

        Complexity: as :meth:`stabbed`.
        """
        side: Side = "right" if self.closed == "both" else "left"
        stops = self.starts.search(ends, side, lows, highs, shifts[1])
        if missing_ends is not None:
            stops = np.where(missing_ends, highs, stops)
        if empty is None:
            empty = _is_empty(starts, ends, self.closed, missing_ends)
        elif missing_ends is not None:
            empty = empty & ~missing_ends
        if self.closed in ("right", "neither"):
            at_most = starts == GREATEST
            empty = empty | (at_most if shifts[0] is None else at_most & (shifts[0] <= 0))
        stops[empty] = lows[empty]
        # Touching at an end is sharing a point only where both ends belong to the intervals. The
        # tree holds the end itself where it is closed on the right, so the start has to be below.
        if self.closed == "right":
            return lows, stops, np.minimum(starts, GREATEST - 1) + 1
        return lows, stops, _next_code(starts, shifts[0]) if self.closed == "both" else starts

    def pairs(self, asked: Asked, max_pairs: int) -> Iterator[tuple[Int64s, Int64s]]:
        """All intervals that match.

        Args:
            asked: what intervals have to be, by :meth:`stabbed` or :meth:`overlapped`.
            max_pairs: the most pairs of a slice, 1 or more; bounds the memory, too.

        Yields:
            int64[p] and int64[p]: positions of the probes, ascending, and rows, ascending for
            each probe; at most ``max_pairs`` at a time, never none.

        Complexity: O(log n + k) a probe where its k answers are neighbours, O(k log(n / k)) where
        they are far apart; at most a node for every 7 rows. O(m + max_pairs) memory.
        """
        if is_dense(self.tree, *asked):
            found = scanned(self.tree, *asked, max_pairs)
        else:
            found = RangeMaxTree(self.tree, self.rows).pairs(*asked, max_pairs)
        for probes, rows in found:
            probes, rows = self._without_empty(probes, rows, asked[2])
            if len(probes):
                yield probes, rows

    def any(self, asked: Asked) -> Bools:
        """Whether any interval matches each probe: for semi and anti joins.

        Args:
            asked: as for :meth:`pairs`.

        Returns:
            bool[m].

        Complexity: O(log n) a probe, however many intervals match.
        """
        found = RangeMaxTree(self.tree, self.rows).any(*asked)
        if self.empty.size:
            firsts, stops, least = asked
            doubtful = np.flatnonzero(found & (least == LEAST))
            if doubtful.size:
                found[doubtful] = False
                again = firsts[doubtful], stops[doubtful], least[doubtful]
                for probes, _ in self.pairs(again, 1 << 16):
                    found[doubtful[probes]] = True
        return found

    def those_of(self, asked: Asked, probes: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Of pairs those that match.

        Args:
            asked: what intervals have to be, by :meth:`stabbed` or :meth:`overlapped`.
            probes: int64[p], positions of probes.
            rows: int64[p], rows of their slices.

        Returns:
            The pairs that are left, in their order.
        """
        firsts, stops, least = asked
        fits = (rows >= firsts[probes]) & (rows < stops[probes])
        fits &= self.tree.take(rows) >= least[probes]
        return self._without_empty(probes[fits], rows[fits], least)

    def _without_empty(self, probes: Int64s, rows: Int64s, least: Int64s) -> tuple[Int64s, Int64s]:
        """Drop empty intervals, which equal [least int64, least int64] in the tree."""
        if self.empty.size:
            doubtful = np.flatnonzero(least.take(probes) == LEAST)
            if doubtful.size:
                wrong = doubtful[np.isin(rows.take(doubtful), self.empty)]
                return np.delete(probes, wrong), np.delete(rows, wrong)
        return probes, rows

    def validate(self, runs: Int32s) -> None:
        """Check everything that a search relies on.

        Args:
            runs: int32[n], how many rows follow in the same slice, this one included.

        Raises:
            ValueError: says what is wrong, and where.

        Complexity: O(n) time, O(1) memory.
        """
        if self.closed not in CLOSED:
            raise ValueError(f"closed is {self.closed!r} instead of one of {', '.join(CLOSED)}")
        self.starts.validate(runs)
        RangeMaxTree(self.tree, self.rows).validate()
        if self.empty.size and not 0 <= self.empty[0] <= self.empty[-1] < self.rows:
            raise ValueError(f"the empty intervals are not among the {self.rows} rows")
        for begin, end in chunks(len(self.empty) - 1):
            rises = self.empty[begin + 1 : end + 1] > self.empty[begin:end]
            refuse(~rises, begin + 1, "the empty intervals do not ascend at entry")
        for begin, end in chunks(self.rows):
            lasts, starts = self.tree[begin:end], self.starts.values[begin:end]
            listed = np.zeros(end - begin, np.bool_)
            first, stop = np.searchsorted(self.empty, (begin, end))
            listed[self.empty[first:stop] - begin] = True
            refuse(listed & (lasts != LEAST), begin, "an empty interval has a last point at row")
            early = lasts <= starts if self.closed == "right" else lasts < starts
            refuse(early & ~listed, begin, "an interval ends before it begins at row")


def last_codes(
    starts: Int64s, ends: Int64s, closed: Closed, missing_ends: Bools | None
) -> tuple[Int64s, Bools]:
    """The last code of each interval, and which ones are empty: for them it is the least code.

    For the arguments see :meth:`IntervalIndex.build`.
    """
    empty = _is_empty(starts, ends, closed, missing_ends)
    # Without its end, an interval of codes ends one before it; where that is not a valid int64
    # the interval is empty, and the wrapped value is replaced.
    lasts = ends.copy() if closed in ("both", "right") else ends - 1
    if missing_ends is not None:
        lasts[missing_ends] = GREATEST
    lasts[empty] = LEAST
    return lasts, empty


def _next_code(codes: Int64s, shifts: Int64s | None) -> Int64s:
    """The least code that is not below each probe; the greatest where none is."""
    if shifts is None:
        return codes
    return np.where(shifts > 0, np.minimum(codes, GREATEST - 1) + 1, codes)


def _is_empty(starts: Int64s, ends: Int64s, closed: Closed, missing_ends: Bools | None) -> Bools:
    empty = starts > ends if closed == "both" else starts >= ends
    if missing_ends is not None:
        empty &= ~missing_ends
    if closed in ("right", "neither"):
        empty |= starts == GREATEST
    return empty
