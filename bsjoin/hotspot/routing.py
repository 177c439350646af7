"""Partition ids for whole batches of codes, and the cells in which their rows are counted.

A rule becomes one sorted array of *cuts*. Between two of them lies a cell: a sixteenth of a
partition's range, or a single hot key. So one search tells where a row belongs, whether its key
is hot, and where it is counted. Counts of cells say more of the codes than any sample does:
they are exact (see :mod:`bsjoin.hotspot.cycle`).

The search is a directory over the cuts, like that of :mod:`bsjoin.index.sorted_rows`, made for few
cuts and many probes: a slot is found by a shift, and most slots hold no cut or one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bsjoin.hotspot.rule import Rule
from bsjoin.index import GREATEST, LEAST

__all__ = ["STEPS", "Router"]

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Indices = NDArray[np.intp]

STEPS = 16
"""Cells in each partition's range."""

_LEAST_BITS, _MOST_BITS = 10, 16  # slots of the directory
_SLOTS_PER_CUT = 5  # the logarithm
_ROUNDS = 3
_PART_BITS = 7  # parts of a hot key, by the first bits of a row's hash
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_ODD = 0xD1B54A32D192ED03
_ALMOST_1 = 1.0 - 2.0**-20


class Router:
    """A rule, made ready to route.

    It keeps nothing of what it routes: the same codes and the same turn have the same answer, in
    any process.

    Args:
        rule: the rule.

    Complexity: O(n log n) for n partitions and hot keys, and up to 64 k entries of a directory.

    Example:
        >>> Router(Rule(1, 3, (10, 20))).route(np.array([5, 10, 11, 99])).tolist()
        [0, 0, 1, 2]
    """

    def __init__(self, rule: Rule):
        self.rule = rule
        codes = np.array([key.code for key in rule.hot], np.int64)
        alone = np.concatenate([codes, codes[codes > LEAST] - 1])
        cuts = np.unique(np.concatenate([_steps(rule.boundaries), alone]))
        # The last code of each cell; the last cell goes up to the greatest code.
        self._lasts = np.append(cuts[cuts < GREATEST], GREATEST)
        self._hot_cells = np.searchsorted(self._lasts, codes)
        self._owners = rule.partition_of(self._lasts).astype(np.int32)
        self._owners[self._hot_cells] = -1 - np.arange(len(codes), dtype=np.int32)
        self._lay_directory()
        self._lay_spans()

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self._lasts)

    @property
    def lasts(self) -> Int64s:
        """int64[cells]: the last code of each cell."""
        return self._lasts

    def route(self, codes: Int64s, turn: int | Int64s = 0) -> Int32s:
        """The partition of each row.

        The rows of a hot key are dealt out to its partitions in the order in which they come, in
        proportion to the shares, exact to one row for each partition and batch. Who gets the row
        that is left over depends on the turn.

        Args:
            codes: int64[m].
            turn: any number of 0 or more that differs from batch to batch, counted up from a
                number that differs from task to task. A task that is run again must use the same.
                Or int64[m], a hash of each row: a row of a hot key then goes where its hash says,
                in whichever order the rows come.

        Returns:
            int32[m], 0 to n - 1.

        Complexity: O(m).
        """
        return self.assign(self.locate(codes), turn)

    def locate(self, codes: Int64s) -> Indices:
        """The cell of each row.

        Args:
            codes: int64[m].

        Returns:
            intp[m].

        Complexity: O(m) where no slot of the directory holds more than 3 cuts, else O(m log n).
        """
        inside = codes
        if self._clipped:
            inside = np.minimum(np.maximum(codes, self._low), self._high)
        slots = (inside.view(np.uint64) - self._low.view(np.uint64)) >> self._shift
        found = self._directory.take(slots.view(np.int64))
        for _ in range(self._rounds):
            found += codes > self._lasts.take(found)
        if self._crowded:
            going = np.flatnonzero(codes > self._lasts.take(found))
            if going.size:
                found[going] = np.searchsorted(self._lasts, codes[going])
        return found

    def assign(self, cells: Indices, turn: int | Int64s = 0) -> Int32s:
        """The partition of each row, from its cell; see :meth:`route`."""
        partitions = self._owners.take(cells)
        if len(self._hot_cells):
            rows = np.flatnonzero(partitions < 0)
            if rows.size:
                keys = -1 - partitions.take(rows)
                if not isinstance(turn, int):
                    partitions[rows] = self._drawn(keys, turn.take(rows))
                    return partitions
                narrow = keys.astype(self._key_type)
                order = np.argsort(narrow, kind="stable")  # of narrow integers, by counting
                counts = np.bincount(keys, minlength=len(self._hot_cells))
                partitions[rows.take(order)] = self._dealt(counts, turn)
        return partitions

    def _dealt(self, counts: Int64s, turn: int) -> Int32s:
        """The partitions for so many rows of each hot key, key by key."""
        keys = np.arange(len(counts), dtype=np.uint64)
        start = np.uint64((turn + 1) * _GOLDEN % (1 << 64))
        left_over = (start + keys * np.uint64(_ODD)) * 2.0**-64
        left_over = np.minimum(left_over, _ALMOST_1).take(self._span_keys)
        rows = counts.take(self._span_keys)
        stops = np.floor(rows * self._span_ends + left_over)
        starts = np.floor(rows * self._span_begins + left_over)
        return np.repeat(self._span_partitions, (stops - starts).astype(np.int64))

    def _drawn(self, keys: Int32s, numbers: Int64s) -> Int32s:
        """The partitions for rows of hot keys, each by a number of its own."""
        hashes = numbers.view(np.uint64)
        at = keys + (hashes >> np.uint64(24)) * 2.0**-40
        if self._most_stops > _ROUNDS:
            spans = np.searchsorted(self._span_stops, at, "right")
        else:
            parts = (hashes >> np.uint64(64 - _PART_BITS)).view(np.int64)
            spans = self._first_spans.take((keys << _PART_BITS) + parts)
            for _ in range(self._most_stops):
                spans += at >= self._span_stops.take(spans)
        found: Int32s = self._span_partitions.take(spans)
        return found

    def _lay_directory(self) -> None:
        """For each slot of equal width the first cell that reaches into it."""
        cuts = self._lasts[:-1]
        low, high = (int(cuts[0]), int(cuts[-1])) if len(cuts) else (0, 0)
        bits = min(max((len(cuts) << _SLOTS_PER_CUT).bit_length(), _LEAST_BITS), _MOST_BITS)
        shift = max((high - low).bit_length() - bits, 0)
        if shift + bits >= 64:  # the slots cover all codes
            low, high = LEAST, GREATEST
        self._low, self._high = np.array(low, np.int64), np.array(high, np.int64)
        self._clipped, self._shift = shift + bits < 64, np.uint64(shift)
        slots = ((high - low) >> shift) + 1
        begins = self._low.view(np.uint64) + (np.arange(slots, dtype=np.uint64) << self._shift)
        self._directory = np.searchsorted(self._lasts, begins.view(np.int64))
        most = int(np.diff(self._directory, append=len(cuts)).max())
        self._rounds, self._crowded = min(most, _ROUNDS), most > _ROUNDS

    def _lay_spans(self) -> None:
        """The pieces of all hot keys in a row: partition, and begin and end as shares summed up."""
        hot = self.rule.hot
        self._key_type = np.min_scalar_type(max(len(hot) - 1, 0))
        self._span_keys = np.repeat(np.arange(len(hot)), [len(key.shares) for key in hot])
        begins, ends, partitions = [], [], []
        for key in hot:
            sums = np.cumsum(key.shares)
            sums /= sums[-1]
            begins.append(np.append(0.0, sums[:-1]))
            ends.append(sums)
            partitions.append(np.arange(key.first, key.first + len(sums), dtype=np.int32))
        nothing = [np.empty(0)]
        self._span_begins = np.concatenate(begins or nothing)
        self._span_ends = np.concatenate(ends or nothing)
        self._span_partitions = np.concatenate(partitions or nothing).astype(np.int32)
        # The keys in a row, each one long: where pieces end, and the first piece of each part.
        self._span_stops = self._span_keys + self._span_ends
        edges = np.arange((len(hot) << _PART_BITS) + 1) / (1 << _PART_BITS)
        self._first_spans = np.searchsorted(self._span_stops, edges[:-1], "right")
        before = np.searchsorted(self._span_stops, edges[1:], "left")
        self._most_stops = int((before - self._first_spans).max(initial=0))

    def _check(self) -> None:
        """Assert the invariants; for the tests."""
        assert (self._lasts[1:] > self._lasts[:-1]).all()
        assert self._lasts[-1] == GREATEST
        assert len(self._owners) == self.cells
        for index, key in enumerate(self.rule.hot):
            cell = int(self._hot_cells[index])
            assert self._lasts[cell] == key.code
            assert cell == 0 or self._lasts[cell - 1] == key.code - 1
            assert self._owners[cell] == -1 - index
        assert (self.locate(self._lasts) == np.arange(self.cells)).all()
        assert (self.locate(self._lasts[:-1] + 1) == np.arange(1, self.cells)).all()


def _steps(boundaries: tuple[int, ...]) -> Int64s:
    """The boundaries, and between them codes that part each range into steps of equal width."""
    cuts = list(boundaries)
    for low, high in pairwise((LEAST - 1, *boundaries, GREATEST)):
        cuts.extend(low + (high - low) * step // STEPS for step in range(1, STEPS))
    return np.array([cut for cut in cuts if cut >= LEAST], np.int64)
