"""Ties: rows with the same key and the same point, ordered by their other columns.

As-of takes the first of such rows, and so do conditions that take one of several intervals. Their
order follows the rows' content alone: first the columns of ``order_by``, then all columns of the
table, ascending, as ``ORDER BY`` in Spark orders them, but for texts with a collation, which are
in the order of their bytes. A map, which Spark does not order, is compared as the list of its
entries in the order of their keys. Where rows are still equal, what
Spark takes for equal is told apart: -0.0 comes before 0.0, and maps are compared in the order of
their entries. Rows that remain are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index import GREATEST, codes, row_order
from bsjoin.index.arrays import Bools, Float64s, Int32s, Int64s
from bsjoin.storage.range_index import codes_of, is_ranked
from bsjoin.values.plain import is_any_list
from bsjoin.values.sort_order import SortOrder

Order = Int32s | Int64s


@dataclass(frozen=True)
class Tie:
    """A column that orders rows of the same key, those with the same point or all of them.

    Args:
        number: of the column.
        descending: whether the greatest value comes first.
        nulls_last: whether null comes after all values.
        exact: whether values are told apart that Spark takes for equal.
    """

    number: int
    descending: bool = False
    nulls_last: bool = False
    exact: bool = False


def ties_of(
    order_by: Sequence[str], row: Sequence[str], columns: Sequence[tuple[str, pa.DataType]]
) -> tuple[Tie, ...]:
    """The columns to compare, first to last: those of ``order_by``, then those of the row, if any.

    Of columns with the same name the last one counts.
    """
    if not row:
        return ()
    numbers = {name: number for number, (name, _) in enumerate(columns)}
    orders = map(SortOrder.parse, order_by)
    by = [Tie(numbers[o.column], o.descending, o.nulls_last) for o in orders]
    whole = [numbers[name] for name in row]
    exact = [Tie(number, exact=True) for number in whole if _is_inexact(columns[number][1])]
    return (*by, *map(Tie, whole), *exact)


def break_ties(order: Order, same: Bools, values: pa.Array, tie: Tie) -> None:
    """Order tied rows by one more column, in place.

    Args:
        order: int[n], rows in their order so far.
        same: bool[n], whether each row is tied with the one before it.
        values: the column, by row.
        tie: how it orders them.

    Complexity: O(t log t) for t tied rows.

    >>> order, same = np.array([2, 0, 1]), np.array([False, True, True])
    >>> break_ties(order, same, pa.array(["b", None, "b"]), Tie(0))
    >>> order.tolist(), same.tolist()
    ([1, 2, 0], [False, False, True])
    """
    tied = same.copy()
    tied[:-1] |= same[1:]
    places = np.flatnonzero(tied)
    if not len(places):
        return
    rows, again = order.take(places), same.take(places)
    taken = values.take(pa.array(rows))
    found = _tie_codes(taken, tie)
    if not (again[1:] & (found[1:] != found[:-1])).any():
        return
    sorted_ = row_order(np.cumsum(~again, dtype=np.int64), found)
    found = found.take(sorted_)
    order[places] = rows.take(sorted_)
    again[1:] &= found[1:] == found[:-1]
    same[places] = again


def first_rows(
    order: Int32s,
    same: Bools,
    column: Callable[[int], pa.Array],
    ties: Sequence[Tie],
    some_rows: Sequence[tuple[int, int]],
) -> Int32s:
    """The first row of each run in the order of ties; of equal ones the one that is first in order.

    ``order`` has those of a run together, ``same`` whether each is of the run of the one before it;
    the others are as for :func:`break_all_ties`.

    Complexity: O(n) for each column that decides, beside the codes of tied rows.

    >>> values, same = pa.array([3, 1, 2]), np.array([False, True, False])
    >>> order = np.arange(3, dtype=np.int32)
    >>> first_rows(order, same, lambda _: values, [Tie(0)], [(0, 3)]).tolist()
    [1, 2]
    """
    some = [(order[begin:end], same[begin:end]) for begin, end in some_rows]
    for tie in ties:
        if not any(tied.any() for _, tied in some):
            break
        values = column(tie.number)
        some = [_least_rows(rows, tied, values, tie) for rows, tied in some]
    return np.concatenate([rows[~tied] for rows, tied in some])


def _least_rows(rows: Int32s, same: Bools, values: pa.Array, tie: Tie) -> tuple[Int32s, Bools]:
    """The rows of each run that are the first by one column, and whether they are tied."""
    tied = same.copy()
    tied[:-1] |= same[1:]
    places = np.flatnonzero(tied)
    if not len(places):
        return rows, same
    found = _tie_codes(values.take(pa.array(rows.take(places))), tie)
    starts = np.flatnonzero(~same.take(places))
    least = np.repeat(np.minimum.reduceat(found, starts), np.diff(starts, append=len(places)))
    stays = ~tied
    stays[places] = found == least
    begins = np.flatnonzero(~same)
    runs = np.repeat(begins, np.diff(begins, append=len(rows)))[stays]  # cumsum takes longer
    again = np.zeros(len(runs), np.bool_)
    again[1:] = runs[1:] == runs[:-1]
    return rows[stays], again


def _tie_codes(values: pa.Array, tie: Tie) -> Int64s:
    """Numbers in the order of a tie."""
    found = order_codes(values, tie.exact)
    if tie.descending:
        found = ~found
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False)
        found = np.unique(found, return_inverse=True)[1]
        found[null] = len(values) if tie.nulls_last else -1
    return found


def break_all_ties(
    order: Order,
    same: Bools,
    column: Callable[[int], pa.Array],
    ties: Sequence[Tie],
    some_rows: Sequence[tuple[int, int]] | None = None,
) -> None:
    """Order tied rows by their columns, in place, one column at a time.

    Args:
        order: int[n], rows in their order so far.
        same: bool[n], whether each row is tied with the one before it.
        column: returns a column by its number, by row.
        ties: the columns that decide, first to last.
        some_rows: from where to where rows are ordered at a time, which bounds the memory; those of
            different pieces are not tied. None (default): all together.

    Complexity: O(n log n) for each column that decides.
    """
    for tie in ties:
        if not same.any():
            break
        values = column(tie.number)
        for begin, end in some_rows or [(0, len(order))]:
            break_ties(order[begin:end], same[begin:end], values, tie)


def places_in_runs(
    order: Order,
    first: Bools,
    column: Callable[[int], pa.Array],
    ties: Sequence[Tie],
    some_rows: Sequence[tuple[int, int]] | None = None,
) -> Int32s:
    """The place of each row among those of its run in the order of ties, whatever their points.

    ``order`` has those of a run together, ``first`` whether one begins there; the others are as for
    :func:`break_all_ties`. Rows that are still equal stay as they are.

    Complexity: O(n log n) for each column that decides.

    >>> values = pa.array([3, 1, 2])
    >>> first = np.array([True, False, False])
    >>> places_in_runs(np.array([0, 1, 2]), first, lambda _: values, [Tie(0)]).tolist()
    [2, 0, 1]
    """
    chosen = order.copy()
    break_all_ties(chosen, ~first, column, ties, some_rows)
    begins = np.flatnonzero(first)
    sizes = np.diff(begins, append=len(order))
    places = np.empty(len(order), np.int32)
    places[chosen] = np.arange(len(order)) - np.repeat(begins, sizes)
    return places.take(order)


def _is_inexact(dtype: pa.DataType) -> bool:
    """Whether a type has values that Spark takes for equal, or in any order, and are different."""
    if pa.types.is_floating(dtype) or pa.types.is_map(dtype):
        return True
    return any(_is_inexact(dtype.field(i).type) for i in range(dtype.num_fields))


def order_codes(array: pa.Array, exact: bool) -> Int64s:
    """Numbers in the order of the values, null first, and the same for the same value.

    The array is not a slice; ``exact`` is as for :class:`Tie`.
    """
    found = _of_values(array, exact)
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
        found = _ranks(found) + 1
        found[null] = 0
    return found


def _of_values(array: pa.Array, exact: bool) -> Int64s:
    """The same, arbitrary for null."""
    dtype = array.type
    if pa.types.is_null(dtype):
        return np.zeros(len(array), np.int64)
    if pa.types.is_boolean(dtype):
        return codes_of(array.cast(pa.int8()))
    if pa.types.is_floating(dtype):
        values = np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
        return _total(values) if exact else codes(values)
    if pa.types.is_struct(dtype):
        together = np.zeros(len(array), np.int64)
        for child in array.flatten():
            together = _pairs(together, order_codes(child, exact))
        return together
    if pa.types.is_map(dtype):
        return _of_map(array, exact)
    if is_any_list(dtype):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return _of_lists(lengths, order_codes(array.flatten(), exact))
    if pa.types.is_primitive(dtype) or (pa.types.is_decimal128(dtype) and not is_ranked(dtype)):
        return codes_of(array)
    return _of_texts(array)


def _total(values: Float64s) -> Int64s:
    """Codes in the total order of IEEE 754, with one NaN."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & GREATEST))


