"""Writing a segment: rows in any order are sorted by key, indexed, and written column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import (
    HashIndex,
    are_dense,
    dense_order,
    integers_of_hashes,
    row_order,
    with_sentinel,
)
from bsjoin.index.arrays import Bools, Int32s, Int64s
from bsjoin.index.sorted_rows import Closed
from bsjoin.storage.box_file import FEW_ROWS, BoxSide, box_batch, index_boxes
from bsjoin.storage.checksums import checksum
from bsjoin.storage.index_file import index_batch
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.range_index import RangeCodes, index_ranges, run_starts
from bsjoin.storage.segment import bools, keys_and_longest_run
from bsjoin.storage.segment_entries import BoxFile, SegmentInfo, box_file, column_file, index_file
from bsjoin.storage.ties import Tie, break_all_ties, order_codes, places_in_runs

_AT_ONCE = 1 << 20


class Rows(Protocol):
    """The columns of some rows: a ``pyarrow.Table``, or what reads one column at a time."""

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        ...

    def column(self, number: int, /) -> pa.ChunkedArray:
        """A column by its number."""
        ...


@dataclass(frozen=True)
class SegmentForm:
    """What the columns of rows are from which a segment is written, and how it is indexed.

    Args:
        keys: how many leading columns are keys to compare; 0 (default) if equal hashes mean equal
            keys.
        ranged: how many columns after them are range columns; they are indexed, and not stored as
            columns. The rows of each key are sorted by the first of them. Default 0.
        closed: which ends belong to the intervals, for two range columns; default None.
        ties: the columns that order rows with the same key and the same point. Default: none, and
            they stay in the order in which they are, as do the rows of a key without range columns.
        ordered: whether the place of each row among those of its key in the order of ``ties`` is
            stored. Default False.
        unstored: how many columns at the end are there for ``ties`` only; default 0.
        integers: whether the hash is that of one integer and there are no range columns: if the
            integers are dense (:func:`bsjoin.index.are_dense`), the rows are sorted by them.
            Default False.
        boxes: the ranges by which rows are indexed together, first that of ``ranged``, whose
            columns are followed by those of the others; default: none. They are indexed if a key
            has more than 64 rows.
    """

    keys: int = 0
    ranged: int = 0
    closed: Closed | None = None
    ties: tuple[Tie, ...] = ()
    ordered: bool = False
    unstored: int = 0
    integers: bool = False
    boxes: tuple[BoxSide, ...] = ()

    @property
    def sides(self) -> int:
        """How many columns after the keys are of ranges."""
        return sum(side.columns for side in self.boxes) or self.ranged


def write_segment(
    location: StorageLocation, name: str, hashes: Int64s, rows: Rows, form: SegmentForm
) -> SegmentInfo:
    """Write one segment; what the manifest has of it.

    The rows, at least one, may be in any order; ``hashes`` are those of their keys.

    Raises:
        OverflowError: a column has more than 2 GiB of text.

    Complexity: O(n log n) time. Memory: a column twice, and 4 bytes a row; before that the index,
        and 4 to 12 bytes a row, with ``ordered`` 40 more; the keys to be compared all at once.
    """
    keys, ties = form.keys, form.ties
    stored = range(keys + form.sides, rows.num_columns - form.unstored)
    first_hash = int(hashes.min())
    compared: list[pa.Array] = []
    ranges = None
    first_key = None
    numbers = integers_of_hashes(hashes) if form.integers else None
    # What is large is forgotten as soon as it is not needed.
    if numbers is not None and are_dense(numbers):
        del hashes
        order = dense_order(numbers)
        in_order = with_sentinel(numbers, order)
        del numbers
        first_key = int(in_order[0])
        index = HashIndex.build(in_order, has_sentinel=True, dense=True)
    else:
        del numbers
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        in_order = with_sentinel(hashes, order)
        hashes = in_order[:-1]
        compared = [taken(rows, number, order) for number in range(keys)]
        same_key = _same_key(hashes, compared)
        collided = hashes[1:][(hashes[1:] == hashes[:-1]) & ~same_key]
        if len(collided):
            _bring_together(order, hashes, compared, collided)
            compared = [taken(rows, number, order) for number in range(keys)]
            same_key = _same_key(hashes, compared)
        index = HashIndex.build(in_order, same_key, has_sentinel=True)
        del hashes, same_key
    del in_order
    if form.ranged:
        columns = [one_column(rows, keys + number) for number in range(form.ranged)]
        codes = RangeCodes.of(columns)
        del columns
        starts = run_starts(index)
        _sort_runs(order, starts, codes.columns[0], rows, ties)
        places = None
        if form.ordered:
            first = np.zeros(len(order), np.bool_)
            first[starts] = True
            some = pieces(starts, len(order))
            places = places_in_runs(order, first, partial(one_column, rows), ties, some)
        ranges = index_ranges(codes.take(order), starts, form.closed, places)
        del codes, places
    count = index.rows
    distinct, longest = keys_and_longest_run(index)
    boxed = None
    if form.boxes and longest > FEW_ROWS:
        columns = [one_column(rows, keys + number) for number in range(form.sides)]
        found, shares = index_boxes(form.boxes, columns, order, starts)
        boxed = BoxFile(*write_batch(location, box_file(name), box_batch(found)), shares)
        del columns, found
    files = [write_batch(location, index_file(name), index_batch(index, ranges))]
    del index, ranges

    def write(column: pa.Array) -> None:
        batch = pa.RecordBatch.from_arrays([column], ["column"])
        files.append(write_batch(location, column_file(name, len(files) - 1), batch))

    while compared:
        write(compared.pop(0))
    for number in stored:
        write(taken(rows, number, order))
    sizes, checksums = zip(*files, strict=True)
    return SegmentInfo(
        name=name,
        rows=count,
        keys=distinct,
        longest_run=longest,
        first_hash=first_hash,
        sizes=sizes,
        checksums=checksums,
        first_key=first_key,
        boxes=boxed,
    )


def taken(rows: Rows, number: int, order: Int32s | Int64s) -> pa.Array:
    """A column of some rows in another order.

    Raises:
        OverflowError: it has more than 2 GiB of text.
    """
    return one_column(rows, number).take(pa.array(order))


def one_column(rows: Rows, number: int) -> pa.Array:
    """A column by its number, in one piece.

    Raises:
        OverflowError: it has more than 2 GiB of text.
    """
    column = rows.column(number)
    try:
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    except pa.ArrowInvalid as error:
        raise OverflowError(
            f"a segment would contain a column of more than 2 GiB of text ({error}); build with a "
            "smaller segment_bytes"
        ) from error


def _same_key(hashes: Int64s, keys: Sequence[pa.Array]) -> Bools:
    """Whether each row but the first has the key of the row before."""
    same_key: Bools = hashes[1:] == hashes[:-1]
    for key in keys:
        if same_key.any():
            same_key = same_key & bools(pc.equal(key.slice(1), key.slice(0, len(key) - 1)))
    return same_key


def _bring_together(
    order: Int32s, hashes: Int64s, keys: Sequence[pa.Array], collided: Int64s
) -> None:
    """Make rows of one key neighbours, in place, where different keys have the same hash."""
    places = np.flatnonzero(np.isin(hashes, collided))
    some = pa.array(places)
    ranks = [order_codes(key.take(some), exact=False) for key in reversed(keys)]
    order[places] = order[places].take(np.lexsort((*ranks, hashes.take(places))))


def _sort_runs(
    order: Int32s, starts: Int64s, points: Int64s, rows: Rows, ties: Sequence[Tie]
) -> None:
    """Sort the rows of each key by their point, in place; some keys at a time.

    ``order`` has the rows in the order of their keys, ``starts`` where each key begins in it.
    ``ties`` are the columns that order rows with the same key and point.
    """
    n = len(order)
    some_keys = pieces(starts, n)
    same = np.zeros(n if ties else 0, np.bool_)
    for begin, end in some_keys:
        some = order[begin:end].copy()
        low, high = np.searchsorted(starts, (begin, end))
        runs = np.zeros(end - begin, np.int64)
        runs[starts[low:high] - begin] = 1
        order[begin:end] = some.take(row_order(np.cumsum(runs), points.take(some)))
        if ties:
            sorted_ = points.take(order[begin:end])
            same[begin + 1 : end] = (sorted_[1:] == sorted_[:-1]) & (runs[1:] == 0)
    break_all_ties(order, same, partial(one_column, rows), ties, some_keys)


def pieces(starts: Int64s, n: int) -> list[tuple[int, int]]:
    """Neighbouring rows, some at a time: from where to where.

    A piece begins at one of ``starts``, which are ascending, the first one 0.
    """
    after = np.searchsorted(starts, np.arange(_AT_ONCE, n, _AT_ONCE))
    bounds = np.unique([0, *starts[after[after < len(starts)]], n])
    return list(pairwise(bounds.tolist()))


def write_batch(location: StorageLocation, name: str, batch: pa.RecordBatch) -> tuple[int, str]:
    """Write an Arrow file of one batch; return its size and checksum."""
    with location.writing(name) as path:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as out:
            out.write_batch(batch)
        with path.open("rb") as file:
            return path.stat().st_size, checksum(file)
