"""Partition ids for whole batches of codes, and the cells in which their rows are counted.

A rule becomes one sorted array of *cuts*. Between two of them lies a cell: a sixteenth of a
partition's range, or a single hot key. So one search tells where a row belongs, whether its key
is hot, and where it is counted. Counts of cells say more of the codes than any sample does:
they are exact (see :mod:`bsjoin.partitioning.cycle`).

The search is a directory over the cuts, like that of :mod:`bsjoin.index.sorted_rows`, made for few
cuts and many probes: a slot is found by a shift, and most slots hold no cut or one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import GREATEST, LEAST, Int32s, Int64s
from bsjoin.partitioning.rule import Rule

Indices = NDArray[np.intp]

STEPS = 16
"""Cells in each partition's range."""

_LEAST_BITS, _MOST_BITS = 10, 16  # slots of the directory
_SLOTS_PER_CUT = 5  # the logarithm
_ROUNDS = 3
_PART_BITS = 7  # parts of a hot key, by the first bits of a row's hash


class Router:
    """A rule, made ready to route.

    It keeps nothing of what it routes: the same row has the same partition, in any process and in
    whichever order the rows come.

    Args:
        rule: the rule.

    Complexity: O(n log n) for n partitions and hot keys, and up to 64 k entries of a directory.

    Example:
        >>> codes = np.array([5, 10, 11, 99])
        >>> Router(Rule(1, 3, (10, 20))).route(codes, contents=codes).tolist()
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
        """The number of cells."""
        return len(self._lasts)

    @property
    def lasts(self) -> Int64s:
        """int64[cells]: the last code of each cell."""
        return self._lasts

    def route(self, codes: Int64s, contents: Int64s) -> Int32s:
        """The partition of each row.

        A row of a hot key goes to one of the key's partitions, chosen by a hash of the whole row in
        proportion to the shares. Rows that are equal throughout go to one partition.

        Args:
            codes: int64[m].
            contents: int64[m], hashes of the whole rows.

        Returns:
            int32[m], 0 to n - 1.

        Complexity: O(m).
        """
        return self.assign(self.locate(codes), contents)

    def locate(self, codes: Int64s) -> Indices:
        """The cell of each row, by its code.

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

    def assign(self, cells: Indices, contents: Int64s) -> Int32s:
        """The partition of each row, from its cell; see :meth:`route`."""
        partitions = self._owners.take(cells)
        if len(self._hot_cells):
            rows = np.flatnonzero(partitions < 0)
            if rows.size:
                partitions[rows] = self._drawn(-1 - partitions.take(rows), contents.take(rows))
        return partitions

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
        """The pieces of all hot keys in a row, each key one long: partition, and where it ends."""
        hot = self.rule.hot
        stops, partitions = [np.empty(0)], [np.empty(0, np.int64)]
        for number, key in enumerate(hot):
            sums = np.cumsum(key.shares)
            stops.append(number + sums / sums[-1])
            partitions.append(np.arange(key.first, key.first + len(sums)))
        self._span_stops = np.concatenate(stops)
        self._span_partitions = np.concatenate(partitions).astype(np.int32)
        # The first piece of each part of a key.
        edges = np.arange((len(hot) << _PART_BITS) + 1) / (1 << _PART_BITS)
        self._first_spans = np.searchsorted(self._span_stops, edges[:-1], "right")
        before = np.searchsorted(self._span_stops, edges[1:], "left")
        self._most_stops = int((before - self._first_spans).max(initial=0))


def _steps(boundaries: tuple[int, ...]) -> Int64s:
    """The boundaries, and between them codes that part each range into steps of equal width."""
    cuts = list(boundaries)
    for low, high in pairwise((LEAST - 1, *boundaries, GREATEST)):
        cuts.extend(low + (high - low) * step // STEPS for step in range(1, STEPS))
    return np.array([cut for cut in cuts if cut >= LEAST], np.int64)
