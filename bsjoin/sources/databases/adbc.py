"""``adbc``: a table or query of a database that has an ADBC driver."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin._secrets import secrets_in, secrets_of
from bsjoin.errors import ArgumentError
from bsjoin.sources.arguments import check_texts, check_unique
from bsjoin.sources.databases.declared import Column, Target
from bsjoin.sources.databases.dialect import Database
from bsjoin.sources.databases.parts import between
from bsjoin.sources.databases.pgkeys import storable
from bsjoin.sources.databases.statements import fetched, pieces_of, use_utf8
from bsjoin.sources.drivers import driver as imported
from bsjoin.sources.protocol import Source
from bsjoin.sources.timeouts import run_with_timeout
from bsjoin.sources.types import sparkable
from bsjoin.sources.urls import Address

T = TypeVar("T")

_PLACEHOLDERS = 10_000  # BigQuery takes no more in a statement
_MICROSECONDS = (-(1 << 63) // 1000 + 1, (1 << 63) // 1000 - 1)  # as nanoseconds of 64 bits
_MAY_PASS = {"IO", "INTERNAL", "TIMEOUT", "CANCELLED", "UNKNOWN"}
_OF_DATA = {"INVALID_DATA"}


@dataclass(frozen=True)
class _SQL:
    """What differs in the SQL of databases.

    Args:
        mark: stands before and after a name.
        numbered: whether placeholders are numbered.
        as_text: the database's text of a value.
        text: a column of texts, as they are read and compared.
        marks: around placeholders of some types; of decimals, which are bound as texts then.
        entrypoint: of the driver's library, where it is not the default one.
    """

    mark: str = '"'
    numbered: bool = False
    as_text: str = "CAST({} AS VARCHAR)"
    text: str = "{}"
    marks: Mapping[str, str] = field(default_factory=dict)
    entrypoint: str | None = None


_SQLS = {
    "bigquery": _SQL(mark="`", as_text="CAST({} AS STRING)"),
    "databricks": _SQL(mark="`", as_text="CAST({} AS STRING)"),
    "duckdb": _SQL(entrypoint="duckdb_adbc_init"),
    "mysql": _SQL(mark="`", as_text="CAST({} AS CHAR)"),
    "postgresql": _SQL(
        numbered=True,
        text="CAST({} AS TEXT)",  # char(n) without its padding
        marks={  # older drivers bind other decimals, and null for what is empty
            "decimal": "CAST(CAST({} AS TEXT) AS NUMERIC)",
            "string": "coalesce({}, '')",
            "binary": "coalesce({}, CAST('' AS BYTEA))",
        },
    ),
    "redshift": _SQL(numbered=True),
}


def adbc(
    driver: str,
    *,
    uri: str | None = None,
    options: Mapping[str, str] | None = None,
    table: str | Sequence[str] | None = None,
    query: str | None = None,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool = False,
    timeout: timedelta | str | float = "30 seconds",
    max_keys: int = 10_000,
) -> Source:
    """A table or a query of a database that has an ADBC driver, such as Snowflake and BigQuery.

    For DuckDB, PostgreSQL, MySQL and SQLite take :func:`sql`, which knows their types, unique keys
    and errors. Here the columns have the types that the driver gives, and a look-up is a SELECT
    with the keys in an ``IN`` list of bound values. The drivers ``postgresql`` and ``duckdb`` are
    tested with their databases. Of ``snowflake`` and ``bigquery`` it is tested that they load,
    and that the SQL is as their databases document it: no server of theirs has been tried.
    PostgreSQL's ``numeric`` needs ``schema=``, which gives its digits; its driver makes hundredths
    of ``money``, negative numbers of an ``oid`` from 2^31 on, and one list of an array of several
    dimensions.

    The sessions are not read-only: give an account that may only read. Dates and times that are
    infinite arrive as the driver gives them. Nanoseconds are rounded down to microseconds; a key
    finds all rows of its microsecond.

    Args:
        driver: the name of the driver: of a package ``adbc_driver_NAME``, such as ``"snowflake"``,
            ``"bigquery"`` and ``"flightsql"``, or of a driver that is installed by its manifest.
            Names are quoted by backticks for ``bigquery``, ``databricks`` and ``mysql``, otherwise
            by double quotes; placeholders are ``$1`` for ``postgresql`` and ``redshift``, otherwise
            ``?``.
        uri: where the database is, as the driver documents it. ``None`` (default): ``options`` say
            so.
        options: further options of the driver, such as ``{"adbc.snowflake.sql.warehouse": "W"}``.
            No message shows passwords and tokens of ``uri`` and ``options``. ``None`` (default):
            none.
        table: the table's name, ``"schema.name"``, or a list of the name's parts if they contain
            dots. Exactly one of ``table`` and ``query`` must be given; both are None by default.
        query: a SELECT statement; None (default) if ``table`` is given. It is executed unchanged:
            never insert untrusted text into it.
        schema: Arrow types for some or all columns, to which the values are cast;
            ``pyarrow.string()`` reads the database's text of a value. ``None`` (default): the types
            that the driver gives.
        unique: whether a key has at most one row; default False.
        timeout: how long one look-up may take: a timedelta, a text such as "30 seconds" (default),
            or a number of seconds.
        max_keys: the maximum number of keys per look-up; default 10,000. One statement has at most
            10,000 values.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: an argument is invalid.
        SourceError: from its schema, look-ups and scans: the driver is missing (``pip install
            "bsjoin[adbc]"`` and the driver's package), or the table cannot be read.

    Complexity:
        A look-up of n keys costs what the database needs for an ``IN`` list of n keys; where times
        of the key have nanoseconds, for n ranges joined by ``OR``, which is often a look at each
        row from the first of them to the last.

    Example:
        >>> adbc("snowflake", uri="me:secret@account/shop/public", table="customers")
        adbc('snowflake', table='customers')
    """
    if not isinstance(driver, str) or not driver.replace("-", "_").isidentifier():
        raise ArgumentError(f"driver={driver!r}: give the name of a driver, such as 'snowflake'")
    if driver == "sqlite":
        raise ArgumentError(
            "driver='sqlite' takes the types of columns from their first rows: use "
            'sources.sql("sqlite:////data/shop.db", ...), which takes the declared ones'
        )
    if uri is not None and not isinstance(uri, str):
        raise ArgumentError("uri: give a text, or None")
    named = check_texts(options, "options")
    check_unique(unique, or_none=False)
    if uri is not None and "uri" in named:
        raise ArgumentError("uri: options has one, too: give it once")
    if uri is not None:
        named["uri"] = uri
    address = Address(
        scheme="adbc", driver=driver, user=None, password=None, host=None, port=None, path="",
        options=named, secrets=_secrets(named), shown=driver,
    )  # fmt: skip
    target = Target.of(address, table, query, timeout, timeout)
    return _Adbc(target, schema, unique, max_keys)


def _secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    uri = options.get("uri", "")
    # Snowflake's has no scheme.
    return (*secrets_in(options), *secrets_of(uri if "://" in uri else f"adbc://{uri}"))


class _Adbc(Database):
    def __init__(self, target: Target, *given: Any) -> None:
        super().__init__(target, *given)
        self._sql = _SQLS.get(target.address.driver, _SQL())
        self.mark, self.as_text = self._sql.mark, self._sql.as_text
        self.as_bytes = "{}"
        self._encoding: str | None = None

    def _open(self) -> Any:
        name = self.target.address.driver
        manager = imported("adbc_driver_manager.dbapi", "adbc")
        place: str = name
        if importlib.util.find_spec(f"adbc_driver_{name}"):
            package = importlib.import_module(f"adbc_driver_{name}")
            place = (getattr(package, "_driver_path", None) or package.driver_path)()
        connection = manager.connect(
            driver=place,
            entrypoint=self._sql.entrypoint,
            db_kwargs=self.target.address.options,
            autocommit=True,
        )
        if name == "postgresql":
            try:
                self._encoding = use_utf8(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        try:
            return super()._with_connection(work)
        finally:
            if self.target.address.driver == "duckdb":  # nobody may write a file that is open
                self.close()

    def _limited(self, work: Callable[[], T], *, fresh: bool) -> T:
        limit = self.target.timeout_s * (1 + fresh)
        return run_with_timeout(limit, work, repr(self))

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        if pa.types.is_decimal(dtype) and "type_name=numeric" in column.declared:
            # PostgreSQL's driver gives these as texts; the server compares them as numbers.
            return column
        return super()._read_as(column, dtype)

    def _describe(self, connection: Any, source: str) -> list[Column]:
        schema = fetched(connection, f"SELECT * FROM {source} WHERE 1 = 0").schema
        return [_column(field, self._sql) for field in schema]

    def _parts(self, connection: Any, keys: pa.Table) -> Iterable[pa.Table]:
        if self.target.address.driver == "postgresql":
            keys = storable(keys, self._encoding)
        finer = [name for name in keys.column_names if self._has_nanoseconds(name)]
        for name in finer:
            keys = keys.filter(between(keys.column(name).cast(pa.int64()), _MICROSECONDS))
        at_once = max(1, (_PLACEHOLDERS - 2 * len(finer)) // (keys.num_columns + len(finer)))
        return [keys.slice(begin, at_once) for begin in range(0, len(keys), at_once)]

    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        names, known = keys.column_names, self._columns
        tested = [known[name].read.format(self._at(name)) for name in names]
        finer = [self._has_nanoseconds(name) for name in names]
        given: list[pa.Array] = []
        ends: list[tuple[str, pa.Scalar]] = []  # by which databases leave parts of a table out
        for name, at, is_finer in zip(names, tested, finer, strict=True):
            column = keys.column(name).combine_chunks()
            if is_finer:
                column = column.cast(pa.timestamp("ns", column.type.tz))
                last = pc.add(column, pa.scalar(999, pa.duration("ns")))
                given += [column, last]
                ends += [(f"{at} >= ", pc.min(column)), (f"{at} <= ", pc.max(last))]
            else:
                given.append(column)
        width, marks = len(given), [""] * len(given)
        for place, column in enumerate(given):
            kind = "decimal" if pa.types.is_decimal(column.type) else str(column.type)
            marks[place] = self._sql.marks.get(kind, "{}")
            if kind == "decimal" and kind in self._sql.marks:
                given[place] = column.cast(pa.string())
        rows = [
            [mark.format(self._placeholder(begin + place)) for place, mark in enumerate(marks)]
            for begin in range(0, len(keys) * width, width)
        ]
        if any(finer):
            condition = f"({' OR '.join(_within(tested, finer, iter(row)) for row in rows)})"
        else:
            condition = f"{_row(tested)} IN ({', '.join(map(_row, rows))})"
        values = [column.slice(number, 1) for number in range(len(keys)) for column in given]
        for test, end in ends:
            condition += f" AND {test}{self._placeholder(len(values))}"
            values.append(pa.array([end], end.type))
        statement = f"{self._select(columns)} WHERE {condition}"
        bound = pa.record_batch(values, names=[f"p{place}" for place in range(len(values))])
        return fetched(connection, statement, bound)

    def _has_nanoseconds(self, name: str) -> bool:
        """Whether several times of a key column are read as one, which is a key's."""
        is_time = pa.types.is_timestamp(self.schema.field(name).type)
        return is_time and self._columns[name].declared.startswith("timestamp[ns")

    def _placeholder(self, place: int) -> str:
        return f"${place + 1}" if self._sql.numbered else "?"

    def _table(self, rows: pa.Table, columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
        return pa.table(rows.columns, names=[column.name for column in columns])

    _fetched = staticmethod(fetched)
    _stream = staticmethod(pieces_of)

    def _may_pass(self, error: Exception) -> bool:
        return _status(error) in _MAY_PASS

    def _is_of_data(self, error: Exception) -> bool:
        return super()._is_of_data(error) or _status(error) in _OF_DATA

    def _message(self, error: Exception) -> str:
        text = super()._message(error)
        if _status(error) == "NOT_FOUND" and "[Driver Manager]" in text:
            name = self.target.address.driver
            return (
                f"there is no driver {name!r} here: pip install adbc-driver-{name}, or install "
                f"its manifest, on the driver and on every worker ({text})"
            )
        return text

    def __repr__(self) -> str:
        words = super().__repr__().partition("(")[2]
        return f"adbc({words}"


def _within(tested: Sequence[str], finer: Sequence[bool], places: Iterator[str]) -> str:
    """The condition for a key with times, whose nanoseconds are between two values."""
    tests = [
        f"{at} BETWEEN {next(places)} AND {next(places)}" if is_finer else f"{at} = {next(places)}"
        for at, is_finer in zip(tested, finer, strict=True)
    ]
    return f"({' AND '.join(tests)})"


def _row(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _status(error: Exception) -> str | None:
    """The name of the driver's status; None for other errors."""
    return getattr(getattr(error, "status_code", None), "name", None)


def _column(field: pa.Field, sql: _SQL) -> Column:
    known = sparkable(field.type)
    if known is None:  # such as a time of day
        return Column(field.name, pa.string(), str(field.type), sql.as_text)
    read = sql.text if field.type == pa.string() else "{}"
    return Column(field.name, known, str(field.type), read)
