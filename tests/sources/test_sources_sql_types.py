"""Every type of every database, as other programs fill it: what a value means, and its own key.

Each row of ``CASES`` is a column of one table per database. What a scan returns is what was stored,
and is found by its own key; a value that has no key is refused, by an error that names the column.
To add a database, add its cases and a way to fill a table to ``source_stands``.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from source_stands import DATABASES, Database, DuckDB, MariaDB, PostgreSQL, SQLite, kinds

from bsjoin.errors import ColumnError, DataError
from bsjoin.sources import Source, adbc
from bsjoin.sources.databases import postgresql as postgresql_source
from bsjoin.sources.databases.infinite import ENDS

INF, NAN = math.inf, math.nan
us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")
i8, i16, i32, i64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
f32, f64, text, raw, day = pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()
wide = pa.decimal128(38, 18)
FIRST, LAST = ENDS["date"]
BEGIN, END = ENDS["time"]


@dataclass(frozen=True)
class Case:
    """A column.

    Args:
        declared: its type in the database.
        dtype: what the source makes of it.
        values: those that the driver is given; they come back.
        written: further ones as SQL, each twice; what they mean, if that is told, as Arrow's
            number of a date or time.
        refused: values, as SQL, that have no meaning.
        told: whether the source is told ``dtype`` as ``schema=``.
        prepare: statements to be run first.
    """

    declared: str
    dtype: pa.DataType
    values: list[Any] = field(default_factory=list)
    written: list[str] | dict[str, Any] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    told: bool = False
    prepare: tuple[str, ...] = ()


def quoted(*texts: str) -> list[str]:
    return [f"'{text}'" for text in texts]


def told(declared: str, dtype: pa.DataType, *rest: Any) -> Case:
    """A column whose type the user gives."""
    written, refused = [*rest, [], []][:2]
    return Case(declared, dtype, [], written, refused, told=True)


def ints(bits: int) -> list[int]:
    return [0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1)]


def d(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


TEXTS = ["", "a", " a", "é☃😀", "it's", '"', "\\", "%s", "`", "a\nb", "'; DROP TABLE t; --"]
TEXTS += ["%(a)s", "?", "$1", "{}"]
MORE = quoted("a", "A", "a ", " a", "", "é", "e", "☃", "a''b", "%s", "1", "01", "1.0", "1e0")
BYTES = [b"", b"\x00", b"\x00\xff'\\\"", b"a"]
DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
MOMENTS = [
    dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
    dt.datetime(2024, 3, 1, 12, 0, 0, 120000), dt.datetime(1000, 1, 1, 0, 0, 1),
]  # fmt: skip
INSTANTS = [time.replace(tzinfo=dt.UTC) for time in MOMENTS]
LATER = [time.replace(tzinfo=dt.UTC) for time in (dt.datetime(1970, 1, 2), *MOMENTS[1:3])]
WIDE = d("12345678901234567890.123456789012345678", "-0.000000000000000001")
UUIDS = [str(uuid.UUID(int=5)), str(uuid.UUID(int=(1 << 128) - 1))]
# As SQLite's functions, Python, SQLAlchemy, Java, JavaScript, Ruby, pandas and Go write them.
TIMES = quoted(
    "2024-01-01", "2024-01-01 00", "2024-01-01 00:00", "2024-01-01T00:00", "2024-01-01 00:00:00",
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
FAR = {"'10000-01-01'": 2_932_897, "'2024-01-01'": 19_723}

CASES: dict[str, list[Case]] = {
    "sqlite": [
        Case("INTEGER", i64, ints(64), ["0", "'5'", "5.0"], ["1.5", "'x'", "'0x10'"]),
        Case("BIGINT UNSIGNED", i64, ints(64)),
        Case("REAL", f64, [0.0, 1.5, -2.25, 1e300, 5e-324, INF, -INF],
             ["0", "5", "-0.0", "1e300", "0.1", "'2.5'", "9e999"], ["'x'"]),
        Case("DOUBLE PRECISION", f64, [0.1]),
        Case("TEXT", text, [*TEXTS, "a\0b"]),
        Case("VARCHAR(20)", text, ["1", "01", "1.0", "a"]),
        Case("TEXT COLLATE NOCASE", text, [], [*MORE, "5", "5.0"],
             ["x'61'", "CAST(x'ff' AS TEXT)"]),
        Case("BLOB", raw, BYTES, ["x''", "x'00ff'", "x'61'"], ["'a'"]),
        Case("BOOLEAN", pa.bool_(), [True, False], ["0", "1", "1.0", "'1'"], ["2", "'true'"]),
        Case("DATE", day, DAYS, quoted("2024-01-01", "0000-01-01", "9999-12-31"),
             [*quoted("2024-01-01 00:00:00", "2024-01-01T10:00", "2024-1-1"), "20240101", "19723"]),
        Case("TIMESTAMP", us, MOMENTS, TIMES, NO_TIMES),
        Case("datetime", us, MOMENTS, TIMES),
        Case("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99", "5.00")),
        Case("DECIMAL(20, 2)", pa.decimal128(20, 2), [], NUMBERS,
             ["1.005", "1e19", "1e30", "1e-45", "'x'", "'1_000'", "x'31'", "1e400"]),
        Case("NUMERIC(15)", pa.decimal128(15, 0), d("0", "-123456789012345")),
        Case("NUMERIC", wide, d("0.5", "-3"),
             ["0.5", "-3", "0.1 + 0.2", "1e-10", "'0.30000000000000004'"], ["1e-20"]),
        Case("CLOB", text, ["a"]),
        Case("NVARCHAR(9)", text, ["é"]),
        Case("INT2", i64, [5]),
        Case("FLOATING POINT", i64, [5]),
        Case("JSON", text, ["{}"]),
        Case("UUID", text, UUIDS),
        told("TEXT", us, TIMES, NO_TIMES),
        told("TEXT", utc, ZONED, quoted("2024-01-01 00:00:00", "Z")),
        told("DATE", us, TIMES, NO_TIMES),
        told("NUMERIC", f64, ["5", "0.5", "9007199254740992"], ["9007199254740993"]),
        told("REAL", f32,
             ["0", "-0.0", "0.1", "0.10000000149011612", "-1.1", "1e-46", "3e38", "1e39", "9e999"]),
        told("TEXT", raw, ["'a'", "CAST(x'61ff' AS TEXT)", "CAST(x'ff' AS TEXT)", "''"]),
        told("DECIMAL(9, 2)", text, ["1.10", "5", "'x'", "x'61'"]),
        told("INTEGER", pa.decimal128(12, 2), ["1", "-5"]),
    ],
    "duckdb": [
        Case("TINYINT", i8, ints(8)),
        Case("SMALLINT", i16, ints(16)),
        Case("INTEGER", i32, ints(32)),
        Case("BIGINT", i64, ints(64)),
        Case("HUGEINT", pa.decimal128(38, 0), d("0", "9" * 38, "-" + "9" * 38), ["-5"],
             ["170141183460469231731687303715884105727"]),
        Case("UTINYINT", i16, [0, 255]),
        Case("USMALLINT", i32, [0, 65535]),
        Case("UINTEGER", i64, [0, (1 << 32) - 1]),
        Case("UBIGINT", pa.decimal128(20, 0), d("0", str((1 << 64) - 1))),
        Case("FLOAT", f32, [0.0, 1.5, 16777216.0, INF, -INF, NAN]),
        Case("DOUBLE", f64, [0.1, 1e300, 5e-324, INF, -INF, NAN], ["0", "'-0.0'", "'nan'"]),
        Case("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        Case("DECIMAL(38, 18)", wide, WIDE),
        Case("VARCHAR", text, TEXTS, MORE),
        Case("VARCHAR COLLATE NOCASE", text, [], MORE),
        Case("BLOB", raw, BYTES),
        Case("BOOLEAN", pa.bool_(), [True, False]),
        Case("DATE", day, DAYS,
             {"'infinity'": LAST, "'-infinity'": FIRST, **FAR, "'4713-01-01 (BC)'": -2_440_550,
              "'5874897-12-31'": 2_145_042_905}),
        Case("TIMESTAMP", us, MOMENTS,
             {"'infinity'": END, "'-infinity'": BEGIN,
              "'294247-01-10 04:00:54.7758'": 9_223_372_036_854_775_800}),
        Case("TIMESTAMPTZ", utc, INSTANTS, {"'infinity'": END, "'-infinity'": BEGIN}),
        Case("TIMESTAMP_S", us, MOMENTS[:1], quoted("infinity", "-infinity")),
        Case("TIMESTAMP_MS", us, [], quoted("infinity", "2024-01-01 10:00:00.123")),
        Case("TIMESTAMP_NS", us, MOMENTS[:3],
             {"'infinity'": END, "'2024-01-01 00:00:00.123456789'": 1_704_067_200_123_456,
              "'1969-12-31 23:59:59.999999999'": -1,
              "'1677-09-21 00:12:43.145225'": -9_223_372_036_854_775}),
        Case("TIMESTAMP_NS[]", pa.list_(us), [],
             {"['1969-12-31 23:59:59.999999999', '1970-01-01 00:00:00.000001999']": [-1, 1]}),
        Case("UUID", text, UUIDS, quoted("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")),
        Case("UUID[]", pa.list_(text), [UUIDS]),
        Case("STRUCT(b BIT, u UHUGEINT)", text, [],
             {f"{{'b': '101'::BIT, 'u': {1 << 127}}}": f"{{'b': 101, 'u': {1 << 127}}}"}),
        Case("STRUCT(\"BIT\" INTEGER)", pa.struct([("BIT", i32)]), [{"BIT": 1}]),
        Case("ENUM('a', 'BIT')", text, ["a", "BIT"]),
        Case("TIME WITH TIME ZONE", text, [], quoted("10:11:12+02")),
        Case("INTERVAL", text, [], ["INTERVAL 1 DAY"]),
        Case("BIT", text, [], ["'101'::BIT"]),
        Case("UHUGEINT", text, [], ["5"]),
        Case("UNION(a INTEGER, b VARCHAR)", text, [], quoted("x")),
        Case("INTEGER[2]", pa.list_(i32), [[1, 2]]),
        Case("TIME", text, ["10:11:12", "23:59:59.999999"]),
        Case("JSON", text, [], ["'{\"a\": 1}'", "'{\"a\":1}'", "'1'"]),
        Case("INTEGER[]", pa.list_(i32), [[1, None], []]),
        Case("STRUCT(x INTEGER, y VARCHAR)", pa.struct([("x", i32), ("y", text)]),
             [{"x": 1, "y": "a"}]),
        Case("STRUCT(a DATE, b TIMESTAMP[])", pa.struct([("a", day), ("b", pa.list_(us))]), [],
             {"{'a': 'infinity', 'b': ['-infinity']}": {"a": LAST, "b": [BEGIN]}}),
        Case("MAP(VARCHAR, DATE)", pa.map_(text, day), [],
             {"MAP {'x': DATE '-infinity'}": [("x", FIRST)]}),
        Case("DATE[][]", pa.list_(pa.list_(day)), [],
             {"[['infinity'], NULL, ['-infinity', '1970-01-02']]": [[LAST], None, [FIRST, 1]]}),
        told("DATE", us, quoted("infinity", "9999-12-31", "2024-01-01")),
        told("TIMESTAMP", text, quoted("infinity", "2024-01-01 10:00")),
        told("HUGEINT", text, ["170141183460469231731687303715884105727", "5"]),
        told("DECIMAL(10, 2)", f64, ["1.1", "5", *(f"{n}.07" for n in range(20))]),
        told("DECIMAL(10, 2)", i32, ["5", "-1"], ["1.5"]),
        told("DOUBLE", i64, ["0", "5", "1e15"], ["1.5", "1e300", "'nan'"]),
        told("DOUBLE", pa.decimal128(20, 2), [], ["1.005", "'nan'"]),
        told("VARCHAR", raw, MORE),
    ],
    "postgresql": [
        Case("smallint", i16, ints(16)),
        Case("integer", i32, ints(32)),
        Case("bigint", i64, ints(64)),
        Case("oid", i64, [0, 4294967295]),
        Case("real", f32, [0.0, 1.5, 16777216.0, INF, -INF, NAN]),
        Case("double precision", f64, [0.1, 1e300, 5e-324, INF, -INF, NAN], ["0", "'-0'"]),
        Case("numeric(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        Case("numeric(38, 18)", wide, WIDE),
        Case("numeric(38, 0)", pa.decimal128(38, 0), d("0", "-" + "9" * 38)),
        Case("numeric(3, -2)", pa.decimal128(5, 0), d("0", "99900")),
        Case("numeric", wide, WIDE, ["1.1", "1.10", "5", "-0", "1e-18"],
             ["'NaN'", "'Infinity'", "1e30", "1e-19"]),
        Case("text", text, TEXTS, MORE),
        Case("varchar(30)", text, TEXTS),
        Case("char(4)", text, ["", "ab", "abcd"], quoted("a", "A", "ab  ")),
        Case("name", text, ["a", "é"]),
        Case("uuid", text, UUIDS, quoted("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
                                         "{a0eebc999c0b4ef8bb6d6bb9bd380a12}")),
        Case("json", text, ['{"a": 1}'], ['\'{"b": 1}\'', '\'{"b":1}\'']),
        Case("jsonb", text, ['{"a": 1}']),
        Case("bytea", raw, BYTES),
        Case("boolean", pa.bool_(), [True, False]),
        Case("date", day, DAYS, {"'infinity'": LAST, "'-infinity'": FIRST, **FAR,
                                 "'4713-01-01 BC'": -2_440_550, "'5874897-12-31'": 2_145_042_905}),
        Case("timestamp", us, MOMENTS,
             {"'infinity'": END, "'-infinity'": BEGIN,
              "'294247-01-10 04:00:54.775807'": 9_223_372_036_854_775_807},
             quoted("294276-12-31 23:59:59.999999", "294247-01-10 04:00:54.775808")),
        Case("timestamptz", utc, INSTANTS,
             {"'infinity'": END, "'-infinity'": BEGIN,
              "'2024-01-01 02:00:00+02'": 1_704_067_200_000_000},
             quoted("294276-12-31 23:59:59Z")),
        Case("timestamp[]", pa.list_(us), [], [],
             ["ARRAY['infinity', '294276-12-31', NULL]::timestamp[]"]),
        Case("time", text, ["10:11:12", "23:59:59.999999"], quoted("10:11", "24:00:00")),
        Case("interval", text, ["1 day", "02:00:00"]),
        *(Case(declared, text, [], quoted(value)) for declared, value in {
            "tsvector": "a fat cat", "point": "(1,2)", "macaddr": "08:00:2b:01:02:03",
            "int4multirange": "{[1,3),[5,7)}", "timetz": "10:11:12+02", "varbit": "1010",
            "pg_lsn": "16/B374D848", "regclass": "pg_class", "cidr": "10.0.0.0/8", "tid": "(0,1)",
            "circle": "<(0,0),1>", "jsonpath": "$.a",
        }.items()),
        Case("inet", text, ["10.0.0.1", "::1", "10.1.2.3/8"]),
        Case("inet[]", pa.list_(text), [["10.0.0.1", None]]),
        Case("an_address[]", pa.list_(text), [],
             {"'{10.0.0.1,10.1.2.3/8,NULL}'": ["10.0.0.1", "10.1.2.3/8", None]}, prepare=(
            "DROP DOMAIN IF EXISTS an_address CASCADE", "CREATE DOMAIN an_address AS inet")),
        Case("money", text, [], ["5", "-1.5"]),
        Case('"char"', text, [], quoted("a", "")),
        Case("bit(3)", text, [], ["B'101'", "B'000'"]),
        Case("a_mood", text, ["sad", "it's ok"], prepare=(
            "DROP TYPE IF EXISTS a_mood CASCADE",
            "CREATE TYPE a_mood AS ENUM ('sad', 'it''s ok')")),
        Case("a_domain", pa.decimal128(8, 3), d("1.500"), prepare=(
            "DROP DOMAIN IF EXISTS a_domain CASCADE", "CREATE DOMAIN a_domain AS numeric(8, 3)")),
        Case("integer[]", pa.list_(i32), [[1, None], []]),
        Case("text[]", pa.list_(text), [["a", None, '"']]),
        Case("numeric(5, 2)[]", pa.list_(wide), [d("1.500000000000000000")]),
        Case("date[][]", pa.list_(pa.list_(day)), [],
             {"'{{infinity,1970-01-02},{-infinity,null}}'": [[LAST, 1], [FIRST, None]]}),
        Case("timestamptz[]", pa.list_(utc), [], {"'{-infinity,infinity}'": [BEGIN, END]}),
        Case("daterange", text, [], {"'[2024-01-01,infinity)'": "[2024-01-01,infinity)",
                                     "'empty'": "empty"}),
        Case("_pair", text, [], {"(1,'infinity')::_pair": "(1,infinity)"}, prepare=(
            "DROP TYPE IF EXISTS _pair CASCADE", "CREATE TYPE _pair AS (a int, b date)")),
        Case("_pair[]", pa.list_(text), [], {"ARRAY[(1, 'infinity')::_pair]": ["(1,infinity)"]}),
        Case("other.date", text, [], quoted("today", "infinity"), prepare=(
            "DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA other",
            "CREATE TYPE other.date AS ENUM ('today', 'infinity')")),
        Case("others.numeric", text, [], quoted("one", "two"), prepare=(
            "DROP SCHEMA IF EXISTS others CASCADE", "CREATE SCHEMA others",
            "CREATE TYPE others.numeric AS ENUM ('one', 'two')")),
        Case("others.numeric[]", pa.list_(text), [], {"'{two,one}'": ["two", "one"]}),
        Case("far", day, [], {"'infinity'": LAST}, prepare=(
            "DROP DOMAIN IF EXISTS far CASCADE", "CREATE DOMAIN far AS date")),
        told("timestamp", text, quoted("infinity", "294276-12-31", "2024-01-01")),
        told("date", us, quoted("infinity", "-infinity", "9999-12-31", "2024-01-01")),
        told("date", text, quoted("infinity", "2024-01-01")),
        told("timestamp", utc, quoted("infinity", "2024-01-01")),
        told("numeric", f64, ["'NaN'", "'Infinity'", "1e30", "0.1", "1e-30"]),
        told("numeric(10, 2)", i32, ["5", "-1"], ["1.5"]),
        told("numeric", text, ["'NaN'", "1.10"]),
        told("float4", f64, ["0.1", "16777216"]),
        told("float8", i64, ["0", "5"], ["1.5", "'nan'"]),
        told("int4", pa.decimal128(12, 2), ["5", "-5"]),
        told("text", raw, MORE),
    ],
    "mariadb": [
        Case("TINYINT", i8, ints(8)),
        Case("TINYINT(1)", pa.bool_(), [True, False], ["0", "1"], ["2", "-1"]),
        Case("TINYINT UNSIGNED", i16, [0, 255]),
        Case("SMALLINT", i16, ints(16)),
        Case("SMALLINT UNSIGNED", i32, [0, 65535]),
        Case("MEDIUMINT", i32, ints(24)),
        Case("INT", i32, ints(32)),
        Case("INT UNSIGNED", i64, [0, (1 << 32) - 1]),
        Case("BIGINT", i64, ints(64)),
        Case("BIGINT UNSIGNED", pa.decimal128(20, 0), d("0", str((1 << 64) - 1))),
        Case("FLOAT", f32, [0.0, 1.5, 16777215.0, 1.2345677614212036]),
        Case("DOUBLE", f64, [0.1, 1e300, 2.2250738585072014e-308]),
        Case("DECIMAL(10, 2)", pa.decimal128(10, 2), d("0.00", "1.10", "-99999999.99")),
        Case("DECIMAL(9, 2) UNSIGNED", pa.decimal128(9, 2), d("0.00", "9999999.99")),
        Case("DECIMAL(38, 18)", wide, WIDE),
        Case("DECIMAL(65, 30)", wide, d("1.5"), ["1.1", "5", "-0"], ["1e30", "1e-20"]),
        Case("CHAR(10) COLLATE utf8mb4_bin", text, ["", "a", "é☃😀"]),
        Case("CHAR(4)", text, [], quoted("a", "A", "ab  ", "")),
        Case("VARCHAR(30) COLLATE utf8mb4_bin", text, [*TEXTS, "a\0b"]),
        Case("VARCHAR(20) COLLATE utf8mb4_general_ci", text, [], MORE),
        Case("VARCHAR(9) CHARACTER SET latin1", text, ["é", "x"], quoted("é", "a", "A ")),
        Case("VARCHAR(9) CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci", text, ["é", "x"]),
        Case("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci", text, ["ß", "x"]),
        Case("VARCHAR(9) CHARACTER SET cp932", text, ["x"],
             [f"_cp932 x'{code}'" for code in ("8790", "81e0", "ed40", "fa5c")]),
        Case("VARCHAR(9) CHARACTER SET big5", text, ["x"], ["_big5 x'a2cc'", "_big5 x'a2ce'"]),
        Case("VARCHAR(9) CHARACTER SET sjis", text, ["x"], ["_sjis x'5c'", "_sjis x'815f'"]),
        Case("VARCHAR(9) CHARACTER SET ujis", text, ["x"], ["_ujis x'7e'", "_ujis x'8fa2b7'"]),
        Case("VARCHAR(9) CHARACTER SET eucjpms", text, ["x"],
             ["_eucjpms x'a1c1'", "_eucjpms x'8fa2b7'"]),
        Case("LONGTEXT", text, TEXTS),
        Case("BINARY(2)", raw, [b"\x00\xff"], ["x'00ff'", "'a'"]),
        Case("VARBINARY(9)", raw, BYTES),
        Case("BLOB", raw, BYTES),
        Case("DATE", day, DAYS, quoted("0001-01-01", "0000-01-01"),
             quoted("0000-00-00", "2024-00-15", "2024-02-00")),
        Case("DATETIME(6)", us, MOMENTS, quoted("2024-01-01", "9999-12-31"),
             quoted("0000-00-00", "2024-02-00 10:00:00")),
        Case("DATETIME", us, MOMENTS[:1]),
        Case("TIMESTAMP(6)", utc, LATER, quoted("2024-01-01 10:00:00", "2038-01-19 03:14:07"),
             quoted("0000-00-00")),
        Case("TIME(3)", text, ["10:11:12.500", "-838:59:59.000"],
             quoted("10:11", "24:00:00.5")),
        Case("YEAR", i32, [1901, 2155], ["0", "2024", "'69'"]),
        Case("ENUM('a', 'it''s')", text, ["a", "it's"], quoted("c")),
        Case("SET('a', 'b')", text, ["", "a", "a,b"], quoted("b,a")),
        Case("JSON", text, ['{"a": 1}'], ['\'{"b":1, "a":2}\'', "'1'"]),
        Case("INET4", text, [], quoted("1.2.3.4")),
        Case("INET6", text, [], quoted("::1")),
        Case("UUID", text, [], quoted(UUIDS[0])),
        Case("POINT", raw, [], ["POINT(1, 2)"]),
        Case("INT ZEROFILL", i64, [5]),
        Case("DOUBLE UNSIGNED", f64, [0.5]),
        Case("BIT(1)", pa.bool_(), [True, False]),
        Case("BIT(9)", i64, [0, 511]),
        told("DATE", text, quoted("2024-01-01", "0000-00-00", "2024-00-15")),
        told("DATE", us, quoted("2024-01-01", "9999-12-31"), quoted("0000-00-00")),
        told("DATETIME(3)", text, quoted("2024-01-01 10:00:00.5", "0000-00-00")),
        told("TIMESTAMP", text, quoted("2024-01-01 10:00:00", "0000-00-00")),
        told("TINYINT(1)", i8, ["0", "1", "2", "-128"]),
        told("DECIMAL(65, 30)", f64, ["0.1", "1e30", "1e-20"]),
        told("DECIMAL(65, 30)", text, ["1.1", "1e30"]),
        told("DECIMAL(10, 2)", i32, ["5", "-1"], ["1.5"]),
        told("INT UNSIGNED", pa.decimal128(12, 2), ["0", "4294967295"]),
        told("DOUBLE", i64, ["0", "5"], ["1.5", "1e300"]),
        told("FLOAT", f64, ["0.1", "5"]),
        told("FLOAT", text, ["0.1", "5"]),
        told("BIT(9)", text, ["0", "511"]),
        told("VARCHAR(20) CHARACTER SET latin1", raw, quoted("é", "a", "A ")),
        told("VARBINARY(9)", text, ["x'c3a9'", "'a'", "''"], ["x'61ff'"]),
    ],
}  # fmt: skip


def each(*quick: str) -> pytest.MarkDecorator:
    """The databases with their cases; all but the quick ones are left to ``make long``."""
    every = [
        pytest.param(*one.values, CASES[kind], id=kind, marks=one.marks)
        for kind, one in zip(CASES, kinds(CASES, *quick), strict=True)
    ]
    return pytest.mark.parametrize(("database", "cases"), every, indirect=["database"])


def name(number: int) -> str:
    return f"c{number or ''}"


def filled(database: Database, *columns: tuple[Case, list[Any], list[str]]) -> Source:
    """A table ``t`` with a number ``i`` and columns ``c``, ``c1`` and so on, and its source.

    Args:
        database: where.
        columns: each with the values that the driver is given, and further ones as SQL; then nulls.
    """
    null = " NULL" if isinstance(database, MariaDB) else ""
    declared = "".join(f", {name(n)} {c.declared}{null}" for n, (c, *_) in enumerate(columns))
    database.run(*(statement for case, *_ in columns for statement in case.prepare))
    with database.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (i INTEGER{declared})")
        for row in range(1 + max(len(given) + len(sql) for _, given, sql in columns)):
            cells, bound = [], []
            for case, given, sql in columns:
                if row < len(given):
                    bits = case.declared.startswith("BIT")
                    bound.append(database.bound(int(given[row]) if bits else given[row]))
                    cast = isinstance(database, PostgreSQL)
                    cells.append(f"CAST(%s AS {case.declared})" if cast else database.place)
                else:
                    cell = [*sql[row - len(given) :], "NULL"][0]
                    escaped = database.place == "%s"
                    cells.append(cell.replace("%", "%%") if escaped else cell)
            cursor.execute(f"INSERT INTO t VALUES ({', '.join([str(row), *cells])})", bound)
        cursor.execute("CREATE INDEX t_i ON t (i)")
    schema = {name(n): case.dtype for n, (case, *_) in enumerate(columns) if case.told}
    return database.source(table="t", schema=schema or None)


def numbers(value: Any) -> Any:
    """Dates and times as the numbers of Arrow, which reach further than Python's."""
    if isinstance(value, pa.ChunkedArray):
        return [numbers(item) for item in value]
    if not value.is_valid:
        return None
    if isinstance(value, pa.MapScalar):
        return [(pair[0].as_py(), numbers(pair[1])) for pair in value.values]
    if isinstance(value, pa.ListScalar):
        return [numbers(item) for item in value.values]
    if isinstance(value, pa.StructScalar):
        return {key: numbers(item) for key, item in value.items()}
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


