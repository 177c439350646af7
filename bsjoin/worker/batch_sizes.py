"""How many rows are joined, and sent, together: bounded in rows and in bytes.

Small batches cost a call for each column; a column of text in one batch must not exceed 2 GiB, and
Spark holds a batch in memory beside the worker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from bsjoin.worker.chain_rows import Rows

__all__ = ["MOST_BYTES", "MOST_ROWS", "Cutter", "together"]

MOST_ROWS = 1 << 16
MOST_BYTES = 64 << 20
"""Some more are possible: rows differ in size."""

_FEW, _SAMPLED = 1 << 12, 1 << 8


def together(batches: Iterable[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    """The rows of the batches, ``enough`` rows or bytes at a time if there are so many.

    Args:
        batches: as Spark sends them.
        enough: the number of rows.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held += [batch.slice(at, MOST_ROWS) for at in range(0, batch.num_rows, MOST_ROWS)]
        size += batch.nbytes
        if held and (size >= MOST_BYTES or sum(one.num_rows for one in held) >= enough):
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, size = [], 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


class Cutter:
    """Cuts rows into parts whose columns have few enough bytes, as a sample of them tells.

    Args:
        columns: reads the columns of some rows.
    """

    def __init__(self, columns: Callable[[Rows], Sequence[pa.Array]]):
        self._columns = columns
        self._fixed = False

    def parts(self, rows: Rows) -> Iterator[Rows]:
        """The rows, in one or several parts."""
        count = len(rows)
        if count > _FEW and not self._fixed:
            columns = self._columns(rows.chosen(np.linspace(0, count - 1, _SAMPLED).astype(int)))
            self._fixed = all(map(_is_fixed, columns))
            size = sum(column.nbytes for column in columns)
            most = max(1, MOST_BYTES * _SAMPLED // max(1, size))
            if most < count:
                for begin in range(0, count, most):
                    yield rows.chosen(np.arange(begin, min(begin + most, count)))
                return
        yield rows


def _is_fixed(column: pa.Array) -> bool:
    """Whether the values of a column have one size: 65,536 rows of them are no matter."""
    try:
        return bool(column.type.bit_width)
    except ValueError:
        return bool(pa.types.is_null(column.type))
