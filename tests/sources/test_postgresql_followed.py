"""Tables that follow a table of PostgreSQL: after each look they are what a build would be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
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
from bsjoin.errors import ArgumentError
from bsjoin.following.source import FollowedTable
from bsjoin.sources import sql

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


@pytest.mark.parametrize("way", ["logical", pytest.param("xmin", marks=pytest.mark.long)])
def test_the_table_is_what_a_build_would_be(
    spark: SparkSession,
    postgresql: PostgreSQL,
    run: Callable[..., None],
    tmp_path: Path,
    builds: list[str],
    way: Any,
) -> None:
    prices = sql(postgresql.url, table="prices", changes=way)
    source, table, looks = followed(spark, prices, tmp_path / "table", READ)
    assert source.columns == ["k", "v", "at", "local", "n", "id"]
    for statements in STATEMENTS:
        run(*statements)
        looks.look()
        check(source, table)
    assert len(builds) == 1
    assert (figures(table).applied, figures(table).read_whole) == (2, 0)


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
