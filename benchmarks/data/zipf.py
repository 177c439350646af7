"""Keys drawn from a bounded Zipf distribution: rank r of n with a weight of r^(-z).

numpy's ``zipf`` has no upper bound and needs z > 1, scipy's ``zipfian`` takes memory and time by n.
Here any z > 0 works, with any n up to 10^8 and beyond, O(1) memory and no Python per key:
rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
from monotone discrete distributions", ACM TOMACS 6 (1996).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import boxcox, inv_boxcox

Int64s = NDArray[np.int64]


def zipf(n: int, z: float, size: int, seed: int) -> Int64s:
    """Draw ranks 1 … n, 1 the most frequent.

    Raises:
        ValueError: there is no such distribution.

    Complexity: O(size); about 1.1 random numbers each, at worst 1.4.
    """
    if n < 1 or not z > 0:
        raise ValueError(f"n={n!r}, z={z!r}: n must be 1 or more, z above 0")
    random = np.random.default_rng(seed)
    # Box-Cox is an antiderivative of x^(-z). The first bar is exact and begins later.
    low, high = boxcox(1.5, 1 - z) - 1.0, boxcox(n + 0.5, 1 - z)
    safe = 2.0 - inv_boxcox(boxcox(2.5, 1 - z) - 2.0**-z, 1 - z)
    drawn, open_ = np.empty(size, np.int64), np.arange(size)
    while open_.size:
        u = low + random.random(open_.size) * (high - low)
        x = inv_boxcox(u, 1 - z)
        k = np.clip(np.floor(x + 0.5), 1, n)
        good = k - x <= safe
        rest = np.flatnonzero(~good)
        good[rest] = u[rest] >= boxcox(k[rest] + 0.5, 1 - z) - k[rest] ** -z
        drawn[open_[good]] = k[good].astype(np.int64)
        open_ = open_[~good]
    return drawn


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
        """The keys of cycle 0, 1, 2, ... Complexity: O(rows)."""
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
