"""A segment: rows sorted by the hash of their key, and the hash index over them.

``<name>.index.arrow``
    An Arrow IPC file with one row: the arrays of :class:`bsjoin.index.HashIndex` as list
    columns, so that each array is one contiguous piece of the file; in a table for range joins
    those of its range index too (:mod:`bsjoin.store.ranged`).
``<name>.<i>.arrow``
    An Arrow IPC file with one column in one batch, for each column of the table: first the
    keys (where a hash does not tell keys apart for certain), then the others.

All are memory-mapped when they are first used: opening costs no reading, and all workers of a
host share the pages. A column to a file keeps the memory that merging needs to one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.errors import DamagedTableError
from bsjoin.index import HashIndex
from bsjoin.index.sorted_rows import Closed
from bsjoin.store.checksums import checksum
from bsjoin.store.home import Home
from bsjoin.store.ranged import (
    RANGE_CELLS,
    RangeIndex,
    concat,
    index_ranges,
    run_starts,
)

__all__ = ["Segment", "SegmentInfo", "merge_segments", "write_segment"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SegmentInfo:
    """What the manifest says of one segment.

    Args:
        name: path of the files without their endings, relative to the table's home.
        rows: number of rows.
        keys: number of distinct keys.
        longest_run: the largest number of rows of one key.
        first_hash: hash of the first row; no row of an earlier segment has it.
        sizes: bytes of the files: the index, then each column.
        checksums: xxh3-128 of the files, in hexadecimal.
    """

    name: str
    rows: int
    keys: int
    longest_run: int
    first_hash: int
    sizes: tuple[int, ...]
    checksums: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, relative to the table's home."""
        columns = range(len(self.sizes) - 1)
        return (_index_file(self.name), *(_column_file(self.name, i) for i in columns))

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.sizes)

    def remove(self, home: Home) -> None:
        """Remove the files."""
        for file in self.files:
            home.remove(file)

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SegmentInfo:
        """The inverse of :meth:`to_json`."""
        return cls(**{**data, "sizes": tuple(data["sizes"]), "checksums": tuple(data["checksums"])})


def _index_file(name: str) -> str:
    return f"{name}.index.arrow"


def _column_file(name: str, number: int) -> str:
    return f"{name}.{number}.arrow"


def write_segment(
    home: Home,
    name: str,
    hashes: Int64s,
    rows: pa.Table,
    keys: int,
    ranged: int = 0,
    closed: Closed | None = None,
) -> SegmentInfo:
    """Write one segment.

    Args:
        home: the table's home.
        name: the segment's name, relative to the home.
        hashes: int64[n] ascending: the hash of each row's key.
        rows: the n rows in the same order; rows with equal keys are neighbours.
        keys: how many of the leading columns of ``rows`` are keys to compare; 0 where equal
            hashes mean equal keys.
        ranged: how many columns after them are range columns, by which the rows of each key
            are sorted; they are indexed, and not stored as columns.
        closed: which ends belong to the intervals, if there are two range columns.

    Returns:
        What the manifest has to say of the segment.

    Complexity: O(n) time; about twice the rows' bytes of memory while it writes.
    """
    columns = [_one_array(column.chunks, column.type) for column in rows.columns]
    same_key = hashes[1:] == hashes[:-1]
    for column in columns[:keys]:
        if same_key.any():
            same = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
            same_key = same_key & _bools(same)
    index, ranges = HashIndex.build(hashes, same_key), None
    if ranged:
        ranges = index_ranges(columns[keys : keys + ranged], run_starts(index), closed)
        del columns[keys : keys + ranged]
    return _write(home, name, index, ranges, iter(columns))


def merge_segments(home: Home, name: str, parts: Sequence[SegmentInfo]) -> SegmentInfo:
    """Merge neighbouring segments into one, a column at a time; the parts stay.

    Args:
        home: the table's home.
        name: name of the new segment.
        parts: the segments in the order of their hashes; no key is in two of them.

    Complexity: O(rows) time; the memory of the index, then of one column after the other.
    """
    opened = [Segment(home, part, 0) for part in parts]
    index = HashIndex.concat([segment.index for segment in opened])
    parts_ranges = [segment.ranges for segment in opened if segment.ranges is not None]
    ranges = concat(parts_ranges, run_starts(index)) if parts_ranges else None
    columns = (
        _one_array([segment.column(number) for segment in opened], None)
        for number in range(len(parts[0].sizes) - 1)
    )
    merged = _write(home, name, index, ranges, columns)
    for file in (file for part in parts for file in part.files):
        home.remove_copy(file)
    return merged


def _write(
    home: Home,
    name: str,
    index: HashIndex,
    ranges: RangeIndex | None,
    columns: Iterator[pa.Array],
) -> SegmentInfo:
    """Write the index, then one column after the other."""
    files = [_write_batch(home, _index_file(name), _index_batch(index, ranges))]
    for number, column in enumerate(columns):
        batch = pa.RecordBatch.from_arrays([column], ["column"])
        files.append(_write_batch(home, _column_file(name, number), batch))
    keys, longest = index.rows, 1
    if index.runs is not None:
        # A run counts down to 1 at its last row.
        keys, longest = int((index.runs == 1).sum()), int(index.runs.max())
    return SegmentInfo(
        name=name,
        rows=index.rows,
        keys=keys,
        longest_run=longest,
        first_hash=int(index.hashes[0]),
        sizes=tuple(size for size, _ in files),
        checksums=tuple(sum_ for _, sum_ in files),
    )


def _write_batch(home: Home, name: str, batch: pa.RecordBatch) -> tuple[int, str]:
    """Write a file; its size and checksum."""
    with home.writing(name) as path:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as out:
            out.write_batch(batch)
        with path.open("rb") as file:
            return path.stat().st_size, checksum(file)


