"""Sorted runs: what the tasks of a build write, to be merged into segments.

A run holds the rows of a part of the source in the order of the hashes of their keys. Its file has
for each column its blocks of 65,536 rows, one after another, each as an Arrow IPC message; where
they are is in the :class:`RunInfo`. So a merge reads one column at a time, and of each run only the
blocks of its own range of hashes (an external merge sort: D. E. Knuth, The Art of Computer
Programming 3, section 5.4).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from bsjoin.index.arrays import Int64s
from bsjoin.storage.checksums import checksum_of_bytes
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.mapped import read_column, sound

RUN = ".run"
"""What the names of runs end with."""

UNINDEXED_RUN = f".unindexed{RUN}"
"""What the names of runs end with whose rows match nothing; their hash is one of the row."""

_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class RunInfo:
    """The metadata of one run.

    Args:
        name: the path of its file, relative to the table's location.
        rows: the number of rows of each block.
        first_hashes: the hash of the first row of each block.
        last_hash: the hash of the last row.
        sizes: by column, the bytes of each block.
        checksums: by column, the XXH3-128 checksum of each block, in hexadecimal.
    """

    name: str
    rows: tuple[int, ...]
    first_hashes: tuple[int, ...]
    last_hash: int
    sizes: tuple[tuple[int, ...], ...]
    checksums: tuple[tuple[str, ...], ...]

    @property
    def block_bytes(self) -> list[int]:
        """The bytes of each block, in all columns."""
        return [sum(sizes) for sizes in zip(*self.sizes, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunInfo:
        """The inverse of :meth:`to_json`."""
        flat = {name: tuple(data[name]) for name in ("rows", "first_hashes")}
        nested = {name: tuple(map(tuple, data[name])) for name in ("sizes", "checksums")}
        return cls(**{**data, **flat, **nested})


def write_run(location: StorageLocation, name: str, rows: pa.Table) -> RunInfo:
    """Sort rows by their hash, and write them; where each block of the file is.

    There is at least one row, in any order; the first column has the hashes, int64. The name ends
    with :data:`RUN`.

    Complexity: O(n log n) time, the memory of one column beside the rows.
    """
    hashes = rows.column(0).to_numpy()
    order = np.argsort(hashes, kind="stable")
    begins = range(0, len(order), _BLOCK_ROWS)
    sizes: list[tuple[int, ...]] = []
    checksums: list[tuple[str, ...]] = []
    with location.writing(name) as path, path.open("wb") as file:
        indices = pa.array(order)
        for column in rows.columns:
            in_order = pa.concat_arrays(column.chunks).take(indices)
            blocks = [_message(in_order.slice(begin, _BLOCK_ROWS)) for begin in begins]
            file.writelines(blocks)
            sizes.append(tuple(block.size for block in blocks))
            checksums.append(tuple(map(checksum_of_bytes, blocks)))
    first_hashes = hashes.take(order[::_BLOCK_ROWS])
    return RunInfo(
        name=name,
        rows=tuple(min(_BLOCK_ROWS, len(order) - begin) for begin in begins),
        first_hashes=tuple(first_hashes.tolist()),
        last_hash=int(hashes[order[-1]]),
        sizes=tuple(sizes),
        checksums=tuple(checksums),
    )


def _message(column: pa.Array) -> pa.Buffer:
    return pa.RecordBatch.from_arrays([column], ["column"]).serialize()


class RunRows:
    """The rows of several runs in a range of hashes, read one column at a time.

    Their order is that of the runs; inside a run that of the hashes.

    Args:
        location: the table's location.
        runs: the runs.
        schema: the columns of the runs after the hashes.
        first: the least hash of the range; None (default) for no bound.
        end: the hash behind the range; None (default) for no bound.

    Raises:
        DamagedTableError: a block is not what was written.

    Attributes:
        hashes: int64[n], the hashes of the rows.
    """

    hashes: Int64s

    def __init__(
        self,
        location: StorageLocation,
        runs: Sequence[RunInfo],
        schema: pa.Schema,
        first: int | None = None,
        end: int | None = None,
    ):
        self._location = location
        self._types = [pa.int64(), *schema.types]
        self._parts = [_Part(run, *_blocks(run, first, end)) for run in runs]
        found, self._bounds = [], []
        for part in self._parts:
            hashes = np.concatenate(
                [np.zeros(0, np.int64), *(c.to_numpy() for c in self._chunks(part, 0))]
            )
            low = 0 if first is None else int(np.searchsorted(hashes, first))
            high = len(hashes) if end is None else int(np.searchsorted(hashes, end))
            self._bounds.append((low, high))
            found.append(hashes[low:high])
        self.hashes = np.concatenate([np.zeros(0, np.int64), *found])

    def given_hashes(self) -> Int64s:
        """The hashes, which are forgotten here: the caller may free them."""
        hashes, self.hashes = self.hashes, self.hashes[:0].copy()
        return hashes

    @property
    def num_columns(self) -> int:
        """The number of columns, without the hashes."""
        return len(self._types) - 1

    def column(self, number: int) -> pa.ChunkedArray:
        """A column by its number in the schema.

        Raises:
            DamagedTableError: a block is not what was written.
        """
        dtype = self._types[1 + number]
        parts = []
        for part, (low, high) in zip(self._parts, self._bounds, strict=True):
            column = pa.chunked_array(self._chunks(part, 1 + number), dtype)
            parts += column.slice(low, high - low).chunks
        return pa.chunked_array(parts, dtype)

    def _chunks(self, part: _Part, column: int) -> list[pa.Array]:
        run, dtype = part.run, self._types[column]
        if part.first == part.end:
            return []
        before = sum(map(sum, run.sizes[:column]))
        ends = list(accumulate(run.sizes[column], initial=before))
        begin = ends[part.first]
        chunks = []
        with sound(self._location, run.name):
            data = self._location.part(run.name, begin, ends[part.end])
            for number in range(part.first, part.end):
                block = data.slice(ends[number] - begin, run.sizes[column][number])
                if checksum_of_bytes(block) != run.checksums[column][number]:
                    raise ValueError(f"block {number} of column {column} differs from its checksum")
                chunk = read_column(block, dtype)
                if len(chunk) != run.rows[number]:
                    raise ValueError(f"it has {len(chunk)} rows instead of {run.rows[number]}")
                chunks.append(chunk)
        return chunks


@dataclass(frozen=True)
class _Part:
    """Neighbouring blocks of a run, from ``first`` to before ``end``."""

    run: RunInfo
    first: int
    end: int


def _blocks(run: RunInfo, first: int | None, end: int | None) -> tuple[int, int]:
    """The blocks of a run that may have hashes of a range."""
    low, high = 0, len(run.rows)
    if first is not None:
        # The block before may have rows of this hash, too.
        low = max(0, bisect.bisect_left(run.first_hashes, first) - 1)
    if end is not None:
        high = bisect.bisect_left(run.first_hashes, end)
    return min(low, high), high
