"""``sql``: a table or a query of a database."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa

from bsjoin.errors import ArgumentError
from bsjoin.sources.arguments import check_max_keys, positive
from bsjoin.sources.dialect import Database, Target
from bsjoin.sources.protocol import Source
from bsjoin.sources.types import as_schema
from bsjoin.sources.urls import Address, address_of

__all__ = ["sql"]

_FILES = ("sqlite", "duckdb")
_HOMES = {
    "sqlite": ("bsjoin.sources.sqlite", "SQLite"),
    "duckdb": ("bsjoin.sources.duckdb", "DuckDB"),
    "postgresql": ("bsjoin.sources.postgresql", "PostgreSQL"),
    "postgres": ("bsjoin.sources.postgresql", "PostgreSQL"),
    "mysql": ("bsjoin.sources.mysql", "MySQL"),
    "mariadb": ("bsjoin.sources.mysql", "MySQL"),
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
) -> Source:
    """A table or a query of SQLite, DuckDB, PostgreSQL, MySQL or MariaDB.

    Nothing is asked before the schema is first needed. Every look-up is one query with bound
    values that reads the key's index and sees what is committed at that moment; a connection
    is opened on each worker, and anew after it broke. Sessions are read-only: a query that
    writes, locks rows or takes numbers of a sequence fails, and a read replica serves as well.
    They hold settings, so a pooler must pool sessions, not transactions.

    Columns of types that Spark has not (a time of day, an interval, UUID, JSON, enumerations)
    come as the database's own text of them, but for PostgreSQL's char(n): its padding is left
    out.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``duckdb:///path``,
            ``postgresql://user:password@host:5432/database`` (or ``?host=/socket/folder``; what
            follows the question mark is libpq's), ``mysql://...`` or ``mariadb://...``. Special
            characters of a password must be percent-encoded. It appears in no message.
        table: its name, ``"schema.name"``, or the name's parts where they hold dots.
        query: a SELECT in the table's place, run as it is given: never put a text of somebody
            else into it. It must keep the key's index usable.
            Numbers of PostgreSQL without declared digits are decimal(38, 18); before version
            1.13 of the ADBC driver, all decimals of a query are.
        schema: Arrow types for some columns or all, in place of the declared ones. SQLite
            needs it for columns without a declared type.
        unique: True or False: whether the key occurs once at most. None: what the database
            guarantees by a primary key or a unique index; nothing for a query.
        timeout: how long one look-up may take: a timedelta, a text such as "30 seconds", or
            a number of seconds.
        connect_timeout: how long opening a connection may take, likewise.
        max_keys: the most keys that one look-up asks for.

    Returns:
        A source for ``bsjoin.join``.

    Raises:
        ArgumentError: the URL or another argument cannot be used.

    Complexity:
        A look-up of n keys costs the database n descents of the key's index. Without an index
        it reads the whole table; DuckDB always does, by column.

    Example:
        >>> sql("postgresql://me:secret@db.example/flights", table="planes")
        sql('postgresql://me:***@db.example/flights', table='planes')
    """
    address = address_of(url, _FILES, tuple(name for name in _HOMES if name not in _FILES))
    if (table is None) == (query is None):
        given = "neither" if table is None else "both"
        raise ArgumentError(f"table, query: give exactly one of them, not {given}")
    if unique is not None and not isinstance(unique, bool):
        raise ArgumentError(f"unique={unique!r}: give True, False, or None to ask the database")
    check_max_keys(max_keys)
    target = Target(
        address=address,
        table=None if table is None else _parts(table),
        query=None if query is None else _query(query),
        schema=None if schema is None else as_schema(schema),
        unique=unique,
        timeout_s=positive(timeout, "timeout"),
        connect_timeout_s=positive(connect_timeout, "connect_timeout"),
        max_keys=max_keys,
    )
    _check_path(address)
    module, name = _HOMES[address.scheme]
    database: type[Database] = getattr(importlib.import_module(module), name)
    return database(target)


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


def _check_path(address: Address) -> None:
    if address.scheme == "sqlite" and address.path in ("", ":memory:"):
        raise ArgumentError(
            f"url={str(address)!r}: a database in memory is empty on every worker; give a file"
        )
