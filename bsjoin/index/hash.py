"""A static hash index over rows that are sorted by a 64-bit hash of their key.

The rows themselves are the hash table: they are stored in hash order, and a *directory* over the
leading bits of the hash holds the first row of each bucket. A probe reads one directory entry and
scans from there, nearly always 0 or 1 rows. All probes of a batch advance together, so the cost
per probe is that of a few vectorised memory reads, not of Python. The directory is a radix table,
as in extendible hashing (R. Fagin et al., ACM TODS 4, 1979), here static and of one depth.

Integer keys that are close together need no hash: their rows are sorted by the keys themselves, and
the directory has a bucket for each number. A probe reads two neighbouring entries of it; where each
number has one row, none.

The index consists of three arrays, which may be memory-mapped from a file:

``hashes``
    int64, ascending (signed order), one per row, then one sentinel of the largest int64. (Or the
    keys themselves.)
``directory``
    int32, the first row of each bucket, then the number of rows.
``runs``
    int32, the number of rows with the same key from this row on, this one included; ``None`` if
    every run has length 1. A probe reads only the entry of a run's first row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bsjoin.index.arrays import Bools, Int32s, Int64s, UInt64s
from bsjoin.index.checks import MAX_ROWS, check_directory, check_entries, chunks, refuse
from bsjoin.index.encoding import GREATEST, SIGN

_SENTINEL = np.int64(GREATEST)
_AT_ONCE = 1 << 20
_MOST_NUMBERS = 4  # per row, where each number has a bucket


def _unsigned(hashes: Int64s) -> UInt64s:
    """Map signed order to unsigned order: the smallest int64 becomes 0."""
    return hashes.view(np.uint64) ^ SIGN


@dataclass(frozen=True, eq=False)
class HashIndex:
    """A static hash index: maps whole batches of hashes to rows.

    Args:
        hashes: int64[n + 1], ascending, the last one a sentinel.
        directory: int32[buckets + 1], first row of each bucket, then ``n``.
        runs: int32[n], length of the run of equal keys that starts at a row, or ``None``.
        base: the unsigned image of the first hash, where bucket 0 starts.
        shift: a hash belongs to bucket ``(unsigned - base) >> shift``.
        dense: whether the rows are sorted by integer keys, which take the place of the hashes,
            with a bucket for each number. Default False.

    Example:
        >>> index = HashIndex.build(np.array([-5, 3, 3, 9]), np.array([False, True, False]))
        >>> rows, found = index.probe(np.array([3, 4]))
        >>> rows[0], found.tolist(), index.run_lengths(rows[:1]).tolist()
        (np.int64(1), [True, False], [2])
    """

    hashes: Int64s
    directory: Int32s
    runs: Int32s | None
    base: int
    shift: int
    dense: bool = False

    @classmethod
    def build(
        cls,
        hashes: Int64s,
        same_key: Bools | None = None,
        *,
        has_sentinel: bool = False,
        dense: bool = False,
    ) -> HashIndex:
        """Index rows that are sorted by hash, and inside one hash by key.

        Args:
            hashes: int64[n], ascending, at least one.
            same_key: bool[n - 1], whether row ``i + 1`` has the key of row ``i``. ``None``
                (default): equal hashes mean equal keys.
            has_sentinel: whether the hashes are those of :func:`with_sentinel`, int64[n + 1], which
                the index keeps without a copy. Default False.
            dense: whether they are integer keys, for which :func:`are_dense` holds, and there is a
                bucket for each number. Default False.

        Returns:
            The index: 8 bytes per row for the hashes, 2 to 8 for the directory (4 to 16 of dense
            keys), and 4 for the runs if a key occurs twice.

        Complexity: O(n).
        """
        padded = hashes if has_sentinel else with_sentinel(hashes)
        runs = _run_lengths(padded[1:-1] == padded[:-2] if same_key is None else same_key)
        n = len(padded) - 1
        if not 0 < n < MAX_ROWS:
            raise ValueError(f"an index holds 1 to {MAX_ROWS - 1} rows, not {n}")
        base = int(_unsigned(padded[:1])[0])
        span = int(_unsigned(padded[n - 1 : n])[0]) - base
        shift = 0 if dense else max(0, span.bit_length() - n.bit_length())
        directory = np.zeros((span >> shift) + 2, np.int32)
        # In pieces: a whole array of buckets, and of their counts, would be most of the memory.
        for begin in range(0, n, _AT_ONCE):
            piece = _unsigned(padded[begin : min(begin + _AT_ONCE, n)])
            buckets = ((piece - np.uint64(base)) >> np.uint64(shift)).view(np.int64)
            counts = np.bincount(buckets - buckets[0])
            directory[1 + buckets[0] :][: len(counts)] += counts.astype(np.int32)
        np.cumsum(directory, dtype=np.int32, out=directory)
        return cls(padded, directory, runs, base, shift, dense)

    @property
    def rows(self) -> int:
        """The number of rows in the index."""
        return len(self.hashes) - 1

    def probe(self, hashes: Int64s) -> tuple[Int64s, Bools]:
        """Find the first row of each hash.

        Args:
            hashes: int64[m], in any order, duplicates allowed.

        Returns:
            int64[m]: the row; if there is none, a row of another hash or one past the last row. And
            bool[m]: whether there is one.

        Complexity: O(m) expected for evenly distributed hashes; at worst O(m) times the number of
        rows in a bucket.
        """
        buckets = (_unsigned(hashes) - np.uint64(self.base)) >> np.uint64(self.shift)
        # Below the first hash the difference wraps around to a large number, so that one upper
        # bound covers both ends of the range and leads to the sentinel.
        last = len(self.directory) - 1
        buckets = np.minimum(buckets, np.uint64(last))
        rows: Int64s = buckets.view(np.int64)
        if self.dense and self.runs is None and last == self.rows:
            return rows, rows < last  # each number has one row
        firsts = self.directory.take(rows)
        if self.dense:
            ends = self.directory[1:].take(rows, mode="clip")
            return firsts.astype(np.int64), firsts < ends
        rows = firsts.astype(np.int64)
        there = self.hashes.take(rows)
        behind = np.flatnonzero(there < hashes)
        while behind.size:
            ahead = self.next_run(rows.take(behind))
            reached = self.hashes.take(ahead)
            rows[behind] = ahead
            there[behind] = reached
            behind = behind[reached < hashes.take(behind)]
        return rows, self._is_row(rows, there == hashes, hashes)

    def has(self, rows: Int64s, hashes: Int64s) -> Bools:
        """Whether each of ``rows`` (or one past the last) has its hash in ``hashes``."""
        return self._is_row(rows, self.hashes.take(rows) == hashes, hashes)

    def _is_row(self, rows: Int64s, equal: Bools, hashes: Int64s) -> Bools:
        """``equal`` without the matches of the sentinel itself."""
        if len(hashes) and hashes.max() == _SENTINEL:
            equal &= rows < self.rows
        return equal

    def next_run(self, rows: Int64s) -> Int64s:
        """The first row of the next key, for each row that starts a run."""
        return rows + 1 if self.runs is None else rows + self.runs.take(rows)

    def run_lengths(self, rows: Int64s) -> Int64s:
        """The number of rows with the same key, for each row that starts a run."""
        if self.runs is None:
            return np.ones(len(rows), np.int64)
        return self.runs.take(rows).astype(np.int64)

    def validate(self) -> None:
        """Check everything that a probe relies on.

        Raises:
            ValueError: names the violated invariant and the position.

        Complexity: O(n) time, O(1) memory.
        """
        n = self.rows
        if not 0 < n < MAX_ROWS:
            raise ValueError(f"the index has {n} rows; it holds 1 to {MAX_ROWS - 1}")
        if self.hashes[n] != _SENTINEL:
            raise ValueError(f"the hashes end with {self.hashes[n]} instead of the sentinel")
        if not (self.dense and self._has_each_number()):
            for begin, end in chunks(n - 1):
                falls = self.hashes[begin + 1 : end + 1] < self.hashes[begin:end]
                refuse(falls, begin + 1, "the hashes fall at row")
            self._validate_directory()
        if self.runs is not None:
            self._validate_runs(self.runs)
        if self.dense:
            self._validate_keys()

    def _has_each_number(self) -> bool:
        """Whether each number from the first key on has one row, so that nothing can be wrong.

        It takes a fourth of the time of looking at the directory for what is.
        """
        n, directory, first = self.rows, self.directory, int(self.hashes[0])
        if (self.base, self.shift) != (int(_unsigned(self.hashes[:1])[0]), 0):
            return False
        if len(directory) != n + 1 or directory[n] != n or first + n - 1 > GREATEST:
            return False
        for begin, end in chunks(n):
            if not np.array_equal(self.hashes[begin:end], np.arange(begin, end) + first):
                return False
            if not np.array_equal(directory[begin:end], np.arange(begin, end, dtype=np.int32)):
                return False
        return True

    def _validate_directory(self) -> None:
        n = self.rows
        first, last = (int(hash_) for hash_ in _unsigned(self.hashes.take((0, n - 1))))
        if self.base != first:
            raise ValueError(f"the base is {self.base} instead of {first}")
        if not 0 <= self.shift < (1 if self.dense else 64):
            raise ValueError(f"the shift is {self.shift}; it is 0 to 63, and 0 for dense integers")
        buckets = ((last - first) >> self.shift) + 1
        if len(self.directory) != buckets + 1:
            raise ValueError(
                f"the directory has {len(self.directory)} entries instead of {buckets + 1}"
            )
        check_directory(self.directory, n, "directory")
        for begin, end in chunks(n):
            slots = _unsigned(self.hashes[begin:end]) - np.uint64(first)
            slots >>= np.uint64(self.shift)
            check_entries(self.directory, slots.view(np.int64), begin, "directory")

    def _validate_keys(self) -> None:
        for begin, end in chunks(self.rows - 1):
            equal = self.hashes[begin:end] == self.hashes[begin + 1 : end + 1]
            ends = equal if self.runs is None else equal & (self.runs[begin:end] == 1)
            refuse(ends, begin, "the run of a key ends too early at row")

    def _validate_runs(self, runs: Int32s) -> None:
        n = self.rows
        if len(runs) != n:
            raise ValueError(f"there are {len(runs)} lengths of runs for {n} rows")
        if runs[-1] != 1:
            raise ValueError(f"the run of the last row has {runs[-1]} rows")
        for begin, end in chunks(n - 1):
            lengths, ahead = runs[begin:end], runs[begin + 1 : end + 1]
            refuse(lengths < 1, begin, "the run has no rows at row")
            goes_on = lengths != 1
            refuse(goes_on & (lengths - 1 != ahead), begin, "the run has a wrong length at row")
            differs = self.hashes[begin:end] != self.hashes[begin + 1 : end + 1]
            refuse(goes_on & differs, begin, "the run has rows of another hash behind row")


def with_sentinel(hashes: Int64s, order: Int64s | Int32s | None = None) -> Int64s:
    """Hashes, or keys, with the sentinel of an index behind them.

    Args:
        hashes: int64[n].
        order: int64[n] or int32[n], the positions of the hashes in their order; None (default) if
            they are in order.

    Returns:
        int64[n + 1].
    """
    padded = np.empty(len(hashes) + 1, np.int64)
    padded[-1] = _SENTINEL
    if order is None:
        padded[:-1] = hashes
    else:
        for begin, end in chunks(len(order)):  # NumPy makes an int64 copy of the order
            padded[begin:end] = hashes.take(order[begin:end])
    return padded


def are_dense(keys: Int64s) -> bool:
    """Whether integers are so close together that a directory has a bucket for each number.

    Args:
        keys: int64[n], in any order, at least one.

    Complexity: O(n).
    """
    return int(keys.max()) - int(keys.min()) < _MOST_NUMBERS * len(keys)


def dense_order(keys: Int64s) -> Int32s:
    """The rows in the order of dense integer keys; rows with one key stay in their order.

    Args:
        keys: int64[n], in any order, for which :func:`are_dense` holds.

    Returns:
        int32[n]: the positions of the rows.

    Complexity: O(n) where no key occurs twice, without a comparison; else O(n log n).

    Example:
        >>> dense_order(np.array([12, 10, 13])).tolist()
        [1, 0, 2]
    """
    least = int(keys.min())
    rows = np.full(int(keys.max()) - least + 1, -1, np.int32)
    rows[keys - least] = np.arange(len(keys), dtype=np.int32)
    order: Int32s = rows[rows >= 0]
    if len(order) == len(keys):
        return order
    del rows, order
    return np.argsort(keys, kind="stable").astype(np.int32)


def _run_lengths(same_key: Bools) -> Int32s | None:
    """The length of the run from each row on, given whether row i + 1 has the key of row i.

    None if no key occurs twice.
    """
    if not same_key.any():
        return None
    n = len(same_key) + 1
    starts = np.flatnonzero(np.concatenate(([True], ~same_key))).astype(np.int32)
    ends = np.append(starts[1:], np.int32(n))
    lengths: Int32s = np.repeat(ends, ends - starts)
    lengths -= np.arange(n, dtype=np.int32)
    return lengths
