"""PostgreSQL over ADBC: keys are sent as one array per column, rows are received as Arrow."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.sources.dialect import Column, Database, Target
from bsjoin.sources.drivers import driver
from bsjoin.sources.pgtypes import column_of, reported_types
from bsjoin.sources.timeouts import run_with_timeout

__all__ = ["PostgreSQL"]

T = TypeVar("T")

_GRACE_S = 5.0  # after statement_timeout, for the server to cancel the statement itself
_TEXTS = {"text", "varchar", "name", "bpchar", "uuid"}
_NUMBERS = {"int2", "int4", "int8", "float4", "float8", "numeric", "oid"}
_TIMES = {"date", "timestamp", "timestamptz"}
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_PARAMETERS: dict[pa.DataType, str] = {
    pa.bool_(): "bool",
    pa.int8(): "int2",
    pa.int16(): "int2",
    pa.int32(): "int4",
    pa.int64(): "int8",
    pa.float32(): "float4",
    pa.float64(): "float8",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}
# The range of PostgreSQL's dates and timestamps, in days and microseconds from 1970.
_DAYS = (-2_440_588, 2_145_031_948)
_MICROSECONDS = (-210_866_803_200_000_000, 9_223_371_331_199_999_999 - 946_684_800_000_000)
# Classes of SQLSTATE that describe the server's state, not the statement.
_READ_ONLY = "25006"
_PASSING = {"08", "25", "40", "53", "55", "57", "58", "XX"}
_STAYING_WORDS = (
    "authentication failed", "no password supplied", "does not exist", "pg_hba.conf",
    "invalid port", "invalid URI", "invalid connection option", "invalid sslmode",
    "is not permitted to log in", "permission denied for database", "could not translate host",
)  # fmt: skip


class PostgreSQL(Database):
    """A table or query of PostgreSQL, or of a database with its protocol."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._kinds: dict[str, str] = {}

    def _open(self) -> Any:
        dbapi = driver("adbc_driver_postgresql.dbapi", "postgresql")
        connection = dbapi.connect(self._url(), autocommit=True)
        try:
            # Not as startup options of the connection, which poolers refuse.
            _run(connection, f"SET statement_timeout = {int(self.target.timeout_s * 1000) or 1}")
            _run(connection, "SET TimeZone = 'UTC'")
            _run(connection, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        except BaseException:
            connection.close()
            raise
        return connection

    def _url(self) -> str:
        address, connect_s = self.target.address, self.target.connect_timeout_s
        options = {
            "connect_timeout": str(max(2, round(connect_s))),
            "tcp_user_timeout": str(int((self.target.timeout_s + _GRACE_S) * 1000)),
            "application_name": "bsjoin",
            **address.options,
        }
        user = "" if address.user is None else quote(address.user, safe="")
        if address.password is not None:
            user += ":" + quote(address.password, safe="")
        host = quote(address.host or "", safe="")
        if address.host and ":" in address.host:
            host = f"[{address.host}]"
        port = "" if address.port is None else f":{address.port}"
        return (
            f"postgresql://{user}{'@' if user else ''}{host}{port}/"
            f"{quote(address.path, safe='')}?{urlencode(options, quote_via=quote)}"
        )

    @staticmethod
    def _shut(connection: Any) -> None:
        connection.close()

    def _limited(self, work: Callable[[], T], *, fresh: bool) -> T:
        # The server cancels slow statements; this is for a server that does not respond at all.
        limit = self.target.timeout_s + _GRACE_S
        return run_with_timeout(limit + self.target.connect_timeout_s * fresh, work, repr(self))

    def _describe(self, connection: Any, source: str) -> list[Column]:
        try:
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(f"SELECT * FROM {source} LIMIT 0")
                with cursor.fetch_record_batch() as reader:
                    schema = reader.schema
        except Exception as error:
            absent = getattr(error, "sqlstate", None) == "42P01" and self.target.table is not None
            if not (absent and source == self._from):
                raise
        else:
            kinds = reported_types(schema)
            if kinds is None:
                kinds = self._catalog_types(connection, source, schema.names)
            self._kinds.update(zip(schema.names, (kind for kind, _ in kinds), strict=True))
            return [column_of(field, *kind) for field, kind in zip(schema, kinds, strict=True)]
        raise self._absent(connection)

    def _catalog_types(
        self, connection: Any, source: str, names: Sequence[str]
    ) -> list[tuple[str, int]]:
        """The types of the columns from the catalog, for drivers that do not report them.

        The digits of a query's numbers stay unknown; no statement returns them.
        """
        if len(set(names)) < len(names):
            return [("", -1)] * len(names)  # duplicate names, which the caller refuses
        modifiers: dict[str, int] = {}
        if source == self._from and self.target.table is not None:
            modifiers = dict(
                _rows_of(
                    connection,
                    "SELECT attname::text, atttypmod::int8 FROM pg_attribute "
                    "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
                    self._regclass(),
                )
            )
        types = ", ".join(f"pg_typeof({self._at(name)})::oid" for name in names)
        # A domain has the type that it is based on.
        rows = _rows_of(
            connection,
            "WITH RECURSIVE seen(place, type, modifier) AS ("
            f"SELECT u.place, u.type, -1 FROM (SELECT ARRAY[{types}] AS types "
            f"FROM (SELECT 1) AS one LEFT JOIN {source} ON false) AS x, "
            "unnest(x.types) WITH ORDINALITY AS u(type, place) UNION ALL "
            "SELECT seen.place, p.typbasetype, p.typtypmod FROM seen "
            "JOIN pg_type AS p ON p.oid = seen.type WHERE p.typtype = 'd') "
            "SELECT p.typname::text, seen.modifier::int8 FROM seen "
            "JOIN pg_type AS p ON p.oid = seen.type WHERE p.typtype <> 'd' ORDER BY seen.place",
        )
        return [
            (kind, max(modifier, modifiers.get(name, -1)))
            for name, (kind, modifier) in zip(names, rows, strict=True)
        ]

    def _regclass(self) -> str:
        return ".".join(map(self._quoted, self.target.table or ()))

    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        keys = self._acceptable(keys)
        tested: list[str] = []
        arrays: list[str] = []
        kinds: list[str] = []
        values: list[pa.Array] = []
        exactly: list[str] = []
        zeros = False
        for index, name in enumerate(keys.column_names, start=1):
            column, kind = keys.column(name).combine_chunks(), self._kinds.get(name, "")
            if isinstance(column, pa.ChunkedArray):  # pyarrow before 19, for no rows
                column = pa.array([], column.type)
            if pa.types.is_int8(column.type):
                column = column.cast(pa.int16())
            parameter = _PARAMETERS.get(column.type, "numeric")
            direct = (
                (kind in _TEXTS and parameter == "text")
                or (kind in _NUMBERS and parameter in _NUMBERS)
                or (kind in _TIMES and parameter in _TIMES)
                or (kind == parameter)
            )
            known = (self._columns or {})[name]
            tested.append(self._at(name) if direct else known.read.format(self._at(name)))
            if not direct:  # compared as text, without an index
                tested[-1] += "::text"
                column, parameter = column.cast(pa.string()), "text"
            as_kind = kind if direct and kind in ("bpchar", "uuid") else parameter
            if parameter == "numeric":  # drivers before 1.13 bind decimals wrongly
                column = column.cast(pa.string())
            bound_as = "text" if parameter == "numeric" else parameter
            arrays.append(f"${index}::{bound_as}[]")
            kinds.append(as_kind)
            zeros = zeros or pa.types.is_floating(column.type)
            if parameter == "text":
                # A collation that is not binary, and char(n), would match rows of other keys.
                read = f'{known.read.format(self._at(name))}::text COLLATE "C"'
                exactly.append(f"{read} = q.k{index}")
            values.append(pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column))
        statement = f"SELECT {self._selected(columns)} FROM {self._from}"
        if len(tested) == 1:
            statement += f" WHERE {tested[0]} = ANY({arrays[0]}::{kinds[0]}[])"
        else:
            names = [f"k{index}" for index in range(1, len(tested) + 1)]
            given = [f"q.{name}::{kind}" for name, kind in zip(names, kinds, strict=True)]
            given_keys = f"unnest({', '.join(arrays)}) AS q({', '.join(names)})"
            if zeros:  # 0.0 and -0.0 are two keys that match the same rows
                statement += f" WHERE ({', '.join(tested)}) IN (SELECT {', '.join(given)}"
                statement += f" FROM {given_keys})"
            else:
                equal = [f"{test} = {key}" for test, key in zip(tested, given, strict=True)]
                statement += f" JOIN {given_keys} ON {' AND '.join(equal + exactly)}"
        bound = pa.record_batch(values, names=[f"p{i}" for i in range(len(values))])
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(statement, bound)
            return cursor.fetch_arrow_table()

    def _acceptable(self, keys: pa.Table) -> pa.Table:
        """The keys without those that the server would reject: they have no row."""
        for name in keys.column_names:
            column = keys.column(name)
            if pa.types.is_string(column.type):
                keys = keys.filter(pc.invert(pc.match_substring(column, "\0")))
                if self._kinds.get(name) == "uuid":
                    keys = keys.filter(pc.match_substring_regex(keys.column(name), _UUID))
            elif pa.types.is_date(column.type):
                keys = keys.filter(_between(column.cast(pa.int32()), _DAYS))
            elif pa.types.is_timestamp(column.type):
                keys = keys.filter(_between(column.cast(pa.int64()), _MICROSECONDS))
        return keys

    def _stream(
        self, connection: Any, source: str, columns: Sequence[Column], schema: pa.Schema
    ) -> Iterator[pa.Table]:
        _run(connection, "SET statement_timeout = 0")  # no timeout for a scan
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT {self._selected(columns)} FROM {source}")
            with cursor.fetch_record_batch() as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])

    def _count(self, connection: Any) -> int:
        if self.target.table is not None:
            rows = _rows_of(
                connection,
                "SELECT reltuples::int8, relkind IN ('r', 'm') AND NOT relhassubclass "
                "FROM pg_class WHERE oid = to_regclass($1)",
                self._regclass(),
            )
            if rows and rows[0][0] > 0 and rows[0][1]:
                return int(rows[0][0])
        return int(_rows_of(connection, f"SELECT count(*) FROM {self._from}")[0][0])

    def _unique(self, connection: Any) -> list[list[str]]:
        # A unique key of a parent table does not apply to the rows of inheriting tables.
        rows = _rows_of(
            connection,
            "SELECT i.indexrelid::int8, a.attname::text FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indrelid "
            "JOIN generate_series(0, 31) AS n ON n < i.indnkeyatts "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n] "
            "WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid "
            "AND i.indpred IS NULL AND i.indexprs IS NULL "
            "AND (c.relkind = 'p' OR NOT c.relhassubclass)",
            self._regclass(),
        )
        found: dict[int, list[str]] = {}
        for index, name in rows:
            found.setdefault(index, []).append(name)
        return list(found.values())

    def _tables(self, connection: Any) -> list[str]:
        rows = _rows_of(
            connection,
            "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname::text "
            "ELSE n.nspname || '.' || c.relname END FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN "
            "('r', 'v', 'm', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')",
        )
        return [name for (name,) in rows]

    def _may_pass(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state:
            return str(state)[:2] in _PASSING
        text = str(error)
        return type(error).__module__.startswith("adbc") and not any(
            word in text for word in _STAYING_WORDS
        )

    def _refused_to_write(self, error: Exception) -> bool:
        # The reader of a scan does not report the SQLSTATE.
        state = getattr(error, "sqlstate", None)
        return state == _READ_ONLY or (not state and "read-only transaction" in str(error))

    def _error_message(self, error: Exception) -> str:
        # Without the statement, which follows the message.
        text = re.split(r"\s*Query was:", str(error), maxsplit=1)[0]
        state = getattr(error, "sqlstate", None)
        return " ".join(text.split()) + (f" (SQLSTATE {state})" if state else "")


def _between(values: pa.ChunkedArray, limits: tuple[int, int]) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(values, limits[0]), pc.less_equal(values, limits[1]))


def _run(connection: Any, statement: str) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def _rows_of(connection: Any, statement: str, parameter: str | None = None) -> list[Any]:
    with contextlib.closing(connection.cursor()) as cursor:
        if parameter is None:
            cursor.execute(statement)
        else:
            cursor.execute(statement, pa.record_batch({"p": [parameter]}))
        return list(cursor.fetchall())
