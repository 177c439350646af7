"""Which candidates of each row of the stream are rows of the result: for ``where=``.

Spark has checked the pairs; a worker gets the outcome, and whether a pair is the first one of its
row of the stream. The candidates of a row follow each other, maybe through several batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bsjoin.index import Bools, Int64s

DROP, KEEP, KEEP_WITHOUT = 0, 1, 2
"""What becomes of a candidate: ``KEEP_WITHOUT`` is the row of the stream without a match."""


def decisions(
    how: str, batches: Iterator[tuple[pa.Array, ...]], most: int | None = None
) -> Iterator[pa.Array]:
    """Decide for each candidate, and for each row of the stream that has none.

    Batches have whether the candidate is the first one of its row of the stream, and whether it
    passes, false where there is none; ``most`` that pass are kept of a row, None for all. A batch
    is decided when the next one is known: the last row may have more candidates there.
    """
    given = filter(lambda one: len(one[0]), map(_arrays, batches))
    most = 1 if how == "semi" else most
    now, passed = next(given, None), 0
    while now is not None:
        ahead = next(given, None)
        begins, passes = now
        goes_on = not begins[0]
        starts = np.flatnonzero(begins)
        if goes_on:
            starts = np.concatenate([[0], starts])
        counts = np.add.reduceat(passes, starts, dtype=np.int64)
        carried = passed if goes_on else 0
        counts[0] += carried
        lasts = np.append(starts[1:] - 1, len(begins) - 1)
        passed = int(counts[-1])
        without = lasts[counts == 0]
        if ahead is not None and not ahead[0][0]:
            without = without[without < len(begins) - 1]
        decided = np.zeros(len(begins), np.int8)
        if how != "anti":
            decided[_first(passes, starts, carried, most)] = KEEP
        if how in ("left", "anti"):
            decided[without] = KEEP_WITHOUT
        yield pa.array(decided)
        now = ahead


def _arrays(batch: tuple[pa.Array, ...]) -> tuple[Bools, Bools]:
    begins, passes = (column.to_numpy(zero_copy_only=False) for column in batch)
    return begins, passes


def _first(passes: Bools, starts: Int64s, carried: int, most: int | None) -> Bools:
    """Those that pass, of each row of the stream the first ``most`` ones; None for all.

    ``carried`` have passed for the first row in batches before.
    """
    if most is None:
        return passes
    before: Int64s = np.cumsum(passes) - passes
    sizes = np.diff(np.append(starts, len(passes)))
    base = before[starts]
    base[0] -= carried
    return passes & (before - np.repeat(base, sizes) < most)
