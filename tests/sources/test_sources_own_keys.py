"""Every row that a scan returns is found by its own key, however another program has written it.

A value that has no such key is refused: an error names its column and the value. To add a source,
add its cases to ``CASES`` and a way to fill a table to ``filled``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import math
import random
import sqlite3
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from source_stands import Database, DuckDB, MariaDB, PostgreSQL, SQLite

from bsjoin.errors import ColumnError, DataError
from bsjoin.sources import Source
from bsjoin.sources.rows import decimal_of
from bsjoin.sources.sqlite import _searches
from bsjoin.sources.sqlite_keys import canonical

us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Case:
    """A column as a program fills it.

    Args:
        declared: its type.
        written: the values as SQL; each has a key.
        refused: values of which a scan says that they have none.
        dtype: the type of ``schema=``; None (default): the declared one.
        prepare: statements to be run first.
    """

    declared: str
    written: list[str]
    refused: list[str] = field(default_factory=list)
    dtype: pa.DataType | None = None
    prepare: tuple[str, ...] = ()


def quoted(*texts: str) -> list[str]:
    return [f"'{text}'" for text in texts]


# As SQLite's functions, Python, SQLAlchemy, Java, JavaScript, Ruby, pandas and Go write them.
TIMES = quoted(
    "2024-01-01", "2024-01-01 00", "2024-01-01 00:00", "2024-01-01T00:00", "2024-01-01 00:00:00",
    "2024-01-01T00:00:00", "2024-01-01 00:00:00.0", "2024-01-01 00:00:00.000",
    "2024-01-01T00:00:00.000000", "2024-02-29 10:20", "2024-02-29T10:20:00", "2024-02-29 10:20:30",
    "2024-02-29 10:20:30.5", "2024-02-29T10:20:30.500", "2024-02-29 10:20:30.50000",
    "2024-02-29 10:20:30.123456", "2024-02-29 10:00:10.10", "0001-01-01 00:00:00", "0000-03-01",
    "9999-12-31 23:59:59.999999", "1969-12-31T23:59:59.9", "2024-02-29 20:00",
)  # fmt: skip
NO_TIMES = [
    *quoted("2024-02-30", "24:00", "2024-01-01 00:00:00+02:00", "2024-01-01T00:00:00Z", "now"),
    *quoted("2024-01-01 00:00:00.1234567", " 2024-01-01", "20240101"), "1704067200", "2460310.5",
]  # fmt: skip
ZONED = quoted(
    "2024-01-01 00:00:00Z", "2024-01-01T00:00:00+00:00", "2024-01-01 02:00:00+02:00",
    "2024-01-01T02:00+0200", "2023-12-31 19:00:00.000-05:00", "2024-02-29 10:20:30.123456Z",
)  # fmt: skip
NUMBERS = [
    "0", "-0.0", "5", "5.0", "1.1", "1.10", "0.1 + 0.2", "1.1 + 2e-16", "-7.25",
    "4.999999999999999", "100000000000000.25", "99999999.99", "123456789012345678", "'7.5'",
    "1e3", "9007199254740993",
]  # fmt: skip
TEXTS = quoted("a", "A", "a ", " a", "", "é", "e", "☃", "a''b", "%s", "1", "01", "1.0", "1e0")

CASES: dict[str, list[Case]] = {
    "sqlite": [
        Case("TIMESTAMP", TIMES, NO_TIMES),
        Case("DATETIME", TIMES),
        Case("TEXT", TIMES, NO_TIMES, us),
        Case("TEXT", ZONED, quoted("2024-01-01 00:00:00", "Z"), utc),
        Case("DATE", quoted("2024-01-01", "0000-01-01", "9999-12-31"),
             [*quoted("2024-01-01 00:00:00", "2024-01-01T10:00", "2024-1-1"), "20240101", "19723"]),
        Case("DATE", TIMES, NO_TIMES, us),
        Case("DECIMAL(20, 2)", NUMBERS,
             ["1.005", "1e19", "1e30", "1e-45", "'x'", "'1_000'", "x'31'", "1e400"]),
        Case("NUMERIC", ["0.5", "-3", "0.1 + 0.2", "1e-10", "'0.30000000000000004'"], ["1e-20"]),
        Case("INTEGER", ["0", "'5'", "5.0", "-9223372036854775808"], ["1.5", "'x'", "'0x10'"]),
        Case("BOOLEAN", ["0", "1", "1.0", "'1'"], ["2", "'true'"]),
        Case("REAL", ["0", "5", "-0.0", "1e300", "0.1", "'2.5'", "9e999"], ["'x'"]),
        Case("NUMERIC", ["5", "0.5", "9007199254740992"], ["9007199254740993"], pa.float64()),
        Case("REAL",
             ["0", "-0.0", "0.1", "0.10000000149011612", "-1.1", "1e-46", "3e38", "1e39", "9e999"],
             [], pa.float32()),
        Case("TEXT COLLATE NOCASE", [*TEXTS, "5", "5.0"], ["x'61'", "CAST(x'ff' AS TEXT)"]),
        Case("VARCHAR(9)", TEXTS, [], pa.binary()),
        Case("TEXT", ["'a'", "CAST(x'61ff' AS TEXT)", "CAST(x'ff' AS TEXT)", "''"], [],
             pa.binary()),
        Case("BLOB", ["x''", "x'00ff'", "x'61'"], ["'a'"]),
        Case("DECIMAL(9, 2)", ["1.10", "5", "'x'", "x'61'"], [], pa.string()),
    ],
    "duckdb": [
        Case("DATE", quoted("infinity", "-infinity", "9999-12-31", "0001-01-01", "2024-01-01",
                            "10000-01-01", "0044-03-15 (BC)")),
        Case("TIMESTAMP", quoted("infinity", "-infinity", "9999-12-31 23:59:59.999999",
                                 "0001-01-01", "2024-01-01 10:00", "294247-01-10")),
        Case("TIMESTAMPTZ", quoted("infinity", "-infinity",
                                   "2024-01-01 02:00:00+02", "0001-01-01")),
        Case("TIMESTAMP_S", quoted("infinity", "-infinity", "2024-01-01 10:00:00")),
        Case("TIMESTAMP_MS", quoted("infinity", "2024-01-01 10:00:00.123")),
        Case("TIMESTAMP_NS", quoted("infinity", "2024-01-01 10:00:00.123456789",
                                    "1969-12-31 23:59:59.999999999")),
        Case("DATE", quoted("infinity", "9999-12-31", "2024-01-01"), [], us),
        Case("TIMESTAMP", quoted("infinity", "2024-01-01 10:00"), [], pa.string()),
        Case("HUGEINT", ["0", "-5", "9" * 38], ["170141183460469231731687303715884105727"]),
        Case("HUGEINT", ["170141183460469231731687303715884105727", "5"], [], pa.string()),
        Case("DECIMAL(10, 2)", ["1.1", "5"], [], pa.float64()),
        Case("DECIMAL(10, 2)", ["5", "-1"], ["1.5"], pa.int32()),
        Case("DOUBLE", ["0", "'-0.0'", "'nan'", "'inf'", "1e300", "0.1"]),
        Case("DOUBLE", ["0", "5", "1e15"], ["1.5", "1e300", "'nan'"], pa.int64()),
        Case("VARCHAR", TEXTS),
        Case("VARCHAR", TEXTS, [], pa.binary()),
        Case("VARCHAR COLLATE NOCASE", TEXTS),
        Case("UUID", quoted("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")),
        Case("JSON", ["'{\"a\": 1}'", "'{\"a\":1}'", "'1'"]),
    ],
    "postgresql": [
        Case("date", quoted("infinity", "-infinity", "9999-12-31", "0001-01-01", "2024-01-01",
                            "10000-01-01", "5874897-12-31", "0044-03-15 BC", "4714-11-24 BC")),
        Case("timestamp", quoted("infinity", "-infinity", "9999-12-31 23:59:59.999999",
                                 "0001-01-01", "2024-01-01 10:00", "294247-01-10 04:00:54.775807"),
             quoted("294276-12-31 23:59:59.999999", "294247-01-10 04:00:54.775808")),
        Case("timestamptz", quoted("infinity", "-infinity", "2024-01-01 02:00:00+02", "2024-01-01"),
             quoted("294276-12-31 23:59:59Z")),
        Case("timestamp", quoted("infinity", "294276-12-31", "2024-01-01"), [], pa.string()),
        Case("date", quoted("infinity", "-infinity", "9999-12-31", "2024-01-01"), [], us),
        Case("date", quoted("infinity", "2024-01-01"), [], pa.string()),
        Case("timestamp", quoted("infinity", "2024-01-01"), [], utc),
        Case("numeric", ["1.1", "1.10", "5", "-0", "1e-18"],
             ["'NaN'", "'Infinity'", "1e30", "1e-19"]),
        Case("numeric", ["'NaN'", "'Infinity'", "1e30", "0.1", "1e-30"], [], pa.float64()),
        Case("numeric(10, 2)", ["5", "-1"], ["1.5"], pa.int32()),
        Case("numeric", ["'NaN'", "1.10"], [], pa.string()),
        Case("float8", ["0", "'-0'", "'nan'", "'inf'", "0.1"]),
        Case("float4", ["0.1", "16777216"], [], pa.float64()),
        Case("float8", ["0", "5"], ["1.5", "'nan'"], pa.int64()),
        Case("int4", ["5", "-5"], [], pa.decimal128(12, 2)),
        Case("text", TEXTS),
        Case("text", TEXTS, [], pa.binary()),
        Case("char(4)", quoted("a", "A", "ab  ", "")),
        Case("uuid", quoted("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
                            "{a0eebc999c0b4ef8bb6d6bb9bd380a12}")),
        Case("json", ['\'{"b": 1}\'', '\'{"b":1}\'']),
        Case("time", quoted("10:11", "24:00:00")),
        Case("money", ["5", "-1.5"]),
        Case("daterange", quoted("[2024-01-01,infinity)", "empty", "[2024-01-01,2024-01-03]")),
        Case("_pair", ["(1,'infinity')::_pair", "(2,null)::_pair"],
             prepare=("DROP TYPE IF EXISTS _pair CASCADE", "CREATE TYPE _pair AS (a int, b date)")),
        Case("other.date", quoted("today", "infinity"), prepare=(
            "DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA other",
            "CREATE TYPE other.date AS ENUM ('today', 'infinity')")),
        Case("far", quoted("infinity", "2024-01-01"), prepare=(
            "DROP DOMAIN IF EXISTS far CASCADE", "CREATE DOMAIN far AS date")),
        Case('"char"', quoted("a", "")),
        Case("bit(3)", ["B'101'", "B'000'"]),
    ],
    "mariadb": [
        Case("DATE", quoted("2024-01-01", "9999-12-31", "0001-01-01", "0000-01-01"),
             quoted("0000-00-00", "2024-00-15", "2024-02-00")),
        Case("DATE", quoted("2024-01-01", "0000-00-00", "2024-00-15"), [], pa.string()),
        Case("DATE", quoted("2024-01-01", "9999-12-31"), quoted("0000-00-00"), us),
        Case("DATETIME(6)", quoted("2024-01-01", "2024-02-29 10:20:30.123456", "9999-12-31"),
             quoted("0000-00-00", "2024-02-00 10:00:00")),
        Case("DATETIME(3)", quoted("2024-01-01 10:00:00.5", "0000-00-00"), [], pa.string()),
        Case("TIMESTAMP", quoted("2024-01-01 10:00:00", "2038-01-19 03:14:07"),
             quoted("0000-00-00")),
        Case("TIMESTAMP", quoted("2024-01-01 10:00:00", "0000-00-00"), [], pa.string()),
        Case("TINYINT(1)", ["0", "1"], ["2", "-1"]),
        Case("TINYINT(1)", ["0", "1", "2", "-128"], [], pa.int8()),
        Case("DECIMAL(65, 30)", ["1.1", "5", "-0"], ["1e30", "1e-20"]),
        Case("DECIMAL(65, 30)", ["0.1", "1e30", "1e-20"], [], pa.float64()),
        Case("DECIMAL(65, 30)", ["1.1", "1e30"], [], pa.string()),
        Case("DECIMAL(10, 2)", ["5", "-1"], ["1.5"], pa.int32()),
        Case("INT UNSIGNED", ["0", "4294967295"], ["-1 + 0"][:0], pa.decimal128(12, 2)),
        Case("DOUBLE", ["0", "5"], ["1.5", "1e300"], pa.int64()),
        Case("FLOAT", ["0.1", "5"], [], pa.float64()),
        Case("FLOAT", ["0.1", "5"], [], pa.string()),
        Case("BIT(9)", ["0", "511"], [], pa.string()),
        Case("VARCHAR(20) COLLATE utf8mb4_general_ci", TEXTS),
        Case("VARCHAR(20) CHARACTER SET latin1", quoted("é", "a", "A ")),
        Case("VARCHAR(20) CHARACTER SET latin1", quoted("é", "a", "A "), [], pa.binary()),
        Case("CHAR(4)", quoted("a", "A", "ab  ", "")),
        Case("BINARY(3)", ["x'00ff'", "'a'"]),
        Case("ENUM('a', 'b')", quoted("a", "c")),
        Case("SET('a', 'b')", quoted("a", "b,a", "")),
        Case("YEAR", ["0", "2024", "'69'"]),
        Case("TIME(3)", quoted("10:11", "-838:59:59", "24:00:00.5")),
        Case("JSON", ['\'{"b":1, "a":2}\'', "'1'"]),
    ],
}  # fmt: skip


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param in ("sqlite", "duckdb"):
        return (SQLite if request.param == "sqlite" else DuckDB)(tmp_path)
    server = request.getfixturevalue(request.param)
    return (PostgreSQL if request.param == "postgresql" else MariaDB)(server.url)


def filled(place: Database, *columns: tuple[Case, list[str]]) -> Source:
    """A table ``t`` with a number ``i`` and columns ``c``, ``c1`` and so on, and its source.

    Args:
        place: where.
        columns: each with its values, which it has twice, and then at least one null.
    """
    null = " NULL" if isinstance(place, MariaDB) else ""
    declared = "".join(f", {name(n)} {case.declared}{null}" for n, (case, _) in enumerate(columns))
    with place.cursor() as cursor:
        if isinstance(place, MariaDB):
            cursor.execute("SET sql_mode = ''")
        prepared = [statement for case, _ in columns for statement in case.prepare]
        for statement in ("DROP TABLE IF EXISTS t", *prepared):
            cursor.execute(statement)
        cursor.execute(f"CREATE TABLE t (i INTEGER{declared})")
        for row in range(1 + 2 * max(len(values) for _, values in columns)):
            cells = [([*values] * 2)[row : row + 1] or ["NULL"] for _, values in columns]
            text = f"INSERT INTO t VALUES ({row}, {', '.join(cell for (cell,) in cells)})"
            cursor.execute(text.replace("%", "%%") if isinstance(place, PostgreSQL) else text)
        cursor.execute("CREATE INDEX tc ON t (i)")
    schema = {name(n): case.dtype for n, (case, _) in enumerate(columns) if case.dtype is not None}
    return place.source(table="t", schema=schema or None)


def name(number: int) -> str:
    return f"c{number or ''}"


def comparable(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, of which Python may lack the dates."""
    for index, each in enumerate(table.schema):
        if pa.types.is_date(each.type) or pa.types.is_timestamp(each.type):
            number = pa.int32() if pa.types.is_date(each.type) else pa.int64()
            table = table.set_column(index, each.name, table.column(index).cast(number))
    return sorted(zip(*(map(repr, column.to_pylist()) for column in table.columns), strict=True))


