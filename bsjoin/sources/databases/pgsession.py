"""Statements on a connection to PostgreSQL."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

__all__ = ["rows_of", "run"]


def run(connection: Any, statement: str) -> None:
    """Run a statement without a result."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def rows_of(connection: Any, statement: str, parameter: str | None = None) -> list[Any]:
    """The rows of a query of at most one parameter, a text."""
    with contextlib.closing(connection.cursor()) as cursor:
        if parameter is None:
            cursor.execute(statement)
        else:
            cursor.execute(statement, pa.record_batch({"p": [parameter]}))
        return list(cursor.fetchall())
