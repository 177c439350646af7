"""Statements on a connection of an ADBC driver."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Generator
from typing import Any

import pyarrow as pa


def run(connection: Any, statement: str) -> None:
    """Run a statement without a result."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def fetched(connection: Any, statement: str, bound: pa.RecordBatch | None = None) -> pa.Table:
    """The rows of a query, for each row of parameters."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement, bound)
        return cursor.fetch_arrow_table()


def rows_of(connection: Any, statement: str, parameter: str | None = None) -> list[Any]:
    """The rows, as tuples, of a query of at most one parameter, a text."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(
            statement, None if parameter is None else pa.record_batch({"p": [parameter]})
        )
        return list(cursor.fetchall())


def use_utf8(connection: Any) -> str | None:
    """Let a session of PostgreSQL have texts in UTF-8; Python's name of its database's encoding.

    Otherwise they are in that encoding, or in one of the environment. ``SQL_ASCII`` means bytes
    that no one knows the encoding of. The name is None unless it tells which texts there can be.
    """
    ((encoding, _),) = rows_of(
        connection,
        "SELECT e, set_config('client_encoding', CASE e WHEN 'SQL_ASCII' THEN e ELSE 'UTF8' END, "
        "false) FROM (SELECT current_setting('server_encoding') AS e) AS s",
    )
    return _encoding(encoding)


def _encoding(name: str) -> str | None:
    """Python's name of an encoding of PostgreSQL; None if that has all texts, or differs.

    Those of several bytes differ: PostgreSQL's EUC_JP has characters that Python's lacks.

    >>> _encoding("WIN1252"), _encoding("UTF8"), _encoding("EUC_JP")
    ('cp1252', None, None)
    """
    if not name.startswith(("LATIN", "WIN", "KOI8", "ISO_8859_")):
        return None
    return codecs.lookup(name.replace("WIN", "cp").replace("KOI8", "koi8_")).name


def pieces_of(connection: Any, statement: str) -> Generator[pa.Table, None, None]:
    """The rows of a query, in pieces as the driver has them."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
