"""Declarations of users and databases: the arguments of ``sql``, the columns and their types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bsjoin.sources.urls import Address

__all__ = ["Column", "Target"]


@dataclass(frozen=True)
class Target:
    """The checked arguments of :func:`bsjoin.sources.sql`.

    Attributes:
        table: the parts of the table's name; None for a query.
        query: the query, without a trailing semicolon; None for a table.
    """

    address: Address
    table: tuple[str, ...] | None
    query: str | None
    schema: pa.Schema | None
    unique: bool | None
    timeout_s: float
    connect_timeout_s: float
    max_keys: int


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
