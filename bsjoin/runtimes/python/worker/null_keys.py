"""Null-safe keys in a cache: as keys without nulls, with one more that says which of them are null.

So a cache, and all that compares keys, needs no place for nulls. It is the form that
:mod:`bsjoin.planner.keys` gives such keys in SQL, and that they have in a stored table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.runtimes.python.worker.chain_rows import placeholder
from bsjoin.runtimes.python.worker.hashing import xxhash64


def without_nulls(keys: Sequence[pa.Array], nulls_equal: Sequence[bool] | None) -> list[pa.Array]:
    """Keys with some value in place of each null that equals null, and which they are.

    The last column says it: bit ``i`` is set where column ``i`` was null. Nulls of columns that are
    not null-safe stay; where none is, ``nulls_equal`` is None, and so do all keys.

    Example:
        >>> keys = [pa.array([7, None]), pa.array([None, None])]
        >>> [column.to_pylist() for column in without_nulls(keys, [True, False])]
        [[7, 0], [None, None], [0, 1]]
    """
    if nulls_equal is None:
        return list(keys)
    filled, bits = [], np.zeros(len(keys[0]), np.int64)
    for place, (key, is_safe) in enumerate(zip(keys, nulls_equal, strict=True)):
        if is_safe and key.null_count:
            bits |= key.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << place
            key = pc.fill_null(key, placeholder(key.type)[0])
        filled.append(key)
    return [*filled, pa.array(bits)]


def with_nulls(keys: Sequence[pa.Array], nulls_equal: Sequence[bool] | None) -> list[pa.Array]:
    """The inverse of :func:`without_nulls`."""
    if nulls_equal is None:
        return list(keys)
    *columns, last = keys
    bits = last.to_numpy()
    return [_null_where(column, bits >> place & 1) for place, column in enumerate(columns)]


def _null_where(column: pa.Array, is_null: NDArray[np.int64]) -> pa.Array:
    if not is_null.any():
        return column
    return pc.if_else(pa.array(is_null == 1), pa.scalar(None, column.type), column)


def hashed(
    keys: Sequence[pa.Array], nulls_equal: Sequence[bool] | None
) -> tuple[NDArray[np.int64], list[pa.Array]]:
    """The hashes of canonical keys, as Spark hashes them, and the keys as a cache has them."""
    held = without_nulls(keys, nulls_equal)
    return xxhash64([*keys, *held[len(keys) :]]), held
