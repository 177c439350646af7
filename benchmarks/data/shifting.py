"""A Zipf-distributed stream whose hot keys change: every k cycles other keys are the hot ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.zipf import Zipf, scattered

__all__ = ["Shifting"]

Int64s = NDArray[np.int64]

_GOLDEN = 0.6180339887498949


class Shifting:
    """Cycles of keys 0 ... n - 1; each cycle can be drawn again by itself.

    Args:
        n: keys.
        z: the exponent of the Zipf distribution, above 0.
        rows: of a cycle.
        every: for so many cycles the same keys are hot; None: always the same.
        seed: of the random numbers.

    Example:
        >>> stream = Shifting(1000, 1.16, rows=50_000, every=3, seed=1)
        >>> [int(np.bincount(stream.cycle(i)).argmax()) == stream.hottest(i)[0] for i in range(4)]
        [True, True, True, True]
        >>> stream.hottest(2)[0] == stream.hottest(3)[0]
        False
    """

    def __init__(self, n: int, z: float, rows: int, every: int | None = None, seed: int = 0):
        if rows < 1 or (every is not None and every < 1):
            raise ValueError(f"rows={rows!r}, every={every!r}: each must be 1 or more")
        Zipf(n, z)  # refuses what it cannot draw
        self.n, self.z, self.rows, self.every, self.seed = n, z, rows, every, seed
        # Far from any fraction of n, so that no key is hot again soon.
        self._step = max(1, round(n * _GOLDEN))

    def cycle(self, index: int) -> Int64s:
        """The keys of cycle 0, 1, 2, ... Complexity: O(rows)."""
        drawn = Zipf(self.n, self.z, seed=self.seed * 1_000_003 + index)
        return self._keys(index, drawn.ranks(self.rows))

    def hottest(self, index: int, top: int = 1) -> list[int]:
        """The most frequent keys of a cycle, the most frequent first."""
        keys: list[int] = self._keys(index, np.arange(1, top + 1)).tolist()
        return keys

    def moves(self, index: int) -> bool:
        """Whether other keys are hot in this cycle than in the one before."""
        return self.every is not None and index > 0 and index % self.every == 0

    def __iter__(self) -> Iterator[Int64s]:
        """All cycles, without end."""
        index = 0
        while True:
            yield self.cycle(index)
            index += 1

    def _keys(self, index: int, ranks: Int64s) -> Int64s:
        moves = 0 if self.every is None else index // self.every
        return scattered((ranks - 1 + moves * self._step) % self.n + 1, self.n)
