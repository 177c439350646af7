"""SQLite through Python's ``sqlite3``: read-only, values are checked against declared types."""

from __future__ import annotations

import itertools
import math
import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa

from bsjoin.sources.databases.declared import Column, Target
from bsjoin.sources.databases.dialect import BATCH_ROWS, Database
from bsjoin.sources.databases.parts import sizes_of
from bsjoin.sources.databases.sqlite_keys import Form, canonical, form_of
from bsjoin.sources.rows import array_of
from bsjoin.sources.types import DECIMAL, decimal_type

T = TypeVar("T")

_MAY_PASS = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL,
}  # fmt: skip
_NOT_UTF8 = re.compile("Could not decode to UTF-8 column '(.*?)' with text '(.*)'", re.DOTALL)
_OF_DATA = ("Could not decode to UTF-8", "integer overflow", "malformed JSON", "JSON cannot hold")
_KEYS = re.compile("SCAN (.* AS )?q")  # the loop over the keys in a plan
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


def has_numbers(declared: str) -> bool:
    """Whether SQLite stores numbers in a column as numbers, however they are written.

    >>> has_numbers("DECIMAL(10, 2)"), has_numbers("VARCHAR(20)"), has_numbers("")
    (True, False, False)
    """
    upper = declared.upper()
    if "INT" in upper:
        return True
    return bool(declared) and not any(word in upper for word in ("CHAR", "CLOB", "TEXT", "BLOB"))


