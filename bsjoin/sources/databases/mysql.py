"""MySQL and MariaDB over PyMySQL."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.errors import ArgumentError, DataError
from bsjoin.sources.databases import mysql_errors
from bsjoin.sources.databases.declared import Column, Target
from bsjoin.sources.databases.dialect import BATCH_ROWS, Database
from bsjoin.sources.databases.mysql_options import options_of
from bsjoin.sources.databases.parts import in_parts, sizes_of
from bsjoin.sources.drivers import driver
from bsjoin.sources.rows import array_of, python_values
from bsjoin.sources.types import DECIMAL, decimal_type
from bsjoin.values.python_values import shown

_UNSIGNED, _ENUM_OR_SET = 32, 256 | 2048
_BINARY_CHARSET = 63
_INTEGERS = {
    1: (pa.int8(), pa.int16()),
    2: (pa.int16(), pa.int32()),
    9: (pa.int32(), pa.int32()),
    3: (pa.int32(), pa.int64()),
    8: (pa.int64(), pa.decimal128(20, 0)),
}
_OTHERS = {
    5: pa.float64(),
    7: pa.timestamp("us", "UTC"),
    10: pa.date32(),
    12: pa.timestamp("us"),
    13: pa.int32(),
    255: pa.binary(),
}
# What PyMySQL sends for a value, in bytes: at most twice those of a text, and some for its marks.
_PER_VALUE, _ESCAPED = 48, 2
_HEAD_BYTES = 1 << 16
_NO_TABLE = 1146
_YEAR_S = 31_536_000  # the longest that the server takes
_FLOAT, _BIT, _JSON = "({} + 0e0)", "({} + 0)", "JSON"
_READ_ONLY = 1792
# Other ones of the server would leave rows out, or make others of their texts.
_SETTINGS = (
    "SET time_zone = '+00:00', sql_select_limit = 18446744073709551615, sql_mode = REPLACE(REPLACE("
    "@@sql_mode, 'PAD_CHAR_TO_FULL_LENGTH', ''), 'EMPTY_STRING_IS_NULL', '')"
)
# U+FFFD stands for codes that are none.
_AMBIGUOUS = {
    "armscii8": "().,-'", "big5": "\ufffd", "eucjpms": "\uff5e", "sjis": "\\", "tis620": "\ufffd",
    "ujis": "\\~",
}  # fmt: skip


class MySQL(Database):
    """A table or query of MySQL or MariaDB."""

    mark = "`"
    as_text = "CAST({} AS CHAR)"
    as_bytes = "CAST(CONVERT({} USING utf8mb4) AS BINARY)"

    def __init__(self, target: Target, *given: Any) -> None:
        super().__init__(target, *given)
        self._collations: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        self._packet: int | None = None
        address = target.address
        options_of(address)
        if target.table is not None and not address.path and len(target.table) < 2:
            raise ArgumentError(
                f"url={str(address)!r}: name the database, as in mysql://host/database"
            )

    def _open(self) -> Any:
        pymysql = driver("pymysql", "mysql")
        address, target = self.target.address, self.target
        given = options_of(address)
        connection = pymysql.connect(
            host=address.host or "localhost",
            port=address.port or 3306,
            user=address.user,
            # PyMySQL would encode a str as Latin-1.
            password=(address.password or "").encode(),
            database=address.path or None,
            autocommit=True,
            connect_timeout=max(1, round(target.connect_timeout_s)),
            read_timeout=max(1, round(target.timeout_s)),
            write_timeout=max(1, round(target.timeout_s)),
            **given,
        )
        try:
            if "ssl_ca" in given and not (given.get("ssl_disabled") or connection._secure):
                # PyMySQL 1.1 goes on without; newer ones do not.
                raise pymysql.OperationalError(2026, "ssl_ca= asks for TLS, which the server lacks")
            with connection.cursor() as cursor:
                cursor.execute(_SETTINGS)
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._limit(connection, target.timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def _limit(self, connection: Any, limit_s: float) -> None:
        """Set the server's statement timeout; MariaDB and MySQL have different names for it."""
        for setting in (
            f"max_statement_time = {limit_s:.3f}",
            f"max_execution_time = {int(limit_s * 1000)}",
        ):
            with contextlib.suppress(Exception), connection.cursor() as cursor:
                cursor.execute(f"SET SESSION {setting}")
                return

    def _describe(self, connection: Any, source: str) -> list[Column]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {source} LIMIT 0")
            # The public description lacks signedness and character sets.
            fields = cursor._result.fields
            names = list(dict.fromkeys(field.name for field in fields))
            if len(names) == len(fields):
                told = ", ".join(f"collation({self._at(name)})" for name in names)
                cursor.execute(f"SELECT {told} FROM (SELECT 1) AS o LEFT JOIN {source} ON false")
                if source == self._from:
                    self._collations = dict(zip(names, cursor.fetchone(), strict=True))
                    self._lengths = {field.name: field.length for field in fields}
            return [_column(field) for field in fields]

    def _is_absent(self, error: Exception) -> bool:
        return error.args[:1] == (_NO_TABLE,)

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        if column.type == pa.bool_() and pa.types.is_integer(dtype):
            return column  # TINYINT(1) and BIT(1) are numbers
        found = super()._read_as(column, dtype)
        if pa.types.is_string(dtype) and column.type == pa.binary():
            return replace(found, read=column.read)  # a cast loses what is not UTF-8
        if pa.types.is_string(dtype) and column.read in (_FLOAT, _BIT):
            return replace(found, read=self.as_text.format(column.read))
        return found

    def close(self) -> None:
        """Close the connection; the next one may have another limit."""
        super().close()
        self._packet = None

    def _parts(self, connection: Any, keys: pa.Table) -> Iterable[pa.Table]:
        """The keys that their columns can hold, in statements that the server accepts."""
        if self._packet is None:
            self._packet = int(self._fetched(connection, "SELECT @@max_allowed_packet")[0][0])
        most = max(self._packet - _HEAD_BYTES, self._packet // 2) // _ESCAPED
        long = sizes_of(keys, _PER_VALUE) > most
        if long.any():
            keys = keys.filter(pa.array(~long | self._fits(keys)))
            long = sizes_of(keys, _PER_VALUE) > most
        if long.any():
            key = keys.slice(int(long.argmax()), 1)
            longest = max(keys.column_names, key=lambda name: sizes_of(key.select([name]))[0])
            fault = DataError(
                f"{self!r}: the key {shown(key.column(longest)[0])[:60]!r}... of the column "
                f"{longest!r} has about {sizes_of(key, 0)[0]} bytes, and a statement must be "
                f"shorter than max_allowed_packet={self._packet} of the server: set it higher, or "
                "filter such keys from the stream"
            )
            fault.keys = keys.filter(pa.array(long))
            raise fault
        several = self._has_several(keys)  # apart, so that all others are found by an index
        parts = (keys.filter(pa.array(which)) for which in (~several, several))
        return [one for part in parts for one in in_parts(part, most, _PER_VALUE)]

    def _fits(self, keys: pa.Table) -> NDArray[np.bool_]:
        """Which keys are not longer than their columns, as these were when they were described."""
        found = np.ones(len(keys), bool)
        for name in keys.column_names:
            column, most = keys.column(name), self._lengths.get(name)  # which is in bytes
            if most is not None and pa.types.is_string(column.type) and not self._is_retyped(name):
                found &= pc.less_equal(pc.utf8_length(column), most).to_numpy()
        return found

    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        names = keys.column_names
        values = python_values(keys)
        if not values:
            return ()
        # By an index, unless the keys of this part have several texts in their character set.
        as_utf8 = bool(self._has_several(keys.slice(0, 1))[0])
        tested = ", ".join(self._tested(name, as_utf8) for name in names)
        row = ", ".join("%s" if as_utf8 else self._place(name) for name in names)
        if len(names) > 1:
            row = f"({row})"
        # PyMySQL interprets a percent sign as a placeholder, where there are arguments.
        statement = f"{self._select(columns)} WHERE ({tested})".replace("%", "%%")
        statement += f" IN ({', '.join([row] * len(values))})"
        return self._fetched(connection, statement, list(itertools.chain(*values)))

    def _fetched(
        self, connection: Any, statement: str, arguments: Sequence[Any] | None = None
    ) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return cursor.fetchall()

    def _is_retyped(self, name: str) -> bool:
        """Whether the user's type of a column is not the declared one."""
        return bool(self._columns[name].type != self.schema.field(name).type)

    def _tested(self, name: str, as_utf8: bool) -> str:
        column, dtype = self._columns[name], self.schema.field(name).type
        if column.declared == _JSON or (self._is_retyped(name) and _is_text(dtype)):
            return column.read.format(self._at(name))
        if pa.types.is_floating(dtype) and pa.types.is_decimal(column.type):
            return _FLOAT.format(self._at(name))  # an index would have the nearest decimal alone
        if as_utf8 and pa.types.is_string(dtype):
            return f"CONVERT({self._at(name)} USING utf8mb4)"
        return self._at(name)

    def _has_several(self, keys: pa.Table) -> NDArray[np.bool_]:
        """Which keys a column may have as several texts, which it tells apart."""
        found = np.zeros(len(keys), bool)
        for name in keys.column_names:
            texts, several = keys.column(name), _ambiguous(self._charset(name))
            if several and pa.types.is_string(texts.type):
                found |= np.array([not several.isdisjoint(t) for t in texts.to_pylist()], bool)
        return found

    def _charset(self, name: str) -> str:
        """The character set of a column, with which the name of its collation begins."""
        return (self._collations.get(name) or "binary").partition("_")[0]

    def _place(self, name: str) -> str:
        """The placeholder of a value, converted to the column's character set and collation.

        MariaDB compares row values of another character set incorrectly, and refuses characters
        that the column's character set lacks. The conversion replaces these by question marks; rows
        of other keys that match are ignored.
        """
        charset = self._charset(name)
        if self._is_retyped(name) or charset in ("binary", "utf8mb4"):
            return "%s"
        return f"CONVERT(%s USING {charset}) COLLATE {self._collations[name]}"

    def _table(
        self, rows: Sequence[Sequence[Any]], columns: Sequence[Column], schema: pa.Schema
    ) -> pa.Table:
        values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        arrays = {}
        for column, part in zip(columns, values, strict=True):
            dtype = schema.field(column.name).type
            if column.type is not None and not _is_direct(column.type, dtype):
                dtype = column.type  # it is cast later
            zoned = pa.types.is_timestamp(dtype) and dtype.tz is not None
            plain = pa.timestamp("us") if zoned else dtype
            array = array_of(part, plain, column.name, repr(self))
            arrays[column.name] = pc.assume_timezone(array, "UTC") if zoned else array
        return pa.table(arrays)

    def _stream(self, connection: Any, statement: str) -> Generator[Any, None, None]:
        cursors = driver("pymysql.cursors", "mysql")
        self._limit(connection, 0)  # no timeout for a scan
        with connection.cursor() as cursor:  # nor for who takes its rows
            cursor.execute(f"SET SESSION net_write_timeout = {_YEAR_S}")
        connection._read_timeout = None  # nor until its first row
        _keep_alive(connection._sock)
        # Without arguments, so that a percent sign is literal.
        with connection.cursor(cursors.SSCursor) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows

    def _count(self, connection: Any) -> int:
        if self.target.table is not None:
            found = self._fetched(
                connection,
                "SELECT table_rows FROM information_schema.tables "
                "WHERE table_name = %s AND table_schema = coalesce(%s, database())",
                self._named(),
            )
            if found and found[0][0]:
                return int(found[0][0])
        return super()._count(connection)

    def _named(self) -> tuple[str, str | None]:
        parts = self.target.table or ()
        return parts[-1], (parts[-2] if len(parts) > 1 else None)

    def _unique(self, connection: Any) -> list[list[str]]:
        found: dict[str, list[Any]] = {}
        rows = self._fetched(
            connection,
            "SELECT index_name, column_name FROM information_schema.statistics "
            "WHERE non_unique = 0 AND table_name = %s "
            "AND table_schema = coalesce(%s, database())",
            self._named(),
        )
        for index, column in rows:
            found.setdefault(index, []).append(column)
        # A null name means an expression.
        return [names for names in found.values() if None not in names]

    def _tables(self, connection: Any) -> list[str]:
        statement = "SELECT table_name FROM information_schema.tables "
        statement += "WHERE table_schema = database()"
        return [name for (name,) in self._fetched(connection, statement)]

    _may_pass = staticmethod(mysql_errors.may_pass)
    _is_of_data = staticmethod(mysql_errors.is_of_data)

    def _refused_to_write(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] == _READ_ONLY

    def _message(self, error: Exception) -> str:
        return " ".join(" ".join(map(str, error.args)).split())


def _keep_alive(connection: socket.socket) -> None:
    """Let an error come within two minutes from a host that has vanished."""
    if connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("IDLE", 60), ("INTVL", 10), ("CNT", 6)):
            if option := getattr(socket, f"TCP_KEEP{name}", None):
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


