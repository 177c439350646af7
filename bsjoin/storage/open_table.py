"""An open version of a table: finds keys and gathers rows in whole batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import AggregateTree
from bsjoin.index.arrays import Bools, Int64s
from bsjoin.storage.layers.keys import keys_in
from bsjoin.storage.layers.overlay import Overlay
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import Manifest, box_signature
from bsjoin.storage.opening import OpenLayer, open_layers, open_segments
from bsjoin.storage.range_index import RangeIndex
from bsjoin.storage.segment import Segment, bools
from bsjoin.storage.segment_entries import fit_together


class OpenTable:
    """A memory-mapped version of a table. Rows are numbered across all segments, layers last.

    Args:
        location: the table's location.
        manifest: the version to open.
        before: open versions of the table, whose segments are shared; default: none.

    Raises:
        DamagedTableError: a file is damaged; columns are checked when they are first gathered.

    Attributes:
        manifest: the version.
        segments: those of the base, then the rows of layers, oldest first.
        layers: oldest first.
        overlay: finds the keys of layers; None without layers.
    """

    def __init__(
        self, location: StorageLocation, manifest: Manifest, before: Iterable[OpenTable] = ()
    ):
        self.manifest = manifest
        self.box_columns = box_signature(manifest.boxes) if manifest.boxes else ""
        opened = {
            segment.info: segment
            for other in before
            if other._has_form_of(manifest)
            for segment in (*other.segments, *(layer.gone for layer in other.layers))
            if segment is not None
        }
        bases = open_segments(location, manifest, opened)
        self.layers: list[OpenLayer] = open_layers(location, manifest, opened)
        layered = [layer.rows for layer in self.layers if layer.rows is not None]
        self.segments: list[Segment] = [*bases, *layered]
        self._numbers = {name: i for i, name in enumerate(manifest.schema.names)}
        self._first_hashes = np.array([s.first_hash for s in manifest.segments], np.int64)
        self._first_rows = np.cumsum([0, *(s.info.rows for s in self.segments)])[:-1]
        self._base_rows = sum(segment.info.rows for segment in bases)
        self._layered: dict[int, pa.Array] = {}
        self.overlay: Overlay | None = None
        if self.layers:
            first_rows = self._first_rows[len(bases) :]
            self.overlay = Overlay(self.layers, first_rows)
        above = (one.info for one in layered)
        self._joins_layers = bool(self.layers) and len(bases) == 1 and fit_together(above)

    def _has_form_of(self, manifest: Manifest) -> bool:
        ours = self.manifest
        return (ours.ranged, ours.boxes, ours.compared) == (
            manifest.ranged,
            manifest.boxes,
            manifest.compared,
        ) and ours.schema.equals(manifest.schema)

    def forget(self) -> None:
        """Let go of what look-ups have made in memory; they make it again. The files stay open."""
        self._layered.clear()
        if self.overlay is not None:
            self.overlay.forget()

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
        if self.overlay is not None:
            self.overlay.put(probes, keys, rows)
        if hashes.null_count:
            rows[bools(hashes.is_null())] = -1
        return rows

    def visible(self, number: int) -> Bools:
        """Which rows of a segment the version has, and no layer above it has replaced.

        Args:
            number: of the segment: those of the base first, then those of layers, oldest first.

        Complexity: O(rows of the segment).
        """
        segment = self.segments[number]
        if self.overlay is None:
            return np.ones(segment.info.rows, np.bool_)
        starts, hashes, keys = keys_in(segment, self.manifest.compared)
        own = starts + self._first_rows[number]
        found = own.copy()
        self.overlay.put(hashes, keys, found, once=True)
        return np.repeat(found == own, segment.index.run_lengths(starts))

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

    def groups(self, rows: Int64s) -> list[tuple[Int64s | None, RangeIndex, int]]:
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
        return self.take([self._numbers[name] for name in columns], rows)

    def take(self, numbers: list[int], rows: Int64s) -> list[pa.Array]:
        """The same of stored columns by their numbers, compared keys first."""
        missing = rows < 0
        mask = missing if missing.any() else None
        if len(self.segments) == 1:
            return [self.segments[0].take(number, rows, mask) for number in numbers]
        if self._joins_layers:
            return self._gather_layered(numbers, rows, mask)
        pieces: list[list[pa.Array]] = [[] for _ in numbers]
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

    def tree(self, column: str, first_row: int) -> AggregateTree:
        """What aggregates a column of the segment with this first row."""
        number = int(np.searchsorted(self._first_rows, first_row, side="right")) - 1  # not empty
        segment = self.segments[number]
        return segment.tree(self._numbers[column])

    def _gather_layered(
        self, numbers: list[int], rows: Int64s, mask: Bools | None
    ) -> list[pa.Array]:
        """The values of a base of one segment, and in their places those of the few in layers."""
        base, above = self.segments[0], rows >= self._base_rows
        places = np.flatnonzero(above)
        if not len(places):
            return [base.take(number, rows, mask) for number in numbers]
        own, others = np.where(above, 0, rows), pa.array(rows.take(places) - self._base_rows)
        flags, found = pa.array(above), []
        for number in numbers:
            column = base.take(number, own, mask)
            values = self._layered_column(number).take(others)
            # Arrow replaces no durations.
            if pa.types.is_primitive(column.type) and not pa.types.is_duration(column.type):
                found.append(pc.replace_with_mask(column, flags, values))
                continue
            back = np.arange(len(rows))
            back[places] = len(rows) + np.arange(len(places))
            found.append(pa.concat_arrays([column, values]).take(pa.array(back)))
        return found

    def _layered_column(self, number: int) -> pa.Array:
        """A column of all layers, in memory."""
        found = self._layered.get(number)
        if found is None:
            parts = [segment.column(number) for segment in self.segments[1:]]
            found = self._layered[number] = pa.concat_arrays(parts)
        return found

    def _parts(
        self, boundaries: Int64s, values: Int64s
    ) -> list[tuple[Int64s | None, Segment, int]]:
        """Assign values to the segments: (positions or None for all, segment, first row).

        Args:
            boundaries: the first hashes of the base, or the first rows of it and of all layers.
            values: hashes or rows. Those below the first boundary go to the first segment, which
                contains none of them.
        """
        bases = len(self._first_hashes)
        if 0 < bases < len(boundaries):
            above = values >= self._base_rows
            if above.any():  # most rows are of the base: the others alone are sorted
                parts = []
                for places, first, some in (
                    (np.flatnonzero(~above), 0, boundaries[:bases]),
                    (np.flatnonzero(above), bases, boundaries[bases:]),
                ):
                    if len(places):
                        parts += self._sorted(some, values.take(places), places, first)
                return parts
            boundaries = boundaries[:bases]
        return self._sorted(boundaries, values, None, 0)

    def _sorted(
        self, boundaries: Int64s, values: Int64s, places: Int64s | None, first: int
    ) -> list[tuple[Int64s | None, Segment, int]]:
        """The same for segments from one on, of values at some places; None for all."""
        segments = self.segments[first : first + len(boundaries)]
        if len(segments) <= 1:
            return [(places, segment, int(self._first_rows[first])) for segment in segments]
        numbers = np.searchsorted(boundaries[1:], values, side="right")
        if len(segments) <= 256:
            numbers = numbers.astype(np.uint8)  # numpy sorts small integers by radix
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(segments)))
        return [
            (
                part if places is None else places.take(part),
                segments[i],
                int(self._first_rows[first + i]),
            )
            for i, part in enumerate(np.split(order, ends[:-1]))
            if len(part)
        ]


def _values(array: pa.Int64Array) -> Int64s:
    """The values without a copy; arbitrary for null values."""
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]
