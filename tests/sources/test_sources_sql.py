"""``sql``: names, queries, uniqueness, sizes, faults and what follows them."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from servers import MariaDB as MariaDBServer
from servers import Server
from source_stands import (
    DATABASES,
    STANDS,
    Database,
    DuckDB,
    MariaDB,
    PostgreSQL,
    SQLite,
    kinds,
    rows,
    typed,
)
from test_sources_credentials import raised

from bsjoin.errors import (
    ArgumentError,
    BSJoinError,
    ColumnError,
    SourceError,
    TableMismatchError,
)
from bsjoin.following.source import rereading
from bsjoin.sources import sql
from bsjoin.sources.databases import mysql as mysql_source
from bsjoin.sources.databases import postgresql as postgresql_source
from bsjoin.sources.databases.mysql_options import options_of
from bsjoin.sources.transient import TransientSourceError
from bsjoin.sources.urls import address_of

HOSTILE = [
    'we"`i.r%s', "sel ect", "a.b", "é", "`tick`", "50%", "%s", "select", "a'b", "{}", ";--", "A",
]  # fmt: skip


@pytest.mark.parametrize("database", kinds(DATABASES, "postgresql", "mariadb"), indirect=True)
def test_names_are_only_names(database: Database) -> None:
    """Of tables, and of columns: one table has them all, each unique."""
    quoted = [database.quoted(name) for name in HOSTILE]
    columns = ", ".join(f"{name} INTEGER UNIQUE" for name in quoted)
    many = len(HOSTILE)
    database.run(f"DROP TABLE IF EXISTS {quoted[0]}", f"CREATE TABLE {quoted[0]} ({columns})")
    rows_of_all = ", ".join(f"({', '.join([str(row)] * many)})" for row in (1, 2))
    database.run(f"INSERT INTO {quoted[0]} VALUES {rows_of_all}")
    sources = (
        database.source(table=(HOSTILE[0],)),
        database.source(query=f"SELECT * FROM {quoted[0]}"),
    )
    for source in sources:
        assert source.schema.names == HOSTILE
        for name in HOSTILE if source is sources[0] else HOSTILE[:2]:
            found = source.lookup(typed(source, **{name: [2, 3]}), [name])
            assert found.select([name]).to_pylist() == [{name: 2}]
        whole = typed(source, **{name: [1] for name in HOSTILE})
        assert source.lookup(whole).num_rows == 1
        assert pa.Table.from_batches(source.scan(HOSTILE[::-1])).num_rows == source.size() == 2
    assert all(sources[0].is_unique([name]) for name in HOSTILE)
    for source in sources:
        source.close()  # or DuckDB would not let the table go
    database.run(f"DROP TABLE {quoted[0]}")


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "postgresql"), indirect=True)
def test_a_table_or_column_that_is_not_there_gets_a_hint(database: Database) -> None:
    """And one that goes later is a permanent error of those who ask for it."""
    database.run(
        "DROP TABLE IF EXISTS planes", "CREATE TABLE planes (carrier INTEGER, gone INTEGER)"
    )
    with pytest.raises(SourceError, match=r"no table 'plans'.*'planes'"):
        _ = database.source(table="plans").schema
    source = database.source(table="planes")
    asked = typed(source, carrier=[1])
    other = database.source(table="planes", schema={"carier": pa.int64()})
    for work in (
        lambda: source.lookup(asked, ["carier"]),
        lambda: source.lookup(asked.rename_columns(["carier"])),
        lambda: source.scan(["carier"]),
        lambda: source.is_unique(["carier"]),
        lambda: other.schema,
    ):
        with pytest.raises(ColumnError, match=r"'carier'.*Did you mean 'carrier'"):
            work()
    assert source.lookup(asked).num_rows == 0
    database.run("ALTER TABLE planes DROP COLUMN gone")
    with pytest.raises(SourceError, match="gone"):
        source.lookup(asked)
    assert source.lookup(asked, ["carrier"]).num_rows == 0
    database.run("DROP TABLE planes")
    with pytest.raises(SourceError):
        source.lookup(asked, ["carrier"])


@pytest.mark.parametrize("database", kinds(DATABASES, "duckdb", "mariadb"), indirect=True)
def test_a_query_stands_for_a_table(database: Database) -> None:
    database.run("CREATE TABLE t (i INTEGER, j INTEGER)", "INSERT INTO t VALUES (1, 2), (3, 4)")
    source = database.source(query=" SELECT i AS a, j FROM t WHERE i > 1 -- half of it\n ; ")
    assert source.schema.names == ["a", "j"]
    assert source.size() == 1
    assert source.lookup(typed(source, a=[1, 3])).column("j").to_pylist() == [4]
    assert not source.is_unique(["a"])
    for table in (f"{database.schema}.t", [database.schema, "t"]):
        assert database.source(table=table).size() in (2, None) or isinstance(database, MariaDB)
    doubled = database.source(query="SELECT i, j AS i FROM t")
    if isinstance(database, SQLite | DuckDB):  # they name the second one anew
        assert doubled.schema.names[0] == "i"
    else:
        with pytest.raises(BSJoinError, match="'i'"):
            _ = doubled.schema
    with pytest.raises(SourceError, match=r"(?i)syntax"):
        _ = database.source(query="SELEC i FROM t").schema


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "postgresql"), indirect=True)
def test_what_is_unique_is_the_databases_word(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INTEGER, b VARCHAR(9), c INTEGER, d INTEGER, e INTEGER, "
        "PRIMARY KEY (a, b), UNIQUE (c))",
        "CREATE UNIQUE INDEX t_d ON t (d)",
        "CREATE INDEX t_e ON t (e)",
    )
    source = database.source(table="t")
    unique = {"ab": True, "a": False, "b": False, "c": True, "d": True, "e": False, "ec": True,
              "abe": True}  # fmt: skip
    assert {names: source.is_unique(list(names)) for names in unique} == unique
    assert database.source(table="t", unique=True).is_unique(["e"])
    assert not database.source(table="t", unique=False).is_unique(["c"])
    assert database.source(query="SELECT * FROM t", unique=True).is_unique(["e"])

    if not isinstance(database, MariaDB):  # it has no partial or computed indexes
        if not isinstance(database, DuckDB):
            database.run("CREATE UNIQUE INDEX t_a ON t (e) WHERE e > 1")
        database.run("CREATE UNIQUE INDEX t_b ON t (lower(b))")
        assert not database.source(table="t").is_unique(["e", "b"])


def test_settings_of_a_server_of_mysql_change_no_rows(mariadb: MariaDBServer) -> None:
    place = MariaDB(mariadb.url)
    place.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (c CHAR(5))")
    place.run("INSERT INTO t VALUES ('a'), ('b'), ('')")
    settings = {
        "sql_select_limit": "1",
        "sql_mode": "'PAD_CHAR_TO_FULL_LENGTH,EMPTY_STRING_IS_NULL'",
        "tx_isolation": "'READ-UNCOMMITTED'",
    }
    try:
        for name, value in settings.items():
            mariadb.execute(f"SET GLOBAL {name} = {value}")
        with place.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t VALUES ('c')")  # never committed
            source = place.source(table="t")
            scanned = pa.Table.from_batches(source.scan())
            assert sorted(scanned["c"].to_pylist()) == ["", "a", "b"]
            found = source.lookup(pa.table({"c": ["", "a", "c"]}))
            assert sorted(found["c"].to_pylist()) == ["", "a"]
    finally:
        for name in settings:
            mariadb.execute(f"SET GLOBAL {name} = DEFAULT")


def test_a_key_of_a_parent_does_not_bind_its_children(postgresql: Server) -> None:
    database = PostgreSQL(postgresql.url)
    database.run(
        "DROP TABLE IF EXISTS child, parent, parted CASCADE",
        "CREATE TABLE parent (i int PRIMARY KEY)",
        "CREATE TABLE child () INHERITS (parent)",
        "CREATE TABLE parted (i int PRIMARY KEY) PARTITION BY RANGE (i)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parted VALUES (1), (2)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (1)",
        "ANALYZE",
    )
    for table, unique in (("parent", False), ("parted", True)):
        source = database.source(table=table)
        assert source.is_unique(["i"]) is unique
        assert source.size() == 2


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "mariadb"), indirect=True)
def test_keys_come_from_a_query(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INTEGER, b VARCHAR(9), c DECIMAL(5, 2))",
        "INSERT INTO t VALUES (1, 'x', 1.5), (1, 'x', 2), (2, NULL, 1), (3, 'z', 1)",
        "INSERT INTO t VALUES (NULL, 'q', 1)",
    )
    source = database.source(table="t")
    types = pa.schema([source.schema.field(name) for name in ("a", "b")])
    by_name = source.keys_of("SELECT c, b, a FROM t ORDER BY c;", ["a", "b"])
    assert by_name.schema.equals(types)
    assert rows(by_name) == rows(typed(source, a=[1, 3], b=["x", "z"]))
    cast = "SIGNED" if isinstance(database, MariaDB) else "BIGINT"
    by_place = source.keys_of(f"SELECT CAST(a AS {cast}) AS p, b AS q FROM t", ["a", "b"])
    assert by_place.schema.equals(types)
    assert rows(by_place) == rows(by_name)
    assert source.keys_of("SELECT a FROM t WHERE a > 99", ["a"]).num_rows == 0
    texts = database.source(table="t", schema={"c": pa.string()})
    some = texts.keys_of("SELECT c FROM t WHERE c > 1", ["c"])
    assert len(some) == len(texts.lookup(some)) == 2
    with pytest.raises(ColumnError, match=r"\['x', 'y'\]"):
        source.keys_of("SELECT a AS x, b AS y FROM t", ["a"])
    with pytest.raises(ColumnError, match="'nope'"):
        source.keys_of("SELECT a AS nope FROM t", ["nope"])
    with pytest.raises(SourceError):
        source.keys_of("SELECT nope FROM t", ["a"])


@pytest.mark.parametrize("database", kinds(DATABASES, "duckdb", "postgresql"), indirect=True)
def test_a_scan_comes_in_pieces_and_leaves_look_ups_alone(database: Database) -> None:
    database.run("CREATE TABLE t (a INTEGER, b VARCHAR(9))")
    many = pa.table({"a": range(40_000), "b": ["x"] * 40_000})
    if isinstance(database, DuckDB):
        with database.cursor() as cursor:
            cursor.register("many", many)
            cursor.execute("INSERT INTO t SELECT * FROM many")
    elif isinstance(database, PostgreSQL):
        database.run("INSERT INTO t SELECT g, 'x' FROM generate_series(0, 39999) AS g")
    elif isinstance(database, MariaDB):
        database.run("INSERT INTO t SELECT seq, 'x' FROM seq_0_to_39999")
    else:
        with database.cursor() as cursor:
            database.insert(cursor, "t", many)
    source = database.source(table="t")
    scan = source.scan(["a"])
    first = next(scan)
    assert source.lookup(typed(source, a=[39_999])).num_rows == 1
    assert 0 < first.num_rows <= 40_000
    assert first.num_rows + sum(batch.num_rows for batch in scan) == 40_000
    # One that nobody finishes gives its connection back.
    unfinished = source.scan()
    next(unfinished)
    unfinished.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("database", kinds(DATABASES, "postgresql", "mariadb"), indirect=True)
def test_columns_of_another_type_are_refused_when_a_table_is_read_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all values would fit; but not to a type that the user has given."""
    monkeypatch.setattr("bsjoin.following.source.scanned", lambda _, source, names: names)
    spark: Any = None
    database.run("CREATE TABLE t (a INTEGER, b DECIMAL(9, 2), c VARCHAR(9), d INTEGER, e INTEGER)")
    sources = [
        database.source(schema={"d": pa.int64()}, **given)
        for given in ({"table": "t"}, {"query": "SELECT * FROM t"})
    ]
    names = sources[0].schema.names
    readers = [rereading(spark, source) for source in sources]
    for read in readers:
        assert read(names) == read(names) == names
    database.run("ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a BIGINT")
    alike = isinstance(database, SQLite)  # whose integers have 8 bytes
    for read, source in zip(readers, sources, strict=True):
        assert read(["b", "c", "d", "e"])
        if alike:
            assert read(["a"])
            continue
        with pytest.raises(TableMismatchError) as caught:
            read(names)
        assert f"the column 'a' of {source!r} is " in str(caught.value)
    database.run(
        "DROP TABLE t",
        "CREATE TABLE t (a INTEGER, b DECIMAL(12, 2), c INTEGER, d BIGINT)",
        "INSERT INTO t VALUES (1, 2, 3, 4)",
    )
    for read in readers:
        assert read(["a", "d"])
        for name in "bc":
            with pytest.raises(TableMismatchError, match=rf"{name!r} of .* is .* now, and was"):
                read([name])
        with pytest.raises(TableMismatchError, match=r"'e' of .* is not there any more"):
            read(["e"])


