"""``sql``: a table or a query of a database."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pyarrow as pa

from bsjoin.errors import ArgumentError
from bsjoin.sources.databases.declared import Target
from bsjoin.sources.databases.dialect import Database
from bsjoin.sources.protocol import Source
from bsjoin.sources.urls import Address, address_of

_FILES = ("sqlite", "duckdb")
_HOMES = {
    "sqlite": ("bsjoin.sources.databases.sqlite", "SQLite"),
    "duckdb": ("bsjoin.sources.databases.duckdb", "DuckDB"),
    "postgresql": ("bsjoin.sources.databases.postgresql", "PostgreSQL"),
    "postgres": ("bsjoin.sources.databases.postgresql", "PostgreSQL"),
    "mysql": ("bsjoin.sources.databases.mysql", "MySQL"),
    "mariadb": ("bsjoin.sources.databases.mysql", "MySQL"),
}


def sql(
    url: str,
    *,
    table: str | Sequence[str] | None = None,
    query: str | None = None,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool | None = None,
    timeout: timedelta | str | float = "30 seconds",
    connect_timeout: timedelta | str | float = "10 seconds",
    max_keys: int = 10_000,
    changes: Literal["logical", "xmin"] | None = None,
) -> Source:
    """A table or a query of SQLite, DuckDB, PostgreSQL, MySQL or MariaDB.

    The database is not queried before the schema is needed. Every look-up is one parameterised
    query (several, if its keys are longer than one statement may be) that uses the key's index and
    sees the data committed at that moment. Each worker opens a
    connection, and reconnects after a failure. Sessions are read-only: a query that writes, locks
    rows or advances a sequence fails, and a read replica can be used. The sessions have settings,
    so a connection pooler must pool sessions, not transactions.

    Columns of types that Spark lacks (time of day, interval, UUID, JSON, enumerations) are returned
    as the database's text form, in PostgreSQL's default styles, as are composite types and ranges
    of PostgreSQL. PostgreSQL's char(n) is returned without padding, its arrays with the dimensions
    that are declared, or that the first rows have. Infinite dates and times become the ends of
    Spark's calendar, 0001-01-01 and 9999-12-31 (23:59:59.999999). A value that Spark cannot express
    is a ``DataError``.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``duckdb:///path``,
            ``postgresql://user:password@host:5432/database`` (or ``?host=/socket/folder``;
            parameters after the question mark are libpq's), ``mysql://...`` or ``mariadb://...``
            (after a question mark ``ssl_ca=`` checks the certificate, and with it
            ``ssl_verify_identity=true`` the name of the host).
            The URL of a file has no parameters.
            Special characters of a password must be percent-encoded. No message shows the password.
        table: the table's name, ``"schema.name"``, or a list of the name's parts if they contain
            dots. Exactly one of ``table`` and ``query`` must be given; both are None by default.
        query: a SELECT statement; None (default) if ``table`` is given. It is executed unchanged:
            never insert untrusted text into it. It must allow the database to use the key's index.
            Numbers of PostgreSQL without declared digits are decimal(38, 18); before version 1.13
            of the ADBC driver, all decimals of a query are.
        schema: Arrow types for some or all columns, which replace the declared ones before a value
            is converted: ``pyarrow.string()`` reads the database's text of any value, zero dates
            for instance, and ``pyarrow.binary()`` the bytes of a text. SQLite needs it for columns
            without a declared type. A column of text that is read as numbers or dates cannot be a
            key: convert it in a query. ``None`` (default): the declared types.
        unique: whether a key has at most one row. ``None`` (default): True if the database
            guarantees it by a primary key or a unique index; False for a query.
        timeout: how long one look-up may take: a timedelta, a text such as "30 seconds" (default),
            or a number of seconds.
        connect_timeout: how long opening a connection may take; default 10 seconds.
        max_keys: the maximum number of keys per look-up; default 10,000.
        changes: how a table of PostgreSQL is followed with ``Full(refresh="on_commit")``:
            ``"logical"``, by logical decoding; or ``"xmin"``, by comparing the numbers of the
            transactions that wrote its rows, a pass over the table on the server for each look.
            ``None`` (default): the first, if the server and the user's rights allow it.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: the URL or another argument is invalid. Connecting is lazy: a missing
            driver, server or table raises a ``SourceError`` when the source is first used. Look-ups
            and scans raise a ``DataError`` for a value that does not fit its column's type.

    Complexity:
        A look-up of n keys costs n index look-ups in the database. Without an index it reads the
        whole table; DuckDB always does, only the columns in use.

    Example:
        >>> sql("postgresql://me:secret@db.example/flights", table="planes")
        sql('postgresql://me:***@db.example/flights', table='planes')
    """
    address = address_of(url, _FILES, tuple(name for name in _HOMES if name not in _FILES))
    _check_changes(changes, table, address)
    if address.scheme in _FILES:
        address = _absolute(address)
    target = Target.of(address, table, query, timeout, connect_timeout, changes)
    module, name = _HOMES[address.scheme]
    database: type[Database] = getattr(importlib.import_module(module), name)
    return database(target, schema, unique, max_keys)


def _check_changes(changes: object, table: object, address: Address) -> None:
    if changes not in (None, "logical", "xmin"):
        raise ArgumentError(f'changes={changes!r}: give "logical", "xmin", or None for either')
    if changes is not None and (table is None or not address.scheme.startswith("postgres")):
        raise ArgumentError(
            f"changes={changes!r} is for a table of PostgreSQL: leave it out for a query, or for "
            "another database"
        )


def _absolute(address: Address) -> Address:
    """The same file from any folder: workers have their own."""
    if address.path not in ("", ":memory:"):
        return replace(address, path=os.path.abspath(address.path))
    if address.scheme == "sqlite":
        raise ArgumentError(
            f"url={str(address)!r}: a database in memory is empty on every worker; give a file"
        )
    return replace(address, path=":memory:")
