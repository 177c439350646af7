"""What has changed in a table of PostgreSQL: after each look, what was read is what is there."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest
from cache_samples import until
from servers import PostgreSQL
from source_stands import connected

from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources import sql
from bsjoin.sources.databases import pgchanges, pgdecoding, pgxmin
from bsjoin.sources.databases.pgchanges import OP, TableChanges
from bsjoin.sources.databases.pgoutput import Decoder
from bsjoin.storage.source_version import SourceVersion

SCHEMA = 'My "S"'
TABLE = "odd 'Table\"\\"
NAME = '"My ""S"""."odd \'Table""\\"'
WAYS = ("logical", "xmin")
OTHERS = (
    "v text, amount numeric(9, 2), at timestamptz, day date, raw bytea, tags text[], doc jsonb, "
    'mood mood, "O""p" bool, x float8'
)
VALUES = (
    "%s, 12.50, 'infinity', '-infinity', '\\x00ff', '{a,NULL,\"b,\"}', "
    "'{\"a\": 1}', 'ok', true, 'NaN'"
)
TEXTS = ["", "a", "A", "a ", "'", '"', "\\", ",", "{}", "NULL", "ü€", "a\nb", "t" * 3000]
# The columns of the key, and what makes one of a number.
KEYS: dict[str, tuple[str, Any]] = {
    "number": ("id int", lambda n: [n]),
    "texts": ("a text, b varchar(9)", lambda n: [TEXTS[n % len(TEXTS)], f"'{n // len(TEXTS)}"]),
    "others": (
        'u uuid, c char(5), d numeric, "B" bytea, e mood',
        lambda n: [
            f"00000000-0000-0000-0000-{n:012d}",
            f"c {n % 3}",
            n / 4,
            bytes([n, 0]),
            ["bad", "ok"][n % 2],
        ],
    ),
}


class Follower:
    """Rows by their key, kept up to date as a table is."""

    def __init__(self, url: str, way: str | None, **options: Any):
        options.setdefault("table", [SCHEMA, TABLE])
        self.source = sql(url, changes=way, **options)
        self.changes: TableChanges = self.source.table_changes()
        self.known: SourceVersion | None = None
        self.rows: dict[Any, Any] = {}
        self.wholes = 0

    def look(self, whole: Callable[[], dict[Any, Any]] | None = None) -> None:
        until = self.changes.version()
        known = self.known
        if known is not None and known.identity == until.identity:
            if self.changes.has(known.version, until.version):
                return
            columns = self.source.schema.names
            try:
                for _ in range(2):  # as after a crash before they were applied
                    found = self.changes.rows(known.version, until.version, columns)
            except SourceError as error:
                found, passes = str(error), error.is_transient
                assert "is not kept" in found
                assert not passes  # or it would be asked for again
            if not isinstance(found, str):
                for row in found.to_pylist():
                    op, key = row.pop(OP), tuple(row[name] for name in self.changes.key)
                    self.rows.pop(key, None)
                    if op == "upsert":
                        self.rows[key] = row
                self.known = until
                return
        self.wholes += 1
        self.rows, self.known = dict((whole or self.read)()), until

    def read(self) -> dict[Any, Any]:
        rows = [row for batch in self.source.scan() for row in batch.to_pylist()]
        key = self.changes.key
        return {tuple(row[name] for name in key) if key else n: row for n, row in enumerate(rows)}

    def check(self, *others: Follower) -> None:
        """After a look of this one, and of others at the same table, all have its rows."""
        there = cache(self.read)  # a connection for each scan takes long
        for one in (self, *others):
            one.look(there)
        right = sorted(map(repr, there().values()))
        for one in (self, *others):
            assert sorted(map(repr, one.rows.values())) == right, type(one.changes._method)


