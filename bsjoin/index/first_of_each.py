"""The rows that each probe finds in some order: all of them, or only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.arrays import Int64s

Pairs = tuple[Int64s, Int64s]
Order = Callable[[Int64s], Sequence[NDArray[np.integer]]]


def each_in_order(found: Iterable[Pairs], order: Order, max_pairs: int) -> Iterator[Pairs]:
    """Put the rows of each probe in order.

    Args:
        found: as for :func:`first_of_each`.
        order: as for :func:`first_of_each`; rows that are equal in all of it stay as they are.
        max_pairs: how many pairs at a time at most; it bounds the memory, too, unless one probe
            has more.

    Yields:
        The same pairs, positions ascending.

    Complexity: O(p log p) a piece; the rows of a probe that goes on are ordered once.

    Example:
        >>> pieces = [(np.array([0, 0, 2]), np.array([5, 3, 4])), (np.array([2]), np.array([1]))]
        >>> ordered = each_in_order(pieces, lambda rows: [rows], 9)
        >>> [(at.tolist(), row.tolist()) for at, row in ordered]
        [([0, 0], [3, 5]), ([2, 2], [1, 4])]
    """
    held: list[Pairs] = []  # of the last probe, whose rows may go on
    for positions, rows in found:
        if held and held[0][0][0] == positions[-1]:  # all of these are of it
            held.append((positions, rows))
            continue
        last = int(np.searchsorted(positions, positions[-1]))
        if held or last:
            yield from _in_order([*held, (positions[:last], rows[:last])], order, max_pairs)
        held = [(positions[last:], rows[last:])]
    if held:
        yield from _in_order(held, order, max_pairs)


def _in_order(pieces: Sequence[Pairs], order: Order, max_pairs: int) -> Iterator[Pairs]:
    positions, rows = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    rows = rows.take(np.lexsort((*reversed(order(rows)), positions)))
    for at in range(0, len(rows), max_pairs):
        yield positions[at : at + max_pairs], rows[at : at + max_pairs]


def first_of_each(found: Iterable[Pairs], order: Order) -> Iterator[Pairs]:
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
    held: Pairs | None = None  # the last probe, whose rows may go on
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
