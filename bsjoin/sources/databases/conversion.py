"""Rows of a driver as Arrow columns; which keys are concerned where a value cannot be converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bsjoin.errors import DataError
from bsjoin.sources.databases.declared import Column
from bsjoin.sources.databases.parts import of_keys

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
