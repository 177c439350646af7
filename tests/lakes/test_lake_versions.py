"""A table of a lake is read again when it has a new version, and only then."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

import pytest
from lake_samples import Lake
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, rows

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.spark.fingerprint import fingerprint

pytestmark = pytest.mark.usefixtures("interpreted")

ROWS = "SELECT id AS k, concat('v', id) AS v, id % 3 AS part FROM range(12)"
# Some of these change no data file.
COMMITS = (
    "INSERT INTO {t} VALUES (20, 'new', 1)",
    "DELETE FROM {t} WHERE k % 5 = 1",
    "UPDATE {t} SET v = 'changed' WHERE k = 3",
    "MERGE INTO {t} USING (SELECT id, 'm' AS w FROM range(19, 22)) ON k = id WHEN MATCHED THEN "
    "UPDATE SET v = w WHEN NOT MATCHED THEN INSERT (k, v, part) VALUES (id, w, 2)",
    "INSERT OVERWRITE {t} SELECT id, concat('o', id), id % 3 FROM range(12)",
)


def joined(spark: SparkSession, table: BatchTable) -> list[tuple[object, ...]]:
    return rows(table.join(spark.range(25).withColumnRenamed("id", "k"), "k", how="left"))


def of_spark(spark: SparkSession, df: DataFrame) -> list[tuple[object, ...]]:
    return rows(spark.range(25).withColumnRenamed("id", "k").join(df, "k", "left"))


def test_a_build_sees_each_commit_and_reads_once_for_each(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS, "part")
    first = lake.read()
    for number, commit in enumerate(("", *COMMITS)):
        if commit:
            lake.commit(commit, elsewhere=number % 2 == 1)
        for df in (first, lake.read()):  # `first` was made before all commits
            table = BatchTable.build(df, on="k", path=tmp_path / "store")
            assert len(builds) == number + 1, commit
        assert joined(spark, table) == of_spark(spark, lake.read()), commit


def test_a_version_is_not_taken_for_another_one(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS)
    found = [lake.version()]
    for commit in COMMITS[1:3]:
        lake.commit(commit)
        found.append(lake.version())
    # Whether a version is asked for by its number, or is the newest one, is the same.
    frames = [lake.at(version) for version in found] + [lake.read()]
    for df in (*frames, *reversed(frames)):
        table = BatchTable.build(df.select("k", "v"), on="k", path=tmp_path / "store")
        assert joined(spark, table) == of_spark(spark, df.select("k", "v"))
    assert len({fingerprint(df.select("k", "v")) for df in frames[:-1]}) == len(found)


def test_what_is_done_with_a_version_is_part_of_its_identity(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS)
    other = Lake(spark, lake.format).create("SELECT id AS k, id AS w FROM range(3)")

    def frames() -> list[DataFrame]:
        t = lake.read()
        return [
            t,
            t.where("k > 3"),
            t.where("k > 4"),
            t.selectExpr("k", "v AS w"),
            t.join(other.read(), "k"),
            t.join(other.read(), "k", "left"),
            t.groupBy("k").agg({"v": "max"}).withColumnRenamed("max(v)", "v"),
            t.union(t),
        ]

    found = [fingerprint(df) for df in frames()]
    assert None not in found
    assert len(set(found)) == len(found)
    assert [fingerprint(df) for df in frames()] == found
    # A commit to either side of a join is a change.
    other.commit("DELETE FROM {t} WHERE k = 1")
    now = [fingerprint(df) for df in frames()]
    assert [a == b for a, b in zip(found, now, strict=True)] == [i not in (4, 5) for i in range(8)]


def test_a_table_that_was_dropped_and_made_again_is_another_one(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    lake.create(ROWS)
    before = fingerprint(lake.read())
    spark.sql(f"DROP TABLE {lake.name}")
    lake.create(ROWS, name=lake.name)
    assert fingerprint(lake.read()) not in (None, before)


def test_rows_that_spark_has_cached_have_no_identity(lake: Lake, spark: SparkSession) -> None:
    lake.create(ROWS)
    df = lake.read()
    known = fingerprint(df)
    df.cache()
    try:
        assert fingerprint(df) is None
        assert fingerprint(df.where("k > 1")) is None
    finally:
        df.unpersist(blocking=True)
    assert fingerprint(df) == known is not None


def test_a_micro_batch_of_foreach_batch_has_the_rows_of_sparks_own_join(
    lake: Lake, spark: SparkSession, tmp_path: Path, builds: list[str]
) -> None:
    lake.create(ROWS)
    table, feed = lake.read(), Feed(spark, tmp_path)
    found, wanted = [], []

    def call(batch: DataFrame, number: int) -> None:
        if number:
            lake.commit(COMMITS[number], elsewhere=number == 2)
        again = batch.sparkSession.table(lake.name)
        found.append([rows(bsjoin.join(batch, df, "k", how="left")) for df in (table, again)])
        wanted.append(rows(batch.join(again, "k", "left")))

    for _ in range(3):
        feed.add(1, 2, 3, 20)
    query = feed.stream.writeStream.foreachBatch(call).start()
    query.processAllAvailable()
    query.stop()
    assert found == [[right, right] for right in wanted]
    assert len(wanted) == 3


def test_a_refresh_asks_for_the_version_first(
    lake: Lake, spark: SparkSession, builds: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="bsjoin")
    lake.create(ROWS)
    df = lake.read()
    table = BatchTable.build(df, on="k")
    for number, commit in enumerate(COMMITS[1:3], 1):
        assert fingerprint(df) is not None  # Delta reads its log by a job, after a commit
        begun, version = jobs(spark), table.version
        caplog.clear()
        assert table.refresh(df) == version
        assert (len(builds), jobs(spark)) == (number, begun)
        assert "nothing has changed" in caplog.text
        lake.commit(commit, elsewhere=True)
        assert table.refresh(df) > version
        assert len(builds) == number + 1
        assert joined(spark, table) == of_spark(spark, lake.read()), commit


def jobs(spark: SparkSession) -> int:
    """How many jobs have begun."""
    tracker = spark.sparkContext._jsc.sc().dagScheduler()
    return int(tracker.nextJobId())


def test_a_stream_whose_table_is_refreshed_sees_commits_of_any_application(
    lake: Lake, spark: SparkSession, feed: Feed, builds: list[str], refreshes: Refreshes
) -> None:
    lake.create(ROWS)
    df, cache = lake.read(), Full(refresh="100 ms")
    joined = bsjoin.join(feed.stream, df, "k", how="left", cache=cache, select=["v"])
    feed.add(20)
    query = feed.start(joined)
    query.processAllAvailable()
    refreshes.wait(df, 2)
    assert len(builds) == 1  # nothing has changed
    lake.commit(COMMITS[0], elsewhere=True)
    refreshes.wait(df, 2)
    feed.add(20)
    query.processAllAvailable()
    query.stop()
    assert feed.results == {0: [(20, None)], 1: [(20, "new")]}
    assert len(builds) == 2


class Refreshes:
    """The refreshes that have ended, by their DataFrame."""

    def __init__(self) -> None:
        self.ended: dict[int, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))

    def wait(self, df: DataFrame, number: int) -> None:
        """Wait for refreshes that begin from now on."""
        while self.ended[id(df)].acquire(blocking=False):
            pass
        for _ in range(number + 1):  # one may have begun before
            assert self.ended[id(df)].acquire(timeout=120)


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> Refreshes:
    found, refresh = Refreshes(), BatchTable.refresh

    def counted(table: BatchTable, df: DataFrame) -> int:
        number = refresh(table, df)
        found.ended[id(df)].release()
        return number

    monkeypatch.setattr(BatchTable, "refresh", counted)
    return found
