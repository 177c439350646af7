"""Aggregates of the rows that match each row of the stream, without making them.

The rows of a key are in the order of their points, so those in a band are a run, and a tree of the
aggregated column answers it (:class:`bsjoin.index.AggregateTree`). A stored table has a tree for
each column of a segment, for as long as that is open; of a cache some are made of the rows that a
batch needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import Bools, Int64s, Part, expand, floats
from bsjoin.plan import Aggregate, JoinPlan
from bsjoin.runtimes.python.worker.grouping import Groups
from bsjoin.runtimes.python.worker.table_rows import TableRows
from bsjoin.storage.aggregates import tree_of

Parts = dict[Part, NDArray[Any]]

_GATHERED = 1 << 20
"""So many rows of a cache are gathered together, and the rest of the last key."""


class Aggregates:
    """The aggregates for each row of a piece of the stream, group by group."""

    def __init__(self, plan: JoinPlan, many: int):
        self._plan = plan
        self.matched = np.zeros(many, np.bool_)
        """bool[many]: which of them have a match."""
        self._parts: list[Int64s] = []
        self._found: list[list[pa.Array]] = []

    def add(self, group: Groups, firsts: Int64s, stops: Int64s) -> None:
        """The rows of a group that match each of its probes: the first, and one past the last."""
        part = np.arange(len(self.matched)) if group.part is None else group.part
        some = firsts < stops
        if not some.all():
            part, firsts, stops = part[some], firsts[some], stops[some]
            group = replace(group, low=group.low[some], high=group.high[some])
        if not len(part):
            return
        self.matched[part] = True
        self._parts.append(part)
        self._found.append(_aggregated(self._plan, group, firsts, stops))

    def columns(self) -> list[pa.Array]:
        """An array for each aggregate: of a row without a match null, and 0 for a count."""
        rest = np.flatnonzero(~self.matched)
        pieces = [*self._found, _of_nothing(self._plan, len(rest))]
        back = np.empty(len(self.matched), np.int64)
        back[np.concatenate([*self._parts, rest])] = np.arange(len(back))
        rows = pa.array(back)
        return [pa.concat_arrays(piece).take(rows) for piece in zip(*pieces, strict=True)]


def _aggregated(plan: JoinPlan, group: Groups, firsts: Int64s, stops: Int64s) -> list[pa.Array]:
    """The aggregates of a join over the rows of a group that match each probe.

    Its matches are the rows of the index from ``firsts``, int64[m], to one before ``stops``. There
    is an array of m for each aggregate: null where there is no value, and 0 for a count.
    """
    counts, known = stops - firsts, dict[int, Parts]()
    found = []
    for one in plan.aggregates:
        if one.column is None:
            found.append(pa.array(counts))
            continue
        if one.column not in known:
            parts = _parts_of(plan, one.column)
            known[one.column] = _parts(group, one.column, parts, firsts, stops)
        found.append(_result(one, known[one.column]))
    return found


def _of_nothing(plan: JoinPlan, many: int) -> list[pa.Array]:
    zeros = pa.array(np.zeros(many, np.int64))
    return [
        zeros if one.function == "count" else pa.nulls(many, one.type) for one in plan.aggregates
    ]


def _parts_of(plan: JoinPlan, column: int) -> list[Part]:
    """What the aggregates of a column need."""
    dtype = plan.types[column]
    sums: list[Part] = ["high", "low"]
    if pa.types.is_floating(dtype):
        sums = ["total"]
    elif pa.types.is_integer(dtype) and dtype.bit_width <= 32:
        sums = ["whole"]
    parts: dict[Part, None] = {"count": None}
    for one in plan.aggregates:
        if one.column != column:
            continue
        if one.function in ("sum", "avg"):
            parts |= dict.fromkeys(sums)
        elif one.function != "count":
            parts["least" if one.function == "min" else "greatest"] = None
    return list(parts)


def _parts(
    group: Groups, column: int, parts: Sequence[Part], firsts: Int64s, stops: Int64s
) -> Parts:
    source = group.source
    if not isinstance(source, TableRows):
        return _cached_parts(group, column, parts, firsts, stops)
    tree = source.tree(column, int(group.numbers(np.zeros(1, np.int64))[0]))
    if tree is None:  # the column was added later
        return {"count": np.zeros(len(firsts), np.int64)}
    return tree.of(parts, firsts, stops)


def _cached_parts(
    group: Groups, column: int, parts: Sequence[Part], firsts: Int64s, stops: Int64s
) -> Parts:
    """The same of a cache: of each key the rows between its probes' first and last ones, once.

    Some keys are gathered together, one behind the other, so that memory has few of all rows.
    """
    _, key = np.unique(group.low, return_inverse=True)
    order = np.argsort(key, kind="stable")
    bounds = np.append(np.flatnonzero(np.diff(key[order], prepend=-1)), len(order))
    begins = np.minimum.reduceat(firsts[order], bounds[:-1])
    sizes = np.maximum.reduceat(stops[order], bounds[:-1]) - begins
    before = np.cumsum(sizes) - sizes
    cuts = np.append(np.flatnonzero(np.diff(before // _GATHERED, prepend=-1)), len(sizes))
    pieces = []
    for one, end in pairwise(cuts):
        probes = order[bounds[one] : bounds[end]]
        _, rows = expand(begins[one:end], sizes[one:end])
        (values,) = group.source.gather(group.numbers(rows), [column])
        moved = (before - before[one] - begins).take(key[probes])
        pieces.append(tree_of(values).of(parts, firsts[probes] + moved, stops[probes] + moved))
    back = np.argsort(order)
    return {part: np.concatenate([piece[part] for piece in pieces])[back] for part in parts}


def _result(one: Aggregate, parts: Parts) -> pa.Array:
    counts = parts["count"]
    if one.function == "count":
        return pa.array(counts)
    if len(parts) == 1:
        return pa.nulls(len(counts), one.type)
    there = counts > 0
    if one.function in ("min", "max"):
        return _typed(parts["least" if one.function == "min" else "greatest"], there, one.type)
    if "total" in parts:
        totals = parts["total"]
    elif pa.types.is_decimal(one.type):
        return _decimals(one, parts, there)
    elif one.function == "sum":
        return _whole(one, parts, there)
    else:
        high, low = _carried(parts)
        totals = high.astype(np.float64) * 2.0**32 + low
    if one.function == "avg":
        totals = totals / np.maximum(counts, 1)
    return pa.array(totals, one.type, mask=~there)


def _carried(parts: Parts) -> tuple[Int64s, Int64s]:
    """The sum without its lowest 32 bits, and these."""
    if "whole" in parts:
        return parts["whole"] >> 32, parts["whole"] & 0xFFFFFFFF
    return parts["high"] + (parts["low"] >> 32), parts["low"] & 0xFFFFFFFF


def _whole(one: Aggregate, parts: Parts, there: Bools) -> pa.Array:
    high, low = _carried(parts)
    if not one.wraps and (high != high.astype(np.int32)).any():
        raise OverflowError(
            "[ARITHMETIC_OVERFLOW] long overflow. A sum of integers needs more than 64 bits: cast "
            "the table's column to double or to decimal(18,0), or set spark.sql.ansi.enabled to "
            "false to let the sum wrap around, as Spark's does"
        )
    return pa.array((high << 32) | low, one.type, mask=~there)


def _decimals(one: Aggregate, parts: Parts, there: Bools) -> pa.Array:
    """The sums and averages of decimals, whose digits are those that Spark has."""
    high, low = _carried(parts)
    if one.function == "avg":
        # Four more digits after the point, the last one rounded half up, away from zero.
        sums = (high.astype(object) * 2**32 + low) * 10**4
        counts = np.maximum(parts["count"], 1).astype(object)
        whole = (2 * abs(sums) + counts) // (2 * counts)
        sums = np.where(sums < 0, -whole, whole)
        high = np.array(sums // 2**32, np.int64)
        low = np.array(sums % 2**32, np.int64)
    words = np.empty((len(there), 2), np.int64)
    words[:, 0], words[:, 1] = (high << 32) | low, high >> 32
    return _of_words(words, there, one.type)


def _of_words(words: NDArray[np.int64], there: Bools, dtype: pa.DataType) -> pa.Array:
    """Decimals of 128 bits, the lower half first."""
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(dtype, len(there), [valid, pa.py_buffer(words)])


def _typed(encoded: Int64s, there: Bools, dtype: pa.DataType) -> pa.Array:
    """The values that codes stand for."""
    encoded = np.where(there, encoded, 0)
    if pa.types.is_floating(dtype):
        return pa.array(floats(encoded).astype(dtype.to_pandas_dtype()), dtype, mask=~there)
    if pa.types.is_decimal(dtype):
        return _of_words(np.stack([encoded, encoded >> 63], axis=1), there, dtype)
    narrow = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
    return pa.array(encoded, mask=~there).cast(narrow).cast(dtype)
