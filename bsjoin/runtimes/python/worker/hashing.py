"""Spark's ``xxhash64`` of key columns, for keys that do not come from a Spark plan.

Spark itself hashes the keys of a stream. Keys of the payload of a join before, and those of a
warm-up or an invalidation, are hashed here; the tests compare both implementations.
(Source: the specification of XXH64,
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from bsjoin.index import ByteStrings, Int64s
from bsjoin.index.integer_hash import PRIMES, folded, rotated
from bsjoin.storage.range_index import texts_of, words_of
from bsjoin.storage.spark_schema import LONG_DIGITS

UInt64s = NDArray[np.uint64]

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, PRIMES)
_BLOCK = 32
"""The bytes of a block of XXH64: longer texts are hashed one by one."""


def xxhash64(keys: Sequence[pa.Array]) -> Int64s:
    """The hashes of m keys, equal to Spark's for the table's side of a join.

    The columns are canonical. Integers are hashed as long, floating-point numbers as double; a null
    leaves the hash of the columns before it, as in Spark.
    """
    hashes = np.full(len(keys[0]), _SEED, np.uint64)
    for column in keys:
        more = _hashed(column, hashes)
        if column.null_count:
            more = np.where(column.is_null().to_numpy(zero_copy_only=False), hashes, more)
        hashes = more
    return hashes.view(np.int64)


def _hashed(column: pa.Array, seeds: UInt64s) -> UInt64s:
    """The hashes of the values; arbitrary for nulls."""
    dtype = column.type
    if pa.types.is_null(dtype):
        return seeds
    if pa.types.is_boolean(dtype):
        bits = column.fill_null(False).to_numpy(zero_copy_only=False)
        return _four_bytes(bits.astype(np.uint64), seeds)
    if pa.types.is_decimal128(dtype):
        words = words_of(column)
        if dtype.precision <= LONG_DIGITS:
            return _eight_bytes(np.ascontiguousarray(words[:, 0]).view(np.uint64), seeds)
        return _texts(_shortest(words), seeds)
    if pa.types.is_date32(dtype):
        return _four_bytes(_plain(column, pa.int32()).view(np.uint32).astype(np.uint64), seeds)
    if pa.types.is_floating(dtype):
        return _eight_bytes(_plain(column, pa.float64()).view(np.uint64), seeds)
    if pa.types.is_integer(dtype) or pa.types.is_temporal(dtype):
        return _eight_bytes(_plain(column, pa.int64()).view(np.uint64), seeds)
    return _texts(texts_of(column), seeds)


def _plain(column: pa.Array, dtype: pa.DataType) -> NDArray[np.generic]:
    """The values without their validity."""
    typed = column.cast(dtype)
    values = np.frombuffer(typed.buffers()[1], dtype.to_pandas_dtype())
    return np.asarray(values[typed.offset : typed.offset + len(typed)])


def _eight_bytes(values: UInt64s, seeds: UInt64s) -> UInt64s:
    return _finished(_word(seeds + _P5 + np.uint64(8), values))


def _four_bytes(values: UInt64s, seeds: UInt64s) -> UInt64s:
    return _finished(_half_word(seeds + _P5 + np.uint64(4), values))


def _texts(texts: ByteStrings, seeds: UInt64s) -> UInt64s:
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    ends = texts.offsets.astype(np.int64) - first
    starts, lengths = ends[:-1], np.diff(ends)
    # Words are read at any byte; the last ones would reach beyond the end.
    data = np.concatenate((texts.data[first:last], np.zeros(8, np.uint8)))
    words: UInt64s = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    hashes = seeds + _P5 + lengths.view(np.uint64)
    at = starts.copy()
    for size, most in ((8, 3), (4, 1), (1, 3)):
        remaining = starts + lengths - at
        for _ in range(most):
            some = np.flatnonzero((remaining >= size) & (lengths < _BLOCK))
            if not len(some):
                break
            read = words[at[some]]
            hashes[some] = _STEPS[size](hashes[some], read & _MASKS[size])
            at[some] += size
            remaining[some] -= size
    hashes = _finished(hashes)
    for i in np.flatnonzero(lengths >= _BLOCK).tolist():
        text = data[ends[i] : ends[i + 1]].tobytes()
        hashes[i] = xxhash.xxh64_intdigest(text, int(seeds[i]))
    return hashes


def _word(hashes: UInt64s, values: UInt64s) -> UInt64s:
    return rotated(hashes ^ (rotated(values * _P2, 31) * _P1), 27) * _P1 + _P4


def _half_word(hashes: UInt64s, values: UInt64s) -> UInt64s:
    return rotated(hashes ^ (values * _P1), 23) * _P2 + _P3


def _byte(hashes: UInt64s, values: UInt64s) -> UInt64s:
    return rotated(hashes ^ (values * _P5), 11) * _P1


_STEPS = {8: _word, 4: _half_word, 1: _byte}
_MASKS = {size: np.uint64((1 << (8 * size)) - 1) for size in _STEPS}


def _finished(hashes: UInt64s) -> UInt64s:
    hashes = folded(hashes, 33) * _P2
    hashes = folded(hashes, 29) * _P3
    return folded(hashes, 32)


def _shortest(words: Int64s) -> ByteStrings:
    """Numbers of two words in the shortest two's complement, as Java's BigInteger.toByteArray."""
    big = np.ascontiguousarray(words[:, ::-1]).astype(">i8").view(np.uint8).reshape(-1, 16)
    sign = np.where(words[:, 1] < 0, np.uint8(255), np.uint8(0))[:, None]
    differs = big != sign
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    # The first byte that differs needs one before it if its highest bit is not the sign.
    extra = (np.take_along_axis(big, first[:, None], 1) ^ sign)[:, 0] >> 7
    lengths = 16 - first + extra
    kept = np.arange(16) >= (16 - lengths)[:, None]
    return ByteStrings(np.concatenate(([0], np.cumsum(lengths))), big[kept])
