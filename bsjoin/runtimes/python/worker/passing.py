"""Which candidates of each row of the stream are rows of the result: for ``where=``.

Spark has checked the pairs; a worker gets what the stream's row is known by and the outcome. The
candidates of a row follow each other, maybe through several batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["DROP", "KEEP", "KEEP_WITHOUT", "decisions"]

DROP, KEEP, KEEP_WITHOUT = 0, 1, 2
"""What becomes of a candidate: ``KEEP_WITHOUT`` is the row of the stream without a match."""

Int64s = NDArray[np.int64]
Marks = NDArray[np.complex128]
Bools = NDArray[np.bool_]


def decisions(how: str, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Decide for each candidate, and for each row of the stream that has none.

    Args:
        how: "left", "semi" or "anti".
        batches: double[m] and double[m], by which candidates are known to be of one row of the
            stream; and bool[m], whether the candidate passes, false where there is none.

    Yields:
        int8[m]: for each batch the decisions, when the next one is known: the last row may have
        more candidates there.

    Complexity: O(m).
    """
    given = filter(lambda one: len(one[0]), map(_arrays, batches))
    now, row, passed = next(given, None), None, False
    while now is not None:
        ahead = next(given, None)
        rows, passes = now
        starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        some: Bools = np.logical_or.reduceat(passes, starts)
        carried = bool(passed and rows[0] == row)
        some[0] |= carried
        lasts = np.append(starts[1:] - 1, len(rows) - 1)
        row, passed = rows[-1], bool(some[-1])
        without = lasts[~some]
        if ahead is not None and ahead[0][0] == row:
            without = without[without < len(rows) - 1]
        yield pa.array(_decided(how, passes, starts, without, carried=carried))
        now = ahead


def _arrays(batch: tuple[pa.Array, ...]) -> tuple[Marks, Bools]:
    one, other, passes = (column.to_numpy(zero_copy_only=False) for column in batch)
    return one + 1j * other, passes


def _decided(
    how: str, passes: Bools, starts: Int64s, without: Int64s, *, carried: bool
) -> NDArray[np.int8]:
    """The decisions of a batch.

    Args:
        how: the join.
        passes: as the batch has them.
        starts: where each row of the stream begins.
        without: the last candidates of those rows that none passes for.
        carried: whether one has passed for the first row in a batch before.
    """
    decided = np.zeros(len(passes), np.int8)
    if how == "left":
        decided[passes] = KEEP
        decided[without] = KEEP_WITHOUT
    elif how == "anti":
        decided[without] = KEEP_WITHOUT
    else:
        before: Int64s = np.cumsum(passes) - passes
        sizes = np.diff(np.append(starts, len(passes)))
        first = passes & (before == np.repeat(before[starts], sizes))
        if carried:
            first[: sizes[0]] = False
        decided[first] = KEEP
    return decided
