"""An open version of a table: finds keys and gathers rows in whole batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.opening import open_segments
from bsjoin.storage.range_index import RangeIndex
from bsjoin.storage.segment import Segment

__all__ = ["OpenTable"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class OpenTable:
    """A memory-mapped version of a table. Rows are numbered across all segments.

    Args:
        location: the table's location.
        manifest: the version to open.

    Raises:
        DamagedTableError: a file is damaged; columns are checked when they are first gathered.
    """

    def __init__(self, location: StorageLocation, manifest: Manifest):
        self.manifest = manifest
        self._segments = open_segments(location, manifest)
        self._numbers = {name: i for i, name in enumerate(manifest.schema.names)}
        self._first_hashes = np.array([s.first_hash for s in manifest.segments], np.int64)
        self._first_rows = np.cumsum([0, *(s.rows for s in manifest.segments)])[:-1]

    def find(self, hashes: pa.Int64Array, keys: list[pa.Array]) -> Int64s:
        """The first row of each key.

        Args:
            hashes: the m hashes; null where a key is null, which matches nothing.
            keys: the m keys to compare, column by column; empty if equal hashes mean equal keys.

        Returns:
            int64[m]: the number of the first row with that key, or -1.

        Complexity: O(m) expected, independent of the size of the table.
        """
        probes = _values(hashes)
        rows = np.full(len(probes), -1, np.int64)
        for part, segment, first_row in self._parts(self._first_hashes, probes):
            if part is None:
                rows = segment.find(probes, keys)
            else:
                indices = pa.array(part)
                local = segment.find(probes.take(part), [key.take(indices) for key in keys])
                rows[part] = np.where(local < 0, -1, local + first_row)
        if hashes.null_count:
            rows[~_valid(hashes)] = -1
        return rows

    def run_lengths(self, rows: Int64s) -> Int64s:
        """The number of rows with the key of each first row; 0 for -1.

        The rows of a key have consecutive numbers.
        """
        counts = np.zeros(len(rows), np.int64)
        for part, segment, first_row in self._parts(self._first_rows, rows):
            local = rows - first_row if part is None else rows.take(part) - first_row
            lengths = segment.index.run_lengths(np.maximum(local, 0))
            if part is None:
                counts = lengths
            else:
                counts[part] = lengths
        counts[rows < 0] = 0
        return counts

    def groups(self, rows: Int64s) -> list[tuple[NDArray[np.int64] | None, RangeIndex, int]]:
        """Assign first rows of keys to the range indexes of their segments.

        Returns:
            For each segment with any of the rows: their positions (None for all), its range index,
            and the number of its first row. A row of -1 may be in any of them.
        """
        shared = []
        for part, segment, first_row in self._parts(self._first_rows, rows):
            assert segment.ranges is not None
            shared.append((part, segment.ranges, first_row))
        return shared

    def has(self, column: str) -> bool:
        """Whether the version has a column."""
        return column in self._numbers

    def gather(self, columns: tuple[str, ...], rows: Int64s) -> list[pa.Array]:
        """The values of some columns at some rows, null for row -1."""
        missing = rows < 0
        mask = missing if missing.any() else None
        numbers = [self._numbers[name] for name in columns]
        if len(self._segments) == 1:
            return [self._segments[0].take(number, rows, mask) for number in numbers]
        pieces: list[list[pa.Array]] = [[] for _ in columns]
        order = []
        for part, segment, first_row in self._parts(self._first_rows, rows):
            part = np.arange(len(rows)) if part is None else part
            order.append(part)
            for number, piece in zip(numbers, pieces, strict=True):
                part_mask = None if mask is None else mask.take(part)
                piece.append(segment.take(number, rows.take(part) - first_row, part_mask))
        if not order:
            types = self.manifest.schema.types
            return [pa.nulls(len(rows), types[number]) for number in numbers]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
        indices = pa.array(back)
        return [pa.concat_arrays(piece).take(indices) for piece in pieces]

    def _parts(
        self, boundaries: Int64s, values: Int64s
    ) -> list[tuple[NDArray[np.int64] | None, Segment, int]]:
        """Assign values to the segments: (positions or None for all, segment, first row).

        Values below the first boundary go to the first segment, which contains none of them.
        """
        if len(self._segments) <= 1:
            return [(None, segment, 0) for segment in self._segments]
        numbers = np.searchsorted(boundaries[1:], values, side="right")
        if len(self._segments) <= 256:
            numbers = numbers.astype(np.uint8)  # numpy sorts small integers by radix
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._segments)))
        return [
            (part, self._segments[i], int(self._first_rows[i]))
            for i, part in enumerate(np.split(order, ends[:-1]))
            if len(part)
        ]


def _values(array: pa.Int64Array) -> Int64s:
    """The values without a copy; arbitrary for null values."""
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]


def _valid(array: pa.Array) -> Bools:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
