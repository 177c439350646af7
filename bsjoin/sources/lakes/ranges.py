"""Keys as few ranges, by which a library leaves out files and row groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MOST = 32
_MS = 1_000
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Ranges:
    """What covers all keys of a column.

    Args:
        bounds: the least and the greatest key of each range, both in it; dates are days and
            timestamps microseconds from 1970.
        null: whether one of the keys is null.
    """

    bounds: list[tuple[Any, Any]]
    null: bool

    def wider(self) -> Ranges:
        """The same, each range longer by a millisecond on both sides."""
        bounds = [(max(low - _MS, _LEAST), min(high + _MS, _GREATEST)) for low, high in self.bounds]
        return Ranges(bounds, self.null)


def ranges_of(column: pa.ChunkedArray, most: int = _MOST) -> Ranges | None:
    """The ranges of a column of keys; None for types whose order the formats do not share.

    These are floating-point numbers (NaN, and 0.0 beside -0.0), booleans and nested values. As many
    keys as ``most``, or fewer, are a range each.

    >>> ranges_of(pa.chunked_array([[7, 1, 2, None, 90]]), 3)
    Ranges(bounds=[(1, 2), (7, 7), (90, 90)], null=True)
    """
    dtype, known = column.type, column.drop_null()
    if pa.types.is_timestamp(dtype):
        known = known.cast(pa.int64())
    elif pa.types.is_date32(dtype):
        known = known.cast(pa.int32())
    elif not (
        pa.types.is_integer(dtype) or pa.types.is_string(dtype) or pa.types.is_decimal(dtype)
    ):
        return None
    values = sorted(set(known.to_pylist()))
    null = column.null_count > 0
    if len(values) <= most:
        return Ranges([(value, value) for value in values], null)
    gaps = np.diff(_places(values))
    cuts = np.sort(np.argpartition(gaps, len(gaps) - most + 1)[len(gaps) - most + 1 :])
    begins, ends = [0, *(cuts + 1).tolist()], [*cuts.tolist(), len(values) - 1]
    return Ranges([(values[a], values[b]) for a, b in zip(begins, ends, strict=True)], null)


def _places(values: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers in the order of the values, whose differences tell how far these are apart."""
    if not isinstance(values[0], str):
        return np.array([float(value) for value in values])
    texts = [value.encode() for value in values]
    # All are alike in what the first and the last share.
    first, last = texts[0], texts[-1]
    shared = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    parts = (text[shared : shared + 8].ljust(8, b"\0") for text in texts)
    return np.array([float(int.from_bytes(part, "big")) for part in parts])
