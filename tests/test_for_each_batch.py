"""Joins without a store inside a plain ``foreachBatch``: fresh rows, and no heap of tables."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cache_runs import planes
from cache_samples import Readable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, rows, soon, write_parquet

import bsjoin
import bsjoin.build.storing
from bsjoin import BatchTable, Full
from bsjoin.spark.fingerprint import identity, is_fixed
from bsjoin.storage import versions

pytestmark = [pytest.mark.usefixtures("runtime"), pytest.mark.in_turns("runtime")]

BATCHES = 4


@dataclass(frozen=True)
class OnDisk:
    """What temporary tables there are: their folders, the versions and builds in them."""

    folders: int
    versions: int
    data: int

    @classmethod
    def of(cls, folder: Path) -> OnDisk:
        stores = [
            found for found in folder.glob("bsjoin-*/store-*") if (found / "versions").is_dir()
        ]
        versions, data = (
            [one for store in stores for one in store.glob(p)]
            for p in ("versions/*.json", "data/*")
        )
        found = len(stores), len(versions), len(data)
        return cls(*found)


def locks(folder: Path) -> list[str]:
    """The stores there of which this process holds locks, each an open file."""
    held = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed at this moment
            held.append(os.readlink(one))
    return [one for one in held if one.startswith(str(folder)) and "/store-" in one]


def run(
    spark: SparkSession, folder: Path, call: Callable[[DataFrame, int], Any], batches: int = BATCHES
) -> None:
    feed = Feed(spark, folder / "feed")
    for _ in range(batches):
        feed.add(1, 2, None)
    query = feed.call(call)
    query.processAllAvailable()
    query.stop()


@pytest.mark.long
def test_a_table_that_changes_has_two_versions_at_most(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    file = tmp_path / "table" / "0.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"k": 1, "v": -1}))
    table = spark.read.schema("k long, v long").json(str(file.parent))
    found, seen, kept = [], [], []

    def call(batch: DataFrame, number: int) -> None:
        file.write_text(json.dumps({"k": 1, "v": number // 2}))
        joined = bsjoin.join(batch, table, "k")
        found.append(rows(joined))
        seen.append(OnDisk.of(temporary))
        kept.append(joined)
        if number:
            assert kept[number - 1].count() == 1  # what the call before handed on

    run(spark, tmp_path, call)
    assert found == [[(1, number // 2)] for number in range(BATCHES)]
    # The same rows as before make no new version.
    assert [disk.versions for disk in seen] == [1, 1, 2, 1]
    assert {disk.folders for disk in seen} == {1}
    assert max(disk.data for disk in seen) == 2


def test_other_tables_in_every_micro_batch(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    found, seen = [], []

    def call(batch: DataFrame, number: int) -> None:
        for v in (number, -number):
            table = batch.sparkSession.createDataFrame([(1, v)], "k long, v int")
            found.append(rows(bsjoin.join(batch, table, "k")))
        seen.append(OnDisk.of(temporary))

    run(spark.newSession(), tmp_path, call, 3)
    assert found == [[(1, v)] for number in range(3) for v in (number, -number)]
    assert [disk.folders for disk in seen] == [2, 4, 4]
    # Those of a query that has ended go with the next one, whatever their sessions.
    for name in ("next", "last"):
        run(spark, tmp_path / name, call, 1)
        assert seen[-1].folders == 2
    # Outside of foreachBatch a table stays.
    stream, table = spark.range(3).toDF("k"), spark.range(2).selectExpr("id AS k", "id AS v")
    joined = [bsjoin.join(stream, table, "k") for _ in range(3)]
    assert OnDisk.of(temporary).folders == len(locks(temporary)) == 5
    assert [df.count() for df in joined] == [2] * 3


@pytest.mark.long
def test_a_source_is_read_in_every_micro_batch_and_names_that_differ_make_other_tables(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    source = Readable(tmp_path / "source", planes([1]))
    base = spark.range(1, 2).selectExpr("id AS k", "id * 2 AS a", "id * 3 AS b")
    # To Spark these plans mean the same.
    tables = [base.selectExpr("k", "a AS x", "b AS y"), base.selectExpr("k", "a AS y", "b AS x")]
    found = []

    def call(batch: DataFrame, number: int) -> None:
        source.put(planes([1], number))
        read = bsjoin.join(batch, source, "k", cache=Full())
        joins = [bsjoin.join(batch, table, "k", select=["x", "y"]) for table in tables]
        found.append([rows(joined) for joined in (read, *joins)])
        assert OnDisk.of(temporary).folders == 3

    run(spark, tmp_path, call, 2)
    assert found == [[[(1, f"v{number}")], [(1, 2, 3)], [(1, 3, 2)]] for number in range(2)]


def test_the_same_rows_are_not_read_again(
    spark: SparkSession, tmp_path: Path, temporary: Path, builds: list[str]
) -> None:
    write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[10])
    found, seen = [], []

    def call(batch: DataFrame, number: int) -> None:
        if number == 2:
            write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[40])
        # Made anew every time: the plan is the same.
        files = batch.sparkSession.read.schema("k long, v long").parquet(str(tmp_path / "table"))
        fixed = batch.sparkSession.range(1, 5).selectExpr("id AS k", "id * 2 AS w")
        group = batch.sparkSession.sparkContext.setJobGroup
        group("first", "jobs may have names of their own")
        joined = bsjoin.join(batch, files, "k")
        group("second", "which change within a micro-batch")
        joined = bsjoin.join(joined, fixed, "k")
        found.append(rows(joined))
        seen.append(len(builds))

    run(spark, tmp_path, call, 3)
    assert found == [[(1, 10, 2)]] * 2 + [[(1, 40, 2)]]
    assert seen == [2, 2, 3]
    assert OnDisk.of(temporary).folders == 2


def test_a_store_is_refreshed_by_one_thread(spark: SparkSession, tmp_path: Path) -> None:
    """Each micro-batch began one more, for as long as any query ran; so did a join of a batch."""
    write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[10])
    waits, found, seen = ("1 hour", "on_commit"), [], []
    keys, others = spark.range(3).toDF("k"), [*threading.enumerate()]

    def refreshing() -> list[str]:
        begun = [one.name for one in threading.enumerate() if one not in others]
        return sorted(name for name in begun if name.startswith("bsjoin-refresh-"))

    def call(batch: DataFrame, number: int) -> None:
        files = batch.sparkSession.read.schema("k long, v long").parquet(str(tmp_path / "table"))
        for wait in waits:
            cache = Full(store=tmp_path / wait, refresh=wait)
            found.append(rows(bsjoin.join(batch, files, "k", cache=cache)))
        seen.append(refreshing())

    run(spark, tmp_path, call, 3)
    assert seen == [[f"bsjoin-refresh-{tmp_path / wait}" for wait in waits]] * 3
    assert found == [[(1, 10)]] * 6
    # They end with the query, when another one begins; the tables stay.
    run(spark, tmp_path / "next", lambda batch, number: bsjoin.join(batch, keys, "k"), 1)
    soon(refreshing, [])
    for wait in waits:
        assert BatchTable.open(tmp_path / wait).version == 1
        bsjoin.join(keys, keys, cache=Full(refresh="1 hour"))
    assert not refreshing()


def test_a_store_is_looked_at_and_not_compared_with_its_checksums_each_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That reads all of the table. One whose source has a name is not read again."""
    write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[10])
    found, verified = [], []
    monkeypatch.setattr(versions, "verify", lambda *given: verified.append(given))

    def call(batch: DataFrame, number: int) -> None:
        if number == 2:
            write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[40])
        files = batch.sparkSession.read.schema("k long, v long").parquet(str(tmp_path / "table"))
        for name, word in (("read", None), ("named", "monday")):
            cache = Full(store=tmp_path / name, fingerprint=word)
            found.append(rows(bsjoin.join(batch, files, "k", cache=cache)))

    run(spark, tmp_path, call, 3)
    assert found == [[(1, 10)]] * 4 + [[(1, 40)], [(1, 10)]]
    assert not verified


