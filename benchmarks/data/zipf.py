"""Keys drawn from a bounded Zipf distribution: rank r of n with a weight of r^(-z)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@lru_cache(1)
def shares(n: int, z: float) -> NDArray[np.float64]:
    """The share of all draws that fall on the ranks 1 … r, for r from 1 to n. Complexity: O(n)."""
    sums = np.cumsum(np.arange(1.0, n + 1) ** -z)
    return sums / sums[-1]


def zipf(n: int, z: float, size: int, seed: int) -> Int64s:
    """Draw ranks 1 … n, 1 the most frequent. Complexity: O(n + size · log n)."""
    return np.searchsorted(shares(n, z), np.random.default_rng(seed).random(size)) + 1


@dataclass(frozen=True)
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
        >>> hottest = [int(np.bincount(stream.cycle(index)).argmax()) for index in range(4)]
        >>> [other == hottest[0] for other in hottest]
        [True, True, True, False]
    """

    n: int
    z: float
    rows: int
    every: int | None = None
    seed: int = 0

    def cycle(self, index: int) -> Int64s:
        """The keys of cycle 0, 1, 2, ... Complexity: O(n + rows · log n)."""
        ranks = zipf(self.n, self.z, self.rows, self.seed * 1_000_003 + index)
        # A step far from any fraction of n, so that no key is hot again soon.
        step = max(1, round(self.n * 0.6180339887498949))
        moves = 0 if self.every is None else index // self.every
        return scattered((ranks - 1 + moves * step) % self.n + 1, self.n)


def scattered(ranks: Int64s, n: int) -> Int64s:
    """Give each rank 1 … n a key 0 … n - 1 of its own; frequent keys are not adjacent."""
    step = 0x9E3779B1
    while np.gcd(step, n) != 1:
        step += 2
    return (ranks - 1) * step % n
