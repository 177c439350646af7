"""The columns of tables of lakes as the formats tell them apart: by numbers, which a name is given.

A column that was renamed has its number still. Delta has numbers where columns are mapped
(``delta.columnMapping.mode``), Iceberg always.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from bsjoin.spark import compat
from bsjoin.spark.leaves import (
    CatalogTable,
    DeltaTable,
    Leaf,
    is_iceberg,
    is_metadata,
    leaves_of,
)

_log = logging.getLogger("bsjoin")

_NUMBER = "delta.columnMapping.id"


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Args:
        table: what tells the table from others: their numbers say nothing of its columns.
        numbers: of the columns, by their names; None where the format has none. Default: no column.
    """

    table: str = ""
    numbers: Mapping[str, int | None] = field(default_factory=dict)


def columns_of(leaf: Leaf) -> Columns:
    """The columns that a table of a lake has now, or at the version that was asked for.

    None for other leaves, and where Spark does not show them.
    """
    try:
        if isinstance(leaf, DeltaTable):
            metadata = leaf.snapshot().metadata()
            fields = json.loads(str(metadata.schemaString()))["fields"]
            numbers = {one["name"]: one["metadata"].get(_NUMBER) for one in fields}
            return Columns(str(metadata.id()), numbers)
        table = _iceberg(leaf)
        return Columns() if table is None else _of_schema(table, table.schema())
    except compat.failures() as error:
        _log.debug("bsjoin: the columns of %s are known by their names alone: %s", leaf.name, error)
        return Columns()


def columns_at(leaf: Leaf, version: str, pinned: DataFrame) -> Columns:
    """The columns that a table had at a version, which ``pinned`` reads; as :func:`columns_of`."""
    table = _iceberg(leaf)
    if table is None:
        return columns_of(leaves_of(pinned)[0])
    number = table.snapshot(int(version)).schemaId()
    return _of_schema(table, table.schema() if number is None else table.schemas().get(number))


def _iceberg(leaf: Leaf) -> Any:
    """A table of Iceberg, in the JVM; None for another leaf."""
    if not (isinstance(leaf, CatalogTable) and is_iceberg(leaf.node.table())):
        return None
    table = leaf.newest()
    return None if table is None or is_metadata(table) else table.table()


def _of_schema(table: Any, schema: Any) -> Columns:
    numbers = {str(column.name()): int(column.fieldId()) for column in schema.columns()}
    return Columns(str(table.uuid()), numbers)


def names_in(known: Columns, there: Columns) -> dict[str, str]:
    """Under which names columns are found; those that are not there are left out.

    A column that was made again has another number; it is found by its name.

    >>> known = Columns("t", {"a": 1, "b": 2, "c": 3})
    >>> names_in(known, Columns("t", {"b": 1, "a": 2, "c": 4}))
    {'a': 'b', 'b': 'a', 'c': 'c'}
    >>> names_in(known, Columns("t", {"b": 1}))
    {'a': 'b'}
    >>> names_in(known, Columns("another", {"b": 1}))
    {'b': 'b'}
    """
    numbers = known.numbers if known.table == there.table else {}
    named = {number: name for name, number in there.numbers.items() if number is not None}
    kept = {number for number in numbers.values() if number in named}
    found = {}
    for name in known.numbers:
        if (number := numbers.get(name)) in kept:
            found[name] = named[number]
        elif name in there.numbers and there.numbers[name] not in kept:
            found[name] = name
    return found


def known_in(known: Columns, there: Columns) -> Columns:
    """The columns as they are known from now on: a table that was made again has other numbers.

    >>> known_in(Columns("t", {"a": 1, "b": 2}), Columns("again", {"a": 7})).numbers
    {'a': 7, 'b': None}
    """
    if known.table == there.table or not there.numbers:
        return known
    return Columns(there.table, {name: there.numbers.get(name) for name in known.numbers})