def test_a_store_that_others_write_to_is_as_each_join_wants_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """From the second micro-batch on it had the rows of another join, or was an error."""
    write_parquet(tmp_path / "table" / "0.parquet", k=[1], v=[10])
    files = spark.read.schema("k long, v long").parquet(str(tmp_path / "table"))
    declared = BatchTable.build(files, on="k", path=tmp_path / "declared", unique=True)
    more = spark.createDataFrame([(2, 20, "new")], "k long, v long, w string")
    version, found = declared.apply(more, merge_schema=True), []
    spellings = {2: tmp_path / "refreshed", 3: f"file://{tmp_path}/refreshed/"}

    def call(batch: DataFrame, number: int) -> None:
        for v in (2, 3):
            table = spark.range(3).selectExpr("id AS k", f"id * {v} AS v")
            found.append(rows(bsjoin.join(batch, table, "k", cache=Full(store=tmp_path / "both"))))
            # Two spellings of one folder, which threads refresh.
            cache = Full(store=spellings[v], refresh="1 hour")
            found.append(rows(bsjoin.join(batch, table, "k", cache=cache)))
        joined = bsjoin.join(batch, files, "k", cache=Full(store=tmp_path / "declared"))
        found.append(rows(joined))

    run(spark, tmp_path, call, 2)
    assert found == [*[[(1, 2), (2, 4)]] * 2, *[[(1, 3), (2, 6)]] * 2, [(1, 10), (2, 20)]] * 2
    # Without unique= and the added column the join takes neither from the table.
    assert (declared.version, declared.columns) == (version, ["k", "v", "w"])


def test_which_plans_say_what_their_rows_are(spark: SparkSession, tmp_path: Path) -> None:
    for sql, fixed in (
        ("SELECT id % 3 AS k, id * 2 + 1 AS v FROM range(9) WHERE id > 2", True),
        ("SELECT * FROM VALUES (1, 'a'), (2, 'b [x]') AS t(k, v)", True),
        ("SELECT 1 AS k", True),
        ("SELECT id AS k, rand() AS v FROM range(9)", False),
        ("SELECT id AS k, current_timestamp() AS v FROM range(9)", False),
        ("SELECT id AS k FROM range(9) WHERE id > (SELECT max(id) FROM range(3))", False),
    ):
        assert is_fixed(spark.sql(sql)) == fixed
    write_parquet(tmp_path / "t" / "0.parquet", k=[1])
    files = spark.read.parquet(str(tmp_path / "t"))
    number = F.udf(lambda k: k, "long")
    for df in (
        files,
        spark.range(3).select(number("id").alias("k")),
        spark.range(3).where(number("id") > 1),
        spark.createDataFrame([(1,)], "k int"),
    ):
        assert not is_fixed(df)
    assert identity(files.where("k > 0")).fingerprint is not None
    assert identity(files.where(number("k") > 0)).fingerprint is None