@pytest.fixture(autouse=True)
def one_database(postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the driver reads of a server's types for each connection, it reads once for a test."""
    from adbc_driver_manager import AdbcConnection
    from adbc_driver_postgresql import dbapi

    connect, first = dbapi.connect, {}

    def connection(uri: str, **options: Any) -> Any:
        if uri not in first:
            first[uri] = connect(uri, **options)
        shared = first[uri]._db
        return dbapi.Connection(shared, AdbcConnection(shared._db), **options)

    monkeypatch.setattr(dbapi, "connect", connection)
    yield
    for one in first.values():
        one.close()


@pytest.fixture
def server(postgresql: PostgreSQL) -> Iterator[PostgreSQL]:
    run(
        postgresql,
        'DROP SCHEMA IF EXISTS "My ""S""" CASCADE',
        'CREATE SCHEMA "My ""S"""',
        "DROP TYPE IF EXISTS mood CASCADE",
        "CREATE TYPE mood AS ENUM ('bad', 'ok')",
        "DROP PUBLICATION IF EXISTS bsjoin",
        'DROP PUBLICATION IF EXISTS "it\'s"',
    )
    yield postgresql
    run(postgresql, 'DROP SCHEMA IF EXISTS "My ""S""" CASCADE', "DROP PUBLICATION IF EXISTS bsjoin")


def run(server: PostgreSQL, *statements: str) -> None:
    for statement in statements:
        connected(server.url).execute(statement)


def make(server: PostgreSQL, key: str, more: str = "") -> list[str]:
    columns = KEYS[key][0]
    names = [part.split()[0] for part in columns.split(", ")]
    run(
        server,
        f'DROP TABLE IF EXISTS {NAME}, "My ""S""".gone',
        f"CREATE TABLE {NAME} ({columns}, {OTHERS}, PRIMARY KEY ({', '.join(names)})) {more}",
        'DROP PUBLICATION IF EXISTS "it\'s"',
        f'CREATE PUBLICATION "it\'s" FOR TABLE {NAME}',
    )
    return names


def followers(server: PostgreSQL, way: str | None, **options: Any) -> Follower:
    found = Follower(server.url, way, **options)
    found.look()
    return found


@pytest.mark.parametrize(
    ("ways", "key", "replica"),
    [
        pytest.param(("logical",), "others", "DEFAULT", marks=pytest.mark.long),
        (WAYS, "texts", "FULL"),
    ],
)
def test_after_each_look_the_rows_are_those_of_the_table(
    server: PostgreSQL, ways: tuple[str, ...], key: str, replica: str
) -> None:
    """Transactions of two sessions, that commit in another order than they began in."""
    names = make(server, key)
    run(server, f"ALTER TABLE {NAME} REPLICA IDENTITY {replica}")
    of, draw = KEYS[key][1], random.Random(f"logical{key}")
    often = [followers(server, way) for way in ways]
    seldom = [followers(server, way) for way in ways]
    where = " AND ".join(f"{name} = %s" for name in names)
    places = ", ".join(["%s"] * len(names))
    insert = f"INSERT INTO {NAME} VALUES ({places}, {VALUES}) ON CONFLICT DO NOTHING"
    sessions = [psycopg.connect(server.url) for _ in range(2)]
    for session in sessions:
        session.execute("SET lock_timeout = 50")
        session.commit()
    try:
        for step in range(30):
            session, n = draw.choice(sessions), draw.randrange(30)
            what = draw.choice("iiiuuudmmtrc" if step % 20 else "c")
            try:
                session.execute("SAVEPOINT s")
                if what == "i":
                    session.execute(insert, [*of(n), f"v{step}"])
                elif what == "u":
                    session.execute(f"UPDATE {NAME} SET v = %s WHERE {where}", [f"w{step}", *of(n)])
                elif what == "d":
                    session.execute(f"DELETE FROM {NAME} WHERE {where}", of(n))
                elif what == "m":  # the key moves
                    to = ", ".join(f"{name} = %s" for name in names)
                    session.execute(
                        f"UPDATE {NAME} SET {to} WHERE {where}",
                        [*of(draw.randrange(30)), *of(n)],
                    )
                elif what == "t" and step % 3 == 0:
                    session.execute(f"TRUNCATE {NAME}")
                elif what == "r":
                    session.rollback()
                elif what == "c":
                    session.commit()
            except psycopg.Error:
                session.execute("ROLLBACK TO SAVEPOINT s")
            if draw.random() < 0.2:
                for other in sessions:
                    # A TRUNCATE that is not committed would hold up whoever reads.
                    (other.rollback if what == "t" and draw.random() < 0.3 else other.commit)()
                often[0].check(*often[1:])
                if draw.random() < 0.4:
                    for follower in seldom:
                        follower.look()
        sessions[0].execute(insert, [*of(3), "last"])
        for session in sessions:
            session.commit()
        often[0].check(*often[1:], *seldom)
        assert all(follower.rows and follower.wholes < 14 for follower in often)
    finally:
        for session in sessions:
            session.close()


def test_texts_of_changed_rows_are_those_of_the_first_reading(server: PostgreSQL) -> None:
    """Whatever the server, the role or the URL sets."""
    make(server, "number")
    run(
        server,
        f"ALTER TABLE {NAME} ADD i interval DEFAULT '1 day', ADD r daterange DEFAULT 'empty'",
    )
    styles = "-c IntervalStyle=iso_8601 -c DateStyle=German -c extra_float_digits=-9"
    follower = Follower(f"{server.url}?options={quote(styles)}", "xmin", schema={"x": pa.string()})
    follower.look()
    row = "2, '2 days', '[2024-01-02,infinity)', 0.1::float8 + 0.2"
    for number in (1, 2):
        run(server, f"INSERT INTO {NAME} (id, i, r, x) VALUES ({number}{row[1:]})")
        follower.check()
    assert follower.wholes == 1
    assert {row["i"] for row in follower.rows.values()} == {"2 days"}


def test_what_can_be_done_with_a_table(server: PostgreSQL) -> None:
    """Statements that change rows without changing any row; and those that do not."""
    make(server, "number")
    rows = "(id, v) SELECT i, 'v' || i FROM generate_series(1, 9) AS i"
    run(server, f"INSERT INTO {NAME} {rows}")
    both = [followers(server, way) for way in WAYS]
    # A table that another application has read since then has more than what this one was told.
    later = followers(server, "logical")
    both[0].rows, both[0].known = dict(later.rows), later.known
    both[0].check()
    assert both[0].known is later.known
    for statement, is_whole in (
        (f"INSERT INTO {NAME} (id, mood) VALUES (10, 'bad')", False),
        ("ALTER TYPE mood RENAME VALUE 'bad' TO 'sad'", True),
        ('CREATE TABLE IF NOT EXISTS "My ""S""".other (i int)', False),
        (f"ALTER TABLE {NAME} ALTER v TYPE text USING upper(v)", True),
        (f"VACUUM FULL {NAME}", True),
        (f"ALTER TABLE {NAME} ADD more int DEFAULT 7", True),
        (f"TRUNCATE {NAME}", True),
        (f"INSERT INTO {NAME} {rows}", False),
        (f"DELETE FROM {NAME} WHERE id < 4", False),
        (f"ALTER TABLE {NAME} REPLICA IDENTITY NOTHING", True),
        (f"ALTER TABLE {NAME} REPLICA IDENTITY FULL", True),
        (f"UPDATE {NAME} SET id = -id, v = NULL", False),
    ):
        before = [follower.wholes for follower in both]
        run(server, statement)
        both[0].check(both[1])
        after = [follower.wholes for follower in both]
        assert after == [wholes + is_whole for wholes in before], statement
    run(server, f"ALTER TABLE {NAME} RENAME TO gone")
    for follower in both:
        with pytest.raises(SourceError, match="none of that name"):
            follower.look()
    make(server, "number")
    both[0].check(both[1])
    assert not both[0].rows


def test_columns_that_are_read_otherwise_are_told(server: PostgreSQL) -> None:
    """What is read alike is not, nor is a type that the user has given."""
    columns = "a text, b numeric(9, 2), c uuid, d int[], e int, f int, g int[]"
    run(server, f"DROP TABLE IF EXISTS {NAME}", f"CREATE TABLE {NAME} (id int, {columns})")
    source = sql(server.url, table=[SCHEMA, TABLE], schema={"f": pa.int64()})
    changes = source.table_changes()
    assert not [*changes.unlike(source.schema.names)]
    others = "ALTER a TYPE varchar(9), ALTER b TYPE numeric(12, 2), ALTER c TYPE text, "
    others += "ALTER d TYPE bigint[], DROP e, ALTER f TYPE bigint"
    run(
        server,
        f"ALTER TABLE {NAME} {others}",
        f"INSERT INTO {NAME} (id, g) VALUES (1, '{{{{1}}}}')",
    )
    assert dict(changes.unlike(source.schema.names)) == {
        "b": "is numeric(12, 2) now, and was numeric(9, 2)",
        "c": "is text now, and was uuid",
        "d": "is int8[] now, and was int4[]",
        "e": "is not there any more",
    }
    assert not [*changes.unlike(["id", "a", "f", "g"])]


TYPES = (
    'date', 'time(3)', 'timestamp', 'timestamp(3)', 'timestamptz', 'timestamptz(0)', 'timestamp[]',
    'timestamptz(3)[]', 'date[][]', 'interval', 'numeric', 'numeric(9)', 'numeric(9, 2)',
    'numeric(50, 2)', 'numeric[]', 'numeric(9, 2)[]', 'text', 'varchar', 'varchar(3)', 'char(3)',
    '"char"', 'name', 'text[]', 'char(3)[]', 'mood', 'mood[]', 'pence', 'day', 'days', 'uuid',
    'json', 'jsonb', 'bytea', 'bytea[]', 'bool', 'int2', 'int4', 'int8', 'oid', 'float4', 'float8',
    'float8[]', 'money', 'int4range', 'inet',
)  # fmt: skip


def test_types_that_are_the_same_are_not_told(server: PostgreSQL) -> None:
    """Of every kind, whether or not the user gives one; and a type that is told has two names."""
    for name, base in (("pence", "numeric(9, 2)"), ("day", "timestamptz"), ("days", "date[]")):
        run(server, f"DROP DOMAIN IF EXISTS {name} CASCADE", f"CREATE DOMAIN {name} AS {base}")

    def make_shifted(by: int) -> None:
        places = range(len(TYPES))
        columns = (f"c{i} {TYPES[(i + by) % len(TYPES)]}" for i in places)
        run(server, f"DROP TABLE IF EXISTS {NAME}", f"CREATE TABLE {NAME} ({', '.join(columns)})")

    names = [f"c{i}" for i in range(len(TYPES))]
    times = {name: pa.timestamp("us") for name, one in zip(names, TYPES, strict=True)
             if one in ("date", "timestamp", "timestamptz", "day")}  # fmt: skip
    followed = []
    make_shifted(0)
    for given in (None, dict.fromkeys(names, pa.string()), times):
        source = sql(server.url, table=[SCHEMA, TABLE], schema=given)
        followed.append(source.table_changes())
    for by in (0, 1, 2, 3, 0):
        make_shifted(by)
        for changes in followed:
            told = dict(changes.unlike(names))
            assert bool(told) == bool(by)
            for what in told.values():
                now, _, was = what.removeprefix("is ").partition(" now, and was ")
                assert now != was
    for changes in followed:
        changes.close()
    run(server, "DROP DOMAIN pence, day, days CASCADE")


def test_what_the_server_allows_is_chosen(server: PostgreSQL, caplog: Any) -> None:
    """And it is said once; whoever asks for more is told why it is not possible."""
    caplog.set_level(logging.INFO, "bsjoin")
    make(server, "number")
    follower = followers(server, None)
    assert "logical decoding" in caplog.text
    assert "s3cret" not in caplog.text
    run(server, 'DROP PUBLICATION "it\'s"', f"INSERT INTO {NAME} (id) VALUES (1)")
    follower.check()  # read whole, and in the other way from now on
    run(server, f"INSERT INTO {NAME} (id) VALUES (2)")
    follower.check()
    assert follower.wholes == 2
    caplog.clear()
    with pytest.raises(SourceError, match="no publication has all changes"):
        followers(server, "logical")
    for options in ("WITH (publish = 'insert')", "WHERE (id > 3)"):
        run(
            server,
            "DROP PUBLICATION IF EXISTS bsjoin",
            f"CREATE PUBLICATION bsjoin FOR TABLE {NAME} {options}",
        )
        assert type(chosen(server)).__name__ == "RowVersions"
    run(server, "ALTER PUBLICATION bsjoin SET (publish = 'insert')")
    run(server, "DROP PUBLICATION bsjoin", "CREATE PUBLICATION bsjoin FOR ALL TABLES")
    assert type(chosen(server)).__name__ == "LogicalDecoding"
    run(server, "DROP PUBLICATION bsjoin", f"CREATE PUBLICATION bsjoin FOR TABLE {NAME}")
    reader = Follower(made_reader(server), None)
    reader.check()
    assert type(reader.changes._method).__name__ == "RowVersions"
    assert "permission denied" in caplog.text or "must be" in caplog.text
    run(server, f"UPDATE {NAME} SET v = 'x'")
    reader.check()
    with pytest.raises(ArgumentError, match="changes='x'"):
        sql(server.url, table="t", changes="x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="table of PostgreSQL"):
        sql("sqlite:///a.db", table="t", changes="xmin")
    run(server, 'CREATE VIEW "My ""S""".v AS SELECT 1 AS a')
    with pytest.raises(SourceError, match="view"):
        Follower(server.url, None, table=[SCHEMA, "v"]).look()


def made_reader(server: PostgreSQL, *rights: str) -> str:
    """The URL of a role that may read the table; its own objects go with it."""
    if connected(server.url).execute("SELECT 1 FROM pg_roles WHERE rolname = 'reader'").fetchone():
        run(server, "DROP OWNED BY reader", "DROP ROLE reader")
    run(
        server,
        f"CREATE ROLE reader LOGIN {' '.join(rights)} PASSWORD 'pw'",
        'GRANT USAGE ON SCHEMA "My ""S""" TO reader',
        f"GRANT SELECT ON {NAME} TO reader",
    )
    return f"postgresql://reader:pw@127.0.0.1:{server.port}/test"


def test_rows_that_a_policy_shows_or_hides_are_read_again(server: PostgreSQL) -> None:
    make(server, "number")
    run(server, f"INSERT INTO {NAME} (id) SELECT generate_series(1, 4)")
    url = made_reader(server, "REPLICATION")
    one, other = (Follower(url, way) for way in WAYS)
    for number, statement in enumerate(
        (
            f"CREATE POLICY few ON {NAME} USING (id < 3)",
            f"ALTER TABLE {NAME} ENABLE ROW LEVEL SECURITY",
            f"ALTER POLICY few ON {NAME} USING (id > 2)",
        )
    ):
        run(server, statement)
        one.check(other)
        assert one.wholes == other.wholes == number + 1
        assert len(one.rows) == (2 if number else 4)


def test_a_table_with_a_foreign_one_is_not_followed(server: PostgreSQL) -> None:
    run(
        server,
        f"DROP TABLE IF EXISTS {NAME}",
        f"CREATE TABLE {NAME} (id int) PARTITION BY LIST (id)",
    )
    follower = followers(server, "xmin")
    run(
        server,
        "DROP FOREIGN DATA WRAPPER IF EXISTS nothing CASCADE",
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing",
        f'CREATE TABLE "My ""S""".part PARTITION OF {NAME} DEFAULT PARTITION BY LIST (id)',
        'CREATE FOREIGN TABLE "My ""S""".far PARTITION OF "My ""S""".part DEFAULT SERVER nowhere',
    )
    with pytest.raises(SourceError, match="or has one"):
        follower.look()
    run(server, "DROP FOREIGN DATA WRAPPER nothing CASCADE")


def chosen(server: PostgreSQL) -> Any:
    return followers(server, None).changes._method


@pytest.mark.parametrize(
    ("ways", "root"),
    [pytest.param(("logical",), "false", marks=pytest.mark.long), (WAYS, "true")],
)
def test_partitioned_tables(server: PostgreSQL, ways: tuple[str, ...], root: str) -> None:
    """Rows move between partitions, which come and go, and have their columns in another order."""
    make(server, "number", "PARTITION BY RANGE (id)")
    part = '"My ""S""".part'
    run(
        server,
        f'ALTER PUBLICATION "it\'s" SET (publish_via_partition_root = {root})',
        f"CREATE TABLE {part}1 PARTITION OF {NAME} FOR VALUES FROM (0) TO (10)",
        f"CREATE TABLE {part}2 (v text, {KEYS['number'][0]} NOT NULL, {OTHERS.partition(', ')[2]})",
        f"ALTER TABLE {NAME} ATTACH PARTITION {part}2 FOR VALUES FROM (10) TO (20)",
        f"INSERT INTO {NAME} (id, v) SELECT i, 'v' FROM generate_series(1, 18) AS i",
    )
    followed = [followers(server, way) for way in ways]
    follower, *others = followed
    assert follower.changes.key == ("id",)
    run(server, f"UPDATE {NAME} SET id = 19 WHERE id = 3")
    follower.check(*others)
    run(server, f"DELETE FROM {NAME} WHERE id = 5", f"UPDATE {NAME} SET v = 'w' WHERE id = 15")
    follower.check(*others)
    assert {one.wholes for one in followed} == {1}
    run(server, f"ALTER TABLE {NAME} DETACH PARTITION {part}1")
    follower.check(*others)
    run(server, f"UPDATE {NAME} SET v = 'y' WHERE id = 15")
    follower.check(*others)
    assert {one.wholes for one in followed} == {2}


@pytest.mark.long
def test_connections_and_servers_that_end(
    server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(server, "number")
    one, other = (followers(server, way) for way in WAYS)
    run(server, f"INSERT INTO {NAME} (id) VALUES (1)")
    run(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bsjoin'",
    )
    one.check(other)
    assert one.wholes == 2  # the slot went with its connection
    server.restart()
    run(server, f"INSERT INTO {NAME} (id) VALUES (2)")
    one.check(other)
    assert len(one.rows) == 2
    monkeypatch.setattr(pgchanges, "_MOST", 5)
    monkeypatch.setattr(pgchanges, "_PART", 2)
    one, other = (followers(server, way) for way in WAYS)
    run(server, f"INSERT INTO {NAME} (id) SELECT i FROM generate_series(3, 7) AS i")
    one.check(other)
    assert one.wholes == other.wholes == 1
    run(server, f"INSERT INTO {NAME} (id) SELECT i FROM generate_series(8, 13) AS i")
    one.check(other)
    assert one.wholes == other.wholes == 2
    one.changes.close()
    with psycopg.connect(server.url) as connection:
        found = connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall()
    assert len(found) <= 3


@pytest.mark.long
def test_a_commit_that_is_in_the_log_and_not_seen_waits(
    server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is written to the log before queries see its rows: with a standby that is waited
    for, long before."""
    monkeypatch.setattr(pgdecoding, "_VISIBLE_S", 0.2)
    make(server, "number")
    follower = followers(server, "logical")
    run(server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    waiting = psycopg.connect(server.url)
    try:
        waiting.execute(f"INSERT INTO {NAME} (id) VALUES (1)")
        thread = threading.Thread(target=waiting.commit)
        thread.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        until(lambda: connected(server.url).execute(waits).fetchone(), "the commit waits")
        assert follower.changes.version() is None
        assert follower.changes.version() is None
        run(server, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        thread.join(20)
        follower.check()
        assert len(follower.rows) == 1
        assert follower.wholes == 1
    finally:
        run(server, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        waiting.close()


def test_only_the_key_of_a_changed_row_has_to_be_a_text() -> None:
    """Others may be any bytes in a database of ``SQL_ASCII``, and nobody may read them."""
    columns = b"".join(b"\0%s\0\0\0\0\x19\xff\xff\xff\xff" % name for name in (b"v", b"k"))
    values = b"".join(b"t\0\0\0\x02" + value for value in (b"\xff\xff", "é".encode()))
    messages = [
        b"B" + bytes(20),
        b"R\0\0\0\x07s\0t\0d\0\x02" + columns,
        b"I\0\0\0\x07N\0\x02" + values,
        b"C" + bytes(25),
    ]
    decoder = Decoder([7], ["k"], 10)
    *_, transaction = map(decoder.read, messages)
    assert transaction is not None
    assert transaction.keys == {("é",)}


@pytest.mark.long
def test_row_versions_keep_few_states(server: PostgreSQL) -> None:
    make(server, "number")
    follower = followers(server, "xmin")
    versions = []
    for n in range(pgxmin._KEPT + 1):
        run(server, f"INSERT INTO {NAME} (id) VALUES ({n})")
        follower.look()
        versions.append(follower.changes._method.look()[0])
    assert len(follower.changes._method._states) == pgxmin._KEPT
    # What was seen and is not kept is no hole in the history.
    assert "other versions of its rows" in follower.changes._method.keys(versions[0], versions[-1])
    with pytest.raises(SourceError, match="is not kept"):
        follower.changes._method.keys("9:9", versions[-1])
