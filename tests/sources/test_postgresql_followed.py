"""Tables that follow a table of PostgreSQL: after each look they are what a build would be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from following_samples import check_rows, figures, followed
from pyspark.sql import SparkSession
from servers import PostgreSQL
from source_stands import connected
from spark_samples import Feed, cycles, soon
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.build import apply as applying
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.following.source import FollowedTable
from bsjoin.sources import sql
from bsjoin.storage import versions

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = "id int PRIMARY KEY, k int8, v text, at timestamptz, local timestamp, n numeric(9, 2)"


@pytest.fixture
def run(postgresql: PostgreSQL) -> Iterator[Callable[..., None]]:
    def execute(*statements: str) -> None:
        for statement in statements:
            connected(postgresql.url).execute(statement)

    execute(
        "DROP PUBLICATION IF EXISTS prices",
        "DROP TABLE IF EXISTS prices",
        f"CREATE TABLE prices ({COLUMNS})",
        "CREATE PUBLICATION prices FOR TABLE prices",
        "INSERT INTO prices SELECT i, i % 4, 'v' || i, '2024-03-31 01:30+00', '2024-03-31 02:30', "
        "i FROM generate_series(1, 20) AS i",
    )
    yield execute
    execute("DROP PUBLICATION IF EXISTS prices", "DROP TABLE IF EXISTS prices")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks wait neither after a whole read, nor after errors, nor for what one has cost."""
    monkeypatch.setattr("bsjoin.following.looks._PAUSES_OF_WHOLE_READS", 0.0)
    monkeypatch.setattr("bsjoin.following.looks._SHARE", 1.0)
    monkeypatch.setattr("bsjoin.following.looks._LONGEST_AFTER_ERRORS_S", 0.0)


READ = ["k", "v", "at", "local", "n"]


def check(source: FollowedTable, table: BatchTable) -> None:
    """The stored rows are those of the source, as its scan returns them in this process."""
    check_rows(table, source._source, source.columns)


STATEMENTS = (
    [
        "INSERT INTO prices (id, k) VALUES (21, NULL), (22, 1)",
        "DELETE FROM prices WHERE id = 4",
        "UPDATE prices SET k = k + 1, v = v || chr(39) WHERE id < 7",
    ],
    [
        "UPDATE prices SET id = -id, at = 'infinity', local = '-infinity' WHERE id > 15",
        "UPDATE prices SET k = NULL WHERE id = 5",
        "UPDATE prices SET k = 7 WHERE id = -21",
        "BEGIN; DELETE FROM prices; ROLLBACK",
        "DELETE FROM prices WHERE k = 2",
    ],
)


@pytest.mark.parametrize(
    ("way", "looks_at"),
    [
        ("logical", [STATEMENTS[0] + STATEMENTS[1]]),
        pytest.param("logical", STATEMENTS, marks=pytest.mark.long),
        pytest.param("xmin", STATEMENTS, marks=pytest.mark.long),
    ],
    ids=["one look", "logical", "xmin"],
)
def test_the_table_is_what_a_build_would_be(
    spark: SparkSession,
    postgresql: PostgreSQL,
    run: Callable[..., None],
    tmp_path: Path,
    builds: list[str],
    way: Any,
    looks_at: Sequence[list[str]],
) -> None:
    prices = sql(postgresql.url, table="prices", changes=way)
    source, table, looks = followed(spark, prices, tmp_path / "table", READ)
    assert source.columns == ["k", "v", "at", "local", "n", "id"]
    for statements in looks_at:
        run(*statements)
        looks.look()
        check(source, table)
    assert len(builds) == 1
    assert (figures(table).applied, figures(table).read_whole) == (len(looks_at), 0)


