"""Which values of a column are among some keys, as Spark compares them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc


def is_among(column: pa.ChunkedArray, values: pa.Array) -> pa.ChunkedArray:
    """Tell the values that are keys: NaN equals NaN, 0.0 equals -0.0, and null equals null.

    >>> is_among(pa.chunked_array([[-0.0, 1.0, None]]), pa.array([0.0, None])).to_pylist()
    [True, False, True]
    """
    values = _both_zeros(values)
    found = pc.is_in(column, value_set=values)
    return pc.or_kleene(found, pc.is_nan(column)) if _has_nan(values) else found


def rows_among(columns: Mapping[str, pa.ChunkedArray], keys: Mapping[str, pa.Array]) -> pa.Array:
    """Tell the rows that have one of the keys in each key column; not yet together in one key."""
    found = [is_among(columns[name], values) for name, values in keys.items()]
    return functools.reduce(pc.and_, found).combine_chunks()


def _has_nan(values: pa.Array) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _both_zeros(values: pa.Array) -> pa.Array:
    """0.0 and -0.0 are equal, but have different hashes."""
    if not pa.types.is_floating(values.type):
        return values
    zeros = pa.array([0.0, -0.0], values.type)
    return pa.concat_arrays([values, zeros]) if pc.any(pc.equal(values, 0)).as_py() else values
