"""Declarations of users and databases: the arguments of ``sql``, the columns and their types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from bsjoin.errors import ArgumentError
from bsjoin.sources.arguments import positive
from bsjoin.sources.urls import Address

How = Literal["logical", "xmin"]


@dataclass(frozen=True)
class Target:
    """What is read, and where: arguments of ``sql`` and ``adbc``.

    Attributes:
        table: the parts of the table's name; None for a query.
        query: the query, without a trailing semicolon; None for a table.
        changes: how its changes are followed; None for what the server allows.
    """

    address: Address
    table: tuple[str, ...] | None
    query: str | None
    timeout_s: float
    connect_timeout_s: float
    changes: How | None = None

    @classmethod
    def of(
        cls,
        address: Address,
        table: object,
        query: object,
        timeout: Any,
        connect_timeout: Any,
        changes: How | None = None,
    ) -> Target:
        """The arguments as a user gives them."""
        if (table is None) == (query is None):
            given = "neither" if table is None else "both"
            raise ArgumentError(f"table, query: give exactly one of them, not {given}")
        return cls(
            address,
            None if table is None else _parts(table),
            None if query is None else _query(query),
            positive(timeout, "timeout"),
            positive(connect_timeout, "connect_timeout"),
            changes,
        )


@dataclass(frozen=True)
class Column:
    """A column with its declared type.

    Attributes:
        type: the Arrow type of its values; None if it is unknown.
        declared: the database's name of its type.
        read: the SQL expression that reads it, with ``{}`` for the quoted column name; default
            the column itself.
        exact: whether values that differ in the database also differ in Arrow; default True.
        refused: why it cannot be looked up by; None (default) if it can.
    """

    name: str
    type: pa.DataType | None
    declared: str
    read: str = "{}"
    exact: bool = True
    refused: str | None = None


def unlike(
    known: Mapping[str, Column],
    there: Mapping[str, Column],
    names: Collection[str],
    given: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Those of some columns that are gone, or not what is known of them; with what is so now.

    The values of the columns ``given`` have types of the user's, so only how they are read counts.
    """
    for name in names:
        then, now = known[name], there.get(name)
        if now is None:
            yield name, "is not there any more"
        elif now.read != then.read or (name not in given and _item(now) != _item(then)):
            told = (_told(now), _told(then))
            if told[0] == told[1]:  # the database has one word for several
                told = (str(now.type), str(then.type))
            yield name, f"is {told[0]} now, and was {told[1]}"


def _item(column: Column) -> pa.DataType | None:
    """The type of values, of an array of its items: its dimensions are a matter of the rows."""
    dtype = column.type
    while dtype is not None and pa.types.is_list(dtype):
        dtype = dtype.value_type
    return dtype


def _told(column: Column) -> str:
    """The type in the database's words, with the digits of decimals."""
    dtype = column.type
    if dtype is None or not pa.types.is_decimal(dtype) or "(" in column.declared:
        return column.declared
    return f"{column.declared}({dtype.precision}, {dtype.scale})"


def _parts(table: object) -> tuple[str, ...]:
    parts = tuple(table.split(".")) if isinstance(table, str) else table
    if (
        not isinstance(parts, list | tuple)
        or not 1 <= len(parts) <= 3
        or not all(isinstance(part, str) and part and "\0" not in part for part in parts)
    ):
        raise ArgumentError(
            f'table={table!r}: give a name, "schema.name", or a list of the name\'s parts'
        )
    return tuple(parts)


def _query(query: object) -> str:
    if not isinstance(query, str) or not query.strip().rstrip(";").strip():
        raise ArgumentError(f"query={query!r}: give a SELECT statement")
    return query.strip().rstrip(";").rstrip()
