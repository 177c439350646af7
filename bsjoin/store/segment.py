"""A segment: rows sorted by the hash of their key, and the hash index over them, in two files.

``<name>.rows.arrow``
    An Arrow IPC file with one record batch: the key columns (where a hash does not tell keys
    apart for certain), then the other columns.
``<name>.index.arrow``
    An Arrow IPC file with one row: the arrays of :class:`bsjoin.index.HashIndex` as list
    columns, so that each array is one contiguous piece of the file.

Both are memory-mapped: opening costs no reading, and all workers of a host share the pages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from bsjoin.errors import DamagedTableError
from bsjoin.index import HashIndex
from bsjoin.store.home import Home

__all__ = ["Segment", "SegmentInfo", "checksum", "write_segment"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ROWS, _INDEX = ".rows.arrow", ".index.arrow"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class SegmentInfo:
    """What the manifest says of one segment.

    Args:
        name: path of the two files without their endings, relative to the table's home.
        rows: number of rows.
        keys: number of distinct keys.
        longest_run: the largest number of rows of one key.
        first_hash: hash of the first row; no row of an earlier segment has it.
        sizes: bytes of the rows file and of the index file.
        checksums: xxh3-128 of the two files, in hexadecimal.
    """

    name: str
    rows: int
    keys: int
    longest_run: int
    first_hash: int
    sizes: tuple[int, int]
    checksums: tuple[str, str]

    @property
    def files(self) -> tuple[str, str]:
        """The names of the two files, relative to the table's home."""
        return self.name + _ROWS, self.name + _INDEX

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SegmentInfo:
        """The inverse of :meth:`to_json`."""
        return cls(**{**data, "sizes": tuple(data["sizes"]), "checksums": tuple(data["checksums"])})


def checksum(path: Path) -> str:
    """The xxh3-128 checksum of a file, in hexadecimal; reads at several GB/s."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def write_segment(home: Home, name: str, hashes: Int64s, rows: pa.Table, keys: int) -> SegmentInfo:
    """Write one segment.

    Args:
        home: the table's home.
        name: the segment's name, relative to the home.
        hashes: int64[n] ascending: the hash of each row's key.
        rows: the n rows in the same order; rows with equal keys are neighbours.
        keys: how many of the leading columns of ``rows`` are keys to compare; 0 where equal
            hashes mean equal keys.

    Returns:
        What the manifest has to say of the segment.

    Complexity: O(n) time; about twice the rows' bytes of memory while it writes.
    """
    batch = _one_batch(rows)
    same_key = hashes[1:] == hashes[:-1]
    for column in batch.columns[:keys]:
        if same_key.any():
            same = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
            same_key = same_key & _bools(same)
    index = HashIndex.build(hashes, same_key)
    paths = []
    for ending, content in ((_ROWS, batch), (_INDEX, _index_batch(index))):
        with home.writing(name + ending) as path:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, content.schema) as out:
                out.write_batch(content)
            paths.append((path.stat().st_size, checksum(path)))
    starts = np.flatnonzero(np.concatenate(([True], ~same_key)))
    return SegmentInfo(
        name=name,
        rows=index.rows,
        keys=len(starts),
        longest_run=int(index.run_lengths(starts).max()),
        first_hash=int(hashes[0]),
        sizes=(paths[0][0], paths[1][0]),
        checksums=(paths[0][1], paths[1][1]),
    )


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if rows.num_columns == 0:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise OverflowError(
            f"a segment of {rows.num_rows} rows holds a column of more than 2 GiB of text; "
            "build with a smaller segment_bytes"
        )
    return batches[0]


def _index_batch(index: HashIndex) -> pa.RecordBatch:
    def cell(array: NDArray[Any] | None, value_type: pa.DataType) -> pa.Array:
        values = pa.array([] if array is None else array, value_type)
        return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)

    return pa.record_batch(
        {
            "hashes": cell(index.hashes, pa.int64()),
            "directory": cell(index.directory, pa.int32()),
            "runs": cell(index.runs, pa.int32()),
            "base": pa.array([index.base], pa.uint64()),
            "shift": pa.array([index.shift], pa.int32()),
        }
    )


class Segment:
    """An open segment: memory-mapped columns and their index.

    Args:
        home: the table's home.
        info: what the manifest says of it.
        keys: how many leading columns are keys to compare.
    """

    def __init__(self, home: Home, info: SegmentInfo, keys: int):
        self.info = info
        rows, index = (_map_batch(home, name) for name in info.files)
        self._keys = rows.columns[:keys]
        self._columns = dict(zip(rows.schema.names[keys:], rows.columns[keys:], strict=True))
        self.index = HashIndex(
            hashes=_cell(index, "hashes"),
            directory=_cell(index, "directory"),
            runs=_cell(index, "runs") if index.column("runs")[0].values.__len__() else None,
            base=index.column("base")[0].as_py(),
            shift=index.column("shift")[0].as_py(),
        )

    def find(self, hashes: Int64s, keys: list[pa.Array]) -> Int64s:
        """The first row of each key.

        Args:
            hashes: int64[m].
            keys: the m keys themselves, column by column, to tell equal hashes apart.

        Returns:
            int64[m]: the first row of the key's run, or -1.
        """
        rows = self.index.probe(hashes)
        found = self.index.found(rows, hashes)
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
                again = self.index.found(ahead, hashes.take(doubtful))
                found[doubtful[~again]] = False
                doubtful = doubtful[again]

    def take(self, name: str, rows: Int64s, missing: Bools | None = None) -> pa.Array:
        """Some rows of a column; null where ``missing`` says so."""
        return take(self._columns[name], rows, missing)


def take(column: pa.Array, rows: Int64s, missing: Bools | None = None) -> pa.Array:
    """Gather rows of an Arrow array, after pulling the scattered text into the CPU's cache.

    Arrow copies text row by row, and waits for main memory at each. One vectorised read of
    the first byte of every text overlaps these waits: 1.5 to 3 times as fast on large tables
    (docs/decisions/0003-gather.md).
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


def _map_batch(home: Home, name: str) -> pa.RecordBatch:
    try:
        return pa.ipc.open_file(pa.memory_map(str(home.fetch(name)))).get_batch(0)
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
