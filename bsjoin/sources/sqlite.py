"""SQLite through Python's ``sqlite3``: read-only, values are checked against declared types."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from bsjoin.errors import SourceError
from bsjoin.sources.dialect import BATCH_ROWS, Column, Database, Target
from bsjoin.sources.rows import array_of, python_values
from bsjoin.sources.types import DECIMAL, decimal_type

__all__ = ["SQLite"]

_MAY_PASS = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL,
}  # fmt: skip
_STEPS = 10_000  # instructions of SQLite's virtual machine between two checks of the timeout
_DIGITS = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
# The first match counts, in the order of SQLite's affinity rules.
_TYPES: tuple[tuple[str, pa.DataType], ...] = (
    ("BOOL", pa.bool_()),
    ("INT", pa.int64()),
    ("CHAR", pa.string()),
    ("CLOB", pa.string()),
    ("TEXT", pa.string()),
    ("UUID", pa.string()),
    ("JSON", pa.string()),
    ("BLOB", pa.binary()),
    ("BINARY", pa.binary()),
    ("REAL", pa.float64()),
    ("FLOA", pa.float64()),
    ("DOUB", pa.float64()),
    ("TIMESTAMP", pa.timestamp("us")),
    ("DATETIME", pa.timestamp("us")),
    ("DATE", pa.date32()),
    ("TIME", pa.string()),
)


def declared_type(declared: str) -> pa.DataType | None:
    """The Arrow type of a declared type; None if the declaration determines none.

    >>> declared_type("DECIMAL(10, 2)"), declared_type("varchar(20)"), declared_type("")
    (Decimal128Type(decimal128(10, 2)), DataType(string), None)
    """
    upper = declared.upper()
    if "DEC" in upper or "NUMERIC" in upper:
        digits = _DIGITS.search(upper)
        if digits is None:
            return DECIMAL
        return decimal_type(int(digits[1]), int(digits[2] or 0))
    return next((dtype for word, dtype in _TYPES if word in upper), None)


class SQLite(Database):
    """A table or query of an SQLite file."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        # Workers have their own working folders.
        self.path = os.path.abspath(target.address.path)
        self._deadline = 0.0

    def _open(self) -> sqlite3.Connection:
        if not os.path.exists(self.path):
            raise SourceError(f"{self!r}: there is no file {self.path!r} on this machine")
        return sqlite3.connect(
            f"file:{quote(self.path)}?mode=ro",
            uri=True,
            timeout=min(self.target.timeout_s, self.target.connect_timeout_s),
            isolation_level=None,
            check_same_thread=False,
        )

    def _overdue(self) -> bool:
        return 0 < self._deadline < time.monotonic()

    @staticmethod
    def _shut(connection: sqlite3.Connection) -> None:
        connection.close()

    def _describe(self, connection: sqlite3.Connection, source: str) -> list[Column]:
        if source == self._from and self.target.table is not None:
            found = self._declared(connection)
            if not found:
                raise self._absent(connection)
        else:
            # A temporary view, only for this connection; the file is not written.
            connection.execute(f'CREATE TEMP VIEW "bsjoin: columns" AS SELECT * FROM {source}')
            try:
                found = connection.execute(
                    "SELECT name, type, hidden FROM pragma_table_xinfo('bsjoin: columns', 'temp')"
                ).fetchall()
            finally:
                connection.execute('DROP VIEW temp."bsjoin: columns"')
        return [
            Column(
                name,
                declared_type(declared),
                declared,
                exact=not any(word in declared.upper() for word in ("TIME", "DEC", "NUM")),
            )
            for name, declared, hidden in found
            if hidden != 1
        ]

    def _declared(self, connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
        return connection.execute(
            "SELECT name, type, hidden FROM pragma_table_xinfo(?, ?)", self._named()
        ).fetchall()

    def _named(self) -> tuple[str, str]:
        parts = self.target.table or ()
        return parts[-1], (parts[-2] if len(parts) > 1 else "main")

    def _rows(
        self, connection: sqlite3.Connection, keys: pa.Table, columns: Sequence[Column]
    ) -> pa.Table:
        # Without duplicates: 0.0 and -0.0 are equal here. NaN is bound as null, which equals
        # nothing.
        values = list(
            dict.fromkeys(
                spelling
                for key in python_values(keys)
                for spelling in itertools.product(*map(_spellings, key))
            )
        )
        names = keys.column_names
        row = "(" + ", ".join("?" * len(names)) + ")"
        selected, source = self._selected(columns), self._from
        if len(names) == 1:
            head = f"SELECT {selected} FROM {source} WHERE {self._at(names[0])} IN (VALUES "
            tail = ")"
        else:
            # SQLite uses no index for row values after IN. A cross join keeps its order.
            given = [f"k{index}" for index in range(len(names))]
            equal = [
                f"{self._at(name)} = q.{key}" for name, key in zip(names, given, strict=True)
            ] + [
                f"{self._at(name)} = q.{key} COLLATE BINARY"
                for name, key in zip(names, given, strict=True)
                if pa.types.is_string(keys.column(name).type)
            ]
            head = f"WITH bsjoin_keys({', '.join(given)}) AS (VALUES "
            tail = f") SELECT {selected} FROM bsjoin_keys AS q CROSS JOIN {source} "
            tail += f"ON {' AND '.join(equal)}"
        at_once = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(names)
        found: list[tuple[Any, ...]] = []
        self._deadline = time.monotonic() + self.target.timeout_s
        # At each look-up: another table may have opened the connection.
        connection.set_progress_handler(self._overdue, _STEPS)
        try:
            for start in range(0, len(values), at_once):
                part = values[start : start + at_once]
                statement = head + ", ".join([row] * len(part)) + tail
                found += connection.execute(statement, list(itertools.chain(*part)))
        finally:
            self._deadline = 0.0
        return self._table(found, columns, self.schema)

    def _table(
        self, rows: list[tuple[Any, ...]], columns: Sequence[Column], schema: pa.Schema
    ) -> pa.Table:
        values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        return pa.table(
            {
                column.name: array_of(part, schema.field(column.name).type, column.name, repr(self))
                for column, part in zip(columns, values, strict=True)
            }
        )

    def _stream(
        self,
        connection: sqlite3.Connection,
        source: str,
        columns: Sequence[Column],
        schema: pa.Schema,
    ) -> Iterator[pa.Table]:
        cursor = connection.execute(f"SELECT {self._selected(columns)} FROM {source}")
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield self._table(rows, columns, schema)

    def _count(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {self._from}").fetchone()[0])

    def _unique(self, connection: sqlite3.Connection) -> list[list[str]]:
        named = self._named()
        primary = connection.execute(
            "SELECT name FROM pragma_table_xinfo(?, ?) WHERE pk > 0", named
        ).fetchall()
        found = [[name for (name,) in primary]]
        indexes = connection.execute(
            'SELECT name FROM pragma_index_list(?, ?) WHERE "unique" AND NOT partial', named
        ).fetchall()
        for (index,) in indexes:
            parts = connection.execute(
                "SELECT name FROM pragma_index_info(?, ?)", (index, named[1])
            ).fetchall()
            if all(name is not None for (name,) in parts):
                found.append([name for (name,) in parts])
        return found

    def _tables(self, connection: sqlite3.Connection) -> list[str]:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return [name for (name,) in rows]

    def _may_pass(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _MAY_PASS

    def _error_message(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            return f"no answer within timeout={self.target.timeout_s:g} seconds"
        if code == sqlite3.SQLITE_CANTOPEN:
            return (
                f"{super()._error_message(error)}. This account needs the right to read the file "
                "and, if the database is in WAL mode, to write in its folder. Give it that right, "
                "or let the owner run PRAGMA journal_mode = DELETE"
            )
        return super()._error_message(error)


def _spellings(value: Any) -> Sequence[Any]:
    """The forms in which a value may be stored; a row has at most one of them."""
    if isinstance(value, dt.datetime):
        zones = ("",) if value.tzinfo is None else ("+00:00", "Z")
        plain = value.replace(tzinfo=None)
        units = ["microseconds"]
        if plain.microsecond % 1000 == 0:
            units.append("milliseconds")
        if plain.microsecond == 0:
            units.append("seconds")
        return [
            plain.isoformat(mark, unit) + zone
            for mark in (" ", "T")
            for unit in units
            for zone in zones
        ]
    if isinstance(value, dt.date):
        return (value.isoformat(),)
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) < 1 << 63
        return (int(value) if whole else float(value),)
    return (value,)
