"""Declarations of users and databases: the arguments of ``sql``, the columns and their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from bsjoin.errors import ArgumentError
from bsjoin.sources.urls import Address

How = Literal["logical", "xmin"]


@dataclass(frozen=True)
class Target:
    """The checked arguments of :func:`bsjoin.sources.sql`.

    Attributes:
        table: the parts of the table's name; None for a query.
        query: the query, without a trailing semicolon; None for a table.
        changes: how its changes are followed; None for what the server allows.
    """

    address: Address
    table: tuple[str, ...] | None
    query: str | None
    schema: pa.Schema | None
    unique: bool | None
    timeout_s: float
    connect_timeout_s: float
    max_keys: int
    changes: How | None = None


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


def rows_of(table: object, query: object) -> tuple[tuple[str, ...] | None, str | None]:
    """The parts of a table's name, or a query: which of the two a user has given.

    Raises:
        ArgumentError: it is not exactly one of them, or not in such a form.
    """
    if (table is None) == (query is None):
        given = "neither" if table is None else "both"
        raise ArgumentError(f"table, query: give exactly one of them, not {given}")
    return (None, _query(query)) if table is None else (_parts(table), None)


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
