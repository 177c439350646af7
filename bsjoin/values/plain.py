"""Columns: the same values in basic types of Arrow, texts that are UTF-8, and what is among keys.

Many of Arrow's functions, and Spark, do not take dictionaries, runs, views and extension types.
Spark's strings may hold any bytes, most sources' texts may not. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def is_any_list(dtype: pa.DataType) -> bool:
    """Whether it is one of Arrow's types of lists."""
    return bool(
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
        or pa.types.is_list_view(dtype)
        or pa.types.is_large_list_view(dtype)
    )


def has_inside(dtype: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or one inside it, is of a kind."""
    if is_one(dtype):
        return True
    if isinstance(dtype, pa.BaseExtensionType):
        return has_inside(dtype.storage_type, is_one)
    return any(has_inside(dtype.field(i).type, is_one) for i in range(dtype.num_fields))


def list_of(array: pa.Array, values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """A list array with other values, as many as ``array.flatten()`` has."""
    ends = np.cumsum(pc.list_value_length(array).fill_null(0), dtype=np.int32)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int32), ends]))
    return pa.ListArray.from_arrays(offsets, values, dtype, mask=array.is_null())


def plain(array: pa.Array, leaf: Callable[[pa.Array], pa.Array] | None = None) -> pa.Array:
    """The same values, nested ones too, in Arrow's basic types; lists with offsets of 32 bits.

    ``leaf`` makes other values of those that are not nested; None (default): they stay.

    >>> plain(pa.array(["a", "a"]).dictionary_encode()).type
    DataType(string)
    """
    dtype = array.type
    if isinstance(dtype, pa.BaseExtensionType):
        return plain(array.storage, leaf)
    if pa.types.is_dictionary(dtype):
        return plain(array.dictionary, leaf).take(array.indices)
    if pa.types.is_run_end_encoded(dtype):
        ends = array.run_ends.to_numpy()
        runs = np.searchsorted(ends, np.arange(len(array)) + array.offset, side="right")
        return plain(array.values, leaf).take(pa.array(runs))
    if dtype == pa.string_view():
        array = array.view(pa.binary_view()).cast(pa.binary()).view(pa.string())
    elif dtype == pa.binary_view():
        array = array.cast(pa.binary())
    elif pa.types.is_nested(dtype) and (leaf is not None or not _is_plain(dtype)):
        return _with_plain_parts(array, leaf)
    return array if leaf is None else leaf(array)


def _with_plain_parts(array: pa.Array, leaf: Callable[[pa.Array], pa.Array] | None) -> pa.Array:
    dtype = array.type
    if is_any_list(dtype):
        values = plain(array.flatten(), leaf)
        return list_of(array, values, pa.list_(values.type))
    whole = pa.concat_arrays([array, array[:0]]) if array.offset else array
    if pa.types.is_map(dtype):
        keys, items = plain(whole.keys, leaf), plain(whole.items, leaf)
        return pa.MapArray.from_arrays(
            whole.offsets, keys, items, pa.map_(keys.type, items.type), mask=whole.is_null()
        )
    parts = [plain(whole.field(i), leaf) for i in range(dtype.num_fields)]
    fields = [pa.field(field.name, part.type) for field, part in zip(dtype, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=whole.is_null())


def _is_plain(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.BaseExtensionType) or dtype in (pa.string_view(), pa.binary_view()):
        return False
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return False
    if pa.types.is_list_view(dtype) or pa.types.is_large_list_view(dtype):
        return False
    if pa.types.is_map(dtype):
        return _is_plain(dtype.key_type) and _is_plain(dtype.item_type)
    if is_any_list(dtype):
        return _is_plain(dtype.value_type)
    return not pa.types.is_struct(dtype) or all(_is_plain(field.type) for field in dtype)


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


def is_utf8(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""Tell the texts that are valid UTF-8; null is.

    >>> texts = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    >>> is_utf8(pa.chunked_array([texts])).to_pylist()
    [True, False]
    """
    return pa.chunked_array([_checked(chunk) for chunk in column.chunks], pa.bool_())


def _checked(texts: pa.Array) -> pa.Array:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        if len(texts) > 1:
            half = len(texts) // 2
            return pa.concat_arrays([_checked(texts.slice(0, half)), _checked(texts.slice(half))])
        return pa.array([False])
    return pa.array([True] * len(texts), pa.bool_())


def with_utf8(keys: pa.Table) -> pa.Table:
    """The keys whose texts are all valid UTF-8.

    Complexity: O(bytes), and O(log n) more for each text that is not.
    """
    for name in keys.column_names:
        if pa.types.is_string(keys.schema.field(name).type):
            fine = is_utf8(keys.column(name))
            if not pc.all(fine).as_py():
                keys = keys.filter(fine)
    return keys
