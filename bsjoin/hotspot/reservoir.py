"""A uniform sample of a stream of codes whose length nobody knows: reservoir sampling.

Algorithm L (K.-H. Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))",
ACM TOMS 20, 1994) draws how many rows to skip instead of a number for each row. Here the skips of a
whole batch are drawn at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reservoir"]

Int64s = NDArray[np.int64]

_FAR = float(1 << 62)  # further than any stream goes


class Reservoir:
    """A uniform sample without replacement of all codes that were added.

    Args:
        capacity: the most codes to keep, 1 or more.
        seed: of the random numbers; one or several integers.

    Raises:
        ValueError: the capacity is below 1.

    Complexity: s (1 + log(N / s)) codes are taken in of N, s the capacity; the others cost nothing.

    Example:
        >>> reservoir = Reservoir(3, seed=1)
        >>> reservoir.add(np.arange(2))
        >>> reservoir.add(np.arange(2, 100))
        >>> reservoir.rows, len(reservoir.codes)
        (100, 3)
    """

    def __init__(self, capacity: int, seed: int | Sequence[int] = 0):
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: a sample has room for 1 code or more")
        self.capacity = capacity
        self.rows = 0
        """Codes that were added so far."""
        self._random = np.random.default_rng(seed)
        self._codes = np.empty(capacity, np.int64)
        # The greatest of the random tags that the kept codes would have, as a logarithm, and
        # the row whose tag would be the next one below it.
        self._log_w, self._next = 0.0, 0

    @property
    def codes(self) -> Int64s:
        """int64[min(rows, capacity)]: the sample, in no particular order."""
        return self._codes[: min(self.rows, self.capacity)]

    def add(self, codes: Int64s) -> None:
        """Let codes pass by.

        Args:
            codes: int64[m].
        """
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
        """Take in the row that is next, and those after it that a number of steps reaches."""
        expected = self.capacity * math.log(end / max(self._next, 1))
        logs, taken = self._steps(int(expected + 4.0 * math.sqrt(expected)) + 8)
        within = int(np.searchsorted(taken, end))
        rows = np.append(self._next, taken[:within])[: len(taken)]
        # Rows that meet in one place: the last assignment stays, as it should.
        places = self._random.integers(0, self.capacity, len(rows))
        self._codes[places] = codes[rows - self.rows]
        last = min(within, len(taken) - 1)
        self._log_w, self._next = float(logs[last]), int(taken[last])

    def _steps(self, count: int) -> tuple[NDArray[np.float64], Int64s]:
        """The next tags and rows to take in, beyond the row that is next."""
        draw = self._random.standard_exponential
        logs = self._log_w - np.cumsum(draw(count)) / self.capacity
        with np.errstate(divide="ignore", invalid="ignore"):
            skips = np.fmin(draw(count) / -np.log1p(-np.exp(logs)), _FAR / count)
        return logs, self._next + np.cumsum(skips.astype(np.int64) + 1)
