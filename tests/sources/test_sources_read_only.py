"""``sql``: sessions are read-only, whatever a query calls."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from servers import Server
from source_stands import Database, DuckDB, MariaDB, PostgreSQL

from bsjoin.errors import SourceError

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


def test_a_query_cannot_write_to_postgresql(postgresql: Server) -> None:
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
    writing = "SELECT writing(a) AS a FROM t"
    for query in (
        writing,
        "SELECT nextval('numbers') AS a FROM t",
        "SELECT a FROM t FOR UPDATE",
    ):
        check_refused(database, query)
    # Options of the URL do not make a session writable, nor does a query.
    options = "options=-c%20default_transaction_read_only%3Doff"
    check_refused(PostgreSQL(f"{postgresql.url}?{options}"), writing)
    switch = "SELECT set_config('transaction_read_only', 'off', true)::bigint AS a FROM t"
    with pytest.raises(SourceError, match="read-write"):
        list(database.source(query=switch).scan())
    for query in (
        "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x",
        "DELETE FROM t RETURNING a",
        "SELECT a INTO copied FROM t",
    ):
        with pytest.raises(SourceError):
            _ = database.source(query=query).schema
    assert (rows_in(database, "t"), rows_in(database, "written")) == (2, 0)
    with database.cursor() as cursor:
        cursor.execute("SELECT is_called FROM numbers")
        assert cursor.fetchone() == (False,)


@pytest.mark.long
def test_a_query_cannot_write_to_mariadb(mariadb: Server) -> None:
    """Also not into a table without transactions."""
    database = MariaDB(mariadb.url)
    database.run(
        "DROP TABLE IF EXISTS t, written",
        "DROP SEQUENCE IF EXISTS numbers",
        "CREATE TABLE t (a BIGINT PRIMARY KEY)",
        "CREATE TABLE written (a BIGINT) ENGINE=MyISAM",
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
