"""Keys of columns that a worker has: converted to the table's type and hashed, as Spark does it.

The counterpart of :mod:`bsjoin.planner.keys` for a key that an earlier join of the same stage
brings. Each step has the same result as its expression there; the tests compare both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import Bools, Int64s, divide_wide, multiply_wide
from bsjoin.runtimes.python.worker.hashing import xxhash64
from bsjoin.runtimes.python.worker.matching import canonical
from bsjoin.storage.range_index import is_ranked, words_of

_LOW_WORD = (1 << 64) - 1


def hashed_key(
    columns: Sequence[pa.Array], *, stored: bool, rows: int
) -> tuple[pa.Array, list[pa.Array]]:
    """The hash of a key, and what tells keys of one hash apart.

    ``stored``: whether the key is one of a stored table, which has hashes in place of short values;
    else one to look up in a source. A key of no column is the same in all rows.

    Returns:
        int64[rows]: the hash, null where a column is null; and the columns to compare.
    """
    if not columns:
        return pa.array(np.zeros(rows, np.int64)), []
    columns = [canonical(column) for column in columns]
    hashes = pa.array(xxhash64(columns))
    absent = [column.is_null() for column in columns if column.null_count]
    if absent:
        hashes = pc.if_else(reduce(pc.or_, absent), pa.scalar(None, pa.int64()), hashes)
    if not stored:
        return hashes, columns
    if len(columns) == 1 and not is_ranked(columns[0].type):
        return hashes, []
    return hashes, [
        column if is_ranked(column.type) else pa.array(xxhash64([column])) for column in columns
    ]


def converted(column: pa.Array, dtype: pa.DataType) -> pa.Array:
    """A column in another type of the same family; null where nothing of that type equals it.

    It has integers or decimals for such a type, floating-point numbers for one, else values of the
    type itself.
    """
    given = column.type
    if given == dtype:
        return column
    if pa.types.is_decimal(given) or pa.types.is_decimal(dtype):
        return _exact_number(column, dtype)
    if pa.types.is_integer(dtype):
        limits = np.iinfo(dtype.to_pandas_dtype())
        wide = column.cast(pa.int64())
        return _where(_between(wide, limits.min, limits.max), wide).cast(dtype)
    if pa.types.is_float32(dtype):
        narrow = column.cast(dtype, safe=False)
        equal = pc.or_(pc.equal(narrow.cast(given), column), pc.is_nan(column))
        return _where(equal, narrow)
    return column.cast(dtype)


def _exact_number(column: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Integers and decimals, as numbers of two words: Arrow's own casts are not exact."""
    words, more = _words(column), _digits(dtype) - _digits(column.type)
    if pa.types.is_integer(dtype):
        limits = np.iinfo(dtype.to_pandas_dtype())
        least, greatest = int(limits.min), int(limits.max)
    else:
        greatest = 10**dtype.precision - 1
        least = -greatest
    if more < 0:
        words, rest = divide_wide(words, -more)
        fits = ~rest & _within(words, least, greatest)
    else:
        fits = _within(words, -(-least // 10**more), greatest // 10**more)
    if column.null_count:
        fits &= column.is_valid().to_numpy(zero_copy_only=False)
    words = np.where(fits[:, None], words, 0)
    if pa.types.is_integer(dtype):
        return pa.array(words[:, 0], mask=~fits).cast(dtype)
    words = np.ascontiguousarray(multiply_wide(words, max(more, 0)))
    valid = pa.py_buffer(np.packbits(fits, bitorder="little"))
    return pa.Array.from_buffers(dtype, len(column), [valid, pa.py_buffer(words)])


def _words(column: pa.Array) -> Int64s:
    """Integers, or decimals in units of their last digit: int64[m, 2], low and high word."""
    if pa.types.is_decimal(column.type):
        return words_of(column)
    low = column.fill_null(0).cast(pa.int64()).to_numpy()
    return np.stack([low, low >> 63], axis=1)


def _digits(dtype: pa.DataType) -> int:
    return dtype.scale if pa.types.is_decimal(dtype) else 0


def _within(words: Int64s, least: int, greatest: int) -> Bools:
    """Whether numbers of two words are between two others, the ends included."""
    low, high = words[:, 0].view(np.uint64), words[:, 1]
    ends = [(np.int64(end >> 64), np.uint64(end & _LOW_WORD)) for end in (least, greatest)]
    (least_high, least_low), (greatest_high, greatest_low) = ends
    above = (high > least_high) | ((high == least_high) & (low >= least_low))
    below = (high < greatest_high) | ((high == greatest_high) & (low <= greatest_low))
    return np.asarray(above & below, np.bool_)


def _between(column: pa.Array, least: object, greatest: object) -> pa.Array:
    return pc.and_(pc.greater_equal(column, least), pc.less_equal(column, greatest))


def _where(condition: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(condition, column, pa.scalar(None, column.type))
