"""Matches keys by value: the distinct keys, and the key of each row.

Equality is that of Spark's joins: NaN equals NaN, -0.0 equals 0.0, text is compared by bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bsjoin.index import Int64s


def canonical(array: pa.Array) -> pa.Array:
    """The column with one NaN and without -0.0."""
    if not pa.types.is_floating(array.type):
        return array
    values = array.to_numpy(zero_copy_only=False) + 0.0
    values = np.where(np.isnan(values), np.nan, values).astype(array.type.to_pandas_dtype())
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, array.type, mask=missing, from_pandas=False)


def distinct(keys: Sequence[pa.Array]) -> tuple[Int64s, Int64s]:
    """The distinct ones of m keys, given as canonical columns without nulls.

    Returns:
        int64[d]: the position of one occurrence of each, and int64[m]: the index of each key
        among the d distinct ones.

    Complexity: O(m log m).
    """
    return _unique(_codes(keys))


def owners(keys: Sequence[pa.Array], rows: Sequence[pa.Array]) -> Int64s:
    """The index of each row's key, or -1; a row with a null has none.

    Both are canonical columns, the keys distinct and without nulls.
    """
    count = len(keys[0])
    together = [pa.concat_arrays([k, r.cast(k.type)]) for k, r in zip(keys, rows, strict=True)]
    codes = _codes(together)
    order = np.argsort(codes[:count], kind="stable")
    known = codes[:count][order]
    places = np.minimum(np.searchsorted(known, codes[count:]), count - 1)
    theirs = known[places] == codes[count:]
    for row in rows:
        if row.null_count:
            theirs &= row.is_valid().to_numpy(zero_copy_only=False)
    return np.where(theirs, order[places], -1)


def _codes(columns: Sequence[pa.Array]) -> Int64s:
    """One number per key, the same for the same key."""
    codes = _numbers(columns[0])
    for column in columns[1:]:
        _, codes = _unique(codes)
        _, more = _unique(_numbers(column))
        codes = codes * (int(more.max(initial=0)) + 1) + more
    return codes


def _numbers(column: pa.Array) -> Int64s:
    """One number per value, the same for the same value."""
    dtype = column.type
    if pa.types.is_primitive(dtype) and not pa.types.is_boolean(dtype) and not column.null_count:
        size = dtype.bit_width // 8
        if size <= 8:
            data = np.frombuffer(column.buffers()[1], f"i{size}")
            return data[column.offset : column.offset + len(column)].astype(np.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _unique(codes: Int64s) -> tuple[Int64s, Int64s]:
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    starts = np.ones(len(codes), np.bool_)
    starts[1:] = in_order[1:] != in_order[:-1]
    which = np.empty(len(codes), np.int64)
    which[order] = np.cumsum(starts) - 1
    return order[starts], which
