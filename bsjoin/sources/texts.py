"""Text that is not UTF-8: Spark's strings may hold any bytes, most sources' texts may not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


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
