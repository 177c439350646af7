"""Spark's ``xxhash64`` of key columns, for keys that do not come from a Spark plan.

Spark itself hashes the keys of a stream. Keys of a warm-up or an invalidation are hashed here; the
tests compare both implementations.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from bsjoin.store.spark_schema import LONG_DIGITS

__all__ = ["xxhash64"]

_SEED = 42
_EXACT = decimal.Context(prec=76)


def xxhash64(keys: Sequence[pa.Array]) -> NDArray[np.int64]:
    """The hashes of m keys, equal to Spark's for the table's side of a join.

    Integers are hashed as long, floating-point numbers as double.

    Args:
        keys: canonical columns, without nulls.

    Returns:
        int64[m].

    Complexity: O(m), with Python per row: not for hot paths.
    """
    hashes = [_SEED] * len(keys[0])
    for column in keys:
        hashes = [
            xxhash.xxh64_intdigest(raw, seed)
            for raw, seed in zip(_bytes(column), hashes, strict=True)
        ]
    return np.array(hashes, np.uint64).view(np.int64)


def _bytes(column: pa.Array) -> list[bytes]:
    """The bytes of each value that Spark hashes."""
    dtype = column.type
    if pa.types.is_string(dtype):
        return [text.encode() for text in column.to_pylist()]
    if pa.types.is_binary(dtype):
        return list(column.to_pylist())
    if pa.types.is_boolean(dtype):
        return [int(value).to_bytes(4, "little") for value in column.to_pylist()]
    if pa.types.is_decimal(dtype):
        unscaled = [int(_EXACT.scaleb(value, dtype.scale)) for value in column.to_pylist()]
        if dtype.precision <= LONG_DIGITS:
            return [value.to_bytes(8, "little", signed=True) for value in unscaled]
        # The shortest two's complement, as in Java's BigInteger.toByteArray.
        return [
            value.to_bytes(
                (value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True
            )
            for value in unscaled
        ]
    if pa.types.is_date32(dtype):
        raw, size = column.cast(pa.int32()).to_numpy(), 4
    elif pa.types.is_floating(dtype):
        raw, size = column.cast(pa.float64()).to_numpy(), 8
    else:
        raw, size = column.cast(pa.int64()).to_numpy(), 8
    whole = np.ascontiguousarray(raw).tobytes()
    return [whole[i : i + size] for i in range(0, len(whole), size)]
