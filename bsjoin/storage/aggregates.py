"""Columns of Arrow as trees that aggregate their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bsjoin.index import AggregateTree


def tree_of(column: pa.Array) -> AggregateTree:
    """A tree over the values of a column, in place.

    Args:
        column: numbers, decimals of up to 18 digits, dates, times, durations; where only its nulls
            are counted, of any type.
    """
    dtype, many = column.type, len(column)
    valid = column.buffers()[0] if column.null_count else None
    bitmap = None if valid is None else np.frombuffer(valid, np.uint8)
    if pa.types.is_null(dtype):
        bitmap = np.zeros(many // 8 + 1, np.uint8)
    if pa.types.is_decimal(dtype):  # the lower half of 128 bits is the number
        words = np.frombuffer(column.buffers()[1], np.int64)[::2]
        values = words[column.offset : column.offset + many]
    elif pa.types.is_primitive(dtype) and not pa.types.is_boolean(dtype):
        kind = dtype.to_pandas_dtype() if _is_number(dtype) else f"int{dtype.bit_width}"
        values = np.frombuffer(column.buffers()[1], kind, column.offset + many)[column.offset :]
    else:
        values = np.broadcast_to(np.int8(0), many)
    return AggregateTree(values, bitmap, column.offset)


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))