def comparable(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows, in an order of their own."""
    return sorted(zip(*(map(repr, numbers(column)) for column in table.columns), strict=True))


def check_own_keys(source: Source, scanned: pa.Table) -> None:
    """Every row of a scan is found by its key: all of them at once, and the first ones alone."""
    column = scanned.column_names[1]
    stored = scanned.filter(pc.is_valid(scanned.column(column)))
    expected = comparable(stored)
    if not expected:
        return
    distinct = stored.select([column]).group_by(column).aggregate([])
    for asked in (distinct, stored.select([column, "i"])):
        assert comparable(source.lookup(asked, ["i"]).select(["i", column])) == expected
    for row in range(min(len(distinct), 2)):
        key = distinct.slice(row, 1)
        alone = comparable(source.lookup(key, ["i"]).select(["i", column]))
        own = comparable(key)[0][0]
        assert [r for r in alone if r[1] == own] == [r for r in expected if r[1] == own]


def check_types(database: Database, cases: list[Case], *, by_query: bool = True) -> None:
    columns = [(case, case.values, [*case.written] * 2) for case in cases]
    source = filled(database, *columns)
    number = i64 if isinstance(database, SQLite) else i32
    types = [(name(n), case.dtype) for n, case in enumerate(cases)]
    told = {name(n): case.dtype for n, case in enumerate(cases) if case.told}
    query = database.source(query="SELECT * FROM t -- all of it\n;", schema=told or None)
    for made in (query, source) if by_query else (source,):
        assert made.schema == pa.schema([("i", number), *types])
        scanned = pa.Table.from_batches(made.scan(), made.schema).sort_by("i")
        through = made.lookup(scanned.select(["i"])).sort_by("i")
        assert made.size() in (len(scanned), None) or isinstance(database, MariaDB)
        for column, case in enumerate(cases):
            count = len(case.values) + 2 * len(case.written)
            for found in (scanned[name(column)], through[name(column)]):
                assert len(found) - found.null_count == count, case
                given = numbers(pa.chunked_array([pa.array(case.values, case.dtype)]))
                assert repr(numbers(found)[: len(given)]) == repr(given), case
                if isinstance(case.written, dict):
                    meant = numbers(found)[len(given) : count]
                    assert meant == [*case.written.values()] * 2, case
    for column, case in enumerate(cases):
        if not pa.types.is_nested(case.dtype):
            check_own_keys(source, scanned.select(["i", name(column)]))


@each(*CASES)
def test_values_come_as_they_are_and_rows_are_found_by_their_own_keys(
    database: Database, cases: list[Case]
) -> None:
    check_types(database, cases)


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_drivers_that_tell_no_types_make_no_difference(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_source, "reported_modifiers", lambda schema: [-1] * len(schema))
    cases = [case for case in CASES["postgresql"] if case.values]
    check_types(database, cases, by_query=False)


@each("sqlite", "mariadb")
def test_a_value_without_a_meaning_is_refused_by_name(
    database: Database, cases: list[Case]
) -> None:
    """What the error advises, another type as ``schema=``, is a case of its own above."""
    wrong = [case for case in cases if case.refused]
    source = filled(database, *((case, [], case.refused) for case in wrong))
    number = source.schema.field("i").type
    for column, case in enumerate(wrong):
        says = rf"sql\((?s:.)*'{name(column)}'(?s:.)*(schema=|pyarrow)"
        with pytest.raises(DataError, match=says) as caught:
            list(source.scan([name(column)]))
        assert "s3cret" not in str(caught.value)
        for row in range(len(case.refused)):
            with pytest.raises(DataError, match=says):
                source.lookup(pa.table({"i": pa.array([row], number)}), [name(column)])
    assert sum(map(len, source.scan(["i"]))) == 1 + max(len(case.refused) for case in wrong)


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "postgresql"), indirect=True)
def test_a_fixed_length_text_is_found_as_a_scan_returns_it(database: Database) -> None:
    """Whatever the database compares: with other spaces at its end it is another key."""
    sources = [filled(database, (Case("CHAR(5)", text), [], quoted("a", "b ", "abcde", "")))]
    if isinstance(database, PostgreSQL):
        sources.append(adbc("postgresql", uri=database.url, table="t"))
    for source in sources:
        scanned = pa.Table.from_batches(source.scan(["c"])).column("c").drop_null().unique()
        trimmed = scanned if isinstance(database, SQLite | DuckDB) else pc.utf8_rtrim(scanned, " ")
        assert sorted(trimmed.to_pylist()) == sorted(scanned.to_pylist())
        asked = [text + " " * n for text in ("a", "b", "abcde", "", "A") for n in range(6)]
        found = source.lookup(pa.table({"c": asked}))
        assert set(found.column("c").to_pylist()) == set(asked) & set(scanned.to_pylist())


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_all_decimals_that_are_read_as_one_float_are_found_by_it(database: Database) -> None:
    values = ["0.1", "0.10000000000000000001"]
    source = filled(database, (told("DECIMAL(38, 20)", f64), [], values))
    database.run("CREATE INDEX t_c ON t (c)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_1000")
    assert source.lookup(pa.table({"c": [0.1]})).num_rows == 2


@pytest.mark.parametrize(
    ("declared", "value", "meant"),
    [
        ("VARIANT", "a", "a"),
        ("TIMESTAMPTZ_NS", "2024-02-29 23:59:59.999999999+00", INSTANTS[1]),
        ("TIMESTAMPTZ_NS", "infinity", dt.datetime.max.replace(tzinfo=dt.UTC)),
    ],
)
def test_types_of_some_versions_of_duckdb(
    tmp_path: Path, declared: str, value: str, meant: Any
) -> None:
    import duckdb

    place = DuckDB(tmp_path)
    try:
        place.run(f"CREATE TABLE t AS SELECT 1 AS i, '{value}'::{declared} AS c")
    except duckdb.Error:
        pytest.skip("this version has no such type")
    source = place.source(table="t")
    asked = pa.table({"c": pa.array([meant], source.schema.field("c").type)})
    assert source.lookup(asked).to_pylist() == [{"c": meant, "i": 1}]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_value_that_is_null_to_the_database_comes_once(database: Database) -> None:
    if isinstance(database, MariaDB):
        database.run("CREATE TABLE t (c DATE NOT NULL)", "INSERT INTO t VALUES ('0000-00-00')")
    else:
        database.run("DROP TYPE IF EXISTS _pair CASCADE", "CREATE TYPE _pair AS (a int, b int)")
        database.run("CREATE TABLE t (c _pair)", "INSERT INTO t VALUES (ROW(NULL, NULL)::_pair)")
    source = database.source(table="t", schema={"c": text})
    value = "0000-00-00" if isinstance(database, MariaDB) else "(,)"
    assert source.lookup(pa.table({"c": [None, value]})).to_pylist() == [{"c": value}]
    assert source.lookup(pa.table({"c": pa.nulls(1, text)})).num_rows == 0


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_a_look_up_that_finds_nothing_has_no_value_to_refuse(database: Database) -> None:
    source = filled(database, (told("INTEGER", pa.bool_()), [1], []))
    assert source.lookup(pa.table({"i": pa.array([0, 7], i32)})).to_pylist() == [
        {"i": 0, "c": True}
    ]
    assert source.lookup(pa.table({"i": pa.array([7], i32)})).num_rows == 0


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "postgresql"), indirect=True)
def test_other_types_are_no_keys(database: Database) -> None:
    kinds = [("TEXT", i64), ("TEXT", day), ("TEXT", pa.bool_()), ("TIMESTAMP", day)]
    if isinstance(database, SQLite):  # it stores no such values, or finds them
        kinds = [("TEXT", pa.decimal128(10, 2))]
    if isinstance(database, DuckDB | PostgreSQL):
        kinds.append(("VARCHAR(9)", pa.decimal128(10, 2)))
    source = filled(database, *((told(*kind), [], []) for kind in kinds))
    for number, (_, dtype) in enumerate(kinds):
        with pytest.raises(ColumnError, match=rf"'{name(number)}'.*query="):
            source.is_unique([name(number)])
        with pytest.raises(ColumnError, match=rf"'{name(number)}'.*query="):
            source.lookup(pa.table({name(number): pa.nulls(1, dtype)}))
    assert not source.is_unique(["i"])
    if isinstance(database, DuckDB | PostgreSQL):
        database.run(f"INSERT INTO t (i, {name(number)}) VALUES (1, '018')")
        one = pa.table({"i": pa.array([1], i32)})
        assert source.lookup(one).column(name(number)).to_pylist() == [Decimal(18)]


YEAR_70_000 = 24_847_447  # it is 4464 in 16 bits

FOREIGN: dict[str, list[tuple[str, pa.DataType, list[Any]]]] = {
    "sqlite": [
        ("REAL", f64, [NAN, 0.5]),
        ("DATE", day, [-5_000_000, 5_000_000, YEAR_70_000, 0]),
        ("TIMESTAMP", us, [-(1 << 62), (1 << 62), YEAR_70_000 * 86_400_000_000, 0]),
    ],
    "duckdb": [("DATE", day, [-5_000_000, 5_000_000, 0]), ("VARCHAR", text, ["a\0b", "x"])],
    "postgresql": [
        ("text", text, ["a\0b", "\0", "x"]),
        ("oid", i64, [-1, 1 << 32, 0]),
        ("uuid", text, ["no uuid", UUIDS[0].upper() + " ", "\0", UUIDS[0]]),
        ("date", day, [-(1 << 31), (1 << 31) - 1, 0]),
        ("timestamp", us, [-(1 << 63), (1 << 63) - 1, 0]),
        ("timestamptz", utc, [-(1 << 63), (1 << 63) - 1, 0]),
        ("a_mood", text, ["unknown mood", "\0"]),
    ],
    "mariadb": [
        ("DOUBLE", f64, [NAN, INF, -INF, 0.5]),
        ("DATE", day, [-5_000_000, 5_000_000, YEAR_70_000, -719162, 0]),
        (
            "DATETIME(6)",
            us,
            [-(1 << 62), (1 << 62), YEAR_70_000 * 86_400_000_000, -62135596800000000, 0],
        ),
        ("TIMESTAMP(6)", utc, [-(1 << 62), (1 << 62), -62135596800000000, 5]),
        ("VARCHAR(9) CHARACTER SET latin1", text, ["☃", "é", "a\0"]),
        ("ENUM('a')", text, ["b", "☃"]),
    ],
}


@pytest.mark.parametrize("database", kinds(FOREIGN, "sqlite", "postgresql"), indirect=True)
def test_keys_that_the_database_cannot_hold_have_no_row(
    database: Database, request: pytest.FixtureRequest
) -> None:
    foreign = FOREIGN[request.node.callspec.params["database"]]
    mood = next(case for case in CASES["postgresql"] if case.declared == "a_mood")
    prepare = mood.prepare if isinstance(database, PostgreSQL) else ()
    source = filled(database, *((Case(c, t, prepare=prepare), [], []) for c, t, _ in foreign))
    sources = [source]
    if isinstance(database, PostgreSQL):
        sources.append(adbc("postgresql", uri=database.url, table="t"))
    for number, (declared, dtype, values) in enumerate(foreign):
        assert source.schema.field(name(number)).type == dtype
        storage = {day: i32, us: i64, utc: i64}.get(dtype, dtype)
        asked = pa.table({name(number): pa.array(values, storage).cast(dtype)})
        for one in sources if declared not in ("oid", "uuid") else sources[:1]:
            assert len(one.lookup(asked)) == 0
        places = pa.array(range(len(values)), source.schema.field("i").type)
        assert len(source.lookup(asked.append_column("i", places))) == 0


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_arrays_keep_their_dimensions(database: Database) -> None:
    database.run(
        "CREATE TABLE t (i int, a int[][], b text[][][], n numeric[][], one int[], c bigint[])",
        "INSERT INTO t VALUES (1, '{{1,2},{3,null}}', '{{{a},{b}}}', '{{1.5},{2}}', '{1}', '{5}'),"
        "(2, '{}', '{}', '{}', '{}', '{}'), (3, NULL, NULL, NULL, NULL, NULL),"
        "(4, '[2:3][5:6]={{1,2},{3,4}}', '{{{x,y}},{{z,null}}}', '{{1,2}}', '[0:1]={1,2}', '{}')",
    )
    items = pa.list_(pa.list_(i32))
    for source in (
        database.source(table="t"),
        database.source(query="SELECT i, coalesce(a, a) AS a, b, n, one, c FROM t ORDER BY i"),
    ):
        assert source.schema.field("a").type == items
        found = pa.Table.from_batches(source.scan(["i", "a", "b", "one", "n"])).sort_by("i")
        assert found.drop_columns(["i"]).to_pydict() == {
            "a": [[[1, 2], [3, None]], [], None, [[1, 2], [3, 4]]],
            "b": [[[["a"], ["b"]]], [], None, [[["x", "y"]], [["z", None]]]],
            "one": [[1], [], None, [1, 2]],
            "n": [[d("1.5"), d("2")], [], None, [d("1", "2")]],
        }
    database.run("INSERT INTO t (i, one, c) VALUES (5, '{{1,2}}', '{{1,2}}')")
    source = database.source(table="t")
    fifth = pa.table({"i": pa.array([5], i32)})
    with pytest.raises(DataError, match=r"'one' \(int4\[\]\).*2 dimensions.*\[1, 2\].*schema="):
        source.lookup(fifth)
    assert source.lookup(fifth, ["a"]).column("a").to_pylist() == [None]
    source = database.source(table="t", schema={"one": items, "c": text})
    assert source.lookup(fifth).select(["one", "c"]).to_pylist() == [
        {"one": [[1, 2]], "c": "{{1,2}}"}
    ]
