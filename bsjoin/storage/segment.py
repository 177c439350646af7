"""A segment: rows sorted by the hash of their key, or by the key, and the index over them.

``<name>.index.arrow``
    An Arrow IPC file with one row: the arrays of :class:`bsjoin.index.HashIndex` as list
    columns, so that each array is one contiguous piece of the file; in a table for range joins
    those of its range index too (:mod:`bsjoin.storage.range_index`).
``<name>.boxes.arrow``
    The rows by several ranges at once (:mod:`bsjoin.storage.box_file`), if the table is built for
    them and a key has many rows.
``<name>.<i>.arrow``
    An Arrow IPC file with one column in one batch, for each column of the table: first the
    keys (if equal hashes do not imply equal keys), then the others.

All files are memory-mapped and validated when they are first used: the index completely, columns
by their offsets (docs/decisions/0012-validation.md). All workers of a host share the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import AggregateTree, BoxIndex, HashIndex, hashes_of_integers, integers_of_hashes
from bsjoin.index.arrays import Bools, Int32s, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.storage.aggregates import tree_of
from bsjoin.storage.box_file import boxes_of, check_box_schema
from bsjoin.storage.index_file import check_index_schema, index_of
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.mapped import map_batch, map_column, sound
from bsjoin.storage.segment_entries import SegmentInfo


def keys_and_longest_run(index: HashIndex) -> tuple[int, int]:
    """The number of distinct keys, and the largest number of rows of one.

    Complexity: O(n) time, O(1) memory.
    """
    if index.runs is None:
        return index.rows, 1
    # A run counts down to 1 at its last row.
    keys = sum(int((index.runs[begin:end] == 1).sum()) for begin, end in chunks(index.rows))
    return keys, int(index.runs.max())


class Segment:
    """An open segment: its index and memory-mapped columns, validated.

    Args:
        location: the table's location.
        info: its metadata from the manifest.
        compared: how many leading columns are keys to compare; None (default) for a segment in
            which no key is looked up.
        schema: the table's columns, to be checked; None (default): the files' own schemas.

    Raises:
        DamagedTableError: the index or a compared key column is invalid.
    """

    def __init__(
        self,
        location: StorageLocation,
        info: SegmentInfo,
        compared: int | None = None,
        schema: pa.Schema | None = None,
    ):
        self.info = info
        self._location = location
        self._schema = schema
        self._columns: dict[int, pa.Array] = {}
        self._trees: dict[int, AggregateTree] = {}
        file = info.file(0)
        arrays = map_batch(location, file, check_index_schema)
        with sound(location, file.name):
            self.index, self.ranges = index_of(arrays, dense=info.first_key is not None)
            self._validate()
        if info.boxes is not None and self.ranges is not None:
            self.ranges = replace(self.ranges, boxes=self._boxes(len(info.boxes.shares)))
        self._keys = [self.column(number) for number in range(compared or 0)]
        if compared is not None:
            with sound(location, file.name):
                self._validate_keys()

    def _validate(self) -> None:
        index, info = self.index, self.info
        index.validate()
        if info.first_key is not None and self.ranges is not None:
            raise ValueError("it has range columns, and the manifest has a first_key")
        keys, longest = keys_and_longest_run(index)
        name, first = ("first_hash", info.first_hash)
        if info.first_key is not None:
            name, first = ("first_key", info.first_key)
        found = (index.rows, keys, longest, int(index.hashes[0]))
        wanted = (info.rows, info.keys, info.longest_run, first)
        if found != wanted:
            raise ValueError(
                f"it has {found} as rows, keys, longest_run and {name}, and the manifest has "
                f"{wanted}"
            )
        if self.ranges is not None:
            self.ranges.validate(self._runs)

    @cached_property
    def last_hash(self) -> int:
        """The greatest hash of a row; by it, and the least one, a key's segment is chosen.

        Where rows are sorted by their keys it takes a pass over them, which a table of one segment
        can do without.

        Raises:
            DamagedTableError: the least one is not that of the manifest.
        """
        hashes = self.index.hashes
        if not self.index.dense:
            return int(hashes[-2])
        found = hashes_of_integers(hashes[:-1])
        least = int(found.min())
        with sound(self._location, self.info.files[0]):
            if least != self.info.first_hash:
                raise ValueError(
                    f"its first_hash is {least}, and the manifest has {self.info.first_hash}"
                )
        return int(found.max())

    def _boxes(self, dimensions: int) -> BoxIndex:
        """The rows by several ranges at once, checked."""
        file = self.info.box_file
        assert file is not None
        batch = map_batch(self._location, file, check_box_schema)
        with sound(self._location, file.name):
            boxes = boxes_of(batch, dimensions)
            boxes.validate(self._runs)
        return boxes

    @property
    def _runs(self) -> Int32s:
        """How many rows of its key there are from each row on; without lengths each is a run."""
        runs = self.index.runs
        return np.broadcast_to(np.int32(1), self.index.rows) if runs is None else runs

    def _validate_keys(self) -> None:
        """Check that the rows of a run, and no others, have one key: else rows would be lost."""
        hashes, runs = self.index.hashes, self.index.runs
        if any(key.null_count for key in self._keys):
            raise ValueError("a key is null")
        apart: list[Int64s] = []
        for begin, end in chunks(self.index.rows - 1):
            same_key = hashes[begin:end] == hashes[begin + 1 : end + 1]
            same_hash = same_key
            for key in self._keys if same_hash.any() else ():
                pair = key.slice(begin, end - begin), key.slice(begin + 1, end - begin)
                same_key = same_key & bools(pc.equal(*pair))
            one_run = np.zeros(end - begin, np.bool_) if runs is None else runs[begin:end] != 1
            refuse(same_key & ~one_run, begin, "the run of a key ends too early at row")
            refuse(one_run & ~same_key, begin, "the run has rows of another key behind row")
            apart.append(np.flatnonzero(same_hash & ~same_key) + (begin + 1))
        behind = np.concatenate(apart) if apart else np.zeros(0, np.int64)
        if behind.size:
            # Different keys with the same hash: the rows of each must be contiguous.
            firsts = np.searchsorted(hashes, np.unique(hashes.take(behind)))
            rows = np.concatenate([firsts, behind])
            columns = [hashes.take(rows), *(key.take(pa.array(rows)) for key in self._keys)]
            keys = pa.table(columns, [str(number) for number in range(len(columns))])
            if keys.group_by(keys.column_names).aggregate([]).num_rows < len(rows):
                raise ValueError("rows of one key are apart")

    def column(self, number: int) -> pa.Array:
        """A memory-mapped column by its position.

        Raises:
            DamagedTableError: the file is missing or invalid.
        """
        column = self._columns.get(number)
        if column is None:
            field = None if self._schema is None else self._schema.field(number)
            file = self.info.file(1 + number)
            column = map_column(self._location, file, self.info.rows, field)
            self._columns[number] = column
        return column

    def tree(self, number: int) -> AggregateTree:
        """What aggregates a column, by its position; in memory, made when it is first used."""
        tree = self._trees.get(number)
        if tree is None:
            tree = self._trees[number] = tree_of(self.column(number))
        return tree

    def find(self, hashes: Int64s, keys: list[pa.Array]) -> Int64s:
        """The first row of each key.

        Args:
            hashes: int64[m].
            keys: the m keys, one array per column, to compare keys with equal hashes.

        Returns:
            int64[m]: the first row of the key's run, or -1.

        Complexity: O(m) expected.
        """
        return find_keys(self.index, self._keys, hashes, keys)

    def take(self, number: int, rows: Int64s, missing: Bools | None = None) -> pa.Array:
        """The values of the column ``number`` at ``rows``; null where ``missing`` is True."""
        return take(self.column(number), rows, missing)


def find_keys(
    index: HashIndex, stored: Sequence[pa.Array], hashes: Int64s, keys: Sequence[pa.Array]
) -> Int64s:
    """The first row of each key in an index.

    Args:
        index: of the rows.
        stored: their keys, one array per column; empty where equal hashes mean equal keys.
        hashes: int64[m].
        keys: the m keys, in the same columns.

    Returns:
        int64[m]: the first row of the key's run, or -1.

    Complexity: O(m) expected.
    """
    rows, found = index.probe(integers_of_hashes(hashes) if index.dense else hashes)
    if stored:
        _compare(index, stored, rows, found, hashes, keys)
    rows[~found] = -1
    return rows


def _compare(
    index: HashIndex,
    stored: Sequence[pa.Array],
    rows: Int64s,
    found: Bools,
    hashes: Int64s,
    keys: Sequence[pa.Array],
) -> None:
    """Skip, in place, the rows with the same hash and a different key."""
    doubtful = np.flatnonzero(found)
    while doubtful.size:
        at = rows.take(doubtful)
        equal = np.ones(doubtful.size, np.bool_)
        probes = pa.array(doubtful)
        all_of_them = doubtful.size == len(hashes)
        for there, wanted in zip(stored, keys, strict=True):
            probe = wanted if all_of_them else wanted.take(probes)
            equal &= bools(pc.equal(take(there, at), probe))
        doubtful = doubtful[~equal]
        if doubtful.size:
            ahead = index.next_run(rows.take(doubtful))
            rows[doubtful] = ahead
            again = index.has(ahead, hashes.take(doubtful))
            found[doubtful[~again]] = False
            doubtful = doubtful[again]


def take(column: pa.Array, rows: Int64s, missing: Bools | None = None) -> pa.Array:
    """Gather rows of an Arrow array, with a software prefetch of scattered text.

    Arrow copies text row by row and has a cache miss at each row. A vectorised read of the first
    byte of every text overlaps these cache misses: 1.5 to 3 times as fast on large tables
    (docs/decisions/0003-index.md).
    """
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        _touch(column, rows)
    return column.take(pa.array(rows, mask=missing))


def _touch(column: pa.Array, rows: Int64s) -> None:
    _, offsets, data = column.buffers()
    if data is None or not data.size:
        return
    starts = np.frombuffer(offsets, np.int32, column.offset + len(column))[column.offset :].take(
        rows
    )
    np.frombuffer(data, np.uint8).take(starts, mode="clip")


def bools(array: pa.Array) -> Bools:
    """An Arrow array without nulls as a NumPy one."""
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
