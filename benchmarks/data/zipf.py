"""Keys drawn from a bounded Zipf distribution: rank r of n with a weight of r^(-z).

numpy's ``zipf`` has no upper bound and needs z > 1. Here any z > 0 does, any n up to 10^8 and
beyond, with O(1) memory and no Python per key: rejection-inversion after W. Hörmann and
G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
ACM TOMACS 6 (1996).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Zipf", "hashed", "scattered"]

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

_EASY_BELOW = 1e-8
_HEAD = 10_000

_PRIMES = tuple(
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
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
        # The integral over the histogram's bars; the first bar is exact and begins later.
        self._low = float(self._integral(np.array(1.5))) - 1.0
        self._high = float(self._integral(np.array(n + 0.5)))
        self._safe = 2.0 - float(
            self._inverse(self._integral(np.array(2.5)) - self._weight(np.array(2.0)))
        )

    def ranks(self, size: int) -> Int64s:
        """Draw ranks, 1 the most frequent.

        Complexity: O(size); about 1.1 random numbers each, at worst 1.4.
        """
        drawn = np.empty(size, np.int64)
        open_ = np.arange(size)
        while open_.size:
            u = self._low + self._random.random(open_.size) * (self._high - self._low)
            x = self._inverse(u)
            k = np.clip(np.floor(x + 0.5), 1, self.n)
            good = k - x <= self._safe
            rest = np.flatnonzero(~good)
            k_rest = k[rest]
            good[rest] = u[rest] >= self._integral(k_rest + 0.5) - self._weight(k_rest)
            drawn[open_[good]] = k[good].astype(np.int64)
            open_ = open_[~good]
        return drawn

    def share(self, top: int) -> float:
        """The share of the draws that the most frequent ranks get. Complexity: O(1)."""
        return self._sum(min(top, self.n)) / self._sum(self.n)

    def _sum(self, top: int) -> float:
        """1^(-z) + 2^(-z) + ... + top^(-z), to about 14 digits.

        The first terms are added up, the others come from Euler and Maclaurin's formula.
        """
        z, head = self.z, min(top, _HEAD)
        sum_ = float((np.arange(1, head + 1, dtype=np.float64) ** -z).sum())
        if top > head:
            a, b = float(head), float(top)
            sum_ += float(self._integral(np.array(b))) - float(self._integral(np.array(a)))
            sum_ += (b**-z - a**-z) / 2.0 + z * (a ** (-z - 1.0) - b ** (-z - 1.0)) / 12.0
        return sum_

    def _weight(self, x: Floats) -> Floats:
        return np.exp(-self.z * np.log(x))

    def _integral(self, x: Floats) -> Floats:
        """An antiderivative of x^(-z): (x^(1-z) - 1) / (1-z), or log x where z is 1."""
        log = np.log(x)
        return log * _expm1_ratio((1.0 - self.z) * log)

    def _inverse(self, u: Floats) -> Floats:
        t = np.maximum(u * (1.0 - self.z), -1.0)
        return np.exp(u * _log1p_ratio(t))


def _expm1_ratio(x: Floats) -> Floats:
    """(e^x - 1) / x, 1 at 0."""
    small = np.abs(x) < _EASY_BELOW
    return np.where(small, 1.0 + x / 2.0, np.expm1(x) / np.where(small, 1.0, x))


def _log1p_ratio(x: Floats) -> Floats:
    """log(1 + x) / x, 1 at 0."""
    small = np.abs(x) < _EASY_BELOW
    with np.errstate(divide="ignore"):
        return np.where(small, 1.0 - x / 2.0, np.log1p(x) / np.where(small, 1.0, x))


def scattered(ranks: Int64s, n: int) -> Int64s:
    """Give each rank 1 … n a key 0 … n - 1 of its own, so that frequent keys are no neighbours."""
    step = 0x9E3779B1
    while np.gcd(step, n) != 1:
        step += 2
    return (ranks - 1) * step % n


def hashed(keys: Int64s) -> Int64s:
    """Spark's ``xxhash64`` of long keys: the codes by which bsjoin partitions.

    Complexity: O(m), without Python per key.
    """
    p1, p2, p3, p4, p5 = _PRIMES
    h = np.full(len(keys), np.uint64(42 + 8) + p5)
    h ^= _turned(keys.view(np.uint64) * p2, 31) * p1
    h = _turned(h, 27) * p1 + p4
    h ^= h >> np.uint64(33)
    h *= p2
    h ^= h >> np.uint64(29)
    h *= p3
    h ^= h >> np.uint64(32)
    return h.view(np.int64)


def _turned(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