@functools.cache
def _ambiguous(charset: str) -> frozenset[str]:
    """The characters that a character set has more than once, of which a conversion makes one."""
    found = {*_AMBIGUOUS.get(charset, "")}
    if charset in ("cp932", "eucjpms"):
        codes = (bytes([a, b]) for a in range(0x81, 0xFD) for b in range(0x40, 0xFD))
        counts = Counter(code.decode("cp932", "replace") for code in codes)
        # What is no code is read as two characters, or as the one for that.
        found |= {t for t, n in counts.items() if n > 1 and len(t) == 1 and t != "\ufffd"}
    return frozenset(found)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_binary(dtype))


def _is_direct(declared: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether PyMySQL's values of a type make those of the user's type without a cast."""
    if declared.equals(wanted):
        return True
    if _is_text(wanted):
        return bool(declared != pa.binary())
    exact = pa.types.is_integer(declared) or pa.types.is_decimal(declared)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(declared) or pa.types.is_boolean(declared))
    return exact and bool(pa.types.is_decimal(wanted) or pa.types.is_floating(wanted))


def _column(field: Any) -> Column:
    found = _typed(field)
    if found.declared == _JSON:
        return found
    return replace(found, declared=f"{found.type} ({found.declared})")  # which has no name here


def _typed(field: Any) -> Column:
    code, length, unsigned = field.type_code, field.length, bool(field.flags & _UNSIGNED)
    name, declared = field.name, f"type {code}"
    if code in _INTEGERS:
        if code == 1 and length == 1:
            return Column(name, pa.bool_(), declared)
        return Column(name, _INTEGERS[code][unsigned], declared)
    if code in (0, 246):
        digits = length - (field.scale > 0) - (not unsigned)
        return Column(name, decimal_type(digits, field.scale) or DECIMAL, declared)
    if code == 4:  # FLOAT is printed with six digits otherwise
        return Column(name, pa.float32(), declared, _FLOAT)
    if code == 16:
        if length == 1:
            return Column(name, pa.bool_(), declared, _BIT)
        dtype = pa.int64() if length < 64 else pa.decimal128(20, 0)
        return Column(name, dtype, declared, _BIT)
    if code == 11:
        return Column(name, pa.string(), declared, "CAST({} AS CHAR)")
    if code in _OTHERS:
        return Column(name, _OTHERS[code], declared)
    if code == 245:  # it equals no text
        return Column(name, pa.string(), _JSON, "CAST({} AS CHAR)")
    binary = field.charsetnr == _BINARY_CHARSET and not field.flags & _ENUM_OR_SET
    return Column(name, pa.binary() if binary else pa.string(), declared)