class SQLite(Database):
    """A table or query of an SQLite file."""

    as_text = "CAST({} AS TEXT)"
    as_bytes = "CAST({} AS BLOB)"

    def __init__(self, target: Target, *given: Any) -> None:
        super().__init__(target, *given)
        self.path = target.address.path
        self._deadline = 0.0

    def _open(self) -> _Connection:
        file = _file(self.path)
        if file is None:
            raise self._no_file(self.path)
        connection = sqlite3.connect(
            f"file:{quote(self.path)}?mode=ro",
            uri=True,
            timeout=min(self.target.timeout_s, self.target.connect_timeout_s),
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        connection.file = file
        self._session.was_open = True
        return connection

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        held = self._session.current()
        # Another one may have its place, or have been written over it.
        if held is not None and held.file != _file(self.path):
            self.close()
        return super()._with_connection(work)

    def _overdue(self) -> bool:
        return 0 < self._deadline < time.monotonic()

    def _describe(self, connection: sqlite3.Connection, source: str) -> list[Column]:
        if source == self._from and self.target.table is not None:
            found = connection.execute(
                "SELECT name, type, hidden FROM pragma_table_xinfo(?, ?)", self._named()
            ).fetchall()
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
        strict = any(declared.upper() == "ANY" for _, declared, _ in found) and self._is_strict(
            connection, source
        )
        return [
            Column(
                name,
                declared_type(declared),
                declared,
                exact=not any(word in declared.upper() for word in ("TIME", "DEC", "NUM")),
                # It has texts beside numbers, which matters to decimals alone: see _read_as.
                refused=declared if strict and declared.upper() == "ANY" else None,
            )
            for name, declared, hidden in found
            if hidden != 1
        ]

    def _is_strict(self, connection: sqlite3.Connection, source: str) -> bool:
        """Whether a table is STRICT; of a view or query, whether a table of the file is."""
        if sqlite3.sqlite_version_info < (3, 37):  # it has none
            return False
        is_table = source == self._from and self.target.table is not None
        ((found,),) = connection.execute(
            "SELECT coalesce((SELECT strict FROM pragma_table_list WHERE type = 'table' AND "
            "lower(name) = lower(?) AND lower(schema) = lower(?)), "
            "(SELECT max(strict) FROM pragma_table_list))",
            self._named() if is_table else (None, None),
        )
        return bool(found)

    def _named(self) -> tuple[str, str]:
        parts = self.target.table or ()
        return parts[-1], (parts[-2] if len(parts) > 1 else "main")

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        found = replace(super()._read_as(column, dtype), refused=None)
        if pa.types.is_decimal(dtype) and (column.refused or not has_numbers(column.declared)):
            return replace(
                found,
                refused=f"the column {column.name!r} is declared as {column.declared or 'nothing'} "
                f"and may hold any spelling of a {dtype}: rows cannot be looked up by it. Convert "
                f"it with query='SELECT CAST(...) AS {column.name}, ...'",
            )
        return found

    def _parts(self, connection: sqlite3.Connection, keys: pa.Table) -> Iterable[pa.Table]:
        longest = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        keys = keys.filter(pa.array(sizes_of(keys) < longest))
        forms = self._forms(keys)
        variables = math.prod(form.variants for form in forms) * sum(form.width for form in forms)
        most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // variables
        text = connection.getlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH) // (8 * variables)
        at_once = max(1, min(most, text))
        return [keys.slice(start, at_once) for start in range(0, len(keys), at_once)]

    def _forms(self, keys: pa.Table) -> list[Form]:
        return [form_of(self._columns[field.name].read, field.type) for field in keys.schema]

    def _rows(
        self, connection: sqlite3.Connection, keys: pa.Table, columns: Sequence[Column]
    ) -> pa.Table:
        selected, source = self._selected(columns), self._from
        types, forms = keys.schema.types, self._forms(keys)
        # Without duplicates: 0.0 and -0.0 are equal here. NaN is bound as null, which equals
        # nothing.
        spelled = [form.spellings(keys.column(i)) for i, form in enumerate(forms)]
        values = list(
            dict.fromkeys(
                tuple(itertools.chain(*spelling))
                for key in zip(*spelled, strict=True)
                for spelling in itertools.product(*key)
            )
        )
        if not values:
            return []
        given = [
            [f"q.k{index}_{part}" for part in range(form.width)] for index, form in enumerate(forms)
        ]
        on, on_ranges = (
            " ON "
            + " AND ".join(
                condition.format(*part, at=self._at(name), key=index)
                for index, (condition, part, name) in enumerate(
                    zip(conditions, given, keys.column_names, strict=True)
                )
            )
            for conditions in (
                [form.condition for form in forms],
                [form.range or form.condition for form in forms],
            )
        )
        row = "(" + ", ".join("?" * sum(form.width for form in forms)) + ")"
        rows = ", ".join([row] * len(values))
        if len(forms) == 1 and forms[0].expression is not None:
            tested = forms[0].expression.format(at=self._at(keys.column_names[0]), key=0)
            statement = f"SELECT {selected} FROM {source} WHERE {tested} IN (VALUES {rows})"
        else:
            # SQLite uses no index for row values after IN. A cross join keeps its order.
            inner = [name.removeprefix("q.") for part in given for name in part]
            head = f"WITH bsjoin_keys({', '.join(inner)}) AS (VALUES "
            tail = f") SELECT {selected} FROM bsjoin_keys AS q CROSS JOIN {source}"
            statement = head + rows + tail + on_ranges
            if not any(form.is_equality for form in forms) and not _searches(
                connection, head + row + tail + on_ranges, values[0]
            ):  # one pass, which finds each row's key
                tail = f") SELECT {selected} FROM {source} CROSS JOIN bsjoin_keys AS q"
                statement = head + rows + tail + on
        ((encoding,),) = connection.execute("PRAGMA encoding")
        connection.create_function(
            "bsjoin_key",
            2,
            lambda value, key: canonical(value, types[key], encoding),
            deterministic=True,
        )
        return self._fetched(connection, statement, list(itertools.chain(*values)))

    def _fetched(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of a query, within the timeout."""
        self._deadline = time.monotonic() + self.target.timeout_s
        # At each look-up: another table may have opened the connection.
        connection.set_progress_handler(self._overdue, _STEPS)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            self._deadline = 0.0

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

    def _stream(self, connection: sqlite3.Connection, statement: str) -> Generator[Any, None, None]:
        cursor = connection.execute(statement)
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield rows

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
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:  # by a writer, who may come
            return True
        return code is not None and code & 0xFF in _MAY_PASS

    def _is_of_data(self, error: Exception) -> bool:
        return (
            super()._is_of_data(error)
            or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
            or isinstance(error, sqlite3.DataError)
            or str(error).startswith(_OF_DATA)
        )

    def _message(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", None)
        wrong = _NOT_UTF8.match(str(error))
        if wrong:
            return (
                f"the column {wrong[1]!r} holds the text {wrong[2]!r}, which is not UTF-8. "
                f"schema={{{wrong[1]!r}: pyarrow.binary()}} reads its bytes"
            )
        if code == sqlite3.SQLITE_INTERRUPT:
            return f"no answer within timeout={self.target.timeout_s:g} seconds"
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:
            return "a writer has died in a transaction, which the next one that writes undoes"
        if code == sqlite3.SQLITE_CANTOPEN:
            return (
                f"{super()._message(error)}. This account needs the right to read the file "
                "and, if the database is in WAL mode, to write in its folder. Give it that right, "
                "or let the owner run PRAGMA journal_mode = DELETE"
            )
        return super()._message(error)


class _Connection(sqlite3.Connection):
    """A connection, and the file that it reads, which may have lost its name since."""

    file: tuple[int, ...]


def _file(path: str) -> tuple[int, ...] | None:
    """What tells the file at a path from those before it; None if there is none.

    SQLite itself counts the commits, of which a copy of another file may have as many.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _searches(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> bool:
    """Whether an index finds the rows: no loop inside that of the keys is a scan."""
    connection.create_function("bsjoin_key", 2, lambda value, key: None, deterministic=True)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    of_keys = [row for row in plan if _KEYS.fullmatch(row[3])]
    parents = {row[1] for row in of_keys}
    loops = [row[3] for row in plan if row[1] in parents and row not in of_keys]
    loops = [loop for loop in loops if loop.startswith(("SCAN", "SEARCH"))]
    return bool(loops) and all(loop.startswith("SEARCH") for loop in loops)
