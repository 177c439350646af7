"""Of the rows that each probe finds the first in some order: one row for each probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_of_each"]

Int64s = NDArray[np.int64]


def first_of_each(
    found: Iterable[tuple[Int64s, Int64s]], order: Callable[[Int64s], Sequence[NDArray[np.integer]]]
) -> Iterator[tuple[Int64s, Int64s]]:
    """Keep the first row of each probe.

    Args:
        found: int64[p] and int64[p], positions of probes, ascending, and rows; the rows of one
            probe may be in several pieces.
        order: returns for int64[k] rows the numbers by which they are ordered, those that decide
            first first. Of rows that are equal in all of them any one is kept.

    Yields:
        The same, each position once.

    Complexity: O(p log p) a piece.

    Example:
        >>> pieces = [(np.array([0, 0, 2]), np.array([5, 3, 4])), (np.array([2]), np.array([1]))]
        >>> [(at.tolist(), row.tolist()) for at, row in first_of_each(pieces, lambda rows: [rows])]
        [([0], [3]), ([2], [1])]
    """
    held: tuple[Int64s, Int64s] | None = None  # the last probe, whose rows may go on
    for positions, rows in found:
        if held is not None:
            positions, rows = (
                np.concatenate(pair) for pair in zip(held, (positions, rows), strict=True)
            )
        again = positions[1:] == positions[:-1]
        if again.any():
            by = np.lexsort((*reversed(order(rows)), positions))
            first = np.concatenate(([True], ~again))
            positions, rows = positions[first], rows.take(by)[first]
        if len(positions) > 1:
            yield positions[:-1], rows[:-1]
        held = positions[-1:], rows[-1:]
    if held is not None:
        yield held
