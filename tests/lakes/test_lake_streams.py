"""Streams of lakes: joined with a table into a lake, each row once; of changes, into a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lake_samples import COMMITS, ROWS, Lake, quick
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows

from bsjoin import BatchTable

pytestmark = pytest.mark.usefixtures("interpreted")


def test_a_micro_batch_that_runs_again_is_in_the_sink_once(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    customers = lake.create("SELECT id AS k, concat('v', id) AS v FROM range(4)")
    orders = Lake(spark, lake.format).create("SELECT id, id % 6 AS k FROM range(12)")
    sink = Lake(spark, lake.format).create("SELECT 0L AS id, 0L AS k, '' AS v WHERE 1 = 0")
    table = BatchTable.build(customers.read(), on="k", path=tmp_path / "table")

    def own(some: str) -> list[tuple[Any, ...]]:
        """The rows of Spark's own join as the table is now."""
        joined = orders.read().where(some).join(customers.read(), "k", "left")
        return rows(joined.select("id", "k", "v"))

    def run() -> list[tuple[Any, ...]]:
        joined: DataFrame = table.join(spark.readStream.table(orders.name), how="left")
        writer = joined.select("id", "k", "v").writeStream.format(lake.format)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable(sink.name).awaitTermination()
        sink.version()
        return rows(sink.read())

    first = own("true")
    assert run() == first
    assert len(first) == 12
    # A crash after the rows were written, before that was noted; and the table has changed since.
    for note in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        note.unlink()
    customers.commit("UPDATE {t} SET v = concat(v, ' changed')")
    table.refresh(customers.read())
    assert run() == first
    orders.commit("INSERT INTO {t} VALUES (100, 1), (101, 99), (102, null)")
    assert run() == first + own("id >= 100")


# Their changelog refuses deletes that are merged on read.
_COPIES = "'write.delete.mode' = 'copy-on-write', 'write.update.mode' = 'copy-on-write'"


@quick("delta")
def test_what_a_lake_tells_of_its_changes_is_applied(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Delta's feed by a stream, and Iceberg's changelog by its view: after each the same rows."""
    lake.create(ROWS, feed=True)
    if lake.format == "iceberg":
        lake.commit(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({_COPIES})")
    table = BatchTable.build(lake.read(), on="k", unique=True, path=tmp_path / "table")
    first = since = lake.version()

    def upsert(changes: DataFrame, number: int) -> None:
        table.apply(changes, key="k", batch=("feed", number))

    def of_delta() -> None:
        reader = spark.readStream.option("readChangeFeed", "true")
        stream = reader.option("startingVersion", int(first) + 1).table(lake.name)
        writer = stream.writeStream.foreachBatch(upsert).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "feed")).start().awaitTermination()

    def of_iceberg(number: int) -> None:
        between = f"'start-snapshot-id', '{since}', 'end-snapshot-id', '{lake.version()}'"
        spark.sql(
            f"CALL ice.system.create_changelog_view(table => '{lake.name.partition('.')[2]}', "
            f"options => map({between}), changelog_view => 'changelog', "
            "identifier_columns => array('k'))"
        )
        upsert(spark.table("changelog"), number)

    steps = ("insert",), ("update", "delete"), ("merge", "key"), ("overwrite",)
    for number, names in enumerate(steps):
        for name in names:
            lake.commit(COMMITS[name])
        of_delta() if lake.format == "delta" else of_iceberg(number)
        now = lake.read()
        assert rows(table.to_df().select(*now.columns)) == rows(now), names
        if number < len(steps) - 1:
            since = lake.version()
    # The last one again, as after a crash before it was noted.
    version = table.version
    if lake.format == "delta":
        commits = (tmp_path / "feed" / "commits").glob("[0-9]*")
        max(commits, key=lambda file: int(file.name)).unlink()
        of_delta()
    else:
        of_iceberg(number)
        spark.catalog.dropTempView("changelog")
    assert table.version == version