def check_own_keys(source: Source, column: str = "c", number: str = "i") -> None:
    """Every row of a scan is found by its key: all of them at once, and each alone."""
    scanned = pa.Table.from_batches(source.scan([number, column]))
    stored = scanned.filter(pc.is_valid(scanned.column(column)))
    expected = comparable(stored)
    if not expected:
        return
    distinct = stored.select([column]).group_by(column).aggregate([])
    together = source.lookup(distinct, [number]).select([number, column])
    assert comparable(together) == expected
    both = source.lookup(stored.select([column, number])).select([number, column])
    assert comparable(both) == expected
    for row in range(len(distinct)):
        key = distinct.slice(row, 1)
        alone = comparable(source.lookup(key, [number]).select([number, column]))
        own = comparable(key)[0][0]
        assert [found for found in alone if found[1] == own] == [
            found for found in expected if found[1] == own
        ]


@pytest.mark.parametrize(("place", "cases"), CASES.items(), indirect=["place"], ids=CASES)
def test_a_row_is_found_by_its_own_key(place: Database, cases: list[Case]) -> None:
    source = filled(place, *((case, case.written) for case in cases))
    for number, case in enumerate(cases):
        found = pa.Table.from_batches(source.scan([name(number)])).column(0)
        assert len(found) - found.null_count == 2 * len(case.written), case
        check_own_keys(source, name(number))
    source.close()