@pytest.mark.long
def test_an_application_that_crashes_and_two_with_the_same_store(
    spark: SparkSession,
    postgresql: PostgreSQL,
    run: Callable[..., None],
    tmp_path: Path,
    builds: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prices = sql(postgresql.url, table="prices", changes="logical")
    source, table, looks = followed(spark, prices, tmp_path / "table", READ)
    # A crash before a version is published: what was read is asked for again.
    publish = versions.publish

    class Killed(BaseException):
        pass

    def before(*_: Any, **__: Any) -> Any:
        raise Killed

    run("INSERT INTO prices (id, k) VALUES (30, 1)")
    monkeypatch.setattr(applying.versions, "publish", before)
    with pytest.raises(Killed):
        looks.look()
    monkeypatch.setattr(applying.versions, "publish", publish)
    looks.look()
    check(source, table)
    assert len(builds) == 1
    # Another process begins with the stored table, and the first one goes on.
    run("INSERT INTO prices (id, k) VALUES (40, 1)")
    prices = sql(postgresql.url, table="prices", changes="logical")
    _, table, others = followed(spark, prices, tmp_path / "table", READ)
    assert len(builds) == 2
    for number, who in enumerate((others, looks)):
        run(f"UPDATE prices SET v = 'x{number}' WHERE id = {1 + number}")
        who.look()
    check(source, table)
    assert len(builds) == 2
    number = table.version
    for who in (others, looks) * 2:
        who.look()
    assert table.version == number  # nobody takes back what the other has published


@pytest.mark.long
def test_what_the_server_has_not_kept_is_a_hole(
    spark: SparkSession,
    postgresql: PostgreSQL,
    run: Callable[..., None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A connection that was lost, and with it the slot."""

    def begun(**options: bool) -> tuple[Any, BatchTable, Any]:
        prices = sql(postgresql.url, table="prices", changes="logical")
        return followed(spark, prices, tmp_path / "table", READ, **options)

    source, table, looks = begun()
    strict = table._following(source, replace(table._options, fail_on_data_loss=True))
    number = table.version
    run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bsjoin'",
        "INSERT INTO prices (id, k) VALUES (50, 1)",
    )
    with pytest.raises(SourceError, match=r"fail_on_data_loss=True .* is not kept"):
        strict.look()
    assert table.version == number
    assert "is not kept" in str(figures(table).last_error)
    looks.look()
    check(source, table)
    found = figures(table)
    assert found.read_whole == 1
    assert "is not kept" in str(found.read_whole_why)
    assert "cannot be read, so it is read whole" in caplog.text
    run("DELETE FROM prices WHERE id = 50")
    looks.look()
    check(source, table)
    found = figures(table)
    assert (found.read_whole, found.applied) == (1, 1)
    # The stored table of a program that starts again.
    run("INSERT INTO prices (id, k) VALUES (51, 1)")
    with pytest.raises(SourceError, match=r"fail_on_data_loss=True .* is not kept"):
        begun(fail_on_data_loss=True)


def test_a_stream_gets_each_commit(
    spark: SparkSession,
    postgresql: PostgreSQL,
    run: Callable[..., None],
    feed: Feed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "bsjoin")
    source = sql(postgresql.url, table="prices")
    joined = bsjoin.join(
        feed.stream, source, "k", how="left", select=["v"], cache=Full(refresh="on_commit")
    )
    assert joined.columns == ["k", "v"]
    assert "by logical decoding" in caplog.text
    query = feed.start(joined)
    try:
        for value in ("one", "two"):
            run(
                "DELETE FROM prices WHERE k = 1",
                f"INSERT INTO prices (id, k, v) VALUES (1, 1, '{value}')",
            )
            soon(lambda: feed.turn(query, 1, 99), [(1, value), (99, None)])
        refresh = cycles(query)[-1].refresh
        assert refresh.newest.source == "the PostgreSQL table public.prices"
        assert refresh.newest.committed_at_us is not None
        assert refresh.last_error is None
        assert refresh.read_whole == 0
        # A column has another type, or is gone: the query goes on with its rows.
        for statement, what, of_query in (
            ("ALTER v TYPE int USING 7", "'v' of {} is int4 now, and was text", True),
            ("DROP v", "'v' of {} is not there any more", True),
            ("ALTER id TYPE bigint, ADD v text", "'id' of {} is int8 now, and was int4", False),
        ):
            run(f"ALTER TABLE prices {statement}")
            what = what.format("the PostgreSQL table public.prices")
            soon(lambda what=what: what in str(cycles(query)[-1].refresh.last_error), True)
            told = cycles(query)[-1].refresh.last_error
            assert (f"Running queries ({query.id}) use it" in told) is of_query
        assert feed.turn(query, 1, 99) == [(1, "two"), (99, None)]
        run("ALTER TABLE prices ALTER id TYPE int", "UPDATE prices SET v = 'three'")
        soon(lambda: feed.turn(query, 1, 99), [(1, "three"), (99, None)])
    finally:
        query.stop()
    assert "s3cret" not in caplog.text


def test_what_is_no_table_is_an_error_at_the_call(
    spark: SparkSession, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    stream = spark.range(3).withColumnRenamed("id", "k")
    for source in (
        sql(postgresql.url, query="SELECT 1::int8 AS k, 2 AS v"),
        sql(in_sqlite(tmp_path / "a.db", "CREATE TABLE t (k INTEGER, v INTEGER)"), table="t"),
    ):
        with pytest.raises(ArgumentError, match="only tables of PostgreSQL"):
            bsjoin.join(stream, source, "k", cache=Full(refresh="on_commit"))
