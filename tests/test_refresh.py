"""A table that changes while a stream runs: one version per micro-batch, never backwards."""

from __future__ import annotations

import itertools
import logging
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from checks_apart import environment
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, soon, table_of, write_parquet
from sqlite_files import in_sqlite

import bsjoin
import bsjoin.table
from bsjoin import BatchTable, Full
from bsjoin.build.refresh import start_refreshing
from bsjoin.metrics.refreshes import of_join
from bsjoin.sources import sql

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

STOPPED = """
import threading
from sessions import INTERPRETED, session
from spark_samples import soon
from bsjoin import BatchTable
spark = session("local[1]", INTERPRETED)
table = BatchTable.build(spark.range(3).toDF("value"), on="value")
stream = spark.readStream.load(format="rate-micro-batch", rowsPerBatch=3)
query = table.join(stream).writeStream.format("noop").trigger(availableNow=True).start()
query.awaitTermination()
table.start_refreshing(spark.range(3).toDF("value"), 0.1)
refreshing = lambda: f"bsjoin-refresh-{table.path}" in {one.name for one in threading.enumerate()}
assert refreshing()
spark.stop()
soon(refreshing, False)
"""


def versions_seen(feed: Feed) -> list[int]:
    """The one version that each micro-batch has used, by the rows that it made."""
    seen = [{row[-1] for row in feed.results[number]} for number in sorted(feed.results)]
    assert all(len(versions) == 1 for versions in seen), seen
    return [version for (version,) in seen]


def test_a_refresh_is_used_by_the_next_micro_batch(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    query = feed.start(table.join(feed.stream))
    expected = []
    for version in (1, 2, 3):
        if version > 1:
            assert table.refresh(table_of(spark, version)) == version
        for _ in range(2):
            feed.turn(query, 0, 1, 2, 9)
            expected.append(version)
    assert versions_seen(feed) == expected
    assert [cycle.table_version for cycle in cycles(query)] == expected
    assert feed.results[5] == [(0, 3), (1, 3), (2, 3)]
    last = cycles(query)[-1]
    assert last.refresh == of_join(last.join) is not None


@pytest.mark.long
def test_versions_that_come_at_any_moment_never_mix_and_never_go_back(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    # Two tasks, in two workers, look up the rows of every micro-batch.
    query = feed.start(table.join(feed.stream.repartition(2)))
    refreshed = threading.Thread(
        target=lambda: [table.refresh(table_of(spark, version)) for version in (2, 3)]
    )
    feed.turn(query, *range(4), *range(4))
    refreshed.start()
    while refreshed.is_alive():
        feed.turn(query, *range(4), *range(4))
    feed.turn(query, *range(4), *range(4))
    seen = versions_seen(feed)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, 3)
    assert [cycle.table_version for cycle in cycles(query)] == seen
    assert {len(found) for found in feed.results.values()} == {8}


@pytest.mark.long
def test_a_column_that_was_never_null_may_become_null(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    first = spark.range(3).selectExpr("id AS k", "id * 10 AS number", "string(id) AS text")
    assert not any(field.nullable for field in first.schema.fields)
    # Workers answer with one row to a key, and with a list of rows.
    tables = [
        BatchTable.build(first, on="k", path=tmp_path / str(unique), unique=unique)
        for unique in (True, False)
    ]
    query = feed.run(tables[0].join(feed.stream).union(tables[1].join(feed.stream)), 1, 2)
    # The two joins read the folder each for itself, and may meet a file in different batches.
    before = len(feed.results)
    found = itertools.chain.from_iterable(feed.results.values())
    assert sorted(found) == [(1, 10, "1")] * 2 + [(2, 20, "2")] * 2
    nulls = "nullif(id * 10, 10) AS number", "nullif(string(id), '1') AS text"
    for table in tables:
        table.refresh(spark.range(3).selectExpr("id AS k", *nulls))
    feed.turn(query, 1, 2)
    later = [row for number, found in feed.results.items() if number >= before for row in found]
    assert sorted(later, key=str) == [(1, None, None)] * 2 + [(2, 20, "2")] * 2


@pytest.fixture
def refreshers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Event]]:
    """What ends the refreshing that ``join`` has begun; it ends with the test."""
    begun: list[threading.Event] = []
    start: Callable[..., threading.Event] = bsjoin.table.start_refreshing

    def started(*args: Any) -> threading.Event:
        begun.append(start(*args))
        return begun[-1]

    monkeypatch.setattr(bsjoin.table, "start_refreshing", started)
    yield begun
    for stop in begun:
        stop.set()


