"""Faults of the data: a value without a meaning, a key that cannot be held or sent, and their size.

They are never called transient, and cost no other key anything.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from servers import MariaDB as MariaDBServer
from servers import PostgreSQL as PostgreSQLServer
from source_stands import (
    DATABASES,
    Database,
    DuckDB,
    MariaDB,
    PostgreSQL,
    SQLite,
    kinds,
)

from bsjoin.errors import DataError, SourceError
from bsjoin.sources import Source, adbc, function, sql
from bsjoin.sources.databases import postgresql as postgresql_source
from bsjoin.sources.databases.parts import of_keys
from bsjoin.sources.transient import TransientSourceError, of_data


@contextlib.contextmanager
def encoded(server: PostgreSQLServer, encoding: str) -> Iterator[str]:
    """A database whose texts have an encoding, and its URL."""
    server.execute("DROP DATABASE IF EXISTS encoded")
    server.execute(
        f"CREATE DATABASE encoded ENCODING '{encoding}' TEMPLATE template0 "
        f"LC_COLLATE 'C' LC_CTYPE 'C' OWNER {server.user}"
    )
    try:
        yield server.url.rpartition("/")[0] + "/encoded"
    finally:
        server.execute("DROP DATABASE encoded WITH (FORCE)")


@pytest.mark.long
def test_a_text_that_is_not_utf_8_is_refused_by_name(
    tmp_path: Path, postgresql: PostgreSQLServer
) -> None:
    database = SQLite(tmp_path)
    database.run(
        "CREATE TABLE t (i INTEGER, c TEXT)",
        "INSERT INTO t VALUES (1, CAST(x'61ff' AS TEXT)), (2, 'b')",
    )
    with encoded(postgresql, "SQL_ASCII") as url:
        PostgreSQL(url).run(
            "CREATE TABLE t (i INTEGER, c TEXT)",
            r"INSERT INTO t VALUES (1, E'a\xff'), (2, 'b')",
        )
        for made in (database.source, lambda **how: sql(url, **how)):
            source = made(table="t")
            dtype = source.schema.field("i").type
            bad, good = (pa.table({"i": pa.array([i], dtype)}) for i in (1, 2))
            for work in (lambda: source.lookup(bad), lambda: list(source.scan())):  # noqa: B023
                with pytest.raises(DataError, match=r"'c'.*UTF-8.*binary\(\)"):
                    work()
            assert source.lookup(good).column("c").to_pylist() == ["b"]
            assert len(source.lookup(bad, [])) == 1
            source.close()
            source = made(table="t", schema={"c": pa.binary()})
            assert source.lookup(bad).column("c").to_pylist() == [b"a\xff"]
            both = pa.table({"c": pa.array([b"a\xff", b"b"])})
            assert sorted(source.lookup(both, ["i"]).column("i").to_pylist()) == [1, 2]
            source.close()


@pytest.mark.parametrize(
    ("encoding", "texts"),
    [
        ("LATIN1", ["é", "Ã©", "a"]),  # the second one has the bytes of the first in UTF-8
        ("EUC_JP", ["①", "㈱髙", "\uff5e\uff0d"]),  # which Python's encoding of that name lacks
    ],
)
def test_texts_of_postgresql_come_from_any_encoding(
    encoding: str,
    texts: list[str],
    postgresql: PostgreSQLServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with encoded(postgresql, encoding) as there:
        urls = there, postgresql.url
        for url in urls:
            PostgreSQL(url).run(
                "DROP TABLE IF EXISTS t",
                "CREATE TABLE t (c TEXT)",
                "SET client_encoding = 'UTF8'",
                *(f"INSERT INTO t VALUES ('{text}')" for text in texts),
            )
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        for url in urls:
            for source in (sql(url, table="t"), adbc("postgresql", uri=url, table="t")):
                scanned = pa.Table.from_batches(source.scan())
                assert sorted(scanned["c"].to_pylist()) == sorted(texts)
                found = source.lookup(pa.table({"c": [*texts, "b"]}))["c"].to_pylist()
                assert sorted(found) == sorted(texts)
                asked = pa.table({"c": ["😀", texts[0]]})
                if (encoding, url) == ("EUC_JP", urls[0]):  # not known here to have no row
                    with pytest.raises(Exception, match="no equivalent in encoding"):
                        source.lookup(asked)
                else:
                    assert source.lookup(asked)["c"].to_pylist() == texts[:1]
                source.close()


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "postgresql"), indirect=True)
def test_a_fault_names_the_keys_that_it_concerns(database: Database) -> None:
    declared, value = database.without_meaning
    with database.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (c {database.collated}, i INTEGER, v {declared})")
        for number in range(16):
            written = value if number % 7 == 3 else "NULL"
            cursor.execute(f"INSERT INTO t VALUES ('k{number}', {number}, {written})")
    source = database.source(table="t")
    dtype = source.schema.field("i").type
    keys = pa.table({"c": [f"k{n}" for n in range(24)]})
    both = keys.append_column("i", pa.array(range(24), dtype))
    bad = [3, 10]
    for asked in (keys, both):
        with pytest.raises(DataError, match="'v'") as caught:
            source.lookup(asked)
        found = caught.value.keys
        assert sorted(found["c"].to_pylist()) == ["k10", "k3"]
        assert found.schema == asked.schema
        rest = asked.filter(pa.array([n not in bad for n in range(24)]))
        numbers = source.lookup(rest, ["i"]).column("i").to_pylist()
        assert sorted(numbers) == [n for n in range(16) if n not in bad]
    # A collation finds rows of other keys: their faults are not of these.
    others = pa.table({"c": ["K3", "k3 ", "k5", "K10"]})
    assert source.lookup(others, ["i", "v"]).column("i").to_pylist() == [5]
    # Nor are they of those in the same column, which other rows have.
    numbers = {"schema": {"v": pa.int64()}} if isinstance(database, DuckDB) else {}
    for one in (source, database.source(table="t", **numbers)):
        values = pa.chunked_array([[0, None]], pa.int64()).cast(one.schema.field("v").type)
        assert len(one.lookup(pa.table({"v": values}), [])) == 16 - len(bad)


FAULTS = {
    SQLite: ["abs(-9223372036854775807 - n)", "json_extract('{', '$.a')"],
    DuckDB: ["CAST('a' || n AS INTEGER)", "CAST(2147483647 AS INTEGER) + n", "error('no' || n)"],
    PostgreSQL: [
        "1 / (n - n)", "('a' || n)::int", "2147483647 + n", "sqrt(-n)", "('2024-13-0' || n)::date",
        "(SELECT g FROM generate_series(1, 1 + n) AS g)", "repeat('x', 1073741823 * n)",
        "convert_from(decode('f' || chr(101 + n), 'hex'), 'UTF8')",
    ],
    MariaDB: ["exp(1000 * n)", "9223372036854775807 + n", "(SELECT seq * n FROM seq_1_to_2)"],
}  # fmt: skip


@pytest.mark.parametrize("database", kinds(DATABASES, "duckdb", "mariadb"), indirect=True)
def test_faults_of_values_are_permanent(database: Database) -> None:
    database.run("CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)")
    for fault in FAULTS[type(database)]:
        schema = {"c": pa.int64()} if isinstance(database, SQLite) else None
        source = database.source(query=f"SELECT n, {fault} AS c FROM t", schema=schema)
        keys = pa.table({"n": pa.array([1], source.schema.field("n").type)})
        with pytest.raises(DataError, match=r"sql\("):
            source.lookup(keys)
        assert len(source.lookup(keys, [])) == 1
        source.close()


def driver_errors() -> Iterator[tuple[str, Exception, type[Exception]]]:
    """Errors of each driver, and what they are."""
    import adbc_driver_manager as adbc
    import duckdb
    from pymysql import err

    yield "mysql", err.OperationalError(2013, "lost"), TransientSourceError
    yield "mysql", err.InterfaceError(0, ""), TransientSourceError
    yield "mysql", err.InternalError("Packet sequence number wrong"), TransientSourceError
    for number in (1040, 1053, 1205, 1213, 1317, 1969, 2003, 2006, 3024):
        yield "mysql", err.OperationalError(number, "later"), TransientSourceError
    for number in (1153, 1264, 1292, 1366, 1406, 1690, 3140):
        yield "mysql", err.OperationalError(number, "data"), DataError
    for number in (1044, 1045, 1054, 1064, 1142, 1146, 1267, 1305, 1356):
        yield "mysql", err.OperationalError(number, "for good"), SourceError
    for kind in (adbc.OperationalError, adbc.DataError, adbc.InternalError):
        for state in ("08006", "40001", "53300", "57P01", "57014", "58030", "55P03"):
            yield "postgresql", adbc_error(kind, state), TransientSourceError
        for state in ("22003", "22007", "22021", "22P02", "54000", "21000"):
            yield "postgresql", adbc_error(kind, state), DataError
    for state in ("42P01", "42703", "42883", "28P01", "0A000", "XX001", "XX002"):
        yield "postgresql", adbc_error(adbc.OperationalError, state), SourceError
    gone = "[libpq] PQgetCopyData() failed: server closed the connection unexpectedly"
    yield "postgresql", OSError(gone), TransientSourceError
    yield "postgresql", OSError("PQgetResult failed: ERROR: something"), SourceError
    canceled = "PQgetResult failed: ERROR: canceling statement due to conflict with recovery"
    yield "postgresql", OSError(canceled), TransientSourceError
    for name in ("IOException", "InterruptException", "OutOfMemoryException"):
        yield "duckdb", getattr(duckdb, name)("later"), TransientSourceError
    for name in ("ConversionException", "OutOfRangeException", "InvalidInputException"):
        yield "duckdb", getattr(duckdb, name)("data"), DataError
    for name in ("BinderException", "CatalogException", "ParserException"):
        yield "duckdb", getattr(duckdb, name)("for good"), SourceError
    for code, kind in (
        (sqlite3.SQLITE_BUSY, TransientSourceError),
        (sqlite3.SQLITE_IOERR, TransientSourceError),
        (sqlite3.SQLITE_CORRUPT, SourceError),
        (sqlite3.SQLITE_ERROR, SourceError),
    ):
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode = code  # type: ignore[misc]
        yield "sqlite", error, kind
    yield "sqlite", sqlite3.DataError("string or blob too big"), DataError
    for scheme in ("sqlite", "duckdb", "postgresql", "mysql"):
        for fault in (
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
            UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
            OverflowError("too large"),
            pa.ArrowInvalid("no"),
            pa.ArrowNotImplementedError("no"),
        ):
            yield scheme, fault, DataError
        yield scheme, ZeroDivisionError("a bug"), SourceError


def adbc_error(kind: type[Exception], state: str) -> Exception:
    error = kind.__new__(kind)
    error.__init__("[libpq] failed", status_code=9, sqlstate=state)  # type: ignore[call-arg,misc]
    return error


def test_a_row_of_any_nan_has_the_key_nan() -> None:
    negative = np.array([0xFFF8_0000_0000_0000], np.uint64).view(np.float64)
    for dtype in (pa.float32(), pa.float64()):
        values = pa.array([*negative, -0.0, None, 1.0], from_pandas=False).cast(dtype)
        found, keys = pa.table({"k": values}), pa.table({"k": pa.array([float("nan"), 0.0], dtype)})
        assert len(of_keys(found, keys)) == len(of_keys(keys, found)) == 2


def test_errors_of_drivers_are_what_their_codes_say() -> None:
    for scheme, error, kind in driver_errors():
        path = "/x/y.db" if scheme in ("sqlite", "duckdb") else "host/x"
        source = sql(f"{scheme}://{path if path[0] != '/' else '/' + path}", table="t")
        found = source._translated(error)  # type: ignore[attr-defined]
        assert type(found) is kind, (scheme, repr(error), found)


def test_errors_of_a_users_function_are_of_data_or_transient() -> None:
    assert of_data(UnicodeDecodeError("utf-8", b"\xff", 0, 1, ""))
    assert of_data(pa.ArrowInvalid(""))
    assert not of_data(OSError())
    assert not of_data(ValueError())

    class LostError(OSError, pa.ArrowInvalid):
        pass

    assert not of_data(LostError())

    def wrong(keys: pa.Table) -> pa.Table:
        return pa.table({"k": keys["k"], "v": ["x"] * len(keys)})

    source = function(wrong, {"k": pa.int64(), "v": pa.int64()})
    with pytest.raises(DataError, match=r"'v'.*'x'"):
        source.lookup(pa.table({"k": [1]}))


def long_keys(count: int, length: int) -> list[str]:
    return [f"{number:06}".ljust(length, "x'\\"[number % 3]) for number in range(count)]


def test_long_keys_are_sent_in_several_statements(
    postgresql: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to MariaDB, whose limit is the server's: see below."""
    database = PostgreSQL(postgresql.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (i INTEGER, c TEXT)")
    keys = long_keys(1_000, 5_000)
    there = [0, 1, 2, 499, 998, 999]
    with database.cursor() as cursor:
        for number in there:
            cursor.execute(f"INSERT INTO t VALUES ({number}, %s)", [keys[number]])
    monkeypatch.setattr(postgresql_source, "_STATEMENT_BYTES", 1 << 20)
    source = database.source(table="t")
    asked = pa.table({"c": keys})
    assert sorted(source.lookup(asked, ["i"]).column("i").to_pylist()) == there
    both = asked.append_column("i", pa.array(range(len(keys)), pa.int32()))
    assert sorted(source.lookup(both).column("i").to_pylist()) == there


@pytest.mark.parametrize("database", kinds(DATABASES, "duckdb", "mariadb"), indirect=True)
def test_a_row_comes_once_though_keys_of_several_statements_match_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(
        f"CREATE TABLE t (i INTEGER, f FLOAT, c {database.collated})",
        "INSERT INTO t VALUES (1, 0.0, 'a'), (2, 0.0, 'A'), (3, -0.0, 'b')",
    )
    source = database.source(table="t")
    expected = {"A": 2, "a": 1, "b": 3}
    one = lambda connection, keys: [keys.slice(i, 1) for i in range(len(keys))]  # noqa: E731
    monkeypatch.setattr(type(source), "_parts", lambda self, *args: one(*args))
    for asked in (
        pa.table({"c": ["A", "a", "a ", "b", "B"]}),
        pa.table(
            {
                "c": ["A", "a", "B", "b"],
                "f": pa.array([0.0, -0.0, 0.0, 0.0], source.schema.field("f").type),
            }
        ),
    ):
        found = source.lookup(asked, ["i", "c"])
        assert dict(zip(found["c"].to_pylist(), found["i"].to_pylist(), strict=True)) == expected
        assert len(found) == 3


def test_one_key_that_is_too_long_has_no_row_or_is_named(mariadb: MariaDBServer) -> None:
    database = MariaDB(mariadb.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (i INTEGER, c VARCHAR(20), d LONGTEXT)")
    database.run("INSERT INTO t VALUES (1, 'a', 'b')")
    long = "x'" * (10 << 20)
    source = database.source(table="t")
    assert source.lookup(pa.table({"c": ["a", long]}), ["i"]).column("i").to_pylist() == [1]
    # Longer than max_allowed_packet, not than the column.
    with pytest.raises(DataError, match=r"\"x'x'.*'d'.*20971520 bytes.*max_allowed_packet") as e:
        source.lookup(pa.table({"d": ["b", long]}), ["i"])
    assert e.value.keys.equals(pa.table({"d": [long]}))
    assert len(source.lookup(pa.table({"d": ["b"]}))) == 1
    # A column may become longer while it is queried.
    database.run("ALTER TABLE t MODIFY c VARCHAR(200)", f"INSERT INTO t (c) VALUES ('{'b' * 90}')")
    assert source.lookup(pa.table({"c": ["b" * 90]}), []).num_rows == 1


def test_every_text_of_mysql_comes_whatever_the_url_says(mariadb: MariaDBServer) -> None:
    database = MariaDB(mariadb.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (c VARCHAR(4))")
    database.run("INSERT INTO t VALUES ('😀'), ('?')")
    source = sql(f"{mariadb.url}?charset=utf8", table="t")
    assert source.lookup(pa.table({"c": ["😀", "\ufffd"]})).to_pylist() == [{"c": "😀"}]


def test_only_keys_that_a_column_may_have_as_several_texts_are_found_without_an_index(
    mariadb: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = MariaDB(mariadb.url)
    database.run(
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (i INTEGER, c VARCHAR(4) CHARACTER SET cp932)",
        "INSERT INTO t VALUES (1, '髙'), (2, 'a'), (3, 'b')",
    )
    source: Any = database.source(table="t")
    fetched, asked = source._fetched, []

    def noted(connection: Any, statement: str, values: Any = None) -> Any:
        asked.append((values, "USING utf8mb4" in statement))
        return fetched(connection, statement, values)

    monkeypatch.setattr(source, "_fetched", noted)
    found = source.lookup(pa.table({"c": ["a", "髙", "b", "c"]}), ["i"])
    assert sorted(found["i"].to_pylist()) == [1, 2, 3]
    assert [one for one in asked if one[0]] == [(["a", "b", "c"], False), (["髙"], True)]
    source.close()


@pytest.mark.long
def test_the_servers_limit_is_asked_for_anew(mariadb: MariaDBServer) -> None:
    database = MariaDB(mariadb.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (i INTEGER, c VARCHAR(300))")
    database.run("INSERT INTO t VALUES (1, 'a')")
    source: Source = database.source(table="t")
    asked = pa.table({"c": ["a", *long_keys(4_500, 300)]})
    try:
        for packet in (1 << 20, 4 << 20):
            database.run(f"SET GLOBAL max_allowed_packet = {packet}")
            source.close()
            assert source.lookup(asked, ["i"]).column("i").to_pylist() == [1]
    finally:
        database.run(f"SET GLOBAL max_allowed_packet = {16 << 20}")
        source.close()