@pytest.mark.parametrize(("place", "cases"), CASES.items(), indirect=["place"], ids=CASES)
def test_a_value_without_a_key_is_refused_by_name(place: Database, cases: list[Case]) -> None:
    wrong = [case for case in cases if case.refused]
    source = filled(place, *((case, case.refused) for case in wrong))
    number = source.schema.field("i").type
    for column, case in enumerate(wrong):
        says = rf"'{name(column)}'.*(schema=|pyarrow)"
        with pytest.raises(DataError, match=says) as caught:
            list(source.scan([name(column)]))
        assert "sql(" in str(caught.value)
        for row in range(len(case.refused)):
            with pytest.raises(DataError, match=says):
                source.lookup(pa.table({"i": pa.array([row], number)}), [name(column)])
        del caught  # it holds DuckDB's connection
        gc.collect()
    assert sum(map(len, source.scan(["i"]))) == 1 + 2 * max(len(case.refused) for case in wrong)
    source.close()


@pytest.mark.parametrize("place", CASES, indirect=True)
def test_a_fixed_length_text_is_found_as_a_scan_returns_it(place: Database) -> None:
    """Whatever the database compares: with other spaces at its end it is another key."""
    source = filled(place, (Case("CHAR(5)", []), quoted("a", "b ", "abcde", "")))
    scanned = pa.Table.from_batches(source.scan(["c"])).column("c").drop_null().unique()
    trimmed = scanned if isinstance(place, SQLite | DuckDB) else pc.utf8_rtrim(scanned, " ")
    assert sorted(trimmed.to_pylist()) == sorted(scanned.to_pylist())
    asked = [text + " " * n for text in ("a", "b", "abcde", "", "A") for n in range(6)]
    found = source.lookup(pa.table({"c": asked}))
    assert set(found.column("c").to_pylist()) == set(asked) & set(scanned.to_pylist())
    source.close()


