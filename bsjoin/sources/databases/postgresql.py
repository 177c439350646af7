"""PostgreSQL over ADBC: keys are sent as one array per column, rows are received as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.sources.databases import pgerrors
from bsjoin.sources.databases.declared import Column, Target
from bsjoin.sources.databases.dialect import Database
from bsjoin.sources.databases.infinite import Infinities, bounded, ends_in
from bsjoin.sources.databases.parts import between, in_parts, sizes_of
from bsjoin.sources.databases.pgchanges import TableChanges
from bsjoin.sources.databases.pgkeys import MICROSECONDS, storable
from bsjoin.sources.databases.pgtypes import (
    LENGTHS,
    SLICE,
    TIMES,
    Kind,
    column_of,
    depth_of,
    nested,
    reported_modifiers,
    types_of,
)
from bsjoin.sources.databases.statements import fetched, pieces_of, rows_of, run, use_utf8
from bsjoin.sources.drivers import driver
from bsjoin.sources.timeouts import run_with_timeout

T = TypeVar("T")

_GRACE_S = 5.0  # after statement_timeout, for the server to cancel the statement itself
_TEXTS = {"text", "varchar", "name", "bpchar", "uuid"}
_NUMBERS = {"int2", "int4", "int8", "float4", "float8", "numeric", "oid"}
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
# As the driver returns them: it adds the days from 1970 to 2000 to the server's infinite numbers.
_INFINITIES = Infinities(
    date=(-(1 << 31) + 10_957, -(1 << 31) + 10_956),
    time=(-(1 << 63) + 946_684_800_000_000, -(1 << 63) + 946_684_799_999_999),
    least=MICROSECONDS[0],
)
_OIDS = (0, (1 << 32) - 1)
# The text of a value is that of all sessions, whatever the server, the role or the URL sets.
_TEXTS_OF_VALUES = (
    "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false), "
    "set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false), "
    "set_config('extra_float_digits', '3', false)"
)
# An error comes within two minutes from a host that has vanished, also during a scan.
_KEEP_ALIVE = {"keepalives_idle": "60", "keepalives_interval": "10", "keepalives_count": "6"}
_STATEMENT_BYTES = 64 << 20
_LONGEST_KEY = (1 << 30) - (1 << 16)  # values and messages have less than 1 GB
_FIRST_ROWS = 100


class PostgreSQL(Database):
    """A table or query of PostgreSQL, or of a database with its protocol."""

    as_text = "{}::text"
    as_bytes = "textsend({}::text)"

    def __init__(self, target: Target, *given: Any) -> None:
        super().__init__(target, *given)
        self._kinds: dict[str, str] = {}
        self._encoding: str | None = None

    def table_changes(self) -> TableChanges | None:
        """As in :class:`Source`; None for a query."""
        if self.target.table is None:
            return None
        return TableChanges(self, self.target.changes)

    def _open(self) -> Any:
        dbapi = driver("adbc_driver_postgresql.dbapi", "postgresql")
        connection = dbapi.connect(self._url(), autocommit=True)
        try:
            # Not as startup options of the connection, which poolers refuse.
            run(connection, f"SET statement_timeout = {int(self.target.timeout_s * 1000) or 1}")
            rows_of(connection, _TEXTS_OF_VALUES)
            self._encoding = use_utf8(connection)
            run(connection, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        except BaseException:
            connection.close()
            raise
        return connection

    def _url(self) -> str:
        address, connect_s = self.target.address, self.target.connect_timeout_s
        options = {
            "connect_timeout": str(max(2, round(connect_s))),
            "tcp_user_timeout": str(int((self.target.timeout_s + _GRACE_S) * 1000)),
            **_KEEP_ALIVE,
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

    def _limited(self, work: Callable[[], T], *, fresh: bool) -> T:
        # The server cancels slow statements; this is for a server that does not respond at all.
        limit = self.target.timeout_s + _GRACE_S
        return run_with_timeout(limit + self.target.connect_timeout_s * fresh, work, repr(self))

    def _describe(self, connection: Any, source: str) -> list[Column]:
        schema = fetched(connection, f"SELECT * FROM {source} LIMIT 0").schema
        kinds = self._types(connection, source, schema)
        if source == self._from:
            names = (kind.name for kind in kinds)
            self._kinds = dict(zip(schema.names, names, strict=True))
        return [column_of(field, kind) for field, kind in zip(schema, kinds, strict=True)]

    def _is_absent(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) == "42P01"

    _fetched = staticmethod(fetched)

    def _types(self, connection: Any, source: str, schema: pa.Schema) -> list[Kind]:
        names = schema.names
        if not names:
            return []
        if len(set(names)) < len(names):
            return [Kind("text", None, -1, 0)] * len(names)  # which the caller refuses
        declared: dict[str, tuple[int, int]] = {}
        if source == self._from and self.target.table is not None:
            rows = rows_of(
                connection,
                "SELECT attname::text, atttypmod::int8, attndims::int8 FROM pg_attribute "
                "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
                self._regclass(),
            )
            declared = {name: (modifier, dimensions) for name, modifier, dimensions in rows}
        types = ", ".join(f"pg_typeof({self._at(name)})::oid" for name in names)
        found = []
        for name, reported, (kind, is_array, item, modifier, dimensions) in zip(
            names, reported_modifiers(schema), rows_of(connection, types_of(types, source)),
            strict=True,
        ):  # fmt: skip
            more = declared.get(name, (-1, 0))
            found.append(
                Kind(
                    kind,
                    item if is_array else None,
                    max(modifier, more[0], reported),
                    max(dimensions, more[1]),
                )
            )
        return self._with_dimensions(connection, source, names, found)

    def _with_dimensions(
        self, connection: Any, source: str, names: Sequence[str], kinds: list[Kind]
    ) -> list[Kind]:
        """The kinds; arrays of unknown dimensions have those of the first rows."""
        unknown = [i for i, k in enumerate(kinds) if k.item is not None and not k.dimensions]
        if unknown:
            most = ", ".join(f"max(array_ndims({self._at(names[i])}))::int8" for i in unknown)
            first = f"(SELECT * FROM {source} LIMIT {_FIRST_ROWS}) AS t"
            seen = rows_of(connection, f"SELECT {most} FROM {first}")[0]
            for index, dimensions in zip(unknown, seen, strict=True):
                kinds[index] = replace(kinds[index], dimensions=dimensions or 1)
        return kinds

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        column = super()._read_as(column, dtype)
        if pa.types.is_timestamp(dtype) and column.declared in TIMES:
            return replace(column, read="{}::" + _PARAMETERS[dtype])  # infinity stays infinite
        if pa.types.is_floating(dtype) and column.declared == "numeric":
            return replace(column, read="{}::float8")  # so does NaN
        return column

    def _regclass(self) -> str:
        return ".".join(map(self._quoted, self.target.table or ()))

    def _parts(self, connection: Any, keys: pa.Table) -> Iterable[pa.Table]:
        return in_parts(self._acceptable(keys), _STATEMENT_BYTES)

    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        tested: list[str] = []
        arrays: list[str] = []
        kinds: list[str] = []
        values: list[pa.Array] = []
        exactly: list[str] = []
        ends: list[tuple[int, int, str]] = []
        zeros = False
        for index, name in enumerate(keys.column_names, start=1):
            column, kind = keys.column(name).combine_chunks(), self._kinds.get(name, "")
            if pa.types.is_int8(column.type):
                column = column.cast(pa.int16())
            parameter = _PARAMETERS.get(column.type, "numeric")
            direct = (
                (kind in _TEXTS and parameter == "text")
                or (kind in _NUMBERS and parameter in _NUMBERS)
                or (kind in TIMES and parameter in TIMES)
                or (kind == parameter)
            )
            known = self._columns[name]
            tested.append(self._at(name) if direct else known.read.format(self._at(name)))
            if not direct and parameter != "bytea":  # compared as text, without an index
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
            ends += [(index, end, word) for end, word in ends_in(pa.chunked_array([column]))]
        statement = self._select(columns)
        if len(tested) == 1:
            given = f"{arrays[0]}::{kinds[0]}[]"
            words = ",".join(word for _, _, word in ends)
            if words:
                given = f"({given} || '{{{words}}}'::{kinds[0]}[])"
            statement += f" WHERE {tested[0]} = ANY({given})"
        else:
            names = [f"k{index}" for index in range(1, len(tested) + 1)]
            equals = [f"q.{name}::{kind}" for name, kind in zip(names, kinds, strict=True)]
            given = f"unnest({', '.join(arrays)}) AS q({', '.join(names)})"
            for index, end, word in ends:
                given = _with_infinite(given, names, index, kinds[index - 1], end, word)
            if zeros:  # 0.0 and -0.0 are two keys that match the same rows
                statement += f" WHERE ({', '.join(tested)}) IN (SELECT {', '.join(equals)}"
                statement += f" FROM {given})"
            else:
                equal = [f"{test} = {key}" for test, key in zip(tested, equals, strict=True)]
                statement += f" JOIN {given} ON {' AND '.join(equal + exactly)}"
        named = [f"p{i}" for i in range(len(values))]
        return fetched(connection, statement, pa.record_batch(values, names=named))

    def _selected(self, columns: Sequence[Column]) -> str:
        lengths = [LENGTHS.format(self._at(name)) for name in map(_array_name, columns) if name]
        return ", ".join(filter(None, [super()._selected(columns), *lengths]))

    def _table(self, rows: pa.Table, columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
        """The columns of a result: finite times, and arrays of several dimensions."""
        found, lengths = rows.columns[: len(columns)], iter(rows.columns[len(columns) :])
        for place, column in enumerate(columns):
            try:
                found[place] = bounded(found[place], _INFINITIES)
                if _array_name(column):
                    depth = depth_of(schema.field(column.name).type)
                    found[place] = nested(found[place], next(lengths), depth)
                continue
            except (OverflowError, ValueError) as error:
                reason = str(error)
            raise self._no_value(column, reason)
        return pa.table(dict(zip((c.name for c in columns), found, strict=True)))

    def _acceptable(self, keys: pa.Table) -> pa.Table:
        """The keys without those that the server would reject: they have no row."""
        keys = storable(keys.filter(pa.array(sizes_of(keys) < _LONGEST_KEY)), self._encoding)
        for name in keys.column_names:
            column, kind = keys.column(name), self._kinds.get(name)
            if kind == "uuid" and pa.types.is_string(column.type):
                keys = keys.filter(pc.match_substring_regex(column, _UUID))
            elif kind == "oid" and pa.types.is_integer(column.type):
                keys = keys.filter(between(column, _OIDS))
        return keys

    def _stream(self, connection: Any, statement: str) -> Generator[pa.Table, None, None]:
        run(connection, "SET statement_timeout = 0")  # no timeout for a scan
        yield from pieces_of(connection, statement)

    def _count(self, connection: Any) -> int:
        if self.target.table is not None:
            rows = rows_of(
                connection,
                "SELECT reltuples::int8, relkind IN ('r', 'm') AND NOT relhassubclass "
                "FROM pg_class WHERE oid = to_regclass($1)",
                self._regclass(),
            )
            if rows and rows[0][0] > 0 and rows[0][1]:
                return int(rows[0][0])
        return super()._count(connection)

    def _unique(self, connection: Any) -> list[list[str]]:
        # A unique key of a parent table does not apply to the rows of inheriting tables.
        rows = rows_of(
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
        rows = rows_of(
            connection,
            "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname::text "
            "ELSE n.nspname || '.' || c.relname END FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN "
            "('r', 'v', 'm', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')",
        )
        return [name for (name,) in rows]

    _may_pass = staticmethod(pgerrors.may_pass)
    _is_of_data = staticmethod(pgerrors.is_of_data)
    _refused_to_write = staticmethod(pgerrors.refused_to_write)
    _message = staticmethod(pgerrors.message)


def _array_name(column: Column) -> str | None:
    """The column's name if it is read as an array."""
    return column.name if column.read.endswith(SLICE) else None


def _with_infinite(
    given: str, names: Sequence[str], index: int, kind: str, end: int, word: str
) -> str:
    """The keys and, for those with the end of the calendar, the same with an infinite time."""
    if kind == "date":
        value = f"date '1970-01-01' + {end}"
    else:
        seconds, rest = divmod(end, 1_000_000)
        value = f"'1970-01-01'::{kind} + interval '{seconds} seconds {rest} microseconds'"
    others = [f"'{word}'::{kind}" if name == f"k{index}" else name for name in names]
    return (
        f"(SELECT {', '.join(names)} FROM {given} UNION ALL "
        f"SELECT {', '.join(others)} FROM {given} WHERE k{index} = {value}) "
        f"AS q({', '.join(names)})"
    )
