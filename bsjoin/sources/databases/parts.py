"""Keys in parts: of a bounded size, of the same nulls, and of rows that cannot be converted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.errors import DataError
from bsjoin.sources.databases.declared import Column

_PER_VALUE = 16  # a number, or what a text or its placeholder needs besides its bytes


def sizes_of(keys: pa.Table, per_value: int = _PER_VALUE) -> NDArray[np.int64]:
    """The bytes of every key, about: those of its texts, and so many for every value.

    >>> sizes_of(pa.table({"a": ["", "abc"], "b": [1, 2]})).tolist()
    [32, 35]
    """
    sizes = np.full(len(keys), per_value * keys.num_columns, np.int64)
    for column in keys.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return sizes


def in_parts(keys: pa.Table, most: int, per_value: int = _PER_VALUE) -> Iterator[pa.Table]:
    """The keys in parts of at most so many bytes each, about; a longer one is a part of its own.

    >>> [len(part) for part in in_parts(pa.table({"a": ["abc", "abc", "abcdefghi", "a"]}), 6, 0)]
    [2, 1, 1]
    """
    ends = np.cumsum(sizes_of(keys, per_value))
    begin = 0
    while begin < len(keys):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, "right")))
        yield keys.slice(begin, end - begin)
        begin = end


def encodable(keys: pa.Table, name: str, encoding: str) -> pa.Table:
    """The keys whose text in a column a character set has; the encoding is one of Python's."""
    texts = keys.column(name).to_pylist()
    fine = [text.encode(encoding, "ignore").decode(encoding) == text for text in texts]
    return keys.filter(pa.array(fine, pa.bool_()))


def between(numbers: pa.ChunkedArray, limits: tuple[int, int]) -> pa.ChunkedArray:
    """Tell the numbers that are within limits, these included."""
    return pc.and_(pc.greater_equal(numbers, limits[0]), pc.less_equal(numbers, limits[1]))


def by_nulls(keys: pa.Table) -> Iterator[tuple[list[str], pa.Table]]:
    """The keys that are null in the same columns, without these: for each set of columns."""
    names = [name for name in keys.column_names if keys.column(name).null_count]
    bits = np.zeros(len(keys), np.int64)
    for place, name in enumerate(names):
        bits |= keys.column(name).is_null().to_numpy().astype(np.int64) << place
    for one in np.unique(bits).tolist():
        null = [name for place, name in enumerate(names) if one >> place & 1]
        yield null, keys.filter(pa.array(bits == one)).drop_columns(null) if names else keys


def of_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows that have one of the keys, exactly."""
    names = keys.column_names
    numbered = _plain(rows.select(names)).append_column("", pa.array(range(len(rows)), pa.int64()))
    found = numbered.join(_plain(keys), names, join_type="left semi")
    return rows.take(found.column("").sort())


def _plain(keys: pa.Table) -> pa.Table:
    """The keys with one NaN and without -0.0, which Arrow tells apart from the others and 0.0."""
    for place, field in enumerate(keys.schema):
        if pa.types.is_floating(field.type):
            column = pc.add(keys.column(place), pa.scalar(0.0, field.type))
            column = pc.if_else(pc.is_nan(column), pa.scalar(math.nan, field.type), column)
            keys = keys.set_column(place, field, column)
    return keys


Convert = Callable[[Any, Sequence[Column], pa.Schema], pa.Table]
"""Rows, as a table or a sequence of tuples, to columns of exactly the schema's types."""


def rows_of_keys(
    convert: Convert, rows: Any, columns: Sequence[Column], schema: pa.Schema, keys: pa.Table
) -> pa.Table:
    """The rows of some keys; those of other keys may be missing.

    Raises:
        DataError: a value of a row of these keys cannot be converted; its ``keys`` are those
            concerned.

    Complexity: that of one conversion; for each row with a fault, O(log n) conversions more.
    """
    try:
        return convert(rows, columns, schema)
    except DataError as error:
        fault = error
    wrong = list(_wrong(convert, rows, columns, schema, range(len(rows))))
    places = [[column.name for column in columns].index(name) for name in keys.column_names]
    types = pa.schema([schema.field(name) for name in keys.column_names])
    theirs, named = _only(_at(rows, wrong), places), [columns[place] for place in places]
    # Where the key itself cannot be converted, it is not one of these.
    without = set(_wrong(convert, theirs, named, types, range(len(wrong))))
    theirs = _at(theirs, [place for place in range(len(wrong)) if place not in without])
    concerned = of_keys(convert(theirs, named, types), keys)
    if len(concerned):
        fault.keys = concerned.group_by(keys.column_names).aggregate([])
        raise fault
    return convert(_at(rows, sorted({*range(len(rows))} - {*wrong})), columns, schema)


def _wrong(
    convert: Convert, rows: Any, columns: Sequence[Column], schema: pa.Schema, places: range
) -> Iterator[int]:
    """Those of some rows that cannot be converted, in order."""
    if not places:
        return
    try:
        convert(_at(rows, places), columns, schema)
        return
    except DataError:
        pass
    if len(places) == 1:
        yield places[0]
        return
    half = len(places) // 2
    yield from _wrong(convert, rows, columns, schema, places[:half])
    yield from _wrong(convert, rows, columns, schema, places[half:])


def _at(rows: Any, places: Sequence[int]) -> Any:
    if isinstance(rows, pa.Table):
        return rows.take(pa.array(places, pa.int64()))
    return [rows[place] for place in places]


def _only(rows: Any, places: Sequence[int]) -> Any:
    """The rows with some of their columns."""
    if isinstance(rows, pa.Table):
        return rows.select(list(places))
    return [[row[place] for place in places] for row in rows]