def _of_texts(array: pa.Array) -> Int64s:
    """Ranks of texts, binaries, long decimals: what Arrow can sort."""
    encoded = array.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    numbers = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ranks.take(numbers) if len(ranks) else np.zeros(len(array), np.int64)


def _of_map(array: pa.Array, exact: bool) -> Int64s:
    offsets = array.offsets.to_numpy()
    lengths, first, many = np.diff(offsets), int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = _ranks(order_codes(pa.concat_arrays([array.keys.slice(first, many)]), exact))
    items = order_codes(pa.concat_arrays([array.items.slice(first, many)]), exact)
    entries = _pairs(keys, items)
    if not exact:
        entries = entries.take(row_order(np.repeat(np.arange(len(lengths)), lengths), keys))
    return _of_lists(lengths, entries)


def _of_lists(lengths: Int64s, elements: Int64s) -> Int64s:
    """Lists are in the order of their first different elements, a shorter one before a longer."""
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))) * 8
    texts = pa.py_buffer(_ranks(elements).astype(">i8").tobytes())
    buffers = [None, pa.py_buffer(ends.tobytes()), texts]
    return _of_texts(pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers))


def _pairs(first: Int64s, second: Int64s) -> Int64s:
    second = _ranks(second)
    return _ranks(_ranks(first) * (int(second.max(initial=0)) + 1) + second)


def _ranks(values: Int64s) -> Int64s:
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64).reshape(-1)