@pytest.mark.parametrize("place", CASES, indirect=True)
def test_other_types_are_no_keys(place: Database) -> None:
    kinds = {"TEXT": [pa.int64(), pa.date32(), pa.bool_()], "TIMESTAMP": [pa.date32()]}
    if isinstance(place, SQLite):  # it stores no such values, or finds them
        kinds = {"TEXT": [pa.decimal128(10, 2)]}
    for declared, types in kinds.items():
        for dtype in types:
            source = filled(place, (Case(declared, [], dtype=dtype), []))
            with pytest.raises(ColumnError, match=r"'c'.*query="):
                source.is_unique(["c"])
            with pytest.raises(ColumnError, match=r"'c'.*query="):
                source.lookup(pa.table({"c": pa.nulls(1, dtype)}))
            assert not source.is_unique(["i"])
            source.close()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    times=st.lists(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), max_size=8),
    units=st.sampled_from([1, 10, 1000, 10**6, 60 * 10**6, 3600 * 10**6, 86_400 * 10**6]),
    seed=st.integers(0, 1 << 32),
)
def test_any_spelling_of_a_time_is_found_in_sqlite(
    tmp_path: Path, times: list[dt.datetime], units: int, seed: int
) -> None:
    chance = random.Random(seed)
    place = SQLite(tmp_path)
    values = []
    for time in times:
        micro = (time - dt.datetime(1, 1, 1)) // dt.timedelta(microseconds=1) // units * units
        full = (dt.datetime(1, 1, 1) + dt.timedelta(microseconds=micro)).isoformat(
            chance.choice(" T"), "microseconds"
        )
        shortest = full.rstrip("0").rstrip(".") if "." in full else full
        for tail in (":00", ":00", "T00", " 00"):
            shortest = shortest.removesuffix(tail)
        ends = [end for end in (10, 13, 16, 19, 21, 22, 23, 24, 25, 26) if end >= len(shortest)]
        values += [full[: chance.choice(ends)] for _ in range(3)]
    source = filled(place, (Case("TIMESTAMP", []), quoted(*values)))
    assert len(pa.Table.from_batches(source.scan())) == 2 * len(values) + 1
    check_own_keys(source)
    source.close()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    numbers=st.lists(
        st.floats(-1e18, 1e18) | st.integers(-(1 << 63), (1 << 63) - 1)
        | st.decimals(-(10**12), 10**12, places=2).map(float), max_size=12,
    ),
    steps=st.integers(0, 40),
    scale=st.integers(0, 14),
    digits=st.sampled_from([14, 15, 38]),
    indexed=st.booleans(),
)  # fmt: skip
@example(numbers=[0.3, 1e15 - 0.125, 1e15, 9.995, 10.0], steps=1, scale=2, digits=38, indexed=True)
@example(numbers=[0.3, 9.995, 10.0, 99.99], steps=5, scale=2, digits=14, indexed=True)
def test_any_number_of_a_decimal_is_found_in_sqlite(
    tmp_path: Path, numbers: list[float], steps: int, scale: int, digits: int, indexed: bool
) -> None:
    place = SQLite(tmp_path)
    near = list(numbers)
    for number in numbers:
        for _ in range(steps if isinstance(number, float) else 0):
            number = math.nextafter(number, math.inf)
        near.append(number)
    case = Case(f"DECIMAL({digits}, {scale})", [])
    source, fine = filled(place, (case, list(map(repr, near)))), []
    for row in range(len(near)):
        with contextlib.suppress(DataError):
            fine += source.lookup(pa.table({"i": [row]}), ["c", "i"]).column("i").to_pylist()
    source.close()
    source = filled(place, (case, [repr(near[row]) for row in fine]))
    if indexed:
        place.run("CREATE INDEX t_c ON t (c)")
    check_own_keys(source)
    source.close()


