"""A version stays mapped for as long as a task reads it, and no longer."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import change
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, cycles

from bsjoin import BatchTable
from bsjoin.spark import compat

pytestmark = pytest.mark.usefixtures("in_jvm")

_SECOND = 1_000_000
_CLASSES = "Table", "TableIdentity"
_FEW = 20  # mappings: eight versions of two files, and those that a task has just used


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> BatchTable:
    """Twenty keys with a text each; all its versions share the files."""
    rows = spark.range(20).selectExpr("id AS k", "concat('text ', id) AS text")
    return BatchTable.build(rows, on="k", path=tmp_path / "table", unique=True)


def publish(folder: Path, number: int) -> None:
    """Make a version of the same files, active from as many seconds on."""
    content = (folder / "versions" / "00000001.json").read_text()
    (folder / "versions" / f"{number:08d}.json").write_text(content)

    def edit(data: dict[str, Any]) -> None:
        data["version"] = number
        data["activates_at_us"] = number * _SECOND
        data["created_at_us"] += number

    change(folder, edit, number)


def mapped(spark: SparkSession, folder: Path, at_most: int = _FEW) -> int:
    """How often files of the table are mapped in the driver, once the garbage is collected."""
    jvm: Any = spark._jvm
    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps")
    found = 0
    for _ in range(20):
        jvm.java.lang.System.gc()
        found = maps.read_text().count(str(folder))
        if found <= at_most:
            break
        time.sleep(0.1)  # memory is unmapped by a thread of its own
    return found


@pytest.mark.long
def test_plans_of_many_times_leave_few_mappings(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    for number in range(2, 14):
        publish(folder, number)
        newest = BatchTable.open(folder, verify=False)
        assert len(newest.join(spark.range(30).withColumnRenamed("id", "k"), "k").collect()) == 20
    assert mapped(spark, folder) <= _FEW


def test_an_executor_keeps_the_metadata_of_few_versions(table: BatchTable, tmp_path: Path) -> None:
    """It is told which ones to open, and never looks which there are."""
    folder = tmp_path / "table"
    of, identity = (compat.java_class(f"bsjoin.jvm.storage.{name}") for name in _CLASSES)
    known = of.of(identity(str(folder), 1, 1, 0, []))
    for number in range(2, 120):
        publish(folder, number)
        assert known.manifest(number).rows() == 20
    kept = known.getClass().getDeclaredField("known")
    kept.setAccessible(True)
    assert len(kept.get(known)) < 70
    assert known.manifest(2).rows() == 20


@pytest.mark.long
@pytest.mark.usefixtures("without_code")
def test_what_versions_share_is_mapped_once(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    """The base of a table to which changes are applied stays open from version to version."""
    (base,) = (tmp_path / "table" / "data").iterdir()
    jvm: Any = spark._jvm
    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps")
    feed, seen = Feed(spark, tmp_path / "feed"), []
    query = feed.start(table.join(feed.stream, how="left"))
    for number in range(3):
        if number:
            changes = [(number, f"new {number}")]
            table.apply(spark.createDataFrame(changes, "k long, text string"))
        feed.turn(query, number, 19)
        seen.append(maps.read_text().count(str(base)))
    assert feed.results[2] == [(2, "new 2"), (19, "text 19")]
    assert [cycle.table_version for cycle in cycles(query)] == [1, 2, 3]
    assert seen[0]
    assert seen == seen[:1] * 3


@pytest.mark.long
@pytest.mark.usefixtures("without_code")
def test_a_table_that_is_removed_is_not_kept(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    keys = spark.range(3).withColumnRenamed("id", "k")
    for name in ("removed", "another"):
        shutil.copytree(tmp_path / "table", tmp_path / name)
        assert len(BatchTable.open(tmp_path / name).join(keys, "k").collect()) == 3
        if name == "removed":
            shutil.rmtree(tmp_path / name)
    assert mapped(spark, tmp_path / "another", 100) > 0
    assert mapped(spark, tmp_path / "removed", 0) == 0


@pytest.mark.long
def test_collecting_garbage_breaks_no_running_task(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    """A task has more versions open than are kept, and the texts are parts of its rows."""
    folder = tmp_path / "table"
    collect = F.expr("IF(s % 16 = 0, reflect('java.lang.System', 'gc'), '')")
    rows = spark.range(1, 52, numPartitions=1).selectExpr("id AS s", "id % 20 AS k")
    for number in range(1, 9):
        if number > 1:
            publish(folder, number)
        newest = BatchTable.open(folder, verify=False)
        rows = newest.join(rows, "k", suffix=f"_{number}").withColumn(f"gc_{number}", collect)
    got = [(row["s"], row["text"], row["text_8"]) for row in rows.collect()]
    assert got == [(s, f"text {s % 20}", f"text {s % 20}") for s in range(1, 52)]
    held = rows.agg(F.first("text"), F.max("text_5"), F.collect_list("text_8"), F.max("gc_8"))
    texts = [text for _, text, _ in got]
    assert tuple(held.collect()[0])[:3] == (texts[0], max(texts), texts)
    del rows, held
    assert mapped(spark, folder) <= _FEW


def test_what_was_published_since_the_clock_was_set_back_is_seen(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder, feed = tmp_path / "table", Feed(spark, tmp_path / "feed")
    query = feed.run(table.join(feed.stream), 1)
    publish(folder, 5)  # active for long, by a clock that has gone back
    feed.turn(query, 2)
    assert [cycle.table_version for cycle in cycles(query)] == [1, 5]
