"""``sql``: sessions are read-only, whatever a query calls."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from servers import Server
from source_stands import Database, DuckDB, MariaDB, PostgreSQL, SQLite

from bsjoin.errors import SourceError
from bsjoin.sources import sql

READ_ONLY = r"read-only.*query="


def rows_in(database: Database, table: str) -> int:
    with database.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


def check_refused(database: Database, query: str) -> None:
    """Neither a look-up nor a scan of the query may write, and both say why."""
    source = database.source(query=query)
    with pytest.raises(SourceError, match=READ_ONLY):
        source.lookup(pa.table({"a": pa.array([1], pa.int64())}))
    with pytest.raises(SourceError, match=READ_ONLY):
        list(source.scan())
    source.close()


@pytest.fixture
def postgres(postgresql: Server) -> PostgreSQL:
    database = PostgreSQL(postgresql.url)
    database.run(
        "DROP TABLE IF EXISTS t, written CASCADE",
        "DROP SEQUENCE IF EXISTS numbers",
        "CREATE TABLE t (a BIGINT PRIMARY KEY)",
        "CREATE TABLE written (a BIGINT)",
        "CREATE SEQUENCE numbers",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE OR REPLACE FUNCTION writing(x BIGINT) RETURNS BIGINT LANGUAGE sql AS "
        "'INSERT INTO written VALUES (x) RETURNING a'",
    )
    return database


@pytest.mark.parametrize(
    "query",
    [
        "SELECT writing(a) AS a FROM t",
        "SELECT nextval('numbers') AS a FROM t",
        "SELECT a FROM t FOR UPDATE",
        "SELECT set_config('transaction_read_only', 'off', true)::bigint AS a FROM t",
    ],
)
def test_a_query_cannot_write_to_postgresql(postgres: PostgreSQL, query: str) -> None:
    if "set_config" in query:
        source = postgres.source(query=query)
        with pytest.raises(SourceError, match="read-write"):
            list(source.scan())
        source.close()
    else:
        check_refused(postgres, query)
    assert rows_in(postgres, "written") == 0
    with postgres.cursor() as cursor:
        cursor.execute("SELECT is_called FROM numbers")
        assert cursor.fetchone() == (False,)


def test_a_statement_that_writes_is_no_query_of_postgresql(postgres: PostgreSQL) -> None:
    for query in (
        "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x",
        "DELETE FROM t RETURNING a",
        "SELECT a INTO copied FROM t",
    ):
        source = postgres.source(query=query)
        with pytest.raises(SourceError):
            _ = source.schema
        source.close()
    assert rows_in(postgres, "t") == 2


def test_options_of_the_url_do_not_make_a_session_writable(postgres: PostgreSQL) -> None:
    options = "options=-c%20default_transaction_read_only%3Doff"
    check_refused(PostgreSQL(f"{postgres.url}?{options}"), "SELECT writing(a) AS a FROM t")
    assert rows_in(postgres, "written") == 0


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_a_query_cannot_write_to_mariadb(mariadb: Server, engine: str) -> None:
    database = MariaDB(mariadb.url)
    database.run(
        "DROP TABLE IF EXISTS t, written",
        "DROP SEQUENCE IF EXISTS numbers",
        "CREATE TABLE t (a BIGINT PRIMARY KEY)",
        f"CREATE TABLE written (a BIGINT) ENGINE={engine}",
        "CREATE SEQUENCE numbers",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE OR REPLACE FUNCTION writing(x BIGINT) RETURNS BIGINT MODIFIES SQL DATA "
        "BEGIN INSERT INTO written VALUES (x); RETURN x; END",
    )
    for query in (
        "SELECT writing(a) AS a FROM t",
        "SELECT nextval(numbers) AS a FROM t",
        "SELECT a FROM t FOR UPDATE",
    ):
        check_refused(database, query)
    assert rows_in(database, "written") == 0
    with database.cursor() as cursor:
        cursor.execute("SELECT nextval(numbers)")
        assert cursor.fetchone() == (1,)


def test_a_query_cannot_write_to_duckdb(tmp_path: Path) -> None:
    database = DuckDB(tmp_path)
    database.run(
        "CREATE TABLE t (a BIGINT)", "INSERT INTO t VALUES (1), (2)", "CREATE SEQUENCE numbers"
    )
    query = "SELECT nextval('numbers') AS a FROM t"
    check_refused(database, query)
    with database.cursor() as cursor:  # this process writes it
        check_refused(database, query)
        cursor.execute("SELECT nextval('numbers')")
        assert cursor.fetchone() == (1,)
        with pytest.raises(SourceError, match=r"no table 'tt'.*'t'"):
            _ = database.source(table="tt").schema


def test_a_session_of_sqlite_is_read_only(tmp_path: Path) -> None:
    database = SQLite(tmp_path)
    database.run("PRAGMA journal_mode = wal", "CREATE TABLE t (a INTEGER)")
    database.run("INSERT INTO t VALUES (1)")
    source = database.source(table="t")
    assert source.lookup(pa.table({"a": [1]})).num_rows == 1
    connection = source._session.held[1]  # type: ignore[attr-defined]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM t")
    for query in ("DELETE FROM t RETURNING a", "SELECT 1) AS t; DELETE FROM t; --"):
        other = database.source(query=query)
        with pytest.raises(SourceError):
            _ = other.schema
    source.close()
    assert rows_in(database, "t") == 1


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a mount of its own")
def test_sqlite_in_wal_mode_on_a_read_only_mount_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    database = SQLite(folder)
    database.path = folder / "a.db"
    database.run("PRAGMA journal_mode = wal", "CREATE TABLE t (a INTEGER)")
    url = f"sqlite:///{database.path}"
    code = f"from bsjoin.sources import sql\nprint(sql({url!r}, table='t').schema)"
    mounted = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mounted} || exit 77; exec "$0" -c "$1"',
         sys.executable, code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert "SourceError" in done.stderr
    assert "journal_mode" in done.stderr
    assert sql(url, table="t").schema.names == ["a"]
