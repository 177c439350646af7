"""DuckDB through its Arrow interface: the keys are a registered table, read without a copy."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from bsjoin.errors import SourceError
from bsjoin.sources.databases.declared import Column, Target
from bsjoin.sources.databases.dialect import BATCH_ROWS, Database
from bsjoin.sources.databases.infinite import ENDS, Infinities, bounded, ends_in
from bsjoin.sources.drivers import driver
from bsjoin.sources.types import sparkable

T = TypeVar("T")

# Rounded down: a cast would round to the nearest. An infinite time has no number.
_FROM_NS = (
    "coalesce(make_timestamp(epoch_ns({0}) // 1000 - if(epoch_ns({0}) % 1000 < 0, 1, 0)), "
    "CAST({0} AS TIMESTAMP))"
)
# DuckDB's types that are read as another Arrow type; other types that Spark lacks are text.
_READ_AS: dict[str, tuple[str, pa.DataType]] = {
    "UBIGINT": ("CAST({} AS DECIMAL(20, 0))", pa.decimal128(20, 0)),
    "HUGEINT": ("CAST({} AS VARCHAR)", pa.decimal128(38, 0)),
    "TIMESTAMP_NS": (_FROM_NS, pa.timestamp("us")),
    "TIMESTAMPTZ_NS": (f"CAST({_FROM_NS} AS TIMESTAMPTZ)", pa.timestamp("us", "UTC")),
    "TIMESTAMP_MS": ("CAST({} AS TIMESTAMP)", pa.timestamp("us")),
    "TIMESTAMP_S": ("CAST({} AS TIMESTAMP)", pa.timestamp("us")),
}
_MOST = (1 << 31) - 1, (1 << 63) - 1
_INFINITIES = Infinities(date=(-_MOST[0], _MOST[0]), time=(-_MOST[1], _MOST[1]))
_ENDS = {
    ("DATE", "-infinity"): "make_date(1, 1, 1)",
    ("DATE", "infinity"): "make_date(9999, 12, 31)",
    ("TIMESTAMP", "-infinity"): f"make_timestamp({ENDS['time'][0]})",
    ("TIMESTAMP", "infinity"): f"make_timestamp({ENDS['time'][1]})",
}
# Of these, also inside others, Arrow has bytes or a wrong number. Behind a name is a mark.
_TEXTS = re.compile(r"\b(BIT|UHUGEINT|VARIANT|VARINT|BIGNUM)\b(?![ \"'])")
_OLDEST = [1, 1, 2]  # of the versions before it some leave out the WHERE of a query
_MAY_PASS = {
    "FatalException", "HTTPException", "IOException", "InternalException", "InterruptException",
    "OperationalError", "OutOfMemoryException", "ResourceInUseException", "SerializationException",
    "TransactionException",
}  # fmt: skip
_OF_DATA = {
    "ConversionException", "DataError", "InvalidInputException", "OutOfRangeException",
    "TypeMismatchException",
}  # fmt: skip


class DuckDB(Database):
    """A table or query of a DuckDB file.

    The file is open only during a query: DuckDB does not allow a process to write a file that
    another process has open.
    """

    as_bytes = "encode({})"

    def __init__(self, target: Target, *given: Any) -> None:
        super().__init__(target, *given)
        self.path = target.address.path

    def _open(self) -> Any:
        duckdb = driver("duckdb", "duckdb")
        version = duckdb.__version__
        if [int(number) for number in re.findall(r"\d+", version)[:3]] < _OLDEST:
            raise SourceError(
                f"{self!r}: DuckDB {version} may leave out the WHERE of a query= in look-ups, so "
                'that rows too many come: pip install "bsjoin[duckdb]", which takes 1.1.2 or '
                "newer, on the driver and on every worker"
            )
        memory, shared = self.path == ":memory:", False
        if not memory and not os.path.exists(self.path):
            raise self._no_file(self.path)
        try:
            connection = duckdb.connect(self.path, read_only=not memory)
        except duckdb.ConnectionException:
            # This process has it open for writing; then DuckDB allows only the same mode.
            connection, shared = duckdb.connect(self.path), True
        self._session.was_open = True
        # A table name must not resolve to a Python variable.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET TimeZone = 'UTC'")
        if shared:
            connection.execute("BEGIN TRANSACTION READ ONLY")
        return connection

    def _with_connection(self, work: Callable[[Any], T]) -> T:
        connection = self._open()
        timer = threading.Timer(self.target.timeout_s, connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return work(connection)
        finally:
            timer.cancel()
            connection.close()

    def _describe(self, connection: Any, source: str) -> list[Column]:
        relation = connection.sql(f"SELECT * FROM {source} LIMIT 0")
        schema = relation.to_arrow_table().schema
        # By position: Arrow allows duplicate names, which are refused later.
        return [
            _column(name, str(kind), schema.field(index).type)
            for index, (name, kind) in enumerate(zip(relation.columns, relation.types, strict=True))
        ]

    def _is_absent(self, error: Exception) -> bool:
        return type(error).__name__ == "CatalogException" and "Table with name" in str(error)

    def _fetched(self, connection: Any, statement: str) -> pa.Table:
        return connection.sql(statement).to_arrow_table()

    def _read_as(self, column: Column, dtype: pa.DataType) -> Column:
        column = super()._read_as(column, dtype)
        if pa.types.is_timestamp(dtype) and column.declared == "DATE":  # infinity stays infinite
            return replace(column, read=f"CAST({column.read} AS TIMESTAMP)")
        return column

    def _rows(self, connection: Any, keys: pa.Table, columns: Sequence[Column]) -> pa.Table:
        names = keys.column_names
        inner = [f"k{index}" for index in range(len(names))]
        connection.register("bsjoin_keys", keys.rename_columns(inner))
        equal = []
        for name, key in zip(names, inner, strict=True):
            column, dtype = self._columns[name], keys.column(name).type
            # What has no value in the key's type, in another row, is no fault of this key.
            read = column.read.replace("CAST(", "TRY_CAST(").format(self._at(name))
            if pa.types.is_integer(dtype):
                read = self._at(name)
            elif pa.types.is_decimal(dtype) and column.read != "{}":
                read = f"TRY_CAST({read} AS DECIMAL({dtype.precision}, {dtype.scale}))"
            sides = [read, f"q.{key}"]
            if pa.types.is_string(dtype) != (column.type == pa.string()):
                sides = [f"CAST({side} AS VARCHAR)" for side in sides]
            kind = "DATE" if pa.types.is_date(dtype) else "TIMESTAMP"
            for _, word in ends_in(keys.column(name)):
                value = f"CAST('{word}' AS {kind})"
                sides[0] = f"if({sides[0]} = {value}, {_ENDS[kind, word]}, {sides[0]})"
            equal.append(" = ".join(sides))
        statement = f"{self._select(columns)} SEMI JOIN bsjoin_keys AS q ON {' AND '.join(equal)}"
        return self._fetched(connection, statement)

    def _table(self, rows: pa.Table, columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
        found = {}
        for column, values in zip(columns, rows.columns, strict=True):
            try:
                found[column.name] = bounded(values, _INFINITIES)
                continue
            except OverflowError as error:
                reason = str(error)
            raise self._no_value(column, reason)
        return pa.table(found)

    def _stream(self, connection: Any, statement: str) -> Generator[pa.Table, None, None]:
        relation = connection.sql(statement)
        # The method's name before DuckDB 1.4.
        name = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_arrow_reader"
        with contextlib.closing(getattr(relation, name)(BATCH_ROWS)) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _unique(self, connection: Any) -> list[list[str]]:
        parts = self.target.table or ()
        where = "lower(table_name) = lower(?) AND lower(schema_name) = lower(coalesce(?, "
        where += "current_schema())) AND lower(database_name) = lower(coalesce(?, "
        where += "current_database()))"
        named = [*reversed(parts), None, None][:3]
        constraints = connection.execute(
            "SELECT constraint_column_names FROM duckdb_constraints() "
            f"WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND {where}",
            named,
        ).fetchall()
        found = [list(names) for (names,) in constraints]
        columns = set(self._columns)
        if any(mark in name for name in columns for mark in ",[]()'\""):
            return found  # a match by text below would be ambiguous
        indexes = connection.execute(
            f"SELECT expressions FROM duckdb_indexes() WHERE is_unique AND {where}", named
        ).fetchall()
        for (text,) in indexes:
            names = [part.strip(" '\"") for part in text.strip("[]").split(",")]
            if set(names) <= columns:
                found.append(names)
        return found

    def _tables(self, connection: Any) -> list[str]:
        # In a new transaction: that of the failed statement is aborted.
        rows = connection.cursor().execute(
            "SELECT CASE WHEN table_schema = current_schema() THEN table_name "
            "ELSE table_schema || '.' || table_name END FROM information_schema.tables"
        )
        return [name for (name,) in rows.fetchall()]

    def _may_pass(self, error: Exception) -> bool:
        return type(error).__name__ in _MAY_PASS or isinstance(error, OSError)

    def _is_of_data(self, error: Exception) -> bool:
        return super()._is_of_data(error) or type(error).__name__ in _OF_DATA

    def _refused_to_write(self, error: Exception) -> bool:
        return "read-only mode" in str(error)

    def _message(self, error: Exception) -> str:
        if type(error).__name__ == "InterruptException":
            return f"no answer within timeout={self.target.timeout_s:g} seconds"
        return super()._message(error)


def _column(name: str, declared: str, arrow: pa.DataType) -> Column:
    if declared in _READ_AS:
        read, dtype = _READ_AS[declared]
        return Column(name, dtype, declared, read, exact="STAMP" not in declared)
    known = None if _TEXTS.search(declared) else sparkable(arrow)
    if known in (None, pa.string()):  # a query over files may have either, by the data
        return Column(name, pa.string(), declared, "CAST({} AS VARCHAR)")
    # An infinite time becomes equal to a finite one.
    exact = declared != "DATE" and not declared.startswith("TIMESTAMP")
    return Column(name, known, declared, exact=exact)
