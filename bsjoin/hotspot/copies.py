"""Numbers for rows that are equal, whatever the order in which they come.

The rows of a hot key are told apart by their contents, so that a task that is run again sends
each where it went before, even if it meets them in another order. Equal rows cannot be told
apart and need not be: it only matters how many of them go where. So each gets a number, and of c
equal rows one has each of the numbers 0 to c - 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Copies"]

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
UInt64s = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_LEAST_BITS, _MOST_BITS = 15, 21
_ROOM = 3  # the logarithm of the places for each row


class Copies:
    """Counts equal contents of one task.

    Rows are remembered by the place that their hash says. Who finds a free place is the first of
    its kind. Only where a place is taken, by an equal row or by chance, contents are counted one
    by one. There are eight places for each row, so that chance is rare.

    Args:
        bits: the logarithm of the most places; with fewer of them there is more to count.

    Example:
        >>> copies = Copies()
        >>> copies.numbers(np.array([7, 8, 9])).tolist(), copies.numbers(np.array([9, 7])).tolist()
        ([0, 0, 0], [1, 1])
    """

    def __init__(self, bits: int = _MOST_BITS):
        self._most_bits = bits
        self._bits = min(_LEAST_BITS, bits)
        self._rows = 0
        self._seen = np.empty(1 << (_LEAST_BITS - _ROOM), np.uint64)
        # For each place the last row there, counted from 1; 0 where nobody was yet.
        self._last = np.zeros(1 << self._bits, np.int32)
        # How many there were of those that met another at their place.
        self._counts: dict[int, int] = {}

    def told_apart(self, contents: Int64s) -> Int64s:
        """Hashes of rows, where equal rows have different ones that lie far apart.

        Args:
            contents: int64[m], hashes of whole rows.

        Returns:
            int64[m]: the hash of one of equal rows is its own.
        """
        numbers = self.numbers(contents)
        return (contents.view(np.uint64) + numbers.view(np.uint64) * np.uint64(_GOLDEN)).view(
            np.int64
        )

    def numbers(self, contents: Int64s) -> Int64s:
        """Numbers for the rows of a batch, after those for the equal rows of batches before.

        Args:
            contents: int64[m], hashes of whole rows.

        Returns:
            int64[m]; equal rows of a batch have their numbers in any order.

        Complexity: O(m) expected where most are different, O(m log m) where most are equal.
        """
        hashes = contents.view(np.uint64)
        numbers = np.zeros(len(hashes), np.int64)
        rows = self._append(hashes)
        places = self._places(hashes)
        before = self._last.take(places)
        self._last[places] = rows
        first = (before == 0) & (self._last.take(places) == rows)
        if not first.all():
            met = np.flatnonzero(~first)
            # Whom they met: who was there before, or who of the same batch is there now.
            others = np.where(before[met] == 0, self._last.take(places[met]), before[met])
            numbers[met] = self._counted(hashes[met], self._seen[others - 1])
        return numbers

    def _append(self, hashes: UInt64s) -> Int32s:
        """Remember the rows; their numbers, from 1 on."""
        begin, self._rows = self._rows, self._rows + len(hashes)
        if self._rows > len(self._seen):
            self._seen = np.concatenate([self._seen, np.empty(2 * self._rows, np.uint64)])
        bits = self._bits
        while bits < self._most_bits and self._rows << _ROOM > 1 << bits:
            bits = min(bits + _ROOM, self._most_bits)
        if bits > self._bits:
            self._spread_out(begin, bits)
        self._seen[begin : self._rows] = hashes
        return np.arange(begin + 1, self._rows + 1, dtype=np.int32)

    def _spread_out(self, rows: int, bits: int) -> None:
        """More places, for the rows so far. Who meets another there is counted from now on."""
        self._bits, self._last = bits, np.zeros(1 << bits, np.int32)
        seen, numbers = self._seen[:rows], np.arange(1, rows + 1, dtype=np.int32)
        places = self._places(seen)
        self._last[places] = numbers
        for content in seen[self._last.take(places) != numbers].tolist():
            self._counts.setdefault(content, 1)  # equal ones had met before, and are counted

    def _places(self, hashes: UInt64s) -> Int64s:
        return (hashes * np.uint64(_GOLDEN) >> np.uint64(64 - self._bits)).view(np.int64)

    def _counted(self, hashes: UInt64s, others: UInt64s) -> Int64s:
        """The numbers of rows that met others, who are the first of their kind or counted."""
        counts = self._counts
        for content in np.unique(others).tolist():
            counts.setdefault(content, 1)
        distinct, which, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
        before = np.array([counts.get(content, 0) for content in distinct.tolist()], np.int64)
        counts.update(zip(distinct.tolist(), (before + sizes).tolist(), strict=True))
        ranks = np.empty(len(hashes), np.int64)
        ranks[np.argsort(which, kind="stable")] = np.arange(len(hashes))
        return before[which] + ranks - (np.cumsum(sizes) - sizes)[which]