def test_types_that_follow_from_data_may_change_under_a_given_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bsjoin.following.source.scanned",
        lambda _, source, names: [row for one in source.scan(names) for row in one.to_pylist()],
    )
    spark: Any = None
    file = tmp_path / "a.csv"
    query, given = f"SELECT * FROM read_csv('{file}')", {"v": pa.string()}
    file.write_text("v\n5\n")
    plain, text = (
        rereading(spark, sql("duckdb:///:memory:", query=query, schema=schema))
        for schema in (None, given)
    )
    for value, kind in (("5", ""), ("7.5", "DOUBLE"), ("x", "VARCHAR"), ("6", "")):
        file.write_text(f"v\n{value}\n")
        assert text(["v"]) == [{"v": value}]
        if kind:
            with pytest.raises(
                TableMismatchError, match=f"'v' of .* is {kind} now, and was BIGINT"
            ):
                plain(["v"])
        else:
            assert plain(["v"]) == [{"v": int(value)}]


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("postgresql", ()),
        pytest.param("postgresql", ("kill", "stop"), marks=pytest.mark.long),
        pytest.param("mariadb", ("kill", "stop"), marks=pytest.mark.long),
    ],
)
def test_a_restart_is_a_fault_and_then_forgotten(
    kind: str, ends: Sequence[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: Server = request.getfixturevalue(kind)
    database: Any = STANDS[kind](tmp_path, request)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    source = database.source(table="t")
    asked = typed(source, a=[1])
    assert source.lookup(asked).num_rows == 1
    # With a transaction of the source's open, this would wait for it.
    database.run("ALTER TABLE t ADD COLUMN b INTEGER", "ALTER TABLE t DROP COLUMN b")
    for end in ends:
        try:
            getattr(server, end)()
            for _ in range(2):
                raised(lambda: source.lookup(asked), TransientSourceError)
            assert source.size() is None
            fresh = pickle.loads(pickle.dumps(database.source(table="t")))
            with pytest.raises(SourceError):
                _ = fresh.schema
        finally:
            server.start()
        assert source.lookup(asked).num_rows == 1
    # The connection breaks while nobody asks.
    server.restart()
    with pytest.raises(TransientSourceError):
        source.lookup(asked)
    assert source.lookup(asked).num_rows == 1


def test_a_connection_that_is_lost_while_rows_come_is_a_fault(postgresql: Server) -> None:
    """The statement ends its own session after a third of its rows."""
    end = "CASE WHEN g = 100000 THEN pg_terminate_backend(pg_backend_pid()) END AS b"
    query = f"SELECT 1 AS a, {end}, repeat('x', 100) AS c FROM generate_series(1, 300000) AS g"
    source = sql(postgresql.url, query=query)
    with pytest.raises(TransientSourceError):
        source.lookup(typed(source, a=[1]))


SLOW = {
    SQLite: "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n LIMIT 1000000000) "
    "SELECT CAST(max(a) AS INTEGER) AS a FROM n",
    DuckDB: "SELECT max(x.a + y.a) AS a FROM range(3000000) AS x(a), range(3000000) AS y(a)",
    PostgreSQL: "SELECT length(x::text) AS a FROM pg_sleep(60) AS s(x)",
    MariaDB: "SELECT a FROM t WHERE sleep(60) = 0",
}


@pytest.mark.parametrize("database", kinds(DATABASES, "sqlite", "mariadb"), indirect=True)
def test_a_look_up_that_takes_too_long_is_a_fault(database: Database) -> None:
    database.run("CREATE TABLE t (a BIGINT)", "INSERT INTO t VALUES (1), (NULL)")
    query = SLOW[type(database)]  # type: ignore[type-abstract]
    source = database.source(query=query, timeout=0.2, schema={"a": pa.int64()})
    assert source.schema.names == ["a"]
    for key in (1, None):
        start = time.monotonic()
        with pytest.raises(TransientSourceError):
            source.lookup(typed(source, a=[key]))
        assert time.monotonic() - start < 8
    start = time.monotonic()
    assert source.size() in (None, 1)  # DuckDB knows it without that work
    assert time.monotonic() - start < 8


def test_a_scan_has_no_time_limit(mariadb: MariaDBServer) -> None:
    database = MariaDB(mariadb.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    query = "SELECT a, @@net_write_timeout AS s FROM t WHERE sleep(1.5) = 0"
    source = database.source(query=query, timeout=1)
    with mock.patch.object(mysql_source, "_keep_alive", wraps=mysql_source._keep_alive) as kept:
        scan = iter(source.scan())
        assert next(scan).to_pylist() == [{"a": 1, "s": 31_536_000}]
    (connection,) = kept.call_args.args
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    assert not [*scan]


def test_who_interrupts_a_look_up_does_not_use_its_connection_again(
    postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement goes on in its thread."""
    database = PostgreSQL(postgresql.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)")
    source: Any = database.source(table="t")
    asked = typed(source, a=[1])
    assert source.lookup(asked).num_rows == 0
    with monkeypatch.context() as patched:
        stopped = mock.Mock(side_effect=KeyboardInterrupt)
        patched.setattr(postgresql_source, "run_with_timeout", stopped)
        with pytest.raises(KeyboardInterrupt):
            source.lookup(asked)
    assert source._session.current() is None
    assert source.lookup(asked).num_rows == 0


def test_a_server_that_answers_nothing_is_left_alone(
    postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    database = PostgreSQL(postgresql.url)
    database.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)")
    monkeypatch.setattr(postgresql_source, "_GRACE_S", 0.5)
    source = database.source(table="t", timeout=0.2, connect_timeout=2)
    asked = typed(source, a=[1])
    assert source.lookup(asked).num_rows == 0
    import psycopg

    with psycopg.connect(postgresql.url) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'bsjoin'"
        ).fetchall()
    for (pid,) in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        with pytest.raises(TransientSourceError, match="no answer within"):
            source.lookup(asked)
        assert time.monotonic() - start < 15
        assert source.lookup(asked).num_rows == 0  # through another connection
    finally:
        for (pid,) in found:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.long
def test_another_process_may_write_the_duckdb_file_between_look_ups(tmp_path: Path) -> None:
    database = DuckDB(tmp_path)
    database.run("CREATE TABLE t (a INTEGER)")
    source = sql(database.url, table="t")
    asked = typed(source, a=[1])
    assert source.lookup(asked).num_rows == 0
    code = (
        f"import duckdb; duckdb.connect({str(database.path)!r}).execute('INSERT INTO t VALUES (1)')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert source.lookup(asked).num_rows == 1
    with database.cursor():  # this process writes it
        assert source.lookup(asked).num_rows == 1
    held = f"import duckdb; c = duckdb.connect({str(database.path)!r})\n"
    held += "print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout.readline() == b"held\n"
        with pytest.raises(TransientSourceError, match=r"(?i)lock"):
            source.lookup(asked)
        writer.communicate(b"\n")
    assert source.lookup(asked).num_rows == 1


def test_an_absent_file_or_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(SourceError, match=r"no file .*nope\.db"):
            _ = sql(f"{scheme}:///{tmp_path}/nope.db", table="t").schema
    assert list(tmp_path.iterdir()) == []
    there = DuckDB(tmp_path)
    there.run("CREATE TABLE t (a INTEGER)")
    source = sql(there.url, table="t")
    asked = typed(source, a=[1])
    there.path.unlink()
    with pytest.raises(TransientSourceError, match="no file"):  # another may take its place
        source.lookup(asked)
    for module, url, extra in (
        ("duckdb", "duckdb:///x.duckdb", "duckdb"),
        ("pymysql", "mysql://host/db", "mysql"),
        ("adbc_driver_postgresql.dbapi", "postgresql://host/db", "postgresql"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        source = sql(url, table="t")
        with pytest.raises(SourceError, match=rf'pip install "bsjoin\[{extra}\]"'):
            _ = source.schema


def test_a_duckdb_that_leaves_conditions_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    database = DuckDB(tmp_path)
    database.run("CREATE TABLE t (a INTEGER)")
    for version in ("1.0.0", "1.1.1"):
        monkeypatch.setattr(duckdb, "__version__", version)
        with pytest.raises(SourceError, match=rf"DuckDB {version} .*pip install .*1\.1\.2"):
            _ = sql(database.url, query="SELECT * FROM t").schema
    for version in ("1.1.2", "1.10.0", "2.0.0.dev1"):
        monkeypatch.setattr(duckdb, "__version__", version)
        assert sql(database.url, table="t").schema.names == ["a"]


def test_urls_of_sqlalchemy_are_understood(postgresql: Server, mariadb: Server) -> None:
    PostgreSQL(postgresql.url).run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)")
    MariaDB(mariadb.url).run("DROP TABLE IF EXISTS t", "CREATE TABLE t (a INTEGER)")
    rest = postgresql.url.partition("://")[2]
    where = f"host={postgresql.folder}&port={postgresql.port}&user=postgres"
    other = mariadb.url.partition("://")[2]
    for url in (
        *(f"{scheme}://{rest}?sslmode=prefer" for scheme in ("postgres", "postgresql+psycopg")),
        f"postgresql:///test?{where}",
        *(f"{scheme}://{other}" for scheme in ("mysql+pymysql", "mariadb")),
    ):
        assert sql(url, table="t").schema.names == ["a"]
    made: Any = sql(f"{postgresql.url}?keepalives_idle=9", table="t")
    assert "keepalives_idle=9&keepalives_interval=10" in made._url()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "sqlite:///a.db"}, "exactly one"),
        ({"url": "sqlite:///a.db", "table": "t", "query": "SELECT 1"}, "exactly one"),
        ({"url": "oracle://host/db", "table": "t"}, "'oracle://' is not known"),
        ({"url": "host/db", "table": "t"}, "starts with its kind"),
        ({"url": 7, "table": "t"}, "give a text"),
        ({"url": "sqlite://a.db", "table": "t"}, "three slashes"),
        ({"url": "sqlite://", "table": "t"}, "in memory"),
        ({"url": "sqlite:///:memory:", "table": "t"}, "in memory"),
        ({"url": "sqlite:///a.db?mode=ro", "table": "t"}, "no options.*%3F"),
        ({"url": "duckdb:///what?.db", "table": "t"}, "no options.*%3F"),
        ({"url": "mysql://host/db?charset=latin1", "table": "t"}, "in utf8mb4"),
        ({"url": "mysql://host/db?nope=1", "table": "t"}, "'nope' is not known"),
        ({"url": "mysql://host/db?ssl_verify_cert=required", "table": "t"}, "give true or false"),
        ({"url": "mysql://host/db?ssl_verify_identity=1", "table": "t"}, "without ssl_ca="),
        ({"url": "mysql://host", "table": "t"}, "name the database"),
        ({"url": "postgresql://u:p/w@host/db", "table": "t"}, "percent-encoded"),
        ({"url": "postgresql://u:p#w@host/db", "table": "t"}, "percent-encoded"),
        ({"url": "postgresql://host:port/db", "table": "t"}, "percent-encoded"),
        ({"url": "sqlite:///a.db", "table": ""}, "table=''"),
        ({"url": "sqlite:///a.db", "table": "a..b"}, "table='a..b'"),
        ({"url": "sqlite:///a.db", "table": "a\0"}, "table="),
        ({"url": "sqlite:///a.db", "table": 5}, "table=5"),
        ({"url": "sqlite:///a.db", "table": ["a", "b", "c", "d"]}, "table="),
        ({"url": "sqlite:///a.db", "query": " ; "}, "give a SELECT"),
        ({"url": "sqlite:///a.db", "table": "t", "unique": 1}, "unique=1"),
        ({"url": "sqlite:///a.db", "table": "t", "max_keys": 0}, "max_keys=0"),
        ({"url": "sqlite:///a.db", "table": "t", "timeout": 0}, "timeout=0"),
        ({"url": "sqlite:///a.db", "table": "t", "timeout": "soon"}, "timeout='soon'"),
        ({"url": "sqlite:///a.db", "table": "t", "connect_timeout": -1}, "connect_timeout=-1"),
        ({"url": "sqlite:///a.db", "table": "t", "schema": {"a": "int"}}, "schema="),
        ({"url": "sqlite:///a.db", "table": "t", "schema": {"a": pa.duration("s")}}, "'a'"),
    ],
)
def test_arguments_are_checked_at_the_call(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words.replace("(", r"\(")):
        sql(**arguments)


def test_a_certificate_of_mysql_is_compared_with_the_authorities_that_are_given() -> None:
    for more, is_compared in (("", True), ("&ssl_verify_cert=no", False)):
        address = address_of(f"mysql://host/db?ssl_ca=/a+b.pem{more}", (), ("mysql",))
        options = {"ssl_ca": "/a+b.pem", "ssl_verify_cert": is_compared, "charset": "utf8mb4"}
        assert options_of(address) == options


def test_a_server_of_mysql_without_tls_is_refused_where_a_certificate_is_to_be_compared() -> None:
    source = sql("mysql://host/db?ssl_ca=/a.pem", table="t")
    unsafe = mock.patch("pymysql.connect", return_value=mock.Mock(_secure=False))
    with unsafe as connect, pytest.raises(SourceError, match="the server lacks"):
        source.lookup(pa.table({"a": [1]}))
    assert connect.return_value.close.called


def test_a_time_limit_may_be_the_longest(database: Database) -> None:
    database.run("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    source = database.source(table="t", timeout=timedelta.max, connect_timeout=timedelta.max)
    assert source.lookup(typed(source, a=[1])).num_rows == 1


def test_only_the_driver_that_is_needed_is_imported() -> None:
    kinds = ["sqlite:///a.db", "postgresql://h/d", "mysql://h/d", "duckdb:///a"]
    code = (
        f"import sys; from bsjoin.sources import sql; [sql(url, table='t') for url in {kinds}]\n"
        "drivers = {'pyspark', 'pandas', 'duckdb', 'pymysql', 'redis', 'adbc_driver_postgresql',"
        " 'adbc_driver_manager'}\n"
        "found = {name.split('.')[0] for name in sys.modules} & drivers\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)
