"""PostgreSQL's arrays of several dimensions, of which the driver returns the items in a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.values.python_values import reprs

LENGTHS = (
    "(SELECT array_agg(array_length({0}, d)::int8 ORDER BY d) "
    "FROM generate_series(1, array_ndims({0})) AS d)"
)
"""The SQL expression for the lengths of an array's dimensions; null for an empty array."""


def depth_of(dtype: pa.DataType) -> int:
    """Count the lists that are in each other.

    >>> depth_of(pa.list_(pa.list_(pa.int32())))
    2
    """
    return 1 + depth_of(dtype.value_type) if pa.types.is_list(dtype) else 0


def nested(rows: pa.ChunkedArray, lengths: pa.ChunkedArray, depth: int) -> pa.ChunkedArray:
    """Lists in lists, of as many dimensions as the type has.

    Of each array there are the items, and the lengths of its dimensions, null for an empty one.

    Raises:
        ValueError: an array has another number of dimensions; the message has its items.
    """
    counts = pc.list_value_length(lengths)
    wrong = pc.fill_null(pc.not_equal(counts, depth), False)
    if pc.any(wrong).as_py():
        items = reprs(rows.filter(wrong)[:1].combine_chunks())[0]
        raise ValueError(f"an array of {counts.filter(wrong)[0]} dimensions with the items {items}")
    if depth == 1:
        return rows
    array = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
    whole = np.zeros((len(array), depth), np.int64)
    filled = pc.is_valid(counts).to_numpy(zero_copy_only=False)
    whole[filled] = pc.list_flatten(lengths).to_numpy().reshape(-1, depth)
    values, before = array.flatten(), np.ones(len(array), np.int64)
    levels = []
    for column in whole.T:
        levels.append(np.repeat(column, before))
        before = before * column
    mask = array.is_null()
    for level in reversed(levels[1:]):
        values = pa.ListArray.from_arrays(_offsets(level), values)
    return pa.chunked_array([pa.ListArray.from_arrays(_offsets(levels[0]), values, mask=mask)])


def _offsets(lengths: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
