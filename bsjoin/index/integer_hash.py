"""Spark's ``xxhash64`` of one integer, and its inverse, for whole arrays.

The hash of 8 bytes is a bijection: each of its steps (a product with an odd number, a rotation, an
exclusive or with a shifted copy) has an inverse. (Source: the specification of XXH64,
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bsjoin.index.arrays import Int64s, UInt64s

_BITS = 64
_AT_ONCE = 1 << 14
"""With 65,536, the steps on a batch of so many rows took three times as long."""
PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
"""Of XXH64."""

_P1, _P2, _P3, _P4, _ = map(np.uint64, PRIMES)
_N1, _N2, _N3 = (np.uint64(pow(prime, -1, 1 << _BITS)) for prime in PRIMES[:3])
_BEGIN = np.uint64((42 + PRIMES[4] + 8) % (1 << _BITS))  # Spark's seed, eight bytes


def hashes_of_integers(integers: Int64s) -> Int64s:
    """The hashes of integers, as Spark's ``xxhash64`` of a bigint.

    Args:
        integers: int64[m].

    Returns:
        int64[m].

    Complexity: O(m).

    Example:
        >>> hashes_of_integers(np.array([1]))
        array([-7001672635703045582])
    """
    return _in_pieces(_hashed, integers)


def _hashed(integers: UInt64s) -> UInt64s:
    h = _BEGIN ^ (rotated(integers * _P2, 31) * _P1)
    h = rotated(h, 27) * _P1 + _P4
    h = folded(h, 33) * _P2
    h = folded(h, 29) * _P3
    return folded(h, 32)


def integers_of_hashes(hashes: Int64s) -> Int64s:
    """The inverse of :func:`hashes_of_integers`.

    Args:
        hashes: int64[m].

    Returns:
        int64[m].

    Complexity: O(m).
    """
    return _in_pieces(_unhashed, hashes)


def _unhashed(hashes: UInt64s) -> UInt64s:
    h = folded(hashes, 32) * _N3
    h = folded(folded(h, 29), 58) * _N2
    h = (folded(h, 33) - _P4) * _N1
    h = (rotated(h, _BITS - 27) ^ _BEGIN) * _N1
    return rotated(h, _BITS - 31) * _N2


def _in_pieces(function: Callable[[UInt64s], UInt64s], values: Int64s) -> Int64s:
    """Apply a function of a few steps; its arrays stay in the processor's cache."""
    found = np.empty(len(values), np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        end = begin + _AT_ONCE
        found[begin:end] = function(values[begin:end].view(np.uint64)).view(np.int64)
    return found


def rotated(values: UInt64s, bits: int) -> UInt64s:
    """Each value, its bits rotated to the left."""
    return (values << np.uint64(bits)) | (values >> np.uint64(_BITS - bits))


def folded(values: UInt64s, bits: int) -> UInt64s:
    """Each value with its upper bits on its lower ones; by half of the bits or more, an inverse."""
    return values ^ (values >> np.uint64(bits))
