"""Slices of rows as the indexes of a segment tell them, for the tests of the pure core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def run_lengths(rows: int, starts: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
    """How many rows follow in the slice of each row, this one included."""
    lows = np.zeros(min(rows, 1), np.int64) if starts is None else starts
    sizes = np.diff(lows, append=rows)
    return (np.repeat(lows + sizes, sizes) - np.arange(rows)).astype(np.int32)
