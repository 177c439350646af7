"""Deterministic levels of a skip list: Formula 4 of the paper (BS-Join, section 5.3).

A skip list (W. Pugh, CACM 33, 1990) draws the height of every node at random. If the data is
sorted and does not change, the position alone determines the height, and the list has its ideal
shape: ``1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, ...``

As printed, the level of the 0-based position ``i`` is log2(i + 1) where ``i + 1`` is a power of
two, else that of position ``(i + 1) mod 2^floor(log2(i + 1)) - 1``: how often 2 divides ``i + 1``.
The paper's sequence has the heights, which are the level plus one.
So the nodes that reach level ``l`` are the positions ``2^l - 1, 2 * 2^l - 1, 3 * 2^l - 1, ...``,
and none of this needs to be stored.
"""

from __future__ import annotations

import numpy as np

from bsjoin.index.arrays import Int64s


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
    """The highest level in a list of ``count`` nodes; -1 for an empty list."""
    return count.bit_length() - 1