def test_a_source_of_files_is_read_again_at_an_interval(
    spark: SparkSession,
    feed: Feed,
    tmp_path: Path,
    refreshers: list[threading.Event],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = tmp_path / "source"
    write_parquet(source / "0.parquet", k=pa.array([0, 1]), v=pa.array([1, 1]))
    batch = spark.read.schema("k long, v long").parquet(str(source))
    joined = bsjoin.join(feed.stream, batch, how="left", cache=Full(refresh="200 ms"))
    assert len(refreshers) == 1
    query = feed.start(joined)

    def until(expected: list[tuple[Any, ...]]) -> None:
        soon(lambda: feed.turn(query, 0, 1, 2), expected)

    until([(0, 1), (1, 1), (2, None)])
    write_parquet(source / "0.parquet", k=pa.array([0, 1]), v=pa.array([2, 2]))
    until([(0, 2), (1, 2), (2, None)])
    # Reading the same again makes no version.
    assert len({cycle.table_version for cycle in cycles(query)}) == 2

    def ours() -> list[str]:  # Spark logs errors of other threads, too
        warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
        return [one.getMessage() for one in warned if one.name == "bsjoin"]

    with caplog.at_level(logging.WARNING, logger="bsjoin"):
        write_parquet(source / "0.parquet", k=pa.array(["not", "a number"]))
        soon(lambda: bool(ours()), True)
    assert "refreshing the table" in ours()[0]
    # The stream goes on with what it has, and refreshing goes on with the source.
    until([(0, 2), (1, 2), (2, None)])
    write_parquet(source / "0.parquet", k=pa.array([0, 1]), v=pa.array([4, 4]))
    until([(0, 4), (1, 4), (2, None)])


@pytest.mark.usefixtures("refreshers")
def test_a_source_that_is_read_again_tells_of_a_column_of_another_type(
    feed: Feed, tmp_path: Path
) -> None:
    """Though all values fit; with the queries that use it, which go on."""

    def until(expected: list[tuple[Any, ...]]) -> None:
        soon(lambda: feed.turn(query, 1, 9), expected)

    def told() -> str:
        refresh = cycles(query)[-1].refresh
        return "" if refresh is None else str(refresh.last_error)

    run = partial(in_sqlite, tmp_path / "a.db")
    url = run("CREATE TABLE t (k INTEGER, v INTEGER, w REAL)", [(1, 1, 1)])
    source, cache = sql(url, table="t"), Full(refresh="200 ms")
    joined = bsjoin.join(feed.stream, source, "k", how="left", select=["v"], cache=cache)
    query = feed.start(joined)
    assert feed.turn(query, 1, 9) == [(1, 1), (9, None)]
    run("UPDATE t SET v = 2; ALTER TABLE t DROP COLUMN w")  # which no query uses
    until([(1, 2), (9, None)])
    run("DROP TABLE t; CREATE TABLE t (k INTEGER, v REAL); INSERT INTO t VALUES (1, 3.0)")
    says = f"the column 'v' of {source!r} is REAL now, and was INTEGER"
    soon(lambda: says in told(), True)
    assert f"Running queries ({query.id}) use it" in told()
    assert feed.turn(query, 1, 9) == [(1, 2), (9, None)]
    run("DROP TABLE t; CREATE TABLE t (k INTEGER, v INTEGER); INSERT INTO t VALUES (1, 4)")
    until([(1, 4), (9, None)])


def test_refreshing_can_be_started_and_stopped(
    spark: SparkSession, feed: Feed, table: BatchTable, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    write_parquet(source / "0.parquet", k=pa.array([0]), v=pa.array([7], pa.int32()))
    feed.start(table.join(feed.stream))
    table.start_refreshing(spark.read.schema("k long, v int").parquet(str(source)), 0.1)
    soon(lambda: table.version > 1, True)
    assert pickle.loads(pickle.dumps(table)).path == table.path  # for a function of foreachBatch
    table.stop_refreshing()
    table.stop_refreshing()
    name = f"bsjoin-refresh-{table.path}"  # of the thread, which ends
    soon(lambda: name in {thread.name for thread in threading.enumerate()}, False)
    version = table.version
    write_parquet(source / "0.parquet", k=pa.array([0]), v=pa.array([8], pa.int32()))
    time.sleep(0.3)
    assert table.version == version


@pytest.mark.long
def test_refreshing_ends_with_the_spark_context(tmp_path: Path) -> None:
    """Also where queries have run: a context that was stopped lists none."""
    command = [sys.executable, "-c", STOPPED]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_session_of_a_micro_batch_sees_that_its_query_runs(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that is made of ``batch.sparkSession`` is refreshed like any other."""
    refreshed, seen = threading.Event(), []

    def refresh() -> None:
        if "is down" in caplog.text:
            refreshed.set()
        raise ValueError("jdbc:x://me:s3cr3t@host/db is down")

    def call(batch: DataFrame, number: int) -> None:
        stop = start_refreshing(batch.sparkSession, refresh, 0.01, "table")
        seen.append(refreshed.wait(30))
        stop.set()

    feed.add(1)
    feed.call(call).processAllAvailable()
    assert seen == [True]
    assert "is down" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_refresh_that_was_due_without_a_query_comes_with_the_next(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.build.refresh._MISSED_LOOK_S", 0.01)
    refreshed, intervals = threading.Event(), [0.01]
    interval = lambda: intervals.pop() if intervals else 3600.0  # noqa: E731
    stop = start_refreshing(spark, refreshed.set, interval, "table")
    soon(lambda: intervals, [])
    assert not refreshed.wait(0.2)
    feed.start(feed.stream)
    assert refreshed.wait(30)
    stop.set()
