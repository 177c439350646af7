"""Keys drawn from a bounded Zipf distribution: rank r of n with a weight of r^(-z).

numpy's ``zipf`` has no upper bound and needs z > 1, scipy's ``zipfian`` takes memory and time by n.
Here any z > 0 works, with any n up to 10^8 and beyond, O(1) memory and no Python per key:
rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
from monotone discrete distributions", ACM TOMACS 6 (1996).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import boxcox, inv_boxcox

Int64s = NDArray[np.int64]

_HEAD = 10_000
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


class Zipf:
    """A bounded Zipf distribution.

    Args:
        n: the number of ranks.
        z: the exponent, above 0.
        seed: of the random numbers.
    """

    def __init__(self, n: int, z: float, seed: int = 0):
        if n < 1 or not z > 0:
            raise ValueError(f"n={n!r}, z={z!r}: n must be 1 or more, z above 0")
        self.n, self.z = n, z
        self._random = np.random.default_rng(seed)
        # Box-Cox is an antiderivative of x^(-z). The first bar is exact and begins later.
        self._low = boxcox(1.5, 1 - z) - 1.0
        self._high = boxcox(n + 0.5, 1 - z)
        self._safe = 2.0 - inv_boxcox(boxcox(2.5, 1 - z) - 2.0**-z, 1 - z)

    def ranks(self, size: int) -> Int64s:
        """Draw ranks, 1 the most frequent.

        Complexity: O(size); about 1.1 random numbers each, at worst 1.4.
        """
        drawn = np.empty(size, np.int64)
        open_ = np.arange(size)
        while open_.size:
            u = self._low + self._random.random(open_.size) * (self._high - self._low)
            x = inv_boxcox(u, 1 - self.z)
            k = np.clip(np.floor(x + 0.5), 1, self.n)
            good = k - x <= self._safe
            rest = np.flatnonzero(~good)
            good[rest] = u[rest] >= boxcox(k[rest] + 0.5, 1 - self.z) - k[rest] ** -self.z
            drawn[open_[good]] = k[good].astype(np.int64)
            open_ = open_[~good]
        return drawn

    def share(self, top: int) -> float:
        """The share of the draws that the most frequent ranks get. Complexity: O(1)."""
        return self._sum(min(top, self.n)) / self._sum(self.n)

    def _sum(self, top: int) -> float:
        """1^(-z) + ... + top^(-z), to about 14 digits: the first terms, then Euler-Maclaurin."""
        z, head = self.z, min(top, _HEAD)
        total = float((np.arange(1, head + 1, dtype=np.float64) ** -z).sum())
        if top > head:
            a, b = float(head), float(top)
            total += float(boxcox(b, 1 - z) - boxcox(a, 1 - z))
            total += (b**-z - a**-z) / 2.0 + z * (a ** (-z - 1.0) - b ** (-z - 1.0)) / 12.0
        return total


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
        self._step = max(1, round(n * 0.6180339887498949))

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


def scattered(ranks: Int64s, n: int) -> Int64s:
    """Give each rank 1 … n a key 0 … n - 1 of its own; frequent keys are not adjacent."""
    step = 0x9E3779B1
    while np.gcd(step, n) != 1:
        step += 2
    return (ranks - 1) * step % n


def hashed(keys: Int64s) -> Int64s:
    """Spark's ``xxhash64`` of long keys: the codes by which bsjoin partitions.

    Complexity: O(m), without Python per key.
    """
    p1, p2, p3, p4, p5 = map(np.uint64, _PRIMES)
    h = np.full(len(keys), np.uint64(42 + 8) + p5)
    h ^= _rotated(keys.view(np.uint64) * p2, 31) * p1
    h = _rotated(h, 27) * p1 + p4
    for shift, prime in ((33, p2), (29, p3), (32, np.uint64(1))):
        h ^= h >> np.uint64(shift)
        h *= prime
    return h.view(np.int64)


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def mixed(keys: Int64s) -> Int64s:
    """A hash of 64 bits that no two keys share."""
    hashes = keys * np.int64(-7046029254386353131)
    return hashes ^ (hashes >> np.int64(29))
