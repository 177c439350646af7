"""A version stays mapped for as long as a task reads it, and no longer."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_jvm import change
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin import BatchTable
from bsjoin._spark.jvm.attach import attached, call

_SECOND = 1_000_000
_FEW = 20  # mappings: eight versions of two files, and those that a task has just used


@pytest.fixture(scope="module", autouse=True)
def _jvm(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.bsjoin.runtime", "jvm")
    assert attached(spark) is None
    yield
    spark.conf.unset("spark.bsjoin.runtime")


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


def test_a_thousand_versions_leave_few_mappings(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    change(folder, lambda data: data.update(activates_at_us=_SECOND))
    for number in range(2, 1001):
        publish(folder, number)
    rows = spark.range(1, 1001, numPartitions=1).selectExpr("id AS s", "id % 20 AS k")
    clock, place = f"s * {_SECOND}", {"path": str(folder), "epoch": 1, "version": 0}
    version, row = call("version", clock, **place), found("k", clock, place)
    answers = rows.selectExpr("s", "k", f"{version} AS v", f"{row} AS row")
    text = {"column": "text", "type": "string", "nulls": True, "nullable": True}
    got = answers.selectExpr("s", "k", "v", call("get", "row", **text, **place)).collect()
    assert [tuple(row) for row in got] == [(s, s % 20, s, f"text {s % 20}") for s in range(1, 1001)]
    assert mapped(spark, folder) <= _FEW


def test_plans_of_many_times_leave_few_mappings(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    for number in range(2, 22):
        publish(folder, number)
        newest = BatchTable.open(folder, verify=False)
        assert newest.join(spark.range(30).withColumnRenamed("id", "k"), "k").count() == 20
        assert newest.join(spark.range(3).withColumnRenamed("id", "k"), "k").collect()
    assert mapped(spark, folder) <= _FEW


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


def found(key: str, clock: str, place: dict[str, Any]) -> str:
    """Look a key up, for which the version of a time is opened."""
    return call("find", f"cast({key} AS bigint)", clock, keys="integer", **place)


def opened(spark: SparkSession, folder: Path, epoch: int) -> None:
    """Open, as later plans do, versions until none that was open before is kept."""
    for later in range(5):
        place = {"path": str(folder), "epoch": epoch + 1 + later, "version": 0}
        clock = f"(id + 1) * {_SECOND}"
        assert spark.range(5).selectExpr(found("-1", clock, place)).collect()


def test_collecting_garbage_breaks_no_running_task(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    change(folder, lambda data: data.update(activates_at_us=_SECOND))
    for number in range(2, 52):
        publish(folder, number)
    epoch = json.loads((folder / "versions" / "00000051.json").read_text())["created_at_us"]
    rows = spark.range(1, 52, numPartitions=1).selectExpr("id AS s", "id % 20 AS k")
    first = BatchTable.open(folder, verify=False).join(rows, "k")
    clock, place = f"s * {_SECOND}", {"path": str(folder), "epoch": epoch, "version": 0}
    version = call("version", clock, **place)
    newer = F.expr(f"IF({found('-1', clock, place)} < 0, {version}, NULL)")
    collect = F.expr("IF(s % 4 = 0, reflect('java.lang.System', 'gc'), '')")
    seen = first.select("s", "text", newer.alias("version"), collect.alias("collected"))
    got = [(row["s"], row["text"], row["version"]) for row in seen.collect()]
    assert got == [(s, f"text {s % 20}", s) for s in range(1, 52)]
    held = seen.agg(F.first("text"), F.max("text"), F.collect_list("text"), F.max("collected"))
    texts = [text for _, text, _ in got]
    assert tuple(held.collect()[0])[:3] == (texts[0], max(texts), texts)


def test_a_text_that_the_plan_itself_holds_outlives_the_mapping(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    for keys in (
        spark.range(3).select(F.lit(5).cast("long").alias("k")),
        spark.sql("SELECT k FROM VALUES (5L) AS keys(k)"),
        spark.sql("SELECT 5L AS k"),
    ):
        joined = table.join(keys, "k").select("text")
        joined._jdf.queryExecution().executedPlan()  # folds what is constant
        for number in range(2, 8):
            publish(folder, number)
        opened(spark, folder, keys.count())
        mapped(spark, folder)
        assert {row["text"] for row in joined.collect()} == {"text 5"}


def test_what_was_published_since_the_clock_was_set_back_is_seen(
    spark: SparkSession, table: BatchTable, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    change(folder, lambda data: data.update(activates_at_us=_SECOND))

    def version_at(second: int) -> int:
        place = {"path": str(folder), "epoch": 2, "version": 0}
        version = call("version", f"s * {_SECOND}", **place)
        ((found,),) = spark.sql(f"SELECT bigint({second}) AS s").selectExpr(version).collect()
        return int(found)

    assert version_at(1000) == 1
    publish(folder, 5)  # active from second 5 on, by a clock that has gone back
    assert [version_at(second) for second in (4, 6, 1001)] == [1, 5, 5]
