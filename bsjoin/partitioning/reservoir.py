"""Reservoir sampling: a uniform sample of a stream of codes of unknown length.

Algorithm L (K.-H. Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))",
ACM TOMS 20, 1994) draws the number of rows to skip instead of a random number for each row. Here
the skips of a whole batch are drawn in one vectorised step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import Int64s

_FAR = float(1 << 62)  # more rows than any stream has


class Reservoir:
    """A uniform sample without replacement of all codes that were added.

    Args:
        capacity: the maximum number of codes to keep, 1 or more.
        seed: the seed of the random numbers; one or several integers, default 0.

    Raises:
        ValueError: the capacity is below 1.

    Complexity: O(s (1 + log(N / s))) for N codes and a capacity of s: skipped codes cost nothing.

    Example:
        >>> reservoir = Reservoir(3, seed=1)
        >>> reservoir.add(np.arange(2))
        >>> reservoir.add(np.arange(2, 100))
        >>> reservoir.rows, len(reservoir.codes)
        (100, 3)
    """

    def __init__(self, capacity: int, seed: int | Sequence[int] = 0):
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: give 1 or more")
        self.capacity = capacity
        self.rows = 0
        """The number of codes added so far."""
        self._random = np.random.default_rng(seed)
        self._codes = np.empty(capacity, np.int64)
        # The logarithm of the greatest random tag among the kept codes (W in Algorithm L), and the
        # next row to take in.
        self._log_w, self._next = 0.0, 0

    @property
    def codes(self) -> Int64s:
        """int64[min(rows, capacity)]: the sample, in no particular order."""
        return self._codes[: min(self.rows, self.capacity)]

    def add(self, codes: Int64s) -> None:
        """Add codes to the stream."""
        free = self.capacity - self.rows
        if free > 0:
            first = codes[:free]
            self._codes[self.rows : self.rows + len(first)] = first
            if len(first) == free:
                self._next = self.capacity - 1
                logs, rows = self._steps(1)
                self._log_w, self._next = float(logs[0]), int(rows[0])
        end = self.rows + len(codes)
        if end > self.capacity:
            while self._next < end:
                self._take_in(codes, end)
        self.rows = end

    def _take_in(self, codes: Int64s, end: int) -> None:
        """Take in the next row, and those after it that a number of steps reaches."""
        expected = self.capacity * math.log(end / max(self._next, 1))
        logs, taken = self._steps(int(expected + 4.0 * math.sqrt(expected)) + 8)
        within = int(np.searchsorted(taken, end))
        rows = np.append(self._next, taken[:within])[: len(taken)]
        # Several rows for one slot: the last assignment wins, as in the sequential algorithm.
        places = self._random.integers(0, self.capacity, len(rows))
        self._codes[places] = codes[rows - self.rows]
        last = min(within, len(taken) - 1)
        self._log_w, self._next = float(logs[last]), int(taken[last])

    def _steps(self, count: int) -> tuple[NDArray[np.float64], Int64s]:
        """The tags and rows to take in after the next row."""
        draw = self._random.standard_exponential
        logs = self._log_w - np.cumsum(draw(count)) / self.capacity
        with np.errstate(divide="ignore", invalid="ignore"):
            skips = np.fmin(draw(count) / -np.log1p(-np.exp(logs)), _FAR / count)
        return logs, self._next + np.cumsum(skips.astype(np.int64) + 1)
