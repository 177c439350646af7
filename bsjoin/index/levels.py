"""Deterministic levels of a skip list: Formula 4 of the paper (BS-Join, section 5.3).

A random skip list throws a coin for the height of every node. Where the data is sorted and
does not change, the position alone can tell the height, and the list takes its ideal shape:
``1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, ...``

The formula as printed is garbled (it gives the recursion for a power of two and for the rest
with different offsets). What the paper's own sequence and figure say is this: the level of the
0-based position ``i`` is how often 2 divides ``i + 1``, and the height is the level plus one.
So the nodes that reach level ``l`` are the positions ``2^l - 1, 2 * 2^l - 1, 3 * 2^l - 1, ...``,
and none of this needs to be stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["levels", "top_level"]

Int64s = NDArray[np.int64]


def levels(count: int) -> Int64s:
    """The levels of the positions 0 to ``count - 1``.

    Returns:
        int64[count].

    Complexity: O(count).

    Example:
        >>> (levels(12) + 1).tolist()
        [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3]
    """
    above = np.arange(1, count + 1, dtype=np.int64)
    lowest_bit = above & -above
    # A power of two up to 2^62 is exact as a double, and frexp reads its exponent.
    return np.frexp(lowest_bit.astype(np.float64))[1].astype(np.int64) - 1


def top_level(count: int) -> int:
    """The highest level that a list of ``count`` nodes reaches; -1 for an empty list."""
    return count.bit_length() - 1