def test_a_binary_fraction_means_its_decimal_text(tmp_path: Path) -> None:
    place = SQLite(tmp_path)
    source = filled(
        place, (Case("DECIMAL(20, 2)", []), ["0.1 + 0.2", "1.1", "12345678901234567.0"])
    )
    found = pa.Table.from_batches(source.scan(["c"])).column("c").to_pylist()[:3]
    assert found == [Decimal("0.30"), Decimal("1.10"), Decimal("12345678901234568.00")]
    source.close()


@given(st.floats() | st.integers(-(1 << 63), 1 << 63), st.integers(0, 38))
@example(0.1 + 0.2, 2)
@example(1e15 - 0.125, 2)
@example(1e-45, 0)
def test_the_key_of_a_number_is_what_it_means(number: float, scale: int) -> None:
    try:
        meant = int(decimal_of(number, scale).scaleb(scale, Context(prec=400)))
    except ValueError:
        assert canonical(number, pa.decimal128(38, scale)) is None
    else:
        assert canonical(number, pa.decimal128(38, scale)) == str(meant)


@pytest.mark.parametrize(
    ("declared", "dtype", "fine"),
    [
        ("TEXT", utc, "2024-01-01T00:00:00Z"),
        ("TEXT", us, "2024-01-01"),
        ("DECIMAL(20, 2)", pa.decimal128(20, 2), 1.5),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), 1.5),
        ("REAL", pa.float32(), 1.5),
    ],
)
def test_a_text_that_is_not_utf_8_costs_no_other_key_its_row_in_sqlite(
    tmp_path: Path, declared: str, dtype: pa.DataType, fine: Any
) -> None:
    place = SQLite(tmp_path)
    with place.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (i INTEGER, c {declared})")
        cursor.execute("INSERT INTO t VALUES (1, ?)", [fine])
        for wrong in (b"\xff", b"2024-01-01 00:00:00\x00\xff", b"2024-01-01T00:00:00Z\xff"):
            cursor.execute("INSERT INTO t VALUES (2, CAST(? AS TEXT))", [wrong])
    source: Source = place.source(table="t", schema={"c": dtype})
    value = dt.datetime(2024, 1, 1) if pa.types.is_timestamp(dtype) else fine
    key = pa.table({"c": pa.array([value]).cast(dtype)})
    assert source.lookup(key, ["i"]).column("i").to_pylist() == [1]
    source.close()


