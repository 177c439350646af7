"""Different keys of one hash: Spark's ``xxhash64`` of 8 bytes, computed backwards."""

from __future__ import annotations

from typing import Any

import xxhash

TEXTS = ("key 545918789", "9UqՆCT\x02", "key 1701610", "2('e\x14\x0c\x14P")
"""The first two have one hash, and so have the others."""

_BITS = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_I1, _I2, _I3 = (pow(p, -1, 1 << 64) for p in (_P1, _P2, _P3))
_SEED = 42


def _right(x: int, by: int) -> int:
    return (x >> by | x << (64 - by)) & _BITS


def bytes_of_hash(target: int, seed: int = _SEED) -> bytes:
    """The 8 bytes whose ``xxhash64`` is ``target``."""
    h = target ^ target >> 32
    h = h * _I3 & _BITS
    h ^= h >> 29 ^ h >> 58
    h = h * _I2 & _BITS
    h ^= h >> 33
    h = _right((h - _P4) * _I1 & _BITS, 27) ^ (seed + _P5 + 8 & _BITS)
    return (_right(h * _I1 & _BITS, 31) * _I2 & _BITS).to_bytes(8, "little")


def hash_of(value: Any, seed: int = _SEED) -> int:
    """The ``xxhash64`` of a long, a text or a binary."""
    if isinstance(value, int):
        value = value.to_bytes(8, "little", signed=True)
    return xxhash.xxh64_intdigest(value.encode() if isinstance(value, str) else value, seed)


def partner(value: bytes) -> bytes:
    """Another binary with the hash of this one."""
    return bytes_of_hash(hash_of(value))


def long_of_hash(target: int, seed: int = _SEED) -> int:
    """The long whose ``xxhash64`` is ``target``."""
    return int.from_bytes(bytes_of_hash(target, seed), "little", signed=True)


def second_of_pair(first: Any, long: int, other: Any) -> int:
    """The long that makes a pair with ``other`` of the same hash as that of the given two."""
    return long_of_hash(hash_of(long, hash_of(first)), hash_of(other))


EXTREMES = [long_of_hash((1 << 63) + step & _BITS) for step in (-3, -2, -1, 0, 1, 2)]
"""Longs with the greatest hashes, as signed numbers, and with the least."""
