"""Every type of every database, as payload and as key: nulls, extremes, hostile texts."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from source_stands import Database, DuckDB, MariaDB, PostgreSQL, SQLite, rows

from bsjoin.errors import SourceError
from bsjoin.sources import Source
from bsjoin.sources import postgresql as postgresql_source

INF = math.inf
NAN = math.nan
UTC = dt.UTC
TEXTS = ["", "a", " a", "é☃😀", "it's", '"', "\\", "%s", "`", "a\nb", "'; DROP TABLE t; --"]
BYTES = [b"", b"\x00", b"\x00\xff'\\\"", b"a"]
DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
    dt.datetime(2024, 3, 1, 12, 0, 0, 120000),
    dt.datetime(1000, 1, 1, 0, 0, 1),
]
INSTANTS = [time.replace(tzinfo=UTC) for time in TIMES]
LATER = [time.replace(tzinfo=UTC) for time in (dt.datetime(1970, 1, 2), *TIMES[1:3])]
WIDE = [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001")]
UUIDS = [str(uuid.UUID(int=5)), str(uuid.UUID(int=(1 << 128) - 1))]


def ints(bits: int) -> list[int]:
    return [0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1)]


def d(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")
Case = tuple[str, pa.DataType, list[Any]]
CASES: dict[str, list[Case]] = {
    "sqlite": [
        ("INTEGER", pa.int64(), ints(64)),
        ("BIGINT UNSIGNED", pa.int64(), ints(64)),
        ("REAL", pa.float64(), [0.0, 1.5, -2.25, 1e300, 5e-324, INF, -INF]),
        ("DOUBLE PRECISION", pa.float64(), [0.1]),
        ("TEXT", pa.string(), [*TEXTS, "a\0b"]),
        ("VARCHAR(20)", pa.string(), ["1", "01", "1.0", "a"]),
        ("BLOB", pa.binary(), BYTES),
        ("BOOLEAN", pa.bool_(), [True, False]),
        ("DATE", pa.date32(), DAYS),
        ("TIMESTAMP", us, TIMES),
        ("datetime", us, TIMES),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99", "5.00")),
        ("NUMERIC(15)", pa.decimal128(15, 0), d("0", "-123456789012345")),
        ("NUMERIC", pa.decimal128(38, 18), d("0.5", "-3")),
        ("UUID", pa.string(), UUIDS),
    ],
    "duckdb": [
        ("TINYINT", pa.int8(), ints(8)),
        ("SMALLINT", pa.int16(), ints(16)),
        ("INTEGER", pa.int32(), ints(32)),
        ("BIGINT", pa.int64(), ints(64)),
        ("HUGEINT", pa.decimal128(38, 0), d("0", "9" * 38, "-" + "9" * 38)),
        ("UTINYINT", pa.int16(), [0, 255]),
        ("USMALLINT", pa.int32(), [0, 65535]),
        ("UINTEGER", pa.int64(), [0, (1 << 32) - 1]),
        ("UBIGINT", pa.decimal128(20, 0), d("0", str((1 << 64) - 1))),
        ("FLOAT", pa.float32(), [0.0, 1.5, 16777216.0, INF, -INF, NAN]),
        ("DOUBLE", pa.float64(), [0.1, 1e300, 5e-324, INF, -INF, NAN]),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        ("DECIMAL(38, 18)", pa.decimal128(38, 18), WIDE),
        ("VARCHAR", pa.string(), TEXTS),
        ("BLOB", pa.binary(), BYTES),
        ("BOOLEAN", pa.bool_(), [True, False]),
        ("DATE", pa.date32(), DAYS),
        ("TIMESTAMP", us, TIMES),
        ("TIMESTAMP_S", us, TIMES[:1]),
        ("TIMESTAMP_NS", us, TIMES[:3]),
        ("TIMESTAMPTZ", utc, INSTANTS),
        ("UUID", pa.string(), UUIDS),
        ("ENUM('a', 'b')", pa.string(), ["a", "b"]),
        ("TIME", pa.string(), ["10:11:12", "23:59:59.999999"]),
        ("INTEGER[]", pa.list_(pa.int32()), [[1, None], []]),
        ("STRUCT(x INTEGER, y VARCHAR)", pa.struct([("x", pa.int32()), ("y", pa.string())]),
         [{"x": 1, "y": "a"}]),
    ],
    "postgresql": [
        ("smallint", pa.int16(), ints(16)),
        ("integer", pa.int32(), ints(32)),
        ("bigint", pa.int64(), ints(64)),
        ("oid", pa.int64(), [0, 4294967295]),
        ("real", pa.float32(), [0.0, 1.5, 16777216.0, INF, -INF, NAN]),
        ("double precision", pa.float64(), [0.1, 1e300, 5e-324, INF, -INF, NAN]),
        ("numeric(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        ("numeric(38, 18)", pa.decimal128(38, 18), WIDE),
        ("numeric(38, 0)", pa.decimal128(38, 0), d("0", "-" + "9" * 38)),
        ("numeric(3, -2)", pa.decimal128(5, 0), d("0", "99900")),
        ("numeric", pa.decimal128(38, 18), WIDE),
        ("text", pa.string(), TEXTS),
        ("varchar(30)", pa.string(), TEXTS),
        ("char(4)", pa.string(), ["", "ab", "abcd"]),
        ("name", pa.string(), ["a", "é"]),
        ("uuid", pa.string(), UUIDS),
        ("json", pa.string(), ['{"a": 1}']),
        ("jsonb", pa.string(), ['{"a": 1}']),
        ("bytea", pa.binary(), BYTES),
        ("boolean", pa.bool_(), [True, False]),
        ("date", pa.date32(), DAYS),
        ("timestamp", us, TIMES),
        ("timestamptz", utc, INSTANTS),
        ("time", pa.string(), ["10:11:12", "23:59:59.999999"]),
        ("interval", pa.string(), ["1 day", "02:00:00"]),
        ("inet", pa.string(), ["10.0.0.1/32", "::1/128"]),
        ("a_mood", pa.string(), ["sad", "it's ok"]),
        ("a_domain", pa.decimal128(8, 3), d("1.500")),
        ("integer[]", pa.list_(pa.int32()), [[1, None], []]),
        ("text[]", pa.list_(pa.string()), [["a", None, '"']]),
        ("numeric(5, 2)[]", pa.list_(pa.decimal128(38, 18)), [[Decimal("1.500000000000000000")]]),
    ],
    "mariadb": [
        ("TINYINT", pa.int8(), ints(8)),
        ("TINYINT(1)", pa.bool_(), [True, False]),
        ("TINYINT UNSIGNED", pa.int16(), [0, 255]),
        ("SMALLINT", pa.int16(), ints(16)),
        ("SMALLINT UNSIGNED", pa.int32(), [0, 65535]),
        ("MEDIUMINT", pa.int32(), ints(24)),
        ("INT", pa.int32(), ints(32)),
        ("INT UNSIGNED", pa.int64(), [0, (1 << 32) - 1]),
        ("BIGINT", pa.int64(), ints(64)),
        ("BIGINT UNSIGNED", pa.decimal128(20, 0), d("0", str((1 << 64) - 1))),
        ("FLOAT", pa.float32(), [0.0, 1.5, 16777215.0, 1.2345677614212036]),
        ("DOUBLE", pa.float64(), [0.1, 1e300, 2.2250738585072014e-308]),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        ("DECIMAL(9, 2) UNSIGNED", pa.decimal128(9, 2), d("0.00", "9999999.99")),
        ("DECIMAL(38, 18)", pa.decimal128(38, 18), WIDE),
        ("DECIMAL(65, 30)", pa.decimal128(38, 18), d("1.5")),
        ("CHAR(10) COLLATE utf8mb4_bin", pa.string(), ["", "a", "é☃😀"]),
        ("VARCHAR(30) COLLATE utf8mb4_bin", pa.string(), [*TEXTS, "a\0b"]),
        ("VARCHAR(9) CHARACTER SET latin1", pa.string(), ["é", "x"]),
        ("LONGTEXT", pa.string(), TEXTS),
        ("BINARY(2)", pa.binary(), [b"\x00\xff"]),
        ("VARBINARY(9)", pa.binary(), BYTES),
        ("BLOB", pa.binary(), BYTES),
        ("DATE", pa.date32(), DAYS),
        ("DATETIME(6)", us, TIMES),
        ("DATETIME", us, TIMES[:1]),
        ("TIMESTAMP(6)", utc, LATER),
        ("TIME(3)", pa.string(), ["10:11:12.500", "-838:59:59.000"]),
        ("YEAR", pa.int32(), [1901, 2155]),
        ("ENUM('a', 'it''s')", pa.string(), ["a", "it's"]),
        ("SET('a', 'b')", pa.string(), ["", "a", "a,b"]),
        ("JSON", pa.string(), ['{"a": 1}']),
        ("BIT(1)", pa.bool_(), [True, False]),
        ("BIT(9)", pa.int64(), [0, 511]),
    ],
}  # fmt: skip


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    name = request.param
    if name == "sqlite":
        return SQLite(tmp_path)
    if name == "duckdb":
        return DuckDB(tmp_path)
    server = request.getfixturevalue(name)
    found = PostgreSQL(server.url) if name == "postgresql" else MariaDB(server.url)
    if name == "postgresql":
        found.run(
            "DROP TABLE IF EXISTS t",
            "DROP TYPE IF EXISTS a_mood",
            "DROP DOMAIN IF EXISTS a_domain",
            "CREATE TYPE a_mood AS ENUM ('sad', 'it''s ok')",
            "CREATE DOMAIN a_domain AS numeric(8, 3)",
        )
    return found


def filled(database: Database, *columns: tuple[str, list[Any]]) -> None:
    """A table ``t`` with a number ``i`` and columns ``c``, ``c1`` and so on, each of one type.

    Args:
        database: where.
        columns: the type and the values of each column; after them it has nulls.
    """
    null = "" if isinstance(database, DuckDB) else " NULL"  # TIMESTAMP of MariaDB
    declared = "".join(f", {name(n)} {kind}{null}" for n, (kind, _) in enumerate(columns))
    database.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (i INTEGER{declared})")
    mark = database.place
    places = "".join(
        f", CAST({mark} AS {kind})" if isinstance(database, PostgreSQL) else f", {mark}"
        for kind, _ in columns
    )
    with database.cursor() as cursor:
        for row in range(1 + max(len(values) for _, values in columns)):
            cells = [values[row] if row < len(values) else None for _, values in columns]
            bits = [kind.startswith("BIT") for kind, _ in columns]
            bound = [
                database.bound(_in(database, int(cell) if is_bit and cell is not None else cell))
                for cell, is_bit in zip(cells, bits, strict=True)
            ]
            cursor.execute(f"INSERT INTO t VALUES ({row}{places})", bound)


def name(number: int) -> str:
    return f"c{number or ''}"


def _in(database: Database, value: Any) -> Any:
    if isinstance(value, Decimal) and isinstance(database, DuckDB | PostgreSQL):
        return str(value)
    if isinstance(value, dt.datetime) and isinstance(database, MariaDB):
        return value.replace(tzinfo=None).isoformat(" ")
    return value


def check_types(database: Database, cases: list[Case]) -> None:
    """The values of each column come as they were stored, and are found by their own keys."""
    filled(database, *((declared, values) for declared, _, values in cases))
    source = database.source(table="t")
    number = pa.int64() if isinstance(database, SQLite) else pa.int32()
    types = [(name(n), dtype) for n, (_, dtype, _) in enumerate(cases)]
    assert source.schema == pa.schema([("i", number), *types])
    size = 1 + max(len(values) for *_, values in cases)
    columns = {
        name(n): pa.array([*values, *[None] * (size - len(values))], dtype)
        for n, (_, dtype, values) in enumerate(cases)
    }
    stored = pa.table({"i": pa.array(range(size), number), **columns})
    scanned = pa.Table.from_batches(source.scan(), source.schema)
    through = source.lookup(stored.select(["i"]))
    for column, (declared, dtype, _) in zip(columns, cases, strict=True):
        expected = stored.select(["i", column])
        assert through.schema.field(column).type == dtype
        for found in (scanned, through):
            assert rows(found, ["i", column]) == rows(expected), declared
        if not pa.types.is_nested(dtype):
            there = expected.filter(expected.column(column).is_valid())
            for asked in (there.select([column]), there.select([column, "i"])):
                assert rows(source.lookup(asked, ["i"]), ["i", column]) == rows(there), declared
            one = there.slice(0, 1)
            assert rows(source.lookup(one.select([column]), ["i"]), ["i", column]) == rows(one)
    source.close()


@pytest.mark.parametrize(("database", "cases"), CASES.items(), indirect=["database"], ids=CASES)
def test_types_come_and_are_looked_up_and_those_of_a_query_are_the_same(
    database: Database, cases: list[Case]
) -> None:
    check_types(database, cases)
    source = database.source(query="SELECT * FROM t -- all of it\n;")
    assert source.size() == 1 + max(len(values) for *_, values in cases)
    found = source.lookup(keyed(source, i=[0]))
    for number, (declared, dtype, values) in enumerate(cases):
        assert source.schema.field(name(number)).type == dtype, declared
        column = found.column(name(number)).cast(dtype)
        assert column.to_pylist() == pa.array(values[:1], dtype).to_pylist(), declared
    source.close()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_drivers_that_tell_no_types_make_no_difference(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_source, "reported_modifiers", lambda schema: [-1] * len(schema))
    check_types(database, CASES["postgresql"])


def keyed(source: Source, **columns: list[Any]) -> pa.Table:
    return pa.table(
        {n: pa.array(values, source.schema.field(n).type) for n, values in columns.items()}
    )


BOTH_SIDES: list[tuple[str, str, pa.DataType, list[Any]]] = [
    ("sqlite", "REAL", pa.float64(), [NAN, 0.5]),
    ("sqlite", "DATE", pa.date32(), [-5_000_000, 5_000_000, 0]),
    ("sqlite", "TIMESTAMP", us, [-(1 << 62), (1 << 62), 0]),
    ("duckdb", "DATE", pa.date32(), [-5_000_000, 5_000_000, 0]),
    ("duckdb", "VARCHAR", pa.string(), ["a\0b", "x"]),
    ("postgresql", "text", pa.string(), ["a\0b", "\0", "x"]),
    ("postgresql", "uuid", pa.string(), ["no uuid", UUIDS[0].upper() + " ", "\0", UUIDS[0]]),
    ("postgresql", "date", pa.date32(), [-(1 << 31), (1 << 31) - 1, 0]),
    ("postgresql", "timestamp", us, [-(1 << 63), (1 << 63) - 1, 0]),
    ("postgresql", "timestamptz", utc, [-(1 << 63), (1 << 63) - 1, 0]),
    ("postgresql", "a_mood", pa.string(), ["unknown mood", "\0"]),
    ("mariadb", "DOUBLE", pa.float64(), [NAN, INF, -INF, 0.5]),
    ("mariadb", "DATE", pa.date32(), [-5_000_000, 5_000_000, -719162, 0]),
    ("mariadb", "DATETIME(6)", us, [-(1 << 62), (1 << 62), -62135596800000000, 0]),
    ("mariadb", "TIMESTAMP(6)", utc, [-(1 << 62), (1 << 62), -62135596800000000, 5]),
    ("mariadb", "VARCHAR(9) CHARACTER SET latin1", pa.string(), ["☃", "é", "a\0"]),
    ("mariadb", "ENUM('a')", pa.string(), ["b", "☃"]),
]


@pytest.mark.parametrize(
    ("database", "declared", "dtype", "values"),
    BOTH_SIDES,
    indirect=["database"],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_that_the_database_cannot_hold_have_no_row(
    database: Database, declared: str, dtype: pa.DataType, values: list[Any]
) -> None:
    filled(database, (declared, []))
    source = database.source(table="t")
    assert source.schema.field("c").type == dtype
    storage = {pa.date32(): pa.int32(), us: pa.int64(), utc: pa.int64()}.get(dtype, dtype)
    asked = pa.table({"c": pa.array(values, storage).cast(dtype)})
    assert len(source.lookup(asked)) == 0
    numbers = pa.array(range(len(values)), source.schema.field("i").type)
    assert len(source.lookup(asked.append_column("i", numbers))) == 0
    source.close()


@pytest.mark.parametrize("database", ["duckdb", "postgresql", "sqlite", "mariadb"], indirect=True)
def test_zero_and_minus_zero_bring_a_row_once(database: Database) -> None:
    kind = "DOUBLE PRECISION" if isinstance(database, PostgreSQL) else "DOUBLE"
    filled(database, (kind, [0.0]))
    source = database.source(table="t")
    both = keyed(source, c=[0.0, -0.0])
    assert source.lookup(both).column("i").to_pylist() == [0]
    assert source.lookup(keyed(source, c=[0.0, -0.0], i=[0, 0])).column("i").to_pylist() == [0]
    source.close()


def test_a_column_without_a_type_needs_the_users_word_in_sqlite(tmp_path: Path) -> None:
    database = SQLite(tmp_path)
    database.run("CREATE TABLE t (i INTEGER, c)", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(SourceError, match=r"'c'.*schema="):
        _ = database.source(table="t").schema
    source = database.source(table="t", schema={"c": pa.string()})
    assert source.lookup(keyed(source, c=["a"])).column("i").to_pylist() == [1]
    source.close()


def test_numbers_that_do_not_fit_are_an_error(postgresql: Any) -> None:
    database = PostgreSQL(postgresql.url)
    filled(database, ("numeric", []))
    database.run("INSERT INTO t VALUES (1, 'NaN'), (2, 1e30)")
    source = database.source(table="t")
    for number in (1, 2):
        with pytest.raises(SourceError, match=r"'c'.*decimal128\(38, 18\).*schema="):
            source.lookup(keyed(source, i=[number]))
    other = database.source(table="t", schema={"c": pa.float64()})
    assert other.lookup(keyed(other, i=[2])).column("c").to_pylist() == [1e30]
    for made in (source, other):
        made.close()


@pytest.mark.parametrize("database", CASES, indirect=True)
def test_the_users_types_take_the_place_of_the_declared_ones(database: Database) -> None:
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (i INTEGER, c VARCHAR(20))")
    database.run("INSERT INTO t VALUES (1, '17'), (2, '018')")
    source = database.source(
        table="t", schema=pa.schema([("i", pa.int64()), ("c", pa.decimal128(10, 2))])
    )
    if isinstance(database, SQLite | MariaDB):
        source.close()
        source = database.source(table="t", schema={"i": pa.decimal128(12, 2)})
        assert source.lookup(keyed(source, i=[Decimal(1)])).column("c").to_pylist() == ["17"]
    else:
        assert source.lookup(keyed(source, i=[2])).column("c").to_pylist() == [Decimal(18)]
        assert source.schema.names == ["i", "c"]
    source.close()
    assert json.dumps(source.schema.names)
