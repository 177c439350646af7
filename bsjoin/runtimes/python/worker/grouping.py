"""Groups: the rows of one key, which a range condition searches, in a table or in a cache.

In a stored table the rows of all keys are indexed together. In an incremental cache a group is
one entry. Its rows are sorted by their points, so the group *is* a skip list with deterministic
levels (:class:`bsjoin.index.SkipList`) and is searched in place. Intervals need a tree of their
ends, and texts need ranks: these are built for the groups of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from bsjoin.index import Int64s, OrderedDictionary, SortedRows, expand, row_order
from bsjoin.plan import JoinPlan, RangeOrder, SourceTable
from bsjoin.runtimes.python.worker.row_refs import RowRefs, RowSource
from bsjoin.runtimes.python.worker.table_rows import TableRows
from bsjoin.storage.open_table import OpenTable
from bsjoin.storage.range_index import (
    RangeCodes,
    RangeIndex,
    codes_of,
    index_ranges,
    is_ranked,
    texts_of,
)
from bsjoin.storage.ties import Tie, break_all_ties, places_in_runs


class CacheRows(RowSource, Protocol):
    """A source of an incremental cache's rows: the shared cache, or the result of a query."""

    def codes(self, number: int, count: int) -> Int64s:
        """The first ``count`` values of a column of int64, without a copy."""


@dataclass(frozen=True)
class Groups:
    """Groups in one index, and the probes that search them.

    Args:
        part: int64[m], positions of the probes in the batch; None for all of it.
        index: the rows.
        low: int64[m], first row of each probe's group.
        high: int64[m], one past its last row; equal to ``low`` if there is no group.
        source: the source of the rows; its first columns are the selected ones.
        numbers: returns the numbers in it of given rows of the index.
    """

    part: Int64s | None
    index: RangeIndex
    low: Int64s
    high: Int64s
    source: RowSource
    numbers: Callable[[Int64s], Int64s]


def stored_groups(
    plan: JoinPlan, table: OpenTable, hashes: pa.Array, keys: Sequence[pa.Array]
) -> Iterator[Groups]:
    """The groups of a batch of keys in a stored table, segment by segment."""
    firsts = table.find(hashes, list(keys))
    counts = table.run_lengths(firsts)
    source = TableRows(table, plan)
    predicate = plan.predicate
    boxed = predicate is not None and predicate.box_columns == table.box_columns
    for part, index, first_row in table.groups(firsts):
        if not boxed:  # of another version
            index = replace(index, boxes=None)
        local, many = firsts, counts
        if part is not None:
            local, many = firsts.take(part), counts.take(part)
        low = np.where(many > 0, local - first_row, 0)

        yield Groups(part, index, low, low + many, source, partial(np.add, first_row))


def cached_groups(table: SourceTable, rows: RowRefs[CacheRows]) -> Iterator[Groups]:
    """The groups of a batch of keys, in the cache and in the results of queries.

    Complexity: O(1) a key for points with codes of 64 bits; otherwise O(rows of the groups).
    """
    order = table.order
    assert order is not None
    searched = [len(table.payload) + i for i in range(len(order.stored_types))]
    in_place = order.closed is None and not is_ranked(order.type)
    for number, place in enumerate(rows.places):
        there = rows.counts > 0
        if rows.place is not None:
            there &= rows.place == number
        part = np.flatnonzero(there)
        if not len(part):
            continue
        first, counts = rows.first.take(part), rows.counts.take(part)
        if in_place:
            points = place.codes(searched[0], int((first + counts).max()))
            index = RangeIndex(SortedRows(points, None))
            yield Groups(part, index, first, first + counts, place, lambda rows: rows)
        else:
            yield _indexed(order, place, searched, part, first, counts)


def _indexed(
    order: RangeOrder,
    place: CacheRows,
    searched: Sequence[int],
    part: Int64s,
    first: Int64s,
    counts: Int64s,
) -> Groups:
    """Contiguous groups with an index over them."""
    begins, some, which = np.unique(first, return_index=True, return_inverse=True)
    sizes = counts.take(some)
    _, places = expand(begins, sizes)
    slices = np.cumsum(sizes) - sizes
    columns = place.gather(places, searched)
    in_order = columns.pop().to_numpy() if order.ordered else None
    index = index_ranges(RangeCodes.of(columns), slices, order.closed, in_order)
    low = slices.take(which)
    return Groups(part, index, low, low + counts, place, places.take)


def range_columns(order: RangeOrder, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns to search in the form stored in a cache: codes, or values to be ranked."""
    cast = [column.cast(order.type) for column in columns]
    if is_ranked(order.type):
        return cast
    return [
        pa.array(codes_of(column), pa.int64(), mask=column.is_null().to_numpy(zero_copy_only=False))
        for column in cast
    ]


def grouped(
    whose: Int64s, points: Sequence[pa.Array], rows: Sequence[pa.Array], ties: Sequence[Tie]
) -> tuple[Int64s, Int64s]:
    """Order rows by (key, point).

    ``whose``: the number of each row's key; -1 for a row without a key. The columns ``rows`` order
    those with equal key and point by ``ties``, if there are any.

    Returns:
        int64[n]: the same numbers, -1 also for rows without a point, which match nothing; and
        int64[n]: the order, rows with -1 first.
    """
    first = points[0]
    whose = np.where(first.is_null().to_numpy(zero_copy_only=False), -1, whose)
    codes = (
        OrderedDictionary.build(texts_of(first))[1] if is_ranked(first.type) else codes_of(first)
    )
    order = row_order(whose, codes)
    if ties:
        same = np.zeros(len(order), np.bool_)
        keys, found = whose.take(order), codes.take(order)
        same[1:] = (keys[1:] == keys[:-1]) & (found[1:] == found[:-1]) & (keys[1:] >= 0)
        break_all_ties(order, same, rows.__getitem__, ties)
    return whose, order


def places_of(
    whose: Int64s, order: Int64s, rows: Sequence[pa.Array], ties: Sequence[Tie]
) -> pa.Array:
    """The place of each row among those of its key, in the order of ties.

    ``whose`` and ``order`` are what :func:`grouped` has returned for these rows.
    """
    keys, places = whose.take(order), np.empty(len(order), np.int32)
    first = np.ones(len(order), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    places[order] = places_in_runs(order, first, rows.__getitem__, ties)
    return pa.array(places)