@pytest.mark.parametrize(
    ("rows", "searched"),
    [
        ("a AS t", False),
        ("i AS t", True),
        ("(SELECT a.*, b.x FROM a JOIN b ON a.b = b.id) AS t", False),
        ("(SELECT i.*, b.x FROM i JOIN b ON i.b = b.id) AS t", True),
        ("(SELECT *, (SELECT max(x) FROM b) FROM i) AS t", True),
        ("(SELECT k, count(*) FROM i GROUP BY k) AS t", False),
        ("(SELECT k FROM i UNION ALL SELECT k FROM a) AS t", False),
    ],
)
def test_keys_are_searched_one_by_one_only_in_an_index_of_sqlite(
    tmp_path: Path, rows: str, searched: bool
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        for name in "ai":
            connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, k DECIMAL, b INT)")
        connection.execute("CREATE TABLE b (id INTEGER PRIMARY KEY, x INT)")
        connection.execute("CREATE INDEX ik ON i (k)")
        statement = (
            "WITH bsjoin_keys(k0, k1) AS (VALUES (?, ?)) SELECT * FROM bsjoin_keys AS q "
            f"CROSS JOIN {rows} ON t.k BETWEEN q.k0 AND q.k1"
        )
        assert _searches(connection, statement, (1, 2)) == searched
