"""The number of rows that are joined, and sent, together: bounded in rows and in bytes.

Small batches cost a call for each column; a column of text in one batch must not exceed 2 GiB, and
Spark holds a batch in memory beside the worker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from bsjoin.runtimes.python.worker.chain_rows import Rows

MOST_ROWS = 1 << 16
MOST_BYTES = 64 << 20
"""Some more are possible: rows differ in size."""

_FEW, _SAMPLED = 1 << 12, 1 << 8
_VARIATION = 16  # of the bytes of a row, that is expected


def together(batches: Iterable[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    """The rows of the batches, ``enough`` rows or bytes at a time if there are so many.

    Large batches come in slices of some rows.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    slices = (
        batch.slice(at, MOST_ROWS)
        for batch in batches
        for at in range(0, batch.num_rows, MOST_ROWS)
    )
    for one in slices:
        held.append(one)
        size += one.nbytes
        if size >= MOST_BYTES or sum(each.num_rows for each in held) >= enough:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, size = [], 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


class Cutter:
    """Reads the columns of rows in parts that have few enough bytes.

    Rows are sampled where those before them leave it open whether there are too many: a sample
    costs as much as some thousand rows of numbers. Where it deceives, a part is cut in two.
    """

    def __init__(self, columns: Callable[[Rows], Sequence[pa.Array]]):
        self._columns = columns
        self._row_bytes: float | None = None  # the most of a batch so far

    def batches(self, rows: Rows) -> Iterator[Sequence[pa.Array]]:
        """The columns of all rows, in one or several parts."""
        for part in self._parts(rows):
            try:
                columns = self._columns(part)
            except pa.ArrowInvalid:  # more than 2 GiB of text
                if len(part) == 1:
                    raise
                for half in np.array_split(np.arange(len(part)), 2):
                    yield from self.batches(part.chosen(half))
                continue
            self._row_bytes = max(self._row_bytes or 0.0, _bytes(columns) / max(1, len(part)))
            yield columns

    def _parts(self, rows: Rows) -> Iterator[Rows]:
        count, most = len(rows), len(rows)
        known = self._row_bytes
        if count > _FEW and (known is None or count * known > MOST_BYTES / _VARIATION):
            sample = rows.chosen(np.linspace(0, count - 1, _SAMPLED).astype(np.int64))
            most = max(1, MOST_BYTES * _SAMPLED // max(1, _bytes(self._columns(sample))))
        if most >= count:
            yield rows
            return
        for begin in range(0, count, most):
            yield rows.chosen(np.arange(begin, min(begin + most, count)))


def _bytes(columns: Sequence[pa.Array]) -> int:
    return sum(column.nbytes for column in columns)
