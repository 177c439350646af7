"""Lower and upper bounds in rows sorted by (group, value), for all range conditions.

The equality key selects a slice of rows; a range condition then needs the first row of that slice
that is not below a value. A *directory* accelerates the search: each slice of ``s`` rows has
``s`` buckets of equal width from its least value to its greatest, and the directory holds the
first row of each bucket. A probe computes its bucket and reads the one or two rows in it. This is
one step of interpolation search (Y. Perl, A. Itai, H. Avni, CACM 21, 1978) with a precomputed
table, as in the distributive partitioning sort (W. Dobosiewicz, IPL 7, 1978). If many values are
in few buckets, the skip list's descent inside the bucket (Algorithm 4 of the BS-Join paper) keeps
the bound at O(log s).

Measured (docs/decisions/0006-range-index.md): 2 to 5 times as fast as the descent through the
whole slice, 2 to 14 times as fast as ``numpy.searchsorted`` with sorted probes.

The index consists of two arrays, which may be memory-mapped from a file:

``values``
    int64, codes of the rows' values, ascending inside each slice.
``directory``
    int32, first row of each bucket, then the number of rows. The buckets of a slice are at the
    positions of its rows, so no further array is needed to locate them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bsjoin.index.arrays import Bools, Float64s, Int32s, Int64s
from bsjoin.index.checks import MAX_ROWS, check_directory, check_entries, chunks, refuse
from bsjoin.index.skiplist import Side, SkipList, too_small

Closed = Literal["both", "left", "right", "neither"]
CLOSED = ("both", "left", "right", "neither")
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class SortedRows:
    """An index over sorted rows: finds bounds for whole batches of probes.

    Args:
        values: int64[n], codes (:mod:`bsjoin.index.encoding`), ascending inside each slice.
        directory: int32[n + 1]; None to search by the skip list alone, for short-lived rows that
            are not indexed.

    Example:
        >>> rows = SortedRows.build(np.array([10, 20, 20, 30, 5, 25]), np.array([0, 4]))
        >>> rows.search(np.array([20, 20]), "left", np.array([0, 4]), np.array([4, 6])).tolist()
        [1, 5]
    """

    values: Int64s
    directory: Int32s | None

    @classmethod
    def build(cls, values: Int64s, starts: Int64s | None = None) -> SortedRows:
        """Build the directory for rows sorted by (group, value).

        Args:
            values: int64[n], ascending inside each slice.
            starts: int64[g], ascending, the first row of each slice, 0 first. ``None`` (default):
                all rows are one slice. Searches must use exactly these slices.

        Returns:
            The index: 4 bytes per row in addition to the values.

        Raises:
            ValueError: there are 2^31 rows or more.

        Complexity: O(n).
        """
        n = len(values)
        if n >= MAX_ROWS:
            raise ValueError(f"an index holds up to {MAX_ROWS - 1} rows, not {n}")
        directory = np.zeros(n + 1, np.int32)
        if n:
            lows = np.zeros(1, np.int64) if starts is None else starts.astype(np.int64)
            slices = _Slices.of(values, lows, np.diff(lows, append=n))
            for begin in range(0, n, _CHUNK):
                # The slices in this piece of the rows, and the number of rows of each in it.
                end = min(begin + _CHUNK, n)
                first, stop = np.searchsorted(lows, (begin, end - 1), "right") - (1, 0)
                slots = slices.part(int(first), int(stop)).slots(values, begin, end)
                low = int(slots[0])
                counts = np.bincount(slots - low)
                directory[low + 1 : low + 1 + len(counts)] += counts.astype(np.int32)
            np.cumsum(directory, out=directory)
        return cls(values, directory)

    @property
    def rows(self) -> int:
        """The number of rows in the index."""
        return len(self.values)

    @property
    def skip_list(self) -> SkipList:
        """The same rows as a skip list; shares the array."""
        return SkipList(self.values)

    def search(
        self,
        probes: Int64s,
        side: Side = "left",
        lows: Int64s | None = None,
        highs: Int64s | None = None,
        shifts: Int64s | None = None,
    ) -> Int64s:
        """Find the lower or upper bound of each probe in its slice.

        Args:
            probes: int64[m], codes, any order.
            side: ``"left"`` (default) for the first row that is not below the probe, ``"right"``
                for the first row that is above it.
            lows: int64[m], first row of each probe's slice; default 0.
            highs: int64[m], one past its last row; default the number of rows. ``low == high`` is
                an empty slice.
            shifts: int64[m], -1 or 1 for a probe just below or above its code, that is, between two
                codes or beyond the limits of 64 bits; default: every probe is at its code.

        Returns:
            int64[m], rows in ``[low, high]``.

        Complexity: O(1) expected per probe for evenly distributed values, O(log n) at worst.
        """
        low = np.zeros(len(probes), np.int64) if lows is None else lows
        high = np.full(len(probes), self.rows) if highs is None else highs
        if not self.rows:
            return low.copy()
        if shifts is not None:
            right = shifts >= 0 if side == "right" else shifts > 0
            found = low.copy()
            sides: tuple[tuple[Side, Bools], ...] = (("left", ~right), ("right", right))
            for one, theirs in sides:
                some = np.flatnonzero(theirs)
                if some.size:
                    found[some] = self.search(probes[some], one, low[some], high[some])
            return found
        if self.directory is None:
            return self.skip_list.search(probes, side, low, np.maximum(low, high))
        none = low >= high
        if none.any():
            found = low.copy()
            some = np.flatnonzero(~none)
            if some.size:
                chosen = probes[some], side, low[some], high[some]
                found[some] = self._search(self.directory, *chosen)
            return found
        return self._search(self.directory, probes, side, low, high)

    def _search(
        self, directory: Int32s, probes: Int64s, side: Side, low: Int64s, high: Int64s
    ) -> Int64s:
        sizes = high - low
        least, greatest = self.values.take(low), self.values.take(high - 1)
        inner = np.minimum(np.maximum(probes, least), greatest)
        slots = low + _buckets(inner, least, _scale(least, greatest, sizes), sizes)
        found = directory.take(slots).astype(np.int64)
        stops = directory.take(slots + 1).astype(np.int64)
        # The first comparison decides most probes; an empty bucket starts one past the last row.
        stored = self.values.take(found, mode="clip")
        going = np.flatnonzero((found < stops) & too_small(stored, probes, side))
        if going.size:
            # The rest of the bucket: usually a few rows, at worst all rows of the slice.
            first, stop = found[going] + 1, stops[going]
            found[going] = self.skip_list.search(probes[going], side, first, stop)
        return found

    def band(
        self,
        lower: Int64s,
        upper: Int64s,
        closed: Closed = "both",
        lows: Int64s | None = None,
        highs: Int64s | None = None,
        shifts: tuple[Int64s | None, Int64s | None] = (None, None),
    ) -> tuple[Int64s, Int64s]:
        """The rows between two values: the range query of the BS-Join paper's Algorithm 5.

        Args:
            lower: int64[m], codes of the lower ends (:func:`bsjoin.index.add_saturated`).
            upper: int64[m], codes of the upper ends.
            closed: which ends belong to the band; default ``"both"``.
            lows: as in :meth:`search`.
            highs: as in :meth:`search`.
            shifts: those of the lower and of the upper ends, as in :meth:`search`.

        Returns:
            int64[m] and int64[m]: the first row and one past the last; equal if there is none.

        Complexity: two searches.
        """
        left: Side = "left" if closed in ("both", "left") else "right"
        right: Side = "right" if closed in ("both", "right") else "left"
        firsts = self.search(lower, left, lows, highs, shifts[0])
        stops = self.search(upper, right, lows, highs, shifts[1])
        return firsts, np.maximum(firsts, stops)

    def validate(self, runs: Int32s) -> None:
        """Check everything that a search relies on.

        Args:
            runs: int32[n], the number of rows of the same slice from this row on, itself included.

        Raises:
            ValueError: names the violated invariant and the position.

        Complexity: O(n) time, O(1) memory.
        """
        n, directory = self.rows, self.directory
        if len(runs) != n:
            raise ValueError(f"there are {n} points for {len(runs)} rows")
        for begin, end in chunks(n - 1):
            falls = self.values[begin + 1 : end + 1] < self.values[begin:end]
            falls &= runs[begin:end] != 1
            refuse(falls, begin + 1, "the points of a key fall at row")
        if directory is None:
            return
        if len(directory) != n + 1:
            raise ValueError(f"the point directory has {len(directory)} entries for {n} rows")
        check_directory(directory, n, "point directory")
        low = np.zeros(1, np.int64)
        for begin, end in chunks(n):
            # The slices in this chunk; the first one may start before it.
            behind = np.flatnonzero(runs[begin : end - 1] == 1) + begin + 1
            if begin and runs[begin - 1] == 1:
                low[0] = begin
            lows = np.concatenate([low, behind])
            slices = _Slices.of(self.values, lows, runs.take(lows).astype(np.int64))
            slots = slices.slots(self.values, begin, end)
            check_entries(directory, slots, begin, "point directory")
            low = lows[-1:].copy()


@dataclass(frozen=True, eq=False)
class _Slices:
    """Slices of rows and the width of their buckets.

    Args:
        lows: int64[g], the first row of each, ascending.
        sizes: int64[g], the number of rows of each.
        least: int64[g], its least value.
        scale: float64[g], buckets per unit of value.
    """

    lows: Int64s
    sizes: Int64s
    least: Int64s
    scale: Float64s

    @classmethod
    def of(cls, values: Int64s, lows: Int64s, sizes: Int64s) -> _Slices:
        """The slices with these first rows and sizes."""
        least, greatest = values.take(lows), values.take(lows + sizes - 1)
        return cls(lows, sizes, least, _scale(least, greatest, sizes))

    def part(self, first: int, stop: int) -> _Slices:
        """A part of the slices, as views."""
        some = slice(first, stop)
        return _Slices(self.lows[some], self.sizes[some], self.least[some], self.scale[some])

    def slots(self, values: Int64s, begin: int, end: int) -> Int64s:
        """The position of each row's bucket, for a piece with rows of all slices."""
        taken = np.diff(np.append(np.maximum(self.lows, begin), end))
        least, sizes = np.repeat(self.least, taken), np.repeat(self.sizes, taken)
        scale = np.repeat(self.scale, taken)
        return _buckets(values[begin:end], least, scale, sizes) + np.repeat(self.lows, taken)


def _scale(least: Int64s, greatest: Int64s, sizes: Int64s) -> Float64s:
    """Buckets per unit of value, for each slice; 0 if all its values are equal."""
    spans = (greatest.view(np.uint64) - least.view(np.uint64)).astype(np.float64)
    return np.divide(sizes - 1, spans, out=np.zeros(len(spans)), where=spans > 0)


def _buckets(values: Int64s, least: Int64s, scale: Float64s, sizes: Int64s) -> Int64s:
    """The bucket of each value in its slice; monotone in the value.

    The difference of two int64 needs 64 unsigned bits. The conversion to double rounds it, but
    rounding is monotone, and rows and probes are rounded in the same way.
    """
    above = (values.view(np.uint64) - least.view(np.uint64)).astype(np.float64)
    return np.minimum((above * scale).astype(np.int64), sizes - 1)
