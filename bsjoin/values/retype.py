"""The same values under another Arrow type of the same structure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

LARGEST = (1 << 31) - 1
"""Bytes of an array of texts."""

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, which is not a slice.

    >>> whole(pa.chunked_array([[1], [2]])).to_pylist()
    [1, 2]
    """
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Arrays of one type as one; texts as large ones where others would not hold all of them.

    >>> joined([pa.array(["a"]), pa.array(["b"])]).type
    DataType(string)
    """
    large = _LARGE.get(arrays[0].type)
    if large is not None and (
        sum(one.nbytes for one in arrays) > LARGEST or any(one.type == large for one in arrays)
    ):
        arrays = [one.cast(large) for one in arrays]
    return pa.concat_arrays(arrays)


def retyped(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array with another time zone or other field names in its type; it is not a slice.

    Arrow's own cast refuses nested values that are never null inside values that are null.
    """
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted):
        children = [retyped(array.field(i), wanted.field(i).type) for i in range(len(wanted))]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if pa.types.is_map(wanted):
        keys = retyped(array.keys, wanted.key_type)
        items = retyped(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, wanted, mask=array.is_null())
    if pa.types.is_list(wanted):
        values = retyped(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, wanted, mask=array.is_null())
    return array.cast(wanted)


def same_values(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether two types have the same values, whatever they say of nulls inside them.

    >>> item = pa.field("element", pa.int32(), nullable=False)
    >>> same_values(pa.list_(item), pa.list_(pa.field("element", pa.int32())))
    True
    """
    if first.equals(second):
        return True
    if first.id != second.id or not pa.types.is_nested(first):
        return False
    if pa.types.is_map(first):
        return same_values(first.key_type, second.key_type) and same_values(
            first.item_type, second.item_type
        )
    if first.num_fields != second.num_fields:
        return False
    pairs = [(first.field(i), second.field(i)) for i in range(first.num_fields)]
    return all(a.name == b.name and same_values(a.type, b.type) for a, b in pairs)