def _one_array(chunks: list[pa.Array], dtype: pa.DataType | None) -> pa.Array:
    try:
        return pa.concat_arrays(chunks) if chunks else pa.array([], dtype)
    except pa.ArrowInvalid as error:
        raise OverflowError(
            f"a segment would hold a column of more than 2 GiB of text ({error}); build with a "
            "smaller segment_bytes"
        ) from error


def _index_batch(index: HashIndex, ranges: RangeIndex | None) -> pa.RecordBatch:
    def cell(array: NDArray[Any] | None, value_type: pa.DataType) -> pa.Array:
        values = pa.array([] if array is None else array, value_type)
        return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)

    columns = {
        "hashes": cell(index.hashes, pa.int64()),
        "directory": cell(index.directory, pa.int32()),
        "runs": cell(index.runs, pa.int32()),
        "base": pa.array([index.base], pa.uint64()),
        "shift": pa.array([index.shift], pa.int32()),
    }
    if ranges is not None:
        columns |= {name: cell(*array) for name, array in ranges.cells().items()}
        columns["closed"] = pa.array([ranges.closed], pa.string())
    return pa.record_batch(columns)


class Segment:
    """An open segment: memory-mapped columns and their index.

    Args:
        home: the table's home.
        info: what the manifest says of it.
        compared: how many leading columns are keys to compare.
    """

    def __init__(self, home: Home, info: SegmentInfo, compared: int):
        self.info = info
        self._home = home
        self._columns: dict[int, pa.Array] = {}
        self._keys = [self.column(number) for number in range(compared)]
        arrays = _map_batch(home, info, 0)
        runs = _cell(arrays, "runs")
        self.index = HashIndex(
            hashes=_cell(arrays, "hashes"),
            directory=_cell(arrays, "directory"),
            runs=runs if len(runs) else None,
            base=arrays.column("base")[0].as_py(),
            shift=arrays.column("shift")[0].as_py(),
        )
        self.ranges: RangeIndex | None = None
        if "closed" in arrays.schema.names:
            names = [name for name in RANGE_CELLS if name in arrays.schema.names]
            self.ranges = RangeIndex.of_cells(
                {name: _cell(arrays, name) for name in names}, arrays.column("closed")[0].as_py()
            )

    def column(self, number: int) -> pa.Array:
        """A column by its position, memory-mapped."""
        column = self._columns.get(number)
        if column is None:
            batch = _map_batch(self._home, self.info, 1 + number)
            column = self._columns[number] = batch.column(0)
        return column

    def find(self, hashes: Int64s, keys: list[pa.Array]) -> Int64s:
        """The first row of each key.

        Args:
            hashes: int64[m].
            keys: the m keys themselves, column by column, to tell equal hashes apart.

        Returns:
            int64[m]: the first row of the key's run, or -1.
        """
        rows, found = self.index.probe(hashes)
        if self._keys:
            self._compare(rows, found, hashes, keys)
        rows[~found] = -1
        return rows

    def _compare(self, rows: Int64s, found: Bools, hashes: Int64s, keys: list[pa.Array]) -> None:
        """Step over the rows whose hash is right and whose key is not, in place."""
        doubtful = np.flatnonzero(found)
        while doubtful.size:
            at = rows.take(doubtful)
            equal = np.ones(doubtful.size, np.bool_)
            probes = pa.array(doubtful)
            all_of_them = doubtful.size == len(hashes)
            for stored, wanted in zip(self._keys, keys, strict=True):
                probe = wanted if all_of_them else wanted.take(probes)
                equal &= _bools(pc.equal(take(stored, at), probe))
            doubtful = doubtful[~equal]
            if doubtful.size:
                ahead = self.index.next_run(rows.take(doubtful))
                rows[doubtful] = ahead
                again = self.index.has(ahead, hashes.take(doubtful))
                found[doubtful[~again]] = False
                doubtful = doubtful[again]

    def take(self, number: int, rows: Int64s, missing: Bools | None = None) -> pa.Array:
        """Some rows of a column; null where ``missing`` says so."""
        return take(self.column(number), rows, missing)


def take(column: pa.Array, rows: Int64s, missing: Bools | None = None) -> pa.Array:
    """Gather rows of an Arrow array, after pulling the scattered text into the CPU's cache.

    Arrow copies text row by row, and waits for main memory at each. One vectorised read of
    the first byte of every text overlaps these waits: 1.5 to 3 times as fast on large tables
    (docs/decisions/0003-index.md).
    """
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        _touch(column, rows)
    return column.take(pa.array(rows, mask=missing))


def _touch(column: pa.Array, rows: Int64s) -> None:
    _, offsets, data = column.buffers()
    if data is None or not data.size:
        return
    starts = np.frombuffer(offsets, np.int32)[column.offset :].take(rows)
    np.frombuffer(data, np.uint8).take(starts, mode="clip")


def _bools(array: pa.Array) -> Bools:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _cell(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.asarray(batch.column(name)[0].values.to_numpy())


def _map_batch(home: Home, info: SegmentInfo, number: int) -> pa.RecordBatch:
    """Map a file of a segment, by its place among the segment's files."""
    name = info.files[number]
    try:
        mapped = home.map(name, info.sizes[number], info.checksums[number])
        return pa.ipc.open_file(mapped).get_batch(0)
    except FileNotFoundError:
        raise DamagedTableError(
            f"the file {name!r} of the table in {str(home)!r} is missing; "
            "was the version vacuumed while it was in use? Build the table again"
        ) from None
    except pa.ArrowInvalid as error:
        raise DamagedTableError(
            f"the file {name!r} of the table in {str(home)!r} is damaged ({error}); "
            "build the table again"
        ) from error
