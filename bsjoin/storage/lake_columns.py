"""Columns of tables of lakes as the formats tell them apart: by numbers, which a name is given.

A column that was renamed has its number still. Delta has numbers where columns are mapped
(``delta.columnMapping.mode``), Iceberg always. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DELTA_NUMBER = "delta.columnMapping.id"
"""The metadata of a column of Delta that has its number."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Args:
        table: what tells the table from others: their numbers say nothing of its columns.
        numbers: of the columns, by their names; None where the format has none. Default: no column.
    """

    table: str = ""
    numbers: Mapping[str, int | None] = field(default_factory=dict)


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
    """The columns as they are known from now on.

    A table that was made again has other numbers, and one of Delta may get them later.

    >>> known_in(Columns("t", {"a": 1, "b": 2}), Columns("again", {"a": 7})).numbers
    {'a': 7, 'b': None}
    >>> known_in(Columns("t", {"a": 1, "b": None}), Columns("t", {"c": 1, "b": 2})).numbers
    {'a': 1, 'b': 2}
    """
    if not there.numbers:
        return known
    kept = known.numbers if known.table == there.table else {}
    numbers = {
        name: there.numbers.get(name) if kept.get(name) is None else kept[name]
        for name in known.numbers
    }
    return Columns(there.table, numbers)
